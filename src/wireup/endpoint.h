/*
 * endpoint.h - how ranks of other hosts reach this one: a listener, opened when the first group needs it, and where those of
 * the others are. One for each world; any thread may use it.
 *
 * Keys, under the world's prefix: endpoint/id, the world's number, which the first rank draws; endpoint/R, the port of rank R and
 * how it chooses algorithms, which must be alike.
 */
#ifndef MSI_WIREUP_ENDPOINT_H
#define MSI_WIREUP_ENDPOINT_H

#include "os/wait.h"
#include "store/store.h"
#include "transport/listener.h"

#include <pthread.h>

/* Runs requests on the world's store. */
typedef mst_status msi_endpoint_exec(void *context, const struct msi_wait *wait, struct msi_store_rpc *x,
                                     size_t n);

struct msi_endpoint {
    pthread_mutex_t lock; /* of opening */
    struct msi_listener *listener;
    uint64_t world; /* the world's number */
    int rank, size;
    const char *prefix, *address; /* the world's; this rank's, as others reach it */
    int *ports;                   /* by global rank; 0: not known yet */
    uint64_t tuning;              /* msi_tuning_hash of this rank */
};

/* The strings are borrowed. */
mst_status msi_endpoint_init(struct msi_endpoint *endpoint, int rank, int size, const char *prefix,
                             const char *address, uint64_t tuning);
void msi_endpoint_close(struct msi_endpoint *endpoint);

/* Opens it, if it is not open, and tells the others. */
mst_status msi_endpoint_open(struct msi_endpoint *endpoint, msi_endpoint_exec *exec, void *context,
                             const struct msi_wait *wait);

/* Where the endpoints of n ranks are; waits until all are open, and asks for all at once. MST_ERR_CONFIG: one
 * would choose other algorithms. */
mst_status msi_endpoint_find(struct msi_endpoint *endpoint, const int *ranks, int n, msi_endpoint_exec *exec,
                             void *context, const struct msi_wait *wait, int *ports);

#endif
