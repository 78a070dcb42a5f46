/*
 * custom.c - a store of the program: calls its operations, and emulates the others. See mst_store_ops.
 *
 * A store and its clones share the operations and their context.
 */
#include "base/error.h"
#include "store/emulate.h"
#include "wire/cursor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct shared {
    mst_store_ops ops;
    void *context;
    _Atomic int handles;
};

struct custom_store {
    struct mst_store head;
    struct shared *shared;
};

/* One call of an operation of the program. */
struct call {
    const mst_store_ops *ops;
    mst_store_op_call head;
    const char **keys; /* of the request */
    size_t n;
    char why[200];
};

/* Copies the keys of a request as strings, and their pointers, into one block; NULL without memory. */
static const char **copy_keys(const struct msi_store_req *req, size_t *n) {
    bool list = msi_ops[req->op].request[0] == 'K';
    const struct msi_str *keys = list ? req->keys : &req->key;
    size_t bytes = 0;
    *n = list ? req->n : 1;
    for (size_t i = 0; i < *n; i++) bytes += keys[i].n + 1;
    const char **made = calloc(1, (*n + 1) * sizeof *made + bytes);
    if (!made) return NULL;
    char *at = (char *)(made + *n + 1);
    for (size_t i = 0; i < *n; i++) {
        made[i] = at;
        if (keys[i].n) memcpy(at, keys[i].p, keys[i].n);
        at += keys[i].n + 1;
    }
    return made;
}

static int ms_until(int64_t deadline) {
    int64_t ms = (deadline - msi_now() + 999999) / 1000000;
    return ms < 0 ? 0 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Appends a value that an operation returned to the reply, and frees it. */
static mst_status put_value(struct msi_buf *reply, mst_bytes *value) {
    bool valid = value->data || value->len == 0;
    if (valid) msi_put_str(reply, msi_str(value->data, value->len));
    free(value->data);
    *value = (mst_bytes){NULL, 0};
    return valid ? MST_OK : MST_ERR_CALLBACK;
}

static mst_status compare_set(const struct call *call, const struct msi_store_req *req,
                              struct msi_buf *reply) {
    mst_bytes value = {NULL, 0};
    mst_status st = call->ops->compare_set(&call->head, call->keys[0], req->value.p, req->value.n,
                                           req->desired.p, req->desired.n, &value);
    return st == MST_OK ? put_value(reply, &value) : st;
}

static mst_status get(const struct call *call, struct msi_buf *reply) {
    mst_bytes value = {NULL, 0};
    mst_status st = call->ops->get(&call->head, call->keys[0], &value);
    return st == MST_OK ? put_value(reply, &value) : st;
}

static mst_status multi_get(const struct call *call, struct msi_buf *reply) {
    mst_bytes *values = calloc(call->n + 1, sizeof *values);
    if (!values) return MST_ERR_MEMORY;
    mst_status st = call->ops->multi_get(&call->head, call->keys, call->n, values);
    for (size_t i = 0; i < call->n && st == MST_OK; i++) st = put_value(reply, &values[i]);
    for (size_t i = 0; i < call->n; i++) free(values[i].data);
    free(values);
    return st;
}

static mst_status add(const struct call *call, int64_t delta, struct msi_buf *reply) {
    int64_t result = 0;
    mst_status st = call->ops->add(&call->head, call->keys[0], delta, &result);
    msi_put_u64(reply, (uint64_t)result);
    return st;
}

static mst_status check(const struct call *call, struct msi_buf *reply) {
    bool ready = false;
    mst_status st = call->ops->check(&call->head, call->keys, call->n, &ready);
    msi_buf_add_u8(reply, !ready);
    return st;
}

static mst_status wait_for(const struct call *call, struct msi_buf *reply) {
    msi_buf_add_u8(reply, 0);
    return call->n ? call->ops->wait(&call->head, call->keys, call->n) : MST_OK;
}

static mst_status delete_key(const struct call *call, struct msi_buf *reply) {
    bool deleted = false;
    mst_status st = call->ops->delete_key(&call->head, call->keys[0], &deleted);
    msi_put_u64(reply, deleted);
    return st;
}

static mst_status call_operation(const struct call *call, const struct msi_store_req *req,
                                 struct msi_buf *reply) {
    switch (req->op) {
    case MSI_OP_SET:
        return call->ops->set(&call->head, call->keys[0], req->value.p, req->value.n);
    case MSI_OP_COMPARE_SET:
        return compare_set(call, req, reply);
    case MSI_OP_GET:
        return get(call, reply);
    case MSI_OP_ADD:
        return add(call, req->number, reply);
    case MSI_OP_CHECK:
        return check(call, reply);
    case MSI_OP_WAIT:
        return wait_for(call, reply);
    case MSI_OP_DELETE_KEY:
        return delete_key(call, reply);
    case MSI_OP_APPEND:
        return call->ops->append(&call->head, call->keys[0], req->value.p, req->value.n);
    case MSI_OP_MULTI_GET:
        return multi_get(call, reply);
    case MSI_OP_ON_DISCONNECT: /* the store does not know when a process ends */
        return MST_OK;
    default: /* not here, see check_supported */
        return MST_ERR_INTERNAL;
    }
}

/* Fails before the first operation, so that a pop from a queue does not wait for its key. */
static mst_status check_supported(const struct msi_store_rpc *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        enum msi_store_op op = x[i].req.op;
        if (op == MSI_OP_NUM_KEYS || op == MSI_OP_LIST_KEYS || op == MSI_OP_QUEUE_PUSH ||
            op == MSI_OP_QUEUE_POP || op == MSI_OP_QUEUE_LEN)
            return msi_fail(MST_ERR_UNSUPPORTED, NULL, "a store of mst_store_open_custom does not support %s",
                            msi_ops[op].name);
    }
    return MST_OK;
}

/* A failure of an operation, as a call on the store reports it. */
static mst_status explain(mst_status st, const struct msi_store_req *req, const struct call *call) {
    const char *name = msi_ops[req->op].name, *key = call->n ? call->keys[0] : "";
    if (st == MST_ERR_TIMEOUT) return st;
    bool known =
        st == MST_ERR_STATE || st == MST_ERR_LIMIT || st == MST_ERR_MEMORY || st == MST_ERR_STORE_LOST;
    return msi_fail(known ? st : MST_ERR_CALLBACK, "look at the store that the program gave",
                    "%s of '%.80s' failed in the program's store: %s", name, key,
                    *call->why ? call->why : mst_status_text(st));
}

static mst_status run_one(const struct shared *shared, const struct msi_wait *wait, struct msi_store_rpc *x) {
    struct call call = {.ops = &shared->ops};
    if (msi_wait_cancelled(wait)) return msi_fail(MST_ERR_CANCELLED, NULL, "cancelled by the caller");
    call.head = (mst_store_op_call){shared->context, ms_until(wait->deadline), call.why, sizeof call.why};
    call.keys = copy_keys(&x->req, &call.n);
    if (!call.keys) return msi_fail_memory();
    mst_status st = call_operation(&call, &x->req, &x->reply);
    call.why[sizeof call.why - 1] = 0;
    if (st != MST_OK) st = explain(st, &x->req, &call);
    if (st == MST_OK && x->reply.failed) st = msi_fail_memory();
    free(call.keys);
    return st;
}

static mst_status run(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n) {
    mst_status st = MST_OK;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        x[i].status = MST_OK;
        st = run_one(context, wait, &x[i]);
    }
    return st;
}

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct shared *shared = ((struct custom_store *)head)->shared;
    const struct msi_basic_store basic = {.run = run,
                                          .context = shared,
                                          .slices = true,
                                          .gets_many = shared->ops.multi_get != NULL,
                                          .appends = shared->ops.append != NULL};
    mst_status st = check_supported(x, n);
    return st == MST_OK ? msi_store_emulate(&basic, wait, x, n) : st;
}

static void close_store(struct mst_store *head) {
    struct shared *shared = ((struct custom_store *)head)->shared;
    free(head);
    if (atomic_fetch_sub(&shared->handles, 1) > 1) return;
    if (shared->ops.free) shared->ops.free(shared->context);
    free(shared);
}

static const struct msi_store_ops ops;

static mst_status open_handle(struct shared *shared, const struct msi_settings *settings,
                              struct mst_store **store) {
    struct custom_store *made = malloc(sizeof *made);
    if (!made) return msi_fail_memory();
    msi_store_init(&made->head, &ops, settings);
    made->shared = shared;
    atomic_fetch_add(&shared->handles, 1);
    *store = &made->head;
    return MST_OK;
}

static mst_status clone_store(struct mst_store *head, const struct msi_settings *settings,
                              const struct msi_wait *wait, struct mst_store **copy) {
    (void)wait;
    return open_handle(((struct custom_store *)head)->shared, settings, copy);
}

static const struct msi_store_ops ops = {exec, clone_store, close_store};

bool msi_store_is_custom(const struct mst_store *store) {
    return store->ops == &ops;
}

mst_status msi_store_open_custom(const mst_store_ops *given, void *context,
                                 const struct msi_settings *settings, struct mst_store **store) {
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared) return msi_fail_memory();
    memcpy(&shared->ops, given, given->size < sizeof shared->ops ? given->size : sizeof shared->ops);
    shared->context = context;
    mst_status st = open_handle(shared, settings, store);
    if (st != MST_OK) free(shared);
    return st;
}
