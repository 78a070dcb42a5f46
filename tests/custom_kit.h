/* custom_kit.h - a custom store whose operations use another store. */
#ifndef TESTS_CUSTOM_KIT_H
#define TESTS_CUSTOM_KIT_H

#include <muster/muster.h>
#include <stdio.h>

/* What an operation returns after the status of the call on the other store. */
static inline mst_status custom_result(const mst_store_op_call *call, mst_status status) {
    if (status != MST_OK) snprintf(call->why, call->why_size, "%s", mst_error());
    return status;
}

static inline int custom_timeout(const mst_store_op_call *call) {
    return call->timeout_ms ? call->timeout_ms : 1; /* 0 would be the default of the handle */
}

static inline mst_status custom_set(const mst_store_op_call *call, const char *key, const void *value,
                                    size_t len) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_set(call->context, key, value, len, .timeout_ms = timeout_ms));
}

static inline mst_status custom_get(const mst_store_op_call *call, const char *key, mst_bytes *value) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_get(call->context, key, value, .timeout_ms = timeout_ms));
}

static inline mst_status custom_add(const mst_store_op_call *call, const char *key, int64_t delta,
                                    int64_t *result) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_add(call->context, key, delta, result, .timeout_ms = timeout_ms));
}

static inline mst_status custom_compare_set(const mst_store_op_call *call, const char *key,
                                            const void *expected, size_t expected_len, const void *desired,
                                            size_t desired_len, mst_bytes *value) {
    return custom_result(call, mst_store_compare_set(call->context, key, expected, expected_len, desired,
                                                     desired_len, value, .timeout_ms = custom_timeout(call)));
}

static inline mst_status custom_wait(const mst_store_op_call *call, const char *const *keys, size_t n) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_wait(call->context, keys, n, .timeout_ms = timeout_ms));
}

static inline mst_status custom_check(const mst_store_op_call *call, const char *const *keys, size_t n,
                                      bool *ready) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_check(call->context, keys, n, ready, .timeout_ms = timeout_ms));
}

static inline mst_status custom_delete_key(const mst_store_op_call *call, const char *key, bool *deleted) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_delete_key(call->context, key, deleted, .timeout_ms = timeout_ms));
}

static inline mst_status custom_multi_get(const mst_store_op_call *call, const char *const *keys, size_t n,
                                          mst_bytes *values) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_multi_get(call->context, keys, n, values, .timeout_ms = timeout_ms));
}

static inline mst_status custom_append(const mst_store_op_call *call, const char *key, const void *value,
                                       size_t len) {
    int timeout_ms = custom_timeout(call);
    return custom_result(call, mst_store_append(call->context, key, value, len, .timeout_ms = timeout_ms));
}

static inline void custom_free(void *context) {
    mst_store_free(context);
}

/* A custom store that owns base, with the required operations or with all; NULL: mst_error() says why. */
static inline mst_store *open_custom(mst_store *base, bool all) {
    mst_store_ops ops = {.size = sizeof ops,
                         .set = custom_set,
                         .get = custom_get,
                         .add = custom_add,
                         .compare_set = custom_compare_set,
                         .wait = custom_wait,
                         .check = custom_check,
                         .delete_key = custom_delete_key,
                         .free = custom_free};
    if (all) {
        ops.multi_get = custom_multi_get;
        ops.append = custom_append;
    }
    mst_store *store = NULL;
    return mst_store_open_custom(&ops, base, &store) == MST_OK ? store : NULL;
}

#endif
