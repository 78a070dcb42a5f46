/*
 * emulate.c - the operations of a store in terms of simpler ones. See emulate.h.
 *
 *   WAIT_GET   WAIT, then GET of each key
 *   BARRIER    ADD 1; the caller that reaches the number sets key/number, the others wait for that key
 *   GUARD      the wait is split into slices, and the guard's key is checked between them
 *   APPEND     COMPARE_SET under a lock
 *   MULTI_GET, MULTI_SET: GET and SET of each key
 */
#include "store/emulate.h"
#include "base/error.h"
#include "base/hash.h"

enum { SLICE_MS = 200, POLL_MS = 20, PATIENT_MS = 30000 };

static mst_status run_one(const struct msi_basic_store *basic, const struct msi_wait *wait,
                          struct msi_store_req req, struct msi_buf *reply) {
    struct msi_store_rpc x = {.req = req};
    mst_status st = basic->run(basic->context, wait, &x, 1);
    if (reply && st == MST_OK)
        *reply = x.reply;
    else
        msi_buf_free(&x.reply);
    return st;
}

/* Appends the value of a key, which may be missing, to out. */
static mst_status read_value(const struct msi_basic_store *basic, const struct msi_wait *wait,
                             struct msi_str key, struct msi_buf *out) {
    struct msi_store_rpc x = {.req = msi_read_request(key)};
    mst_status st = basic->run(basic->context, wait, &x, 1);
    struct msi_str value = msi_store_reply_value(&x);
    if (st == MST_OK) msi_buf_add(out, value.p, value.n);
    msi_store_rpc_free(&x, 1);
    return st == MST_OK && out->failed ? msi_fail_memory() : st;
}

static mst_status check_guard(const struct msi_basic_store *basic, const struct msi_wait *wait,
                              const struct msi_store_req *guard) {
    struct msi_buf value = {0};
    mst_status st = read_value(basic, wait, guard->key, &value);
    if (st == MST_OK && (int64_t)value.len > guard->number) st = MST_ERR_PEER_LOST;
    msi_buf_free(&value);
    return st;
}

/* One slice of a wait. */
static mst_status wait_slice(const struct msi_basic_store *basic, const struct msi_wait *slice,
                             const struct msi_store_req *wait_req, struct msi_buf *reply) {
    if (!basic->polls) return run_one(basic, slice, *wait_req, reply);
    struct msi_store_req check_req = *wait_req;
    check_req.op = MSI_OP_CHECK;
    for (;;) {
        struct msi_wait patient = {msi_deadline(PATIENT_MS), slice->cancel};
        mst_status st = run_one(basic, &patient, check_req, reply);
        if (st != MST_OK || reply->data[0] == 0) return st;
        msi_buf_free(reply);
        st = msi_wait_pause(slice, POLL_MS, "waiting for keys");
        if (st != MST_OK) return st;
    }
}

static mst_status wait_keys(const struct msi_basic_store *basic, const struct msi_wait *wait,
                            const struct msi_store_req *guard, const struct msi_str *keys, size_t n,
                            struct msi_buf *reply) {
    struct msi_store_req req = {.op = MSI_OP_WAIT, .n = n, .keys = keys};
    if (!guard && !basic->slices) return run_one(basic, wait, req, reply);
    for (;;) {
        int64_t slice_end = msi_deadline(SLICE_MS);
        struct msi_wait slice = {slice_end < wait->deadline ? slice_end : wait->deadline, wait->cancel};
        mst_status st = wait_slice(basic, &slice, &req, reply);
        if (st != MST_ERR_TIMEOUT || (basic->broken && *basic->broken) || msi_now() >= wait->deadline)
            return st;
        st = guard ? check_guard(basic, wait, guard) : msi_wait_pause(wait, 1, "waiting for keys");
        if (st == MST_ERR_PEER_LOST) {
            /* The keys may have been set before the peer was lost. */
            struct msi_wait last = {msi_deadline(POLL_MS), wait->cancel};
            return wait_slice(basic, &last, &req, reply) == MST_OK ? MST_OK : MST_ERR_PEER_LOST;
        }
        if (st != MST_OK) return st;
    }
}

static mst_status barrier(const struct msi_basic_store *basic, const struct msi_wait *wait,
                          const struct msi_store_req *guard, struct msi_store_rpc *x) {
    struct msi_buf done_key = {0};
    int64_t number = x->req.number < 0 ? -x->req.number : x->req.number;
    struct msi_store_rpc add = {.req = {.op = MSI_OP_ADD, .key = x->req.key, .number = x->req.number >= 0}};
    msi_buf_add_format(&done_key, "%.*s/%lld", (int)x->req.key.n, x->req.key.p, (long long)number);
    struct msi_str key = msi_buf_str(&done_key);
    struct msi_store_req set = {.op = MSI_OP_SET, .key = key, .value = msi_cstr("1")};
    mst_status st = done_key.failed ? msi_fail_memory() : basic->run(basic->context, wait, &add, 1);
    if (st == MST_OK && msi_store_reply_number(&add) < number) {
        st = wait_keys(basic, wait, guard, &key, 1, &x->reply);
    } else if (st == MST_OK) {
        st = run_one(basic, wait, set, NULL);
        msi_buf_add_u8(&x->reply, 0);
    }
    msi_store_rpc_free(&add, 1);
    msi_buf_free(&done_key);
    return st;
}

static mst_status get_all(const struct msi_basic_store *basic, const struct msi_wait *wait,
                          struct msi_store_rpc *x) {
    struct msi_store_req all = {.op = MSI_OP_MULTI_GET, .n = x->req.n, .keys = x->req.keys};
    if (basic->gets_many) {
        msi_buf_free(&x->reply);
        return run_one(basic, wait, all, &x->reply);
    }
    mst_status st = MST_OK;
    for (size_t i = 0; i < x->req.n && st == MST_OK; i++) {
        struct msi_buf value = {0};
        struct msi_store_req get = {.op = MSI_OP_GET, .key = x->req.keys[i]};
        st = run_one(basic, wait, get, &value);
        if (st == MST_OK) msi_buf_add(&x->reply, value.data, value.len);
        msi_buf_free(&value);
    }
    return st;
}

static mst_status set_all(const struct msi_basic_store *basic, const struct msi_wait *wait,
                          const struct msi_store_req *req) {
    mst_status st = MST_OK;
    for (size_t i = 0; i < req->n && st == MST_OK; i++)
        st = run_one(basic, wait,
                     (struct msi_store_req){.op = MSI_OP_SET, .key = req->keys[i], .value = req->values[i]},
                     NULL);
    return st;
}

static mst_status compare_set(const struct msi_basic_store *basic, const struct msi_wait *wait,
                              const struct msi_store_req *req, bool *swapped) {
    struct msi_store_rpc x = {.req = *req};
    mst_status st = basic->run(basic->context, wait, &x, 1);
    *swapped = st == MST_OK && msi_str_equal(msi_store_reply_str(&x), req->desired);
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Takes a lock: waits until the key is missing and sets it to a random value. */
static mst_status take_lock(const struct msi_basic_store *basic, const struct msi_wait *wait,
                            struct msi_str key) {
    uint8_t bytes[16];
    msi_random(bytes, sizeof bytes);
    struct msi_store_req req = {
        .op = MSI_OP_COMPARE_SET, .key = key, .desired = msi_str(bytes, sizeof bytes)};
    for (bool taken;;) {
        mst_status st = compare_set(basic, wait, &req, &taken);
        if (st == MST_OK && !taken) st = msi_wait_pause(wait, 1, "waiting for other clients that append");
        if (st != MST_OK || taken) return st;
    }
}

/* Appends with COMPARE_SET; repeats if a client that does not append has changed the value meanwhile. */
static mst_status append_locked(const struct msi_basic_store *basic, const struct msi_wait *wait,
                                const struct msi_store_req *req) {
    struct msi_buf value = {0};
    bool swapped = false;
    mst_status st = MST_OK;
    while (st == MST_OK && !swapped) {
        value.len = 0;
        st = read_value(basic, wait, req->key, &value);
        struct msi_store_req swap = {.op = MSI_OP_COMPARE_SET, .key = req->key};
        size_t before = value.len;
        msi_buf_add(&value, req->value.p, req->value.n);
        if (st == MST_OK && value.failed) st = msi_fail_memory();
        swap.desired = msi_buf_str(&value);
        swap.value = msi_str(swap.desired.p, before);
        if (st == MST_OK) st = compare_set(basic, wait, &swap, &swapped);
    }
    msi_buf_free(&value);
    return st;
}

/* Uses a lock: if two clients append the same bytes, COMPARE_SET does not tell which succeeded. */
static mst_status append(const struct msi_basic_store *basic, const struct msi_wait *wait,
                         const struct msi_store_req *req) {
    struct msi_buf name = {0};
    msi_buf_add(&name, req->key.p, req->key.n);
    msi_buf_add(&name, "\001turn", 5);
    struct msi_store_req unlock = {.op = MSI_OP_DELETE_KEY, .key = msi_buf_str(&name)};
    mst_status st = name.failed ? msi_fail_memory() : take_lock(basic, wait, unlock.key);
    if (st == MST_OK) {
        st = append_locked(basic, wait, req);
        struct msi_wait patient = {msi_deadline(PATIENT_MS), NULL};
        mst_status end = run_one(basic, &patient, unlock, NULL);
        if (st == MST_OK) st = end;
    }
    msi_buf_free(&name);
    return st;
}

static mst_status run(const struct msi_basic_store *basic, const struct msi_wait *wait,
                      const struct msi_store_req *guard, struct msi_store_rpc *x) {
    switch (x->req.op) {
    case MSI_OP_WAIT:
        return wait_keys(basic, wait, guard, x->req.keys, x->req.n, &x->reply);
    case MSI_OP_WAIT_GET: {
        mst_status st = wait_keys(basic, wait, guard, x->req.keys, x->req.n, &x->reply);
        x->reply.len = 0;
        return st == MST_OK ? get_all(basic, wait, x) : st;
    }
    case MSI_OP_BARRIER:
        return barrier(basic, wait, guard, x);
    case MSI_OP_MULTI_GET:
        return get_all(basic, wait, x);
    case MSI_OP_MULTI_SET:
        return basic->sets_many ? basic->run(basic->context, wait, x, 1) : set_all(basic, wait, &x->req);
    case MSI_OP_APPEND:
        return basic->appends ? basic->run(basic->context, wait, x, 1) : append(basic, wait, &x->req);
    default:
        return basic->run(basic->context, wait, x, 1);
    }
}

mst_status msi_store_emulate(const struct msi_basic_store *basic, const struct msi_wait *wait,
                             struct msi_store_rpc *x, size_t n) {
    const struct msi_store_req *guard = NULL;
    mst_status st = MST_OK;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        x[i].status = MST_OK;
        if (x[i].req.op == MSI_OP_GUARD)
            guard = &x[i].req;
        else
            st = run(basic, wait, guard, &x[i]);
    }
    return st;
}
