/* registered.c - buffers that new ranks get from old ones. See <muster/recovery.h>. */
#include "base/error.h"
#include "base/options.h"
#include "group/call.h"

#include <muster/recovery.h>
#include <stdlib.h>

struct buffer {
    void *at;
    size_t bytes;
};

/* The buffers of this process, in the order of their registration. */
static struct {
    pthread_mutex_t lock;
    struct buffer *buffers;
    size_t n;
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The index of a buffer; n: it is not registered. Locked. */
static size_t find(const void *buffer) {
    size_t i = 0;
    while (i < registered.n && registered.buffers[i].at != buffer) i++;
    return i;
}

static mst_status add(void *buffer, size_t bytes) {
    size_t i = find(buffer);
    if (i == registered.n) {
        struct buffer *more = realloc(registered.buffers, (i + 1) * sizeof *more);
        if (!more) return msi_fail_memory();
        registered.buffers = more;
        registered.n++;
    }
    registered.buffers[i] = (struct buffer){buffer, bytes};
    return MST_OK;
}

mst_status mst_register_buffer(void *buffer, size_t count, mst_dtype dtype) {
    size_t bytes = 0;
    msi_call_begin("mst_register_buffer", NULL, -1);
    if (!buffer) return msi_fail(MST_ERR_INVALID, NULL, "buffer is NULL");
    size_t size = mst_dtype_size(dtype);
    if (size == 0) return msi_fail(MST_ERR_INVALID, NULL, "%d is not a dtype", (int)dtype);
    if (__builtin_mul_overflow(count, size, &bytes))
        return msi_fail(MST_ERR_INVALID, NULL, "%zu elements do not fit into memory", count);
    pthread_mutex_lock(&registered.lock);
    mst_status st = add(buffer, bytes);
    pthread_mutex_unlock(&registered.lock);
    return st;
}

mst_status mst_unregister_buffer(void *buffer) {
    msi_call_begin("mst_unregister_buffer", NULL, -1);
    pthread_mutex_lock(&registered.lock);
    size_t i = find(buffer);
    bool found = i < registered.n;
    if (found) {
        registered.n--;
        memmove(registered.buffers + i, registered.buffers + i + 1,
                (registered.n - i) * sizeof *registered.buffers);
    }
    pthread_mutex_unlock(&registered.lock);
    return found ? MST_OK : msi_fail(MST_ERR_INVALID, NULL, "the buffer is not registered");
}

/* Copies the list, so that no lock is held during the call; *bufs and *counts are freed by the caller. */
static mst_status copy_list(void ***bufs, size_t **counts, size_t *n) {
    pthread_mutex_lock(&registered.lock);
    *n = registered.n;
    *bufs = calloc(*n + 1, sizeof **bufs);
    *counts = calloc(*n + 1, sizeof **counts);
    for (size_t i = 0; i < *n && *bufs && *counts; i++) {
        (*bufs)[i] = registered.buffers[i].at;
        (*counts)[i] = registered.buffers[i].bytes;
    }
    pthread_mutex_unlock(&registered.lock);
    return *bufs && *counts ? MST_OK : msi_fail_memory();
}

mst_status mst_broadcast_registered_with(const mst_reform_options *given) {
    mst_reform_options o;
    void **bufs;
    size_t *counts, n;
    mst_status st = msi_options_begin("mst_broadcast_registered", &o, sizeof o, given);
    if (st != MST_OK) return st;
    const mst_group *all = msi_call_group("mst_broadcast_registered", &o.site, o.world ? *o.world : NULL);
    if (!all) return MST_ERR_STATE;
    if (all->ranks)
        return msi_fail(MST_ERR_INVALID, "give a world of mst_world_open", ".world is a group, not a world");
    mst_call call = {.size = sizeof call,
                     .site = o.site,
                     .group = all->handle,
                     .root = all->world->first_old,
                     .timeout_ms = o.timeout_ms,
                     .cancel = o.cancel,
                     .log_name = "broadcast_registered"};
    st = copy_list(&bufs, &counts, &n);
    if (st == MST_OK && n == 0)
        st = msi_fail(MST_ERR_STATE, "register buffers with mst_register_buffer first",
                      "no buffer is registered");
    if (st == MST_OK) st = mst_broadcast_coalesced_with(bufs, counts, n, MST_U8, &call);
    free(bufs);
    free(counts);
    return st;
}
