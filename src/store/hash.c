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
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The map, which a store and its clones share. */
struct map {
    pthread_mutex_t lock; /* of all below */
    struct msi_kv *kv;
    int handles;
};

struct hash_store {
    struct mst_store head;
    struct map *map;
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
static mst_status wait_for(struct map *map, const struct msi_wait *wait, struct msi_store_rpc *x,
                           const struct msi_store_req *guard) {
    struct sleeper sleeper = {.waiter = {.wake = wake}, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (sleeper.fd < 0) return msi_fail_errno(errno, "cannot create an eventfd");
    bool waiting;
    x->status = msi_kv_wait_begin(map->kv, &x->req, guard, &sleeper.waiter, &waiting);
    mst_status st = x->status == MST_ERR_PEER_LOST ? x->status : MST_OK;
    if (waiting) {
        pthread_mutex_unlock(&map->lock);
        st = msi_wait_fd(wait, sleeper.fd, POLLIN, "waiting in the hash store");
        pthread_mutex_lock(&map->lock);
        msi_kv_wait_end(map->kv, &sleeper.waiter);
        if (sleeper.waiter.ended) st = sleeper.waiter.status;
    }
    close(sleeper.fd);
    return st;
}

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct map *map = ((struct hash_store *)head)->map;
    const struct msi_store_req *guard = NULL;
    mst_status st = MST_OK;
    pthread_mutex_lock(&map->lock);
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        const struct msi_store_req *req = &x[i].req;
        x[i].status = MST_OK;
        if (req->op == MSI_OP_GUARD) {
            guard = req;
        } else if (req->op != MSI_OP_ON_DISCONNECT) { /* the threads of a process end together */
            if (msi_ops[req->op].waits) st = wait_for(map, wait, &x[i], guard);
            if (st == MST_OK && x[i].status == MST_OK) x[i].status = msi_kv_apply(map->kv, req, &x[i].reply);
            if (msi_store_rpc_full(&x[i])) break;
        }
        if (x[i].reply.failed) st = msi_fail_memory();
    }
    pthread_mutex_unlock(&map->lock);
    return st;
}

static void close_store(struct mst_store *head) {
    struct map *map = ((struct hash_store *)head)->map;
    pthread_mutex_lock(&map->lock);
    bool last = --map->handles == 0;
    pthread_mutex_unlock(&map->lock);
    free(head);
    if (!last) return;
    msi_kv_free(map->kv);
    pthread_mutex_destroy(&map->lock);
    free(map);
}

static mst_status clone_store(struct mst_store *head, const struct msi_settings *settings,
                              const struct msi_wait *wait, struct mst_store **copy) {
    struct hash_store *store = (struct hash_store *)head, *made = malloc(sizeof *made);
    (void)wait;
    if (!made) return msi_fail_memory();
    msi_store_init(&made->head, store->head.ops, settings);
    made->map = store->map;
    pthread_mutex_lock(&made->map->lock);
    made->map->handles++;
    pthread_mutex_unlock(&made->map->lock);
    *copy = &made->head;
    return MST_OK;
}

static const struct msi_store_ops ops = {exec, clone_store, close_store};

mst_status msi_store_open_hash(const struct msi_settings *settings, struct mst_store **store) {
    struct hash_store *made = calloc(1, sizeof *made);
    struct map *map = calloc(1, sizeof *map);
    if (map) map->kv = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    if (!made || !map || !map->kv) {
        free(map);
        free(made);
        return msi_fail_memory();
    }
    pthread_mutex_init(&map->lock, NULL);
    map->handles = 1;
    msi_store_init(&made->head, &ops, settings);
    made->map = map;
    *store = &made->head;
    return MST_OK;
}
