/*
 * tcp_compat.c - what PyTorch's servers lack, made from what they have.
 *
 *   WAIT_GET   WAIT, then GET of each key
 *   BARRIER    ADD 1; whoever reaches the number sets key/number, the others wait for that
 *   GUARD      the wait behind it is done in slices, with a look at the guard's key between them
 *   QUEUE_*, LIST_KEYS: MST_ERR_UNSUPPORTED where the server is too old for them
 *   APPEND, MULTI_GET, MULTI_SET in dialect A: by COMPARE_SET, GET and SET
 */
#include "base/error.h"
#include "base/hash.h"
#include "os/socket.h"
#include "store/tcp_conn.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <unistd.h>

enum { SLICE_MS = 200, POLL_MS = 20, PATIENT_MS = 30000 };

struct guard {
    struct msi_str key;
    int64_t length;
    bool set;
};

static mst_status run_one(struct msi_store_conn *link, const struct msi_wait *wait, struct msi_store_req req,
                          struct msi_buf *reply) {
    struct msi_store_rpc x = {.req = req};
    mst_status st = msi_store_conn_run(link, wait, &x, 1);
    if (reply && st == MST_OK)
        *reply = x.reply;
    else
        msi_buf_free(&x.reply);
    return st;
}

static mst_status check(struct msi_store_conn *link, const struct msi_wait *wait, struct msi_str key,
                        bool *exists) {
    struct msi_buf reply = {0};
    mst_status st =
        run_one(link, wait, (struct msi_store_req){.op = MSI_OP_CHECK, .n = 1, .keys = &key}, &reply);
    if (st == MST_OK) *exists = reply.data[0] == 0;
    msi_buf_free(&reply);
    return st;
}

/* The value of a key that exists. */
static mst_status get(struct msi_store_conn *link, const struct msi_wait *wait, struct msi_str key,
                      struct msi_buf *reply) {
    return run_one(link, wait, (struct msi_store_req){.op = MSI_OP_GET, .key = key}, reply);
}

static mst_status look_at_guard(struct msi_store_conn *link, const struct msi_wait *wait,
                                const struct guard *guard) {
    bool exists = false;
    struct msi_buf value = {0};
    mst_status st = check(link, wait, guard->key, &exists);
    if (st != MST_OK || !exists) return st;
    st = get(link, wait, guard->key, &value);
    if (st == MST_OK && (int64_t)value.len - 8 > guard->length) st = MST_ERR_PEER_LOST;
    msi_buf_free(&value);
    return st;
}

/* One slice of a guarded wait. Dialect A cannot call off a WAIT, so there the keys are looked at now and
 * then. */
static mst_status wait_slice(struct msi_store_conn *link, const struct msi_wait *slice,
                             const struct msi_store_req *wait_req, struct msi_buf *reply) {
    if (link->dialect != MSI_DIALECT_A) return run_one(link, slice, *wait_req, reply);
    struct msi_store_req check_req = *wait_req;
    check_req.op = MSI_OP_CHECK;
    for (;;) {
        struct msi_wait patient = {msi_deadline(PATIENT_MS), slice->cancel};
        mst_status st = run_one(link, &patient, check_req, reply);
        if (st != MST_OK || reply->data[0] == 0) return st;
        msi_buf_free(reply);
        st = msi_wait_pause(slice, POLL_MS, "waiting for keys");
        if (st != MST_OK) return st;
    }
}

static mst_status finish(struct msi_buf *got, struct msi_buf *reply) {
    if (reply) msi_buf_add(reply, got->data, got->len);
    msi_buf_free(got);
    return MST_OK;
}

static mst_status wait_keys(struct msi_store_conn *link, const struct msi_wait *wait,
                            const struct guard *guard, const struct msi_str *keys, size_t n,
                            struct msi_buf *reply) {
    struct msi_store_req req = {.op = MSI_OP_WAIT, .n = n, .keys = keys};
    if (!guard->set) return run_one(link, wait, req, reply);
    for (struct msi_buf got = {0};;) {
        int64_t slice_end = msi_deadline(SLICE_MS);
        struct msi_wait slice = {slice_end < wait->deadline ? slice_end : wait->deadline, wait->cancel};
        mst_status st = wait_slice(link, &slice, &req, &got);
        if (st == MST_OK) return finish(&got, reply);
        msi_buf_free(&got);
        if (st != MST_ERR_TIMEOUT || link->broken || msi_now() >= wait->deadline) return st;
        st = look_at_guard(link, wait, guard);
        if (st == MST_ERR_PEER_LOST) {
            /* What was waited for may have come before the peer was lost. */
            struct msi_wait last = {msi_deadline(POLL_MS), wait->cancel};
            return wait_slice(link, &last, &req, &got) == MST_OK ? finish(&got, reply) : MST_ERR_PEER_LOST;
        }
        if (st != MST_OK) return st;
    }
}

static mst_status barrier(struct msi_store_conn *link, const struct msi_wait *wait, const struct guard *guard,
                          struct msi_store_rpc *x) {
    struct msi_buf done_key = {0}, reply = {0};
    long long number = x->req.number < 0 ? -x->req.number : x->req.number;
    msi_buf_add_format(&done_key, "%.*s/%lld", (int)x->req.key.n, x->req.key.p, number);
    if (done_key.failed) {
        msi_buf_free(&done_key);
        return msi_fail_memory();
    }
    struct msi_str key = msi_buf_str(&done_key);
    int64_t more = x->req.number < 0 ? 0 : 1;
    mst_status st = run_one(
        link, wait, (struct msi_store_req){.op = MSI_OP_ADD, .key = x->req.key, .number = more}, &reply);
    if (st == MST_OK) {
        struct msi_reader r = msi_reader(reply.data, reply.len);
        if ((int64_t)msi_read_u64(&r) >= number)
            st = run_one(link, wait,
                         (struct msi_store_req){.op = MSI_OP_SET, .key = key, .value = msi_cstr("1")}, NULL);
        else
            st = wait_keys(link, wait, guard, &key, 1, NULL);
    }
    if (st == MST_OK) msi_buf_add_u8(&x->reply, 0);
    msi_buf_free(&reply);
    msi_buf_free(&done_key);
    return st;
}

static mst_status get_all(struct msi_store_conn *link, const struct msi_wait *wait, struct msi_store_rpc *x) {
    mst_status st = MST_OK;
    for (size_t i = 0; i < x->req.n && st == MST_OK; i++) {
        struct msi_buf value = {0};
        st = get(link, wait, x->req.keys[i], &value);
        if (st == MST_OK) msi_buf_add(&x->reply, value.data, value.len);
        msi_buf_free(&value);
    }
    return st;
}

static mst_status set_all(struct msi_store_conn *link, const struct msi_wait *wait,
                          const struct msi_store_req *req) {
    mst_status st = MST_OK;
    for (size_t i = 0; i < req->n && st == MST_OK; i++)
        st = run_one(link, wait,
                     (struct msi_store_req){.op = MSI_OP_SET, .key = req->keys[i], .value = req->values[i]},
                     NULL);
    return st;
}

/* Replaces the value by itself and the addition, again if somebody else was faster. */
static mst_status append_in_turn(struct msi_store_conn *link, const struct msi_wait *wait,
                                 const struct msi_store_req *req) {
    struct msi_buf before = {0}, after = {0};
    for (mst_status st = MST_OK;;) {
        bool exists = false;
        struct msi_buf reply = {0};
        before.len = after.len = 0;
        st = check(link, wait, req->key, &exists);
        if (st == MST_OK && exists) st = get(link, wait, req->key, &reply);
        if (st == MST_OK && exists) msi_buf_add(&before, reply.data + 8, reply.len - 8);
        msi_buf_free(&reply);
        msi_buf_add(&after, before.data, before.len);
        msi_buf_add(&after, req->value.p, req->value.n);
        if (st == MST_OK && (after.failed || before.failed)) st = msi_fail_memory();
        struct msi_store_req swap = {.op = MSI_OP_COMPARE_SET,
                                     .key = req->key,
                                     .value = msi_buf_str(&before),
                                     .desired = msi_buf_str(&after)};
        if (st == MST_OK) st = run_one(link, wait, swap, &reply);
        bool swapped =
            st == MST_OK && msi_str_equal(msi_str(reply.data + 8, reply.len - 8), msi_buf_str(&after));
        msi_buf_free(&reply);
        if (st != MST_OK || swapped) {
            msi_buf_free(&before);
            msi_buf_free(&after);
            return st;
        }
    }
}

/* Waits until the key is missing and puts a mark of our own there. */
static mst_status take_turn(struct msi_store_conn *link, const struct msi_wait *wait, struct msi_str key) {
    uint8_t bytes[16];
    msi_random(bytes, sizeof bytes);
    struct msi_str mark = msi_str((const char *)bytes, sizeof bytes);
    struct msi_store_req swap = {.op = MSI_OP_COMPARE_SET, .key = key, .desired = mark};
    for (;;) {
        struct msi_buf reply = {0};
        mst_status st = run_one(link, wait, swap, &reply);
        bool ours = st == MST_OK && msi_str_equal(msi_str(reply.data + 8, reply.len - 8), mark);
        msi_buf_free(&reply);
        if (st != MST_OK || ours) return st;
        st = msi_wait_pause(wait, 1, "waiting for others who append");
        if (st != MST_OK) return st;
    }
}

/*
 * When two append the same bytes, what COMPARE_SET answers does not say whose swap it was. So those who append
 * to a key take turns.
 */
static mst_status append(struct msi_store_conn *link, const struct msi_wait *wait,
                         const struct msi_store_req *req) {
    struct msi_buf name = {0};
    msi_buf_add(&name, req->key.p, req->key.n);
    msi_buf_add(&name, "\001turn", 5);
    if (name.failed) {
        msi_buf_free(&name);
        return msi_fail_memory();
    }
    struct msi_str turn = msi_buf_str(&name);
    mst_status st = take_turn(link, wait, turn);
    if (st == MST_OK) {
        st = append_in_turn(link, wait, req);
        struct msi_wait patient = {msi_deadline(PATIENT_MS), NULL};
        mst_status end =
            run_one(link, &patient, (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = turn}, NULL);
        if (st == MST_OK) st = end;
    }
    msi_buf_free(&name);
    return st;
}

/*
 * An operation that only later versions have: a server that does not know it hangs up. If it still takes in
 * others, that was the reason. A push has no answer, so that of a length behind it has to do.
 */
static mst_status run_recent(struct msi_store_conn *link, const struct msi_wait *wait,
                             struct msi_store_rpc *x) {
    struct msi_store_rpc pair[2] = {{.req = x->req}, {.req = {.op = MSI_OP_QUEUE_LEN, .key = x->req.key}}};
    mst_status st = msi_store_conn_run(link, wait, pair, x->req.op == MSI_OP_QUEUE_PUSH ? 2 : 1);
    x->reply = pair[0].reply;
    msi_buf_free(&pair[1].reply);
    if (st != MST_ERR_STORE_LOST) return st;
    struct msi_wait brief = {msi_deadline(SLICE_MS), wait->cancel};
    int fd;
    if (msi_connect(&link->target->address, false, &brief, &fd) != MST_OK)
        return msi_fail(st, "is its host still there?", "the store is gone (during %s)",
                        msi_ops[x->req.op].name);
    close(fd);
    return msi_fail(MST_ERR_UNSUPPORTED, NULL, "this store's server does not know %s",
                    msi_ops[x->req.op].name);
}

static mst_status run(struct msi_store_conn *link, const struct msi_wait *wait, struct guard *guard,
                      struct msi_store_rpc *x) {
    bool a = link->dialect == MSI_DIALECT_A;
    x->status = MST_OK;
    switch (x->req.op) {
    case MSI_OP_GUARD:
        *guard = (struct guard){x->req.key, x->req.number, true};
        return MST_OK;
    case MSI_OP_WAIT:
        return wait_keys(link, wait, guard, x->req.keys, x->req.n, &x->reply);
    case MSI_OP_WAIT_GET: {
        mst_status st = wait_keys(link, wait, guard, x->req.keys, x->req.n, NULL);
        return st == MST_OK ? get_all(link, wait, x) : st;
    }
    case MSI_OP_BARRIER:
        return barrier(link, wait, guard, x);
    case MSI_OP_MULTI_GET:
        return get_all(link, wait, x);
    case MSI_OP_MULTI_SET:
        return a ? set_all(link, wait, &x->req) : msi_store_conn_run(link, wait, x, 1);
    case MSI_OP_APPEND:
        return a ? append(link, wait, &x->req) : msi_store_conn_run(link, wait, x, 1);
    case MSI_OP_QUEUE_PUSH:
    case MSI_OP_QUEUE_POP:
    case MSI_OP_QUEUE_LEN:
    case MSI_OP_LIST_KEYS:
        return run_recent(link, wait, x);
    default:
        return msi_store_conn_run(link, wait, x, 1);
    }
}

mst_status msi_store_conn_run_compat(struct msi_store_conn *link, const struct msi_wait *wait,
                                     struct msi_store_rpc *x, size_t n) {
    struct guard guard = {.set = false};
    mst_status st = MST_OK;
    for (size_t i = 0; i < n && st == MST_OK; i++) st = run(link, wait, &guard, &x[i]);
    return st;
}
