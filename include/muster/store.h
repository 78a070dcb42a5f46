/*
 * store.h - a key/value store that processes share to find each other.
 *
 * Four kinds behind one interface: tcp (a server in one process, clients in any number; the protocol is
 * PyTorch's TCPStore's, so Python ranks can meet C ranks in it), file (a file on a file system that all can
 * reach), hash (threads of one process) and prefix (a name space inside another store).
 *
 * Lifetimes and threads
 *  1. mst_store_open makes a handle, mst_store_free ends it. The process that opened a tcp store with
 *     .is_master hosts the server until it frees the handle.
 *  2. A handle may be used by several threads at once; a wait in one does not hold up the others.
 *  3. Keys are strings, values are byte strings. What is passed in is copied before the call returns; what
 *     comes out is the caller's, to be freed with mst_bytes_free or mst_store_free_keys.
 *  4. Every call ends by its deadline: .timeout_ms, or the handle's own. A call that timed out or was
 *     cancelled leaves the handle usable.
 */
#ifndef MUSTER_STORE_H
#define MUSTER_STORE_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of mst_store_open. */
typedef struct mst_store_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(int timeout_ms); /* default deadline of every call on the handle; 0: 300 s, as PyTorch's */
    MST_OPTION(bool is_master); /* tcp: host the server here; port 0 picks a free one, see mst_store_port */
    MST_OPTION(int world_size); /* tcp: as PyTorch's: be counted, and on the master wait until so many have
                                   come; 0: no */
    MST_OPTION(bool no_wait);   /* with world_size: be counted, but do not wait */
    MST_OPTION(mst_cancel *cancel);
} mst_store_options;

/* Options of every other call. */
typedef struct mst_store_call {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(int timeout_ms); /* 0: the handle's */
    MST_OPTION(mst_cancel *cancel);
} mst_store_call;

/*
 * Opens "tcp://host:port", "file:///path" or "hash://". A tcp client waits until the server answers or the
 * deadline passes. A server listens on just the address that host names.
 */
mst_status mst_store_open_with(const char *url, mst_store **store, const mst_store_options *options);

/* A view of base in which every key stands behind "prefix/"; base must outlive it. */
mst_status mst_store_open_prefix(mst_store *base, const char *prefix, mst_store **store);

void mst_store_free(mst_store *store);

/* The port of a tcp store, the real one where 0 was asked for; 0 for other kinds. */
int mst_store_port(const mst_store *store);

mst_status mst_store_set_with(mst_store *store, const char *key, const void *value, size_t len,
                              const mst_store_call *call);
/* Waits until the key exists. */
mst_status mst_store_get_with(mst_store *store, const char *key, mst_bytes *value,
                              const mst_store_call *call);
/* Adds to a decimal number, a missing one counting as 0; MST_ERR_STATE if the value is not a number. */
mst_status mst_store_add_with(mst_store *store, const char *key, int64_t delta, int64_t *result,
                              const mst_store_call *call);
/*
 * Sets the key to desired if it holds expected, or is missing and expected is empty. *value is what it
 * holds afterwards; for a missing key that was left alone, expected.
 */
mst_status mst_store_compare_set_with(mst_store *store, const char *key, const void *expected,
                                      size_t expected_len, const void *desired, size_t desired_len,
                                      mst_bytes *value, const mst_store_call *call);
/* Waits until all the keys exist. */
mst_status mst_store_wait_with(mst_store *store, const char *const *keys, size_t n,
                               const mst_store_call *call);
/* *ready: do all the keys exist now? */
mst_status mst_store_check_with(mst_store *store, const char *const *keys, size_t n, bool *ready,
                                const mst_store_call *call);
/* *deleted: was the key there? */
mst_status mst_store_delete_key_with(mst_store *store, const char *key, bool *deleted,
                                     const mst_store_call *call);
mst_status mst_store_num_keys_with(mst_store *store, int64_t *count, const mst_store_call *call);
mst_status mst_store_append_with(mst_store *store, const char *key, const void *value, size_t len,
                                 const mst_store_call *call);
/* Waits until all the keys exist; fills values[0..n). */
mst_status mst_store_multi_get_with(mst_store *store, const char *const *keys, size_t n, mst_bytes *values,
                                    const mst_store_call *call);
mst_status mst_store_multi_set_with(mst_store *store, const char *const *keys, const mst_bytes *values,
                                    size_t n, const mst_store_call *call);
/* A queue is first in, first out; it exists as a key while it holds something. */
mst_status mst_store_queue_push_with(mst_store *store, const char *key, const void *value, size_t len,
                                     const mst_store_call *call);
/* Waits until the queue holds something and takes it. */
mst_status mst_store_queue_pop_with(mst_store *store, const char *key, mst_bytes *value,
                                    const mst_store_call *call);
mst_status mst_store_queue_len_with(mst_store *store, const char *key, int64_t *length,
                                    const mst_store_call *call);
/* *keys: an array of *n strings in no order, to be freed with mst_store_free_keys. */
mst_status mst_store_list_keys_with(mst_store *store, char ***keys, size_t *n, const mst_store_call *call);
void mst_store_free_keys(char **keys);
/* Waits until world_size calls have named this key. Every barrier needs a key of its own. */
mst_status mst_store_barrier_with(mst_store *store, const char *key, int64_t world_size,
                                  const mst_store_call *call);

#ifdef __cplusplus
}

inline mst_status mst_store_open(const char *url, mst_store **store, mst_store_options options = {},
                                 MST_SITE_PARAMETERS) {
    return mst_store_open_with(url, store, MST_FILL_OPTIONS(options));
}
inline mst_status mst_store_set(mst_store *store, const char *key, const void *value, size_t len,
                                mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_set_with(store, key, value, len, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_get(mst_store *store, const char *key, mst_bytes *value, mst_store_call call = {},
                                MST_SITE_PARAMETERS) {
    return mst_store_get_with(store, key, value, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_add(mst_store *store, const char *key, int64_t delta, int64_t *result,
                                mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_add_with(store, key, delta, result, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_compare_set(mst_store *store, const char *key, const void *expected,
                                        size_t expected_len, const void *desired, size_t desired_len,
                                        mst_bytes *value, mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_compare_set_with(store, key, expected, expected_len, desired, desired_len, value,
                                      MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_wait(mst_store *store, const char *const *keys, size_t n,
                                 mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_wait_with(store, keys, n, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_check(mst_store *store, const char *const *keys, size_t n, bool *ready,
                                  mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_check_with(store, keys, n, ready, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_delete_key(mst_store *store, const char *key, bool *deleted,
                                       mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_delete_key_with(store, key, deleted, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_num_keys(mst_store *store, int64_t *count, mst_store_call call = {},
                                     MST_SITE_PARAMETERS) {
    return mst_store_num_keys_with(store, count, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_append(mst_store *store, const char *key, const void *value, size_t len,
                                   mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_append_with(store, key, value, len, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_multi_get(mst_store *store, const char *const *keys, size_t n, mst_bytes *values,
                                      mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_multi_get_with(store, keys, n, values, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_multi_set(mst_store *store, const char *const *keys, const mst_bytes *values,
                                      size_t n, mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_multi_set_with(store, keys, values, n, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_queue_push(mst_store *store, const char *key, const void *value, size_t len,
                                       mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_queue_push_with(store, key, value, len, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_queue_pop(mst_store *store, const char *key, mst_bytes *value,
                                      mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_queue_pop_with(store, key, value, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_queue_len(mst_store *store, const char *key, int64_t *length,
                                      mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_queue_len_with(store, key, length, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_list_keys(mst_store *store, char ***keys, size_t *n, mst_store_call call = {},
                                      MST_SITE_PARAMETERS) {
    return mst_store_list_keys_with(store, keys, n, MST_FILL_OPTIONS(call));
}
inline mst_status mst_store_barrier(mst_store *store, const char *key, int64_t world_size,
                                    mst_store_call call = {}, MST_SITE_PARAMETERS) {
    return mst_store_barrier_with(store, key, world_size, MST_FILL_OPTIONS(call));
}

#else

#define MST_STORE_ARGS(...) MST_LAST_POSITIONAL(__VA_ARGS__), MST_OPTIONS_AFTER(mst_store_call, __VA_ARGS__)
#define mst_store_open(url, ...)                                                                             \
    mst_store_open_with(url, MST_LAST_POSITIONAL(__VA_ARGS__),                                               \
                        MST_OPTIONS_AFTER(mst_store_options, __VA_ARGS__))
#define mst_store_set(store, key, value, ...)                                                                \
    mst_store_set_with(store, key, value, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_get(store, key, ...) mst_store_get_with(store, key, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_add(store, key, delta, ...)                                                                \
    mst_store_add_with(store, key, delta, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_compare_set(store, key, expected, expected_len, desired, desired_len, ...)                 \
    mst_store_compare_set_with(store, key, expected, expected_len, desired, desired_len,                     \
                               MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_wait(store, keys, ...)     mst_store_wait_with(store, keys, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_check(store, keys, n, ...) mst_store_check_with(store, keys, n, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_delete_key(store, key, ...)                                                                \
    mst_store_delete_key_with(store, key, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_num_keys(store, ...) mst_store_num_keys_with(store, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_append(store, key, value, ...)                                                             \
    mst_store_append_with(store, key, value, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_multi_get(store, keys, n, ...)                                                             \
    mst_store_multi_get_with(store, keys, n, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_multi_set(store, keys, values, ...)                                                        \
    mst_store_multi_set_with(store, keys, values, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_queue_push(store, key, value, ...)                                                         \
    mst_store_queue_push_with(store, key, value, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_queue_pop(store, key, ...) mst_store_queue_pop_with(store, key, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_queue_len(store, key, ...) mst_store_queue_len_with(store, key, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_list_keys(store, keys, ...)                                                                \
    mst_store_list_keys_with(store, keys, MST_STORE_ARGS(__VA_ARGS__))
#define mst_store_barrier(store, key, ...) mst_store_barrier_with(store, key, MST_STORE_ARGS(__VA_ARGS__))

#endif
#endif
