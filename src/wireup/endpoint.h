/*
 * endpoint.h - how ranks of other hosts reach this one: a listener, opened when the first group needs it, and
 * the ports of the other ranks' listeners. One for each world; any thread may use it.
 *
 * Keys, under the world's prefix: endpoint/id, the world's random number, which the first rank draws;
 * endpoint/R, the port of rank R. Under the communicator's: tuning, a hash of how its first rank selects
 * algorithms, and that rank; the hash must be the same on all ranks of the communicator.
 */
#ifndef MSI_WIREUP_ENDPOINT_H
#define MSI_WIREUP_ENDPOINT_H

#include "auth/auth.h"
#include "base/list.h"
#include "os/wait.h"
#include "store/store.h"
#include "transport/listener.h"
#include "wireup/memory.h"

#include <pthread.h>

struct msi_comm;
struct msi_shm_region;

struct msi_endpoint {
    pthread_mutex_t lock; /* of opening */
    struct msi_listener *listener;
    bool told;      /* the others can read its port in the store */
    uint64_t world; /* the world's number */
    int rank, size;
    const char *prefix, *address; /* the world's; this rank's, as others reach it */
    int *ports;                   /* by global rank; 0: not known yet */
    uint64_t tuning;              /* msi_tuning_hash of this rank */
    struct msi_auth auth;
    struct msi_memory memory;     /* that this rank shares with others of its host */
    pthread_mutex_t regions_lock; /* of what follows */
    struct msi_list regions;      /* the open shared regions of the world's communicators */
    uint64_t cause;               /* msi_cause_word of this rank … */
    bool recovers;                /* … and the bit for it */
};

/* The strings are borrowed. The owner sets auth afterwards, with msi_auth_init, and the limit of memory. */
mst_status msi_endpoint_init(struct msi_endpoint *endpoint, int rank, int size, const char *prefix,
                             const char *address, uint64_t tuning);
void msi_endpoint_close(struct msi_endpoint *endpoint);

/* Opens the endpoint of comm's world, if it is not open, and publishes its port. Waits for no other rank.
 * MST_ERR_CONFIG: another rank of comm would select other algorithms. */
mst_status msi_endpoint_open(const struct msi_comm *comm, const struct msi_wait *wait);

/* Tells the ranks of this host, in all regions: msi_cause_word. */
void msi_endpoint_tell_cause(struct msi_endpoint *endpoint, uint64_t cause);
void msi_endpoint_tell_recovery(struct msi_endpoint *endpoint, bool recovers);
/* A region was opened, or is about to be closed. */
void msi_endpoint_add_region(struct msi_endpoint *endpoint, struct msi_shm_region *region);
void msi_endpoint_remove_region(struct msi_endpoint *endpoint, struct msi_shm_region *region);

/* The port of a rank of comm; 0: it is not known yet. Asks the store, but does not wait for the rank. */
mst_status msi_endpoint_find(struct msi_comm *comm, int rank, int *port);

#endif
