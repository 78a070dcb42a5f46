/*
 * tcp_conn.h - one connection of a client to a store server, ours or PyTorch's. Used by one thread at a time.
 */
#ifndef MSI_STORE_TCP_CONN_H
#define MSI_STORE_TCP_CONN_H

#include "store/store.h"

#include <stdatomic.h>

/* A server, as its clients' connections see it. */
struct msi_link_target {
    struct msi_address address;
    bool local;    /* a Unix socket may be used where the server is on this host */
    int silence_s; /* see MUSTER_STORE_SILENCE_S */
    struct msi_store_limits limits;
    _Atomic int dialect;      /* what it speaks; -1 until a connection has found out */
    _Atomic int64_t identity; /* of a server of ours; 0 until a connection has heard it */
};

enum msi_greeting { MSI_GREET_NONE, MSI_GREET_HELLO, MSI_GREET_ALL };

struct msi_store_conn {
    struct msi_store_conn *next; /* in its owner's list */
    int fd;
    enum msi_dialect dialect;
    enum msi_greeting greeting; /* what goes before the first request */
    bool broken;                /* out of step with the server: good for nothing but closing */
    struct msi_link_target *target;
    struct msi_buf out, in;
};

/*
 * Connects and, the first time, finds out what the server speaks: M if it is ours, else C or A.
 * MST_ERR_PROTOCOL if it is no store.
 */
mst_status msi_store_conn_open(struct msi_link_target *target, const struct msi_wait *wait,
                               struct msi_store_conn **link);
void msi_store_conn_close(struct msi_store_conn *link);

/*
 * Carries out requests that the link's dialect has, all sent in one piece; only the last may wait. Statuses
 * as in msi_store_ops.exec. After an error other than a single request's, look at broken.
 */
mst_status msi_store_conn_run(struct msi_store_conn *link, const struct msi_wait *wait,
                              struct msi_store_rpc *x, size_t n);

/* The same on a PyTorch server, which lacks some operations: they are made from those it has. */
mst_status msi_store_conn_run_compat(struct msi_store_conn *link, const struct msi_wait *wait,
                                     struct msi_store_rpc *x, size_t n);

#endif
