/*
 * tcp_watch.h - keeps the connection alive that tells the store that this process is: a thread waits until
 * the connection is lost, and connects again. Without it a rank that computes for minutes would count as
 * dead after a reset. A Unix socket needs no thread, because no network resets it.
 */
#ifndef MSI_STORE_TCP_WATCH_H
#define MSI_STORE_TCP_WATCH_H

#include "store/tcp_conn.h"

#include <pthread.h>

struct msi_store_watch {
    struct msi_store_conn *conn; /* NULL: it is not watched */
    mst_cancel *stop;
    pthread_t thread;
};

/* From now on the thread alone uses the connection. If it cannot be restored, target->lost becomes true. */
mst_status msi_store_watch_begin(struct msi_store_watch *watch, struct msi_store_conn *conn);
/* Ends the thread. watch may be zeroed. */
void msi_store_watch_end(struct msi_store_watch *watch);

#endif
