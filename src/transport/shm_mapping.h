/*
 * shm_mapping.h - this process's mapping of a shared region, and the descriptors that wake its ranks.
 *
 * Ranks that are threads of one process share both: a process with many ranks needs one descriptor for each
 * rank of the region, and race detectors see the accesses of all threads to one address. The last of its
 * ranks to close the mapping closes the descriptors, so that a thread may write to the descriptor of a rank
 * that has left. Any thread may use a mapping.
 */
#ifndef MSI_TRANSPORT_SHM_MAPPING_H
#define MSI_TRANSPORT_SHM_MAPPING_H

#include "base/list.h"
#include "os/segment.h"

#include <stdatomic.h>

struct msi_shm_mapping {
    struct msi_list node; /* in the list of this process's mappings */
    struct msi_segment segment;
    uint64_t inode;         /* of the segment */
    int users;              /* ranks of this process that have it open */
    int size;               /* ranks of the region */
    _Atomic int wake_fds[]; /* by rank: its pipe, open for reading and writing; -1: not open here */
};

/* Makes the segment of a region of that many ranks. */
mst_status msi_shm_mapping_make(size_t bytes, int size, struct msi_shm_mapping **mapping);

/* Where a region is: a descriptor of its maker, or any descriptor of a process that has opened it. */
struct msi_shm_source {
    int pid, fd; /* fd -1: any */
    uint64_t inode;
};
/* Opens a region that another rank has made. On failure errno is ENOENT if the process of the source does not
 * have it, or has ended. */
mst_status msi_shm_mapping_open(const struct msi_shm_source *source, size_t bytes, int size,
                                struct msi_shm_mapping **mapping);
/* All ranks have opened the region: closes the descriptor of the segment. */
void msi_shm_mapping_seal(struct msi_shm_mapping *mapping);
void msi_shm_mapping_close(struct msi_shm_mapping *mapping);

/* Makes the pipe that wakes a rank of this process; returns it as other processes find it in /proc. */
mst_status msi_shm_mapping_make_wake_fd(struct msi_shm_mapping *mapping, int rank, int *fd);
/* Wakes a rank, whose pipe is that descriptor of its process. */
void msi_shm_mapping_wake(struct msi_shm_mapping *mapping, int rank, int pid, int fd);

#endif
