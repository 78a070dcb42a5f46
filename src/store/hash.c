/*
 * hash.c - a store for the threads of one process: the map behind a lock. A waiting thread sleeps on an
 * eventfd of its own, so that deadline and cancellation work as in other stores.
 */
#include "base/error.h"
#include "store/kv.h"
#include "store/store.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct hash_store {
    struct mst_store head;
    pthread_mutex_t lock;
    struct msi_kv *kv;
};

struct sleeper {
    struct msi_kv_waiter waiter;
    int fd;
};

static void wake(struct msi_kv_waiter *waiter) {
    uint64_t one = 1;
    ssize_t n = write(msi_container(waiter, struct sleeper, waiter)->fd, &one, sizeof one);
    (void)n;
}

/* With the lock held, which it releases while it waits. */
static mst_status wait_for(struct hash_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                           const struct msi_store_req *guard) {
    struct sleeper sleeper = {.waiter = {.wake = wake}, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (sleeper.fd < 0) return msi_fail_errno(errno, "cannot create an eventfd");
    bool waiting;
    x->status = msi_kv_wait_begin(store->kv, &x->req, guard, &sleeper.waiter, &waiting);
    mst_status st = x->status == MST_ERR_PEER_LOST ? x->status : MST_OK;
    if (waiting) {
        pthread_mutex_unlock(&store->lock);
        st = msi_wait_fd(wait, sleeper.fd, POLLIN, "waiting in the hash store");
        pthread_mutex_lock(&store->lock);
        msi_kv_wait_end(store->kv, &sleeper.waiter);
        if (sleeper.waiter.ended) st = sleeper.waiter.status;
    }
    close(sleeper.fd);
    return st;
}

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct hash_store *store = (struct hash_store *)head;
    const struct msi_store_req *guard = NULL;
    mst_status st = MST_OK;
    pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        const struct msi_store_req *req = &x[i].req;
        x[i].status = MST_OK;
        if (req->op == MSI_OP_GUARD) {
            guard = req;
        } else if (req->op != MSI_OP_ON_DISCONNECT) { /* the threads of a process end together */
            if (msi_ops[req->op].waits) st = wait_for(store, wait, &x[i], guard);
            if (st == MST_OK && x[i].status == MST_OK)
                x[i].status = msi_kv_apply(store->kv, req, &x[i].reply);
        }
        if (x[i].reply.failed) st = msi_fail_memory();
    }
    pthread_mutex_unlock(&store->lock);
    return st;
}

static void close_store(struct mst_store *head) {
    struct hash_store *store = (struct hash_store *)head;
    msi_kv_free(store->kv);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static const struct msi_store_ops ops = {exec, close_store};

mst_status msi_store_open_hash(const struct msi_settings *settings, struct mst_store **store) {
    struct hash_store *made = calloc(1, sizeof *made);
    if (made) made->kv = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    if (!made || !made->kv) {
        free(made);
        return msi_fail_memory();
    }
    msi_store_init(&made->head, &ops, settings);
    pthread_mutex_init(&made->lock, NULL);
    *store = &made->head;
    return MST_OK;
}
