/*
 * segment.h - memory that processes of one host share. A segment is a memfd: it has no name in any file
 * system, so nothing is left behind however its users end. Others of the same user reach it through the
 * maker's /proc/PID/fd while the maker keeps it open, which works across network namespaces and where
 * /dev/shm is small.
 */
#ifndef MSI_OS_SEGMENT_H
#define MSI_OS_SEGMENT_H

#include <muster/status.h>
#include <stddef.h>

struct msi_segment {
    int fd; /* -1 in one that was attached */
    void *base;
    size_t size;
};

/* Makes a zeroed segment. name shows in /proc/PID/maps. */
mst_status msi_segment_make(const char *name, size_t size, struct msi_segment *segment);

/* Maps another process's segment of exactly size bytes; MST_ERR_SYSTEM if this process cannot reach it. */
mst_status msi_segment_attach(int pid, int fd, size_t size, struct msi_segment *segment);

/* Gives its memory back to the system, whoever maps it still: they read zeros from then on. For its maker. */
void msi_segment_empty(struct msi_segment *segment);

/* Ends this process's view of it. A zeroed struct with fd -1 is fine. */
void msi_segment_close(struct msi_segment *segment);

#endif
