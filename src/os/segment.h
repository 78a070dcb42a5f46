/*
 * segment.h - memory that processes of one host share. A segment is a memfd without a name in a file system,
 * so nothing is left after its users end. Processes of the same user open it through /proc/PID/fd while its
 * creator keeps it open. This works across network namespaces and with a small /dev/shm.
 */
#ifndef MSI_OS_SEGMENT_H
#define MSI_OS_SEGMENT_H

#include <muster/status.h>
#include <stddef.h>
#include <stdint.h>

struct msi_segment {
    int fd; /* -1: attached, without a descriptor */
    void *base;
    size_t size;
};

/* Creates a zeroed segment. name appears in /proc/PID/maps. */
mst_status msi_segment_make(const char *name, size_t size, struct msi_segment *segment);

/* Maps another process's segment of exactly size bytes; MST_ERR_SYSTEM if this process cannot reach it. It
 * must be a memfd of this user in a process of this user, with a sealed size (base/proc_fd.h), and have the
 * inode; 0: any. */
mst_status msi_segment_attach(int pid, int fd, uint64_t inode, size_t size, struct msi_segment *segment);

/* The number of the segment's file, which no other existing segment of this host has; 0: not known. */
uint64_t msi_segment_inode(const struct msi_segment *segment);
/* Maps the segment with this inode and keeps a descriptor, from which others can map it too. On failure errno
 * is ENOENT if that process does not have it, or has ended, and EPERM if it belongs to another user. */
mst_status msi_segment_adopt(int pid, int fd, uint64_t inode, size_t size, struct msi_segment *segment);
/* The same, whatever descriptor that process has for it. */
mst_status msi_segment_find(int pid, uint64_t inode, size_t size, struct msi_segment *segment);

/* For the creator: frees the memory, even if others still map it; they read zeros from then on. */
void msi_segment_empty(struct msi_segment *segment);

/* Unmaps and closes it. A zeroed struct with fd -1 is allowed. */
void msi_segment_close(struct msi_segment *segment);

#endif
