/*
 * store.h - a key-value store that processes share to find each other.
 *
 * There are five kinds: tcp (a server in one process and any number of clients; the protocol is that of
 * PyTorch's TCPStore, so Python and C ranks can share it), file (a file on a shared file system), hash
 * (threads of one process), prefix (a name space inside another store) and custom (operations that the
 * program provides).
 *
 * Lifetimes and threads
 *  1. mst_store_open creates a handle, mst_store_free frees it. A process that opens a tcp store with
 *     .is_master hosts the server until it frees the handle.
 *  2. Several threads may use a handle concurrently; a waiting thread does not delay the others.
 *  3. Keys are strings, values are byte strings. A call copies its inputs. The caller owns the outputs and
 *     frees them with mst_bytes_free or mst_store_free_keys.
 *  4. Every call returns by its deadline: .timeout_ms, or that of the handle. MST_ERR_TIMEOUT and
 *     MST_ERR_CANCELLED leave the handle usable.
 */
#ifndef MUSTER_STORE_H
#define MUSTER_STORE_H

#include <muster/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of mst_store_open. */
#define mst_store_options_fields                                                                             \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(int timeout_ms); /* default deadline of the calls on the handle; 0: 300 s, as in PyTorch */   \
    MST_OPTION(bool is_master); /* tcp: host the server; port 0 selects a free port, see mst_store_port */   \
    MST_OPTION(int world_size); /* tcp: the master waits until so many clients have connected; 0: no */      \
    MST_OPTION(bool no_wait);   /* with world_size: do not wait */                                           \
    MST_OPTION(mst_cancel *cancel);                                                                          \
    MST_OPTION(bool open); /* tcp: serve, and be, a client that does not authenticate, as PyTorch's */       \
    MST_OPTION(bool tls);  /* tcp: TLS 1.3, at both ends; also MUSTER_TLS=1 */
typedef struct mst_store_options {
    mst_store_options_fields
} mst_store_options;

/* Options of every other call. */
#define mst_store_call_fields                                                                                \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(int timeout_ms); /* 0: the handle's */                                                        \
    MST_OPTION(mst_cancel *cancel);
typedef struct mst_store_call {
    mst_store_call_fields
} mst_store_call;

/*
 * Opens "tcp://host:port", "file:///path" or "hash://". A tcp client blocks until the server answers or the
 * deadline passes. A server listens only on the address of host.
 */
mst_status mst_store_open_with(const char *url, mst_store **store, const mst_store_options *options);

/* Opens a view of base that prepends "prefix/" to every key. base must outlive it. */
mst_status mst_store_open_prefix(mst_store *base, const char *prefix, mst_store **store);

/* What every operation of a custom store gets. */
typedef struct mst_store_op_call {
    void *context;   /* of mst_store_open_custom */
    int timeout_ms;  /* return MST_ERR_TIMEOUT after so long; 0: do not wait */
    char *why;       /* room for the reason of a failure, which becomes part of the error message */
    size_t why_size; /* its size in bytes */
} mst_store_op_call;

/*
 * The operations of a custom store: each behaves as the call mst_store_… of that name. Several threads may
 * call them at once, and a thread that waits must not delay the others. They return MST_OK, MST_ERR_TIMEOUT,
 * MST_ERR_STATE (add: not a number), MST_ERR_LIMIT (full) or MST_ERR_STORE_LOST; any other status becomes
 * MST_ERR_CALLBACK. The data of returned values is allocated with malloc; muster frees it.
 */
typedef struct mst_store_ops {
    size_t size; /* of this struct */
    mst_status (*set)(const mst_store_op_call *call, const char *key, const void *value, size_t len);
    mst_status (*get)(const mst_store_op_call *call, const char *key, mst_bytes *value);
    mst_status (*add)(const mst_store_op_call *call, const char *key, int64_t delta, int64_t *result);
    mst_status (*compare_set)(const mst_store_op_call *call, const char *key, const void *expected,
                              size_t expected_len, const void *desired, size_t desired_len, mst_bytes *value);
    mst_status (*wait)(const mst_store_op_call *call, const char *const *keys, size_t n);
    mst_status (*check)(const mst_store_op_call *call, const char *const *keys, size_t n, bool *ready);
    mst_status (*delete_key)(const mst_store_op_call *call, const char *key, bool *deleted);
    /* The rest may be NULL. */
    mst_status (*multi_get)(const mst_store_op_call *call, const char *const *keys, size_t n,
                            mst_bytes *values);
    mst_status (*append)(const mst_store_op_call *call, const char *key, const void *value, size_t len);
    void (*free)(void *context); /* the last handle was freed */
} mst_store_ops;

/*
 * Opens a store whose operations the program provides, so that a world can form over any key-value store:
 * pass it as .store of mst_init. ops is copied. mst_store_barrier, mst_store_multi_set and, where the
 * operation is NULL, mst_store_append and mst_store_multi_get use the others; num_keys, list_keys and queues
 * are MST_ERR_UNSUPPORTED. A wait calls .wait again every 0.2 s; it is cancelled within that time. A world
 * over such a store notices the death of a rank on its host at once, and on other hosts by its connections.
 */
mst_status mst_store_open_custom(const mst_store_ops *ops, void *context, mst_store **store);

/*
 * Opens a second handle on the same store, with the timeout of the first. Either may be freed first. A clone
 * of a tcp store has its own connection. A clone of a master is only a client: free it before the master. A
 * clone of a prefix store does not need the base of the original.
 */
mst_status mst_store_clone_with(mst_store *store, mst_store **copy, const mst_store_call *call);

void mst_store_free(mst_store *store);

/* Sets the default deadline of later calls on the handle, in milliseconds; 0: that of mst_store_open. */
mst_status mst_store_set_timeout(mst_store *store, int timeout_ms);

/* Returns the actual port of a tcp store, 0 for other kinds. */
int mst_store_port(const mst_store *store);

mst_status mst_store_set_with(mst_store *store, const char *key, const void *value, size_t len,
                              const mst_store_call *call);
/* Blocks until the key exists. */
mst_status mst_store_get_with(mst_store *store, const char *key, mst_bytes *value,
                              const mst_store_call *call);
/* Adds to a decimal number; a missing key counts as 0. MST_ERR_STATE if the value is not a number. */
mst_status mst_store_add_with(mst_store *store, const char *key, int64_t delta, int64_t *result,
                              const mst_store_call *call);
/*
 * Sets the key to desired if its value is expected, or if it is missing and expected is empty. *value is the
 * value afterwards, or expected if the key is still missing.
 */
mst_status mst_store_compare_set_with(mst_store *store, const char *key, const void *expected,
                                      size_t expected_len, const void *desired, size_t desired_len,
                                      mst_bytes *value, const mst_store_call *call);
/* Blocks until all keys exist. */
mst_status mst_store_wait_with(mst_store *store, const char *const *keys, size_t n,
                               const mst_store_call *call);
/* Sets *ready to whether all keys exist. */
mst_status mst_store_check_with(mst_store *store, const char *const *keys, size_t n, bool *ready,
                                const mst_store_call *call);
/* Sets *deleted to whether the key existed. */
mst_status mst_store_delete_key_with(mst_store *store, const char *key, bool *deleted,
                                     const mst_store_call *call);
mst_status mst_store_num_keys_with(mst_store *store, int64_t *count, const mst_store_call *call);
mst_status mst_store_append_with(mst_store *store, const char *key, const void *value, size_t len,
                                 const mst_store_call *call);
/* Blocks until all keys exist; fills in n values. */
mst_status mst_store_multi_get_with(mst_store *store, const char *const *keys, size_t n, mst_bytes *values,
                                    const mst_store_call *call);
mst_status mst_store_multi_set_with(mst_store *store, const char *const *keys, const mst_bytes *values,
                                    size_t n, const mst_store_call *call);
/* Appends to a first-in first-out queue. The key exists while the queue is not empty. */
mst_status mst_store_queue_push_with(mst_store *store, const char *key, const void *value, size_t len,
                                     const mst_store_call *call);
/* Blocks until the queue is not empty; removes and returns the first value. */
mst_status mst_store_queue_pop_with(mst_store *store, const char *key, mst_bytes *value,
                                    const mst_store_call *call);
mst_status mst_store_queue_len_with(mst_store *store, const char *key, int64_t *length,
                                    const mst_store_call *call);
/* Sets *keys to an array of *n strings in no particular order. Free it with mst_store_free_keys. */
mst_status mst_store_list_keys_with(mst_store *store, char ***keys, size_t *n, const mst_store_call *call);
void mst_store_free_keys(char **keys);
/* Blocks until world_size calls have used this key. Use a new key for every barrier. */
mst_status mst_store_barrier_with(mst_store *store, const char *key, int64_t world_size,
                                  const mst_store_call *call);

#ifdef __cplusplus
}
#endif

MST_WRAP_2(mst_store_open, mst_store_options, const char *, mst_store **)
MST_WRAP_2(mst_store_clone, mst_store_call, mst_store *, mst_store **)
MST_WRAP_4(mst_store_set, mst_store_call, mst_store *, const char *, const void *, size_t)
MST_WRAP_3(mst_store_get, mst_store_call, mst_store *, const char *, mst_bytes *)
MST_WRAP_4(mst_store_add, mst_store_call, mst_store *, const char *, int64_t, int64_t *)
MST_WRAP_7(mst_store_compare_set, mst_store_call, mst_store *, const char *, const void *, size_t,
           const void *, size_t, mst_bytes *)
MST_WRAP_3(mst_store_wait, mst_store_call, mst_store *, const char *const *, size_t)
MST_WRAP_4(mst_store_check, mst_store_call, mst_store *, const char *const *, size_t, bool *)
MST_WRAP_3(mst_store_delete_key, mst_store_call, mst_store *, const char *, bool *)
MST_WRAP_2(mst_store_num_keys, mst_store_call, mst_store *, int64_t *)
MST_WRAP_4(mst_store_append, mst_store_call, mst_store *, const char *, const void *, size_t)
MST_WRAP_4(mst_store_multi_get, mst_store_call, mst_store *, const char *const *, size_t, mst_bytes *)
MST_WRAP_4(mst_store_multi_set, mst_store_call, mst_store *, const char *const *, const mst_bytes *, size_t)
MST_WRAP_4(mst_store_queue_push, mst_store_call, mst_store *, const char *, const void *, size_t)
MST_WRAP_3(mst_store_queue_pop, mst_store_call, mst_store *, const char *, mst_bytes *)
MST_WRAP_3(mst_store_queue_len, mst_store_call, mst_store *, const char *, int64_t *)
MST_WRAP_3(mst_store_list_keys, mst_store_call, mst_store *, char ***, size_t *)
MST_WRAP_3(mst_store_barrier, mst_store_call, mst_store *, const char *, int64_t)

#define mst_store_open(...)        MST_CALL_2(mst_store_open, mst_store_options, __VA_ARGS__)
#define mst_store_clone(...)       MST_CALL_2(mst_store_clone, mst_store_call, __VA_ARGS__)
#define mst_store_set(...)         MST_CALL_4(mst_store_set, mst_store_call, __VA_ARGS__)
#define mst_store_get(...)         MST_CALL_3(mst_store_get, mst_store_call, __VA_ARGS__)
#define mst_store_add(...)         MST_CALL_4(mst_store_add, mst_store_call, __VA_ARGS__)
#define mst_store_compare_set(...) MST_CALL_7(mst_store_compare_set, mst_store_call, __VA_ARGS__)
#define mst_store_wait(...)        MST_CALL_3(mst_store_wait, mst_store_call, __VA_ARGS__)
#define mst_store_check(...)       MST_CALL_4(mst_store_check, mst_store_call, __VA_ARGS__)
#define mst_store_delete_key(...)  MST_CALL_3(mst_store_delete_key, mst_store_call, __VA_ARGS__)
#define mst_store_num_keys(...)    MST_CALL_2(mst_store_num_keys, mst_store_call, __VA_ARGS__)
#define mst_store_append(...)      MST_CALL_4(mst_store_append, mst_store_call, __VA_ARGS__)
#define mst_store_multi_get(...)   MST_CALL_4(mst_store_multi_get, mst_store_call, __VA_ARGS__)
#define mst_store_multi_set(...)   MST_CALL_4(mst_store_multi_set, mst_store_call, __VA_ARGS__)
#define mst_store_queue_push(...)  MST_CALL_4(mst_store_queue_push, mst_store_call, __VA_ARGS__)
#define mst_store_queue_pop(...)   MST_CALL_3(mst_store_queue_pop, mst_store_call, __VA_ARGS__)
#define mst_store_queue_len(...)   MST_CALL_3(mst_store_queue_len, mst_store_call, __VA_ARGS__)
#define mst_store_list_keys(...)   MST_CALL_3(mst_store_list_keys, mst_store_call, __VA_ARGS__)
#define mst_store_barrier(...)     MST_CALL_3(mst_store_barrier, mst_store_call, __VA_ARGS__)
#endif
