/*
 * tcp_link.h - one connection of a client to a store server, ours or PyTorch's. Used by one thread at a time.
 */
#ifndef MSI_STORE_TCP_LINK_H
#define MSI_STORE_TCP_LINK_H

#include "store/store.h"

struct msi_link {
    struct msi_link *next; /* in its owner's list */
    int fd;
    enum msi_dialect dialect;
    bool pinned;   /* carries a will: to be kept until it is taken back */
    bool greeting; /* HELLO is still to be sent */
    bool broken;   /* out of step with the server: good for nothing but closing */
    const struct msi_address *address;
    const struct msi_store_limits *limits;
    struct msi_buf out, in;
};

/*
 * Connects, by Unix socket if local is true and the server is on this host, and finds out what the server
 * speaks: M if it is ours, else C or A. MST_ERR_PROTOCOL if it is no store.
 */
mst_status msi_link_open(const struct msi_address *address, bool local, const struct msi_store_limits *limits,
                         const struct msi_wait *wait, struct msi_link **link);
void msi_link_close(struct msi_link *link);

/*
 * Carries out requests that the link's dialect has, all sent in one piece; only the last may wait. Statuses
 * as in msi_store_ops.exec. After an error other than a single request's, look at broken.
 */
mst_status msi_link_run(struct msi_link *link, const struct msi_wait *wait, struct msi_exchange *x, size_t n);

/* The same on a PyTorch server, which lacks some operations: they are made from those it has. */
mst_status msi_link_run_compat(struct msi_link *link, const struct msi_wait *wait, struct msi_exchange *x,
                               size_t n);

#endif
