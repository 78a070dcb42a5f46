/*
 * combined.c - several operations with one handle, and what programs do with a handle of either kind. See
 * comm.h.
 *
 * Its handle is in the set of valid ones with a generation that those of operations do not have.
 */
#include "base/error.h"
#include "comm/comm_internal.h"

#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the handles, and of users */

/* The usual handle is one of an operation, which the generation tells without the lock. */
struct msi_combined *msi_combined_get(mst_work *handle) {
    if (msi_handle_generation(handle) < MSI_WORK_GENERATIONS) return NULL;
    pthread_mutex_lock(&lock);
    struct msi_combined *combined = msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
    if (combined) combined->users++;
    pthread_mutex_unlock(&lock);
    return combined;
}

void msi_combined_put(struct msi_combined *combined) {
    pthread_mutex_lock(&lock);
    bool last = --combined->users == 0 && !combined->valid;
    pthread_mutex_unlock(&lock);
    if (last) free(combined);
}

/* Makes the handle invalid; false: another thread has done that. The memory is freed by its last user. */
static bool release_handle(struct msi_combined *combined) {
    pthread_mutex_lock(&lock);
    bool valid = combined->valid;
    if (valid) msi_handle_remove(combined->handle);
    combined->valid = false;
    pthread_mutex_unlock(&lock);
    return valid;
}

/* Without parts; NULL without memory. */
static struct msi_combined *new_combined(size_t n) {
    static unsigned made; /* under the lock */
    struct msi_combined *combined = msi_handle_alloc(sizeof *combined + n * sizeof *combined->parts);
    if (!combined) return NULL;
    pthread_mutex_lock(&lock);
    unsigned generation = MSI_WORK_GENERATIONS + made++ % (MSI_HANDLE_GENERATIONS - MSI_WORK_GENERATIONS);
    pthread_mutex_unlock(&lock);
    combined->handle = msi_handle_make(combined, generation);
    combined->valid = msi_handle_add(combined->handle);
    if (combined->valid) return combined;
    free(combined);
    return NULL;
}

/* Are the handles valid, and each there once? *parts: the number of operations. */
static mst_status check_parts(mst_work *const *handles, size_t n, size_t *parts) {
    bool done;
    *parts = 0;
    for (size_t i = 0; i < n; i++) {
        mst_status st = handles[i] ? msi_comm_test(handles[i], &done) : MST_OK;
        if (st != MST_OK) return st;
        for (size_t before = 0; handles[i] && before < i; before++)
            if (handles[before] == handles[i])
                return msi_fail(MST_ERR_INVALID, "give each work once", "works[%zu] is also works[%zu]", i,
                                before);
        struct msi_combined *c = handles[i] ? msi_combined_get(handles[i]) : NULL;
        *parts += c ? c->n : handles[i] != NULL;
        if (c) msi_combined_put(c);
    }
    return MST_OK;
}

/* Appends the parts of a handle, which it loses. Another thread may have released it: room is the limit. */
static void take_parts(mst_work *handle, struct msi_combined *to, size_t room) {
    struct msi_combined *c = msi_combined_get(handle);
    if (!c && to->n < room) to->parts[to->n++] = handle;
    if (!c) return;
    bool taken = release_handle(c);
    for (size_t i = 0; taken && i < c->n && to->n < room; i++) to->parts[to->n++] = c->parts[i];
    msi_combined_put(c);
}

mst_status msi_comm_combine(mst_work **handles, size_t n, mst_work **handle) {
    size_t room;
    mst_status st = check_parts(handles, n, &room);
    if (st != MST_OK) return st;
    struct msi_combined *made = new_combined(room);
    if (!made) return msi_fail_memory();
    for (size_t i = 0; i < n; i++) {
        if (handles[i]) take_parts(handles[i], made, room);
        handles[i] = NULL;
    }
    *handle = made->handle;
    return MST_OK;
}

/* For all parts: the first failure of the array is recorded last, so that it is the thread's error. */
static mst_status finish_parts(struct msi_combined *c, const struct msi_wait *wait, bool keep) {
    size_t done;
    mst_status st = msi_comm_await(c->parts, c->n, wait, true, &done);
    if (st != MST_OK) return st;
    if (!keep && !release_handle(c)) return msi_refuse_handle();
    for (size_t i = c->n; i-- > 0;) {
        mst_status one = msi_one_finish(c->parts[i], wait, keep);
        if (one != MST_OK) st = one;
    }
    return st;
}

mst_status msi_comm_finish(mst_work *handle, const struct msi_wait *wait, bool keep) {
    struct msi_combined *c = msi_combined_get(handle);
    if (!c) return msi_one_finish(handle, wait, keep);
    mst_status st = finish_parts(c, wait, keep);
    msi_combined_put(c);
    return st;
}

mst_status msi_comm_test(mst_work *handle, bool *done) {
    struct msi_combined *c = msi_combined_get(handle);
    if (!c) return msi_one_test(handle, done);
    mst_status st = MST_OK;
    *done = true;
    for (size_t i = 0; i < c->n && st == MST_OK; i++) {
        bool one = true;
        st = msi_one_test(c->parts[i], &one);
        *done &= one;
    }
    msi_combined_put(c);
    return st;
}

mst_status msi_comm_result(mst_work *handle) {
    struct msi_combined *c = msi_combined_get(handle);
    if (!c) return msi_one_result(handle);
    bool done;
    mst_status st = msi_comm_test(handle, &done); /* MST_ERR_STATE: another thread has released it */
    if (st == MST_OK && !done) st = msi_refuse_result();
    bool known = st == MST_OK;
    for (size_t i = c->n; known && i-- > 0;) {
        mst_status one = msi_one_result(c->parts[i]);
        if (one != MST_OK) st = one;
    }
    msi_combined_put(c);
    return st;
}

mst_status msi_comm_abandon(mst_work *handle) {
    struct msi_combined *c = msi_combined_get(handle);
    if (!c) return msi_one_abandon(handle);
    mst_status st = release_handle(c) ? MST_OK : msi_refuse_handle();
    for (size_t i = 0; st == MST_OK && i < c->n; i++) msi_one_abandon(c->parts[i]);
    msi_combined_put(c);
    return st;
}

/* A callback of several operations: each has one that counts. */
struct counted {
    pthread_mutex_t lock;
    size_t pending; /* parts whose callback has not run */
    void (*call)(mst_status status, void *arg);
    void *arg;
    size_t first;                 /* the first part that failed, … */
    struct msi_saved_error error; /* … and its failure */
    struct counted_part {
        struct counted *all;
        size_t index;
    } parts[];
};

/* Counts n parts; after the last one the callback is called. */
static void count_off(struct counted *all, size_t n) {
    pthread_mutex_lock(&all->lock);
    bool last = (all->pending -= n) == 0;
    pthread_mutex_unlock(&all->lock);
    if (!last) return;
    mst_status st = all->error.status == MST_OK ? MST_OK : msi_error_restore(&all->error);
    if (all->call) all->call(st, all->arg);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static void part_done(mst_status status, void *arg) {
    const struct counted_part *part = arg;
    struct counted *all = part->all;
    pthread_mutex_lock(&all->lock);
    if (status != MST_OK && part->index <= all->first) {
        all->first = part->index;
        msi_error_save(&all->error, status);
    }
    pthread_mutex_unlock(&all->lock);
    count_off(all, 1);
}

static struct counted *new_counted(size_t n, void (*call)(mst_status, void *), void *arg) {
    struct counted *all = calloc(1, sizeof *all + n * sizeof *all->parts);
    if (!all) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    all->pending = n;
    all->first = n;
    all->call = call;
    all->arg = arg;
    for (size_t i = 0; i < n; i++) all->parts[i] = (struct counted_part){all, i};
    return all;
}

/* Without all of the parts the callback is not called. */
static mst_status set_parts(const struct msi_combined *c, struct counted *all, bool may_wait) {
    for (size_t i = 0; i < c->n; i++) {
        mst_status st = msi_one_on_done(c->parts[i], part_done, &all->parts[i], may_wait);
        if (st == MST_OK) continue;
        pthread_mutex_lock(&all->lock);
        all->call = NULL;
        pthread_mutex_unlock(&all->lock);
        count_off(all, c->n - i);
        return st;
    }
    return MST_OK;
}

mst_status msi_comm_on_done(mst_work *handle, void (*call)(mst_status, void *), void *arg, bool may_wait) {
    struct msi_combined *c = msi_combined_get(handle);
    if (!c) return msi_one_on_done(handle, call, arg, may_wait);
    struct counted *all = new_counted(c->n, call, arg);
    mst_status st = MST_OK;
    if (!all)
        st = msi_fail_memory();
    else if (c->n == 0)
        count_off(all, 0);
    else
        st = set_parts(c, all, may_wait);
    msi_combined_put(c);
    return st;
}
