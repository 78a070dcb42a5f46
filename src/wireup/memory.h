/*
 * memory.h - the pages of shared memory that this rank holds, in all groups: its cells in the regions
 * of its host (transport/shm_region.h) and of the rings of its links (transport/ring.h). A page exists from
 * its first use on. If the rank would hold more than its limit, those that it has held for longest are freed:
 * but only what the other ranks have read, in groups in which no call of this rank is under way.
 */
#ifndef MSI_WIREUP_MEMORY_H
#define MSI_WIREUP_MEMORY_H

#include "base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct msi_comm;

/* One for each world. */
struct msi_memory {
    pthread_mutex_t lock;
    struct msi_list held; /* of struct msi_held, the oldest first */
    size_t used, limit;   /* bytes */
};

/* Pages that are used again and again and can be freed between two uses. Used under the lock of comm. */
struct msi_held {
    struct msi_list node;
    struct msi_comm *comm;
    /* Frees the pages if no rank needs their contents; false: one may. With the locks of comm and memory. */
    bool (*empty)(struct msi_held *held);
    size_t bytes; /* 0: not in the list */
};

/* Without a limit, which the owner sets. */
void msi_memory_init(struct msi_memory *memory);
void msi_memory_close(struct msi_memory *memory);

/* Pages that exist as long as the group. */
void msi_memory_keep(struct msi_memory *memory, size_t bytes);
void msi_memory_unkeep(struct msi_memory *memory, size_t bytes);

/*
 * Before more pages are used: from now on, held has that many bytes. must: frees others; exceeds the limit
 * if they cannot be freed. False, with nothing changed: there is no room.
 */
bool msi_memory_hold(struct msi_held *held, size_t bytes, bool must);
/* Before the pages are unmapped. */
void msi_memory_release(struct msi_held *held);

#endif
