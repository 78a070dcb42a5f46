/* kv_kit.h - requests to a map in one line each, and a waiter that notes how often it was woken. */
#ifndef TESTS_UNIT_KV_KIT_H
#define TESTS_UNIT_KV_KIT_H

#include "harness.h"

#include "store/kv.h"
#include "wire/cursor.h"

#include <muster/types.h>

/* REQ(OPERATION, "key", .field = …): a pointer to a request */
#define REQ(operation, ...)                                                                                  \
    (&(struct msi_store_req){                                                                                \
        .op = MSI_OP_##operation, .key = msi_cstr(MST_FIRST(__VA_ARGS__, )), MST_REST(__VA_ARGS__, )})
#define VALUE(text) .value = {text, sizeof(text) - 1}
#define LIST(...)                                                                                            \
    .keys = (struct msi_str[]){__VA_ARGS__},                                                                 \
    .n = sizeof((struct msi_str[]){__VA_ARGS__}) / sizeof(struct msi_str)
#define S(text)                                                                                              \
    { text, sizeof(text) - 1 }

/* Applies and expects a status and, byte for byte, a reply. */
#define expect(kv, req, wanted, bytes) expect_reply(kv, req, wanted, bytes, sizeof(bytes) - 1)

static inline void expect_reply(struct msi_kv *kv, const struct msi_store_req *req, mst_status wanted,
                                const char *bytes, size_t n) {
    struct msi_buf reply = {0};
    msi_buf_add(&reply, "before", 6);
    mst_status st = msi_kv_apply(kv, req, &reply);
    assert_string_equal(mst_status_name(st), mst_status_name(wanted));
    assert_int_equal(reply.len, 6 + n);
    assert_memory_equal(reply.data, "before", 6);
    if (n) assert_memory_equal(reply.data + 6, bytes, n);
    msi_buf_free(&reply);
}

/* Applies what must succeed; the number that its reply begins with. */
static inline int64_t number(struct msi_kv *kv, const struct msi_store_req *req) {
    struct msi_buf reply = {0};
    assert_int_equal(msi_kv_apply(kv, req, &reply), MST_OK);
    struct msi_reader r = msi_reader(reply.data, reply.len);
    int64_t value = (int64_t)msi_read_uint(&r, reply.len < 8 ? reply.len : 8);
    msi_buf_free(&reply);
    return value;
}

static inline void assert_value(struct msi_kv *kv, const char *key, const char *wanted) {
    struct msi_str value;
    assert_true(msi_kv_get(kv, msi_cstr(key), &value));
    assert_int_equal(value.n, strlen(wanted));
    assert_memory_equal(value.p, wanted, value.n);
}

static inline void assert_missing(struct msi_kv *kv, const char *key) {
    struct msi_str value;
    assert_false(msi_kv_get(kv, msi_cstr(key), &value));
}

struct noted {
    struct msi_kv_waiter waiter;
    int woken;
    mst_status status;
};

static inline void note_wake(struct msi_kv_waiter *waiter) {
    struct noted *noted = msi_container(waiter, struct noted, waiter);
    noted->woken++;
    noted->status = waiter->status;
}

/* Begins a wait; whether it waits now. Anything but MST_OK and MST_ERR_PEER_LOST is a failure. */
static inline bool begins(struct msi_kv *kv, const struct msi_store_req *req,
                          const struct msi_store_req *guard, struct noted *noted) {
    bool waiting = true;
    *noted = (struct noted){.waiter.wake = note_wake};
    noted->status = msi_kv_wait_begin(kv, req, guard, &noted->waiter, &waiting);
    assert_true(noted->status == MST_OK || noted->status == MST_ERR_PEER_LOST);
    if (noted->status != MST_OK) assert_false(waiting);
    return waiting;
}

#endif
