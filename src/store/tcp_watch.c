/* tcp_watch.c - see tcp_watch.h. */
#include "store/tcp_watch.h"
#include "base/error.h"
#include "base/log.h"
#include "os/socket.h"
#include "os/thread.h"

#include <poll.h>

static void *watch_conn(void *context) {
    struct msi_store_watch *watch = context;
    struct msi_store_target *target = watch->conn->target;
    const struct msi_wait forever = {INT64_MAX, watch->stop};
    pthread_setname_np(pthread_self(), "muster-watch");
    for (;;) {
        if (msi_store_conn_listen(watch->conn, &forever, POLLIN | POLLRDHUP) != MST_OK) return NULL;
        mst_status st = msi_store_conn_check(watch->conn, &forever);
        if (st == MST_ERR_CANCELLED) return NULL;
        if (st == MST_OK) continue;
        msi_log(store, INFO, "%s", mst_last_error()->message);
        atomic_store_explicit(&target->lost, true, memory_order_release); /* loaded by run in tcp.c */
        return NULL;
    }
}

mst_status msi_store_watch_begin(struct msi_store_watch *watch, struct msi_store_conn *conn) {
    /* A local connection ends with the server, which is noticed at the next call. If there is a standby, this
     * thread must connect to it: else this process counts as dead. */
    int places = atomic_load_explicit(&conn->target->n_places, memory_order_relaxed);
    if (watch->conn || (conn->local && places == 1)) return MST_OK;
    mst_status st = msi_cancel_new(&watch->stop);
    if (st != MST_OK) return st;
    watch->conn = conn;
    int error = msi_thread_start(&watch->thread, watch_conn, watch);
    if (!error) return MST_OK;
    watch->conn = NULL;
    mst_cancel_free(watch->stop);
    return msi_fail_errno(error, "cannot start a thread for the store");
}

void msi_store_watch_end(struct msi_store_watch *watch) {
    if (!watch->conn) return;
    mst_cancel_fire(watch->stop);
    pthread_join(watch->thread, NULL);
    mst_cancel_free(watch->stop);
    watch->conn = NULL;
}
