/* store.c - code that all stores share, and the prefix store. See store.h. */
#include "store/store.h"
#include "base/error.h"
#include "os/socket.h"
#include "wire/cursor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ITEMS = 128 << 10, MESSAGE_SLACK = 1 << 20 };

mst_status msi_store_open(const struct msi_url *url, const struct msi_settings *settings,
                          const struct msi_wait *wait, const mst_store_options *options,
                          struct mst_store **store) {
    switch (url->scheme) {
    case MSI_SCHEME_TCP:
        return msi_store_open_tcp(&url->address, settings, wait, options, store);
    case MSI_SCHEME_FILE:
        return msi_store_open_file(url->path, false, settings, wait, store);
    case MSI_SCHEME_HASH:
        return msi_store_open_hash(settings, store);
    default:
        return msi_fail(MST_ERR_ADDRESS, "use tcp://host:port, file:///path or hash://",
                        "env:// is not a store");
    }
}

struct msi_store_limits msi_store_limits(const struct msi_settings *settings) {
    return (struct msi_store_limits){
        .max_key = (size_t)settings->store_max_key,
        .max_value = (size_t)settings->store_max_value,
        .max_items = MAX_ITEMS,
        .max_message = (size_t)(settings->store_max_value + settings->store_max_key) + MESSAGE_SLACK,
    };
}

/* The stores that exist. They are not in the set of base/handles.h, whose handles have generations. */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static struct msi_list live = {&live, &live};

static void add_live(struct mst_store *store) {
    pthread_mutex_lock(&live_lock);
    msi_list_push(&live, &store->live);
    pthread_mutex_unlock(&live_lock);
}

bool msi_store_is_live(const struct mst_store *store) {
    bool found = false;
    pthread_mutex_lock(&live_lock);
    for (const struct msi_list *at = live.next; at != &live && !found; at = at->next)
        found = msi_container(at, struct mst_store, live) == store;
    pthread_mutex_unlock(&live_lock);
    return found;
}

void msi_store_init(struct mst_store *store, const struct msi_store_ops *ops,
                    const struct msi_settings *settings) {
    struct msi_store_limits limits = msi_store_limits(settings);
    *store = (struct mst_store){.ops = ops,
                                .max_key = limits.max_key,
                                .max_value = limits.max_value,
                                .max_items = limits.max_items,
                                .max_message = limits.max_message};
    msi_socket_set_timeout((int)settings->tcp_timeout_s);
    add_live(store);
}

void msi_store_free(struct mst_store *store) {
    if (!store) return;
    pthread_mutex_lock(&live_lock);
    msi_list_remove(&store->live);
    pthread_mutex_unlock(&live_lock);
    store->ops->close(store);
}

void msi_store_rpc_free(struct msi_store_rpc *x, size_t n) {
    for (size_t i = 0; i < n; i++) msi_buf_free(&x[i].reply);
}

/* Formats the keys of a request as "'a', 'b', …". */
static const char *show_keys(const struct msi_store_req *req, char *out, size_t size) {
    size_t n = req->n ? req->n : 1, used = 0;
    const struct msi_str *keys = req->n ? req->keys : &req->key;
    out[0] = 0;
    for (size_t i = 0; i < n && used < size; i++) {
        if (i == 3) {
            snprintf(out + used, size - used, " and %zu more", n - i);
            break;
        }
        used += (size_t)snprintf(out + used, size - used, "%s'%.*s'", i ? ", " : "", MSI_SHOW(keys[i]));
    }
    return out;
}

static mst_status explain_request(const struct msi_store_rpc *x) {
    char keys[320];
    const char *op = msi_ops[x->req.op].name;
    show_keys(&x->req, keys, sizeof keys);
    switch (x->status) {
    case MST_ERR_STATE:
        return msi_fail(x->status, NULL,
                        "%s: the value of %s is not a decimal number, or the sum has more than 64 bits", op,
                        keys);
    case MST_ERR_LIMIT:
        return msi_fail(
            x->status, "raise MUSTER_STORE_MAX_TOTAL or MUSTER_STORE_MAX_VALUE where the store is hosted",
            "%s of %s: the store is full or out of memory, or the value or the reply is too large", op, keys);
    case MST_ERR_NOT_FOUND:
        return msi_fail(x->status, NULL, "%s: there is no key %s", op, keys);
    case MST_ERR_SYSTEM:
        return msi_fail(x->status, "raise the limit of open files where the store is hosted (ulimit -n)",
                        "%s of %s: the process that hosts the store has run out of descriptors", op, keys);
    default:
        return msi_fail(x->status, NULL, "%s of %s: %s", op, keys, mst_status_text(x->status));
    }
}

static mst_status explain_timeout(const struct msi_store_rpc *x, int64_t begin) {
    char keys[320];
    double seconds = (double)(msi_now() - begin) / 1e9;
    show_keys(&x->req, keys, sizeof keys);
    if (x->req.op == MSI_OP_BARRIER)
        return msi_fail(MST_ERR_TIMEOUT, NULL, "barrier %s: fewer than %lld arrived within %.3g s", keys,
                        (long long)(x->req.number < 0 ? -x->req.number : x->req.number), seconds);
    if (msi_ops[x->req.op].waits)
        return msi_fail(MST_ERR_TIMEOUT, NULL, "%s %s set within %.3g s", keys,
                        x->req.n > 1 ? "were not all" : "was not", seconds);
    return msi_fail(MST_ERR_TIMEOUT, NULL, "%s of %s: no answer from the store within %.3g s",
                    msi_ops[x->req.op].name, keys, seconds);
}

mst_status msi_store_exec(struct mst_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                          size_t n) {
    int64_t begin = msi_now();
    if (msi_wait_cancelled(wait)) return msi_fail(MST_ERR_CANCELLED, NULL, "cancelled by the caller");
    mst_status st = store->ops->exec(store, wait, x, n);
    if (st == MST_ERR_TIMEOUT) return explain_timeout(&x[n - 1], begin);
    if (st == MST_ERR_PEER_LOST) return msi_fail(st, NULL, "a rank died or left while this one waited");
    for (size_t i = 0; i < n && st == MST_OK; i++)
        if (x[i].status != MST_OK) st = explain_request(&x[i]);
    return st;
}

static struct msi_str put_prefixed(struct msi_str prefix, struct msi_str key, char **at) {
    struct msi_str made = {*at, prefix.n + key.n};
    memcpy(*at, prefix.p, prefix.n);
    if (key.n) memcpy(*at + prefix.n, key.p, key.n);
    *at += made.n;
    return made;
}

/* Copies the requests with prefix before every key into one block; NULL without memory. */
static struct msi_store_rpc *prefixed(const struct msi_store_rpc *x, size_t n, struct msi_str prefix) {
    size_t views = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        views += x[i].req.n;
        bytes += prefix.n + x[i].req.key.n;
        for (size_t k = 0; k < x[i].req.n; k++) bytes += prefix.n + x[i].req.keys[k].n;
    }
    struct msi_store_rpc *y = malloc(n * sizeof *y + views * sizeof(struct msi_str) + bytes);
    if (!y) return NULL;
    struct msi_str *view = (struct msi_str *)(y + n);
    char *at = (char *)(view + views);
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i];
        bool clears = x[i].req.op == MSI_OP_ON_DISCONNECT && x[i].req.key.n == 0;
        if (!clears) y[i].req.key = put_prefixed(prefix, x[i].req.key, &at);
        y[i].req.keys = view;
        for (size_t k = 0; k < x[i].req.n; k++) *view++ = put_prefixed(prefix, x[i].req.keys[k], &at);
    }
    return y;
}

/* Removes the prefix from the keys of a LIST_KEYS reply. */
static mst_status strip_keys(struct msi_buf *reply, const struct msi_store_view *view) {
    struct msi_str prefix = view->prefix;
    struct msi_reader r = msi_reader(reply->data, reply->len);
    uint64_t n = msi_read_u64(&r), kept = 0;
    struct msi_buf out = {0};
    msi_put_u64(&out, 0);
    for (uint64_t i = 0; i < n && !r.bad; i++) {
        struct msi_str key = msi_read_str(&r);
        bool ours = key.n && key.n >= prefix.n && !memcmp(key.p, prefix.p, prefix.n);
        if (ours) key = msi_str(key.p + prefix.n, key.n - prefix.n);
        if (!ours && !view->keep_others) continue;
        msi_put_str(&out, key);
        kept++;
    }
    if (r.bad || out.failed) {
        msi_buf_free(&out);
        return r.bad ? msi_fail(MST_ERR_PROTOCOL, NULL, "the store's list of keys is malformed")
                     : msi_fail_memory();
    }
    for (int i = 0; i < 8; i++) out.data[i] = (uint8_t)(kept >> 8 * i);
    msi_buf_free(reply);
    *reply = out;
    return MST_OK;
}

mst_status msi_store_exec_view(const struct msi_store_view *view, const struct msi_wait *wait,
                               struct msi_store_rpc *x, size_t n) {
    struct msi_store_rpc *y = prefixed(x, n, view->prefix);
    if (!y) return msi_fail_memory();
    mst_status st = view->exec(view->store, wait, y, n);
    for (size_t i = 0; i < n; i++) {
        x[i].reply = y[i].reply;
        x[i].status = y[i].status;
        if (st == MST_OK && x[i].req.op == MSI_OP_LIST_KEYS && x[i].status == MST_OK)
            st = strip_keys(&x[i].reply, view);
    }
    free(y);
    return st;
}

/* A name space inside another store: adds "prefix/" to every key. */
struct prefix_store {
    struct mst_store head;
    struct mst_store *base;
    bool owns_base; /* a clone has a base of its own */
    size_t len;
    char prefix[]; /* with the slash */
};

/* Fails if the program has freed the base. */
static mst_status check_base(const struct prefix_store *store) {
    if (msi_store_is_live(store->base)) return MST_OK;
    return msi_fail(MST_ERR_STATE, "free a store after the stores that were opened on it",
                    "the store under the prefix '%.*s' was freed", (int)store->len - 1, store->prefix);
}

static mst_status exec_prefix(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                              size_t n) {
    struct prefix_store *store = (struct prefix_store *)head;
    mst_status st = check_base(store);
    if (st != MST_OK) return st;
    struct msi_store_view view = {store->base, store->base->ops->exec, msi_str(store->prefix, store->len),
                                  false};
    return msi_store_exec_view(&view, wait, x, n);
}

static mst_status clone_prefix(struct mst_store *head, const struct msi_settings *settings,
                               const struct msi_wait *wait, struct mst_store **copy) {
    struct prefix_store *store = (struct prefix_store *)head;
    mst_status st = check_base(store);
    if (st != MST_OK) return st;
    struct prefix_store *made = malloc(sizeof *made + store->len);
    if (!made) return msi_fail_memory();
    memcpy(made, store, sizeof *made + store->len);
    st = store->base->ops->clone(store->base, settings, wait, &made->base);
    if (st != MST_OK) {
        free(made);
        return st;
    }
    made->owns_base = true;
    add_live(&made->head);
    *copy = &made->head;
    return MST_OK;
}

static void close_prefix(struct mst_store *head) {
    struct prefix_store *store = (struct prefix_store *)head;
    if (store->owns_base) msi_store_free(store->base);
    free(store);
}

static const struct msi_store_ops prefix_ops = {exec_prefix, clone_prefix, close_prefix};

const struct mst_store *msi_store_base(const struct mst_store *store) {
    while (store->ops == &prefix_ops) store = ((const struct prefix_store *)store)->base;
    return store;
}

mst_status msi_store_open_prefix(struct mst_store *base, const char *prefix, struct mst_store **store) {
    size_t len = strlen(prefix);
    if (len + 2 > base->max_key)
        return msi_fail(MST_ERR_LIMIT, "shorten it, or raise MUSTER_STORE_MAX_KEY",
                        "a prefix of %zu bytes leaves no space for keys, which are limited to %zu", len,
                        base->max_key - 1);
    struct prefix_store *made = calloc(1, sizeof *made + len + 1);
    if (!made) return msi_fail_memory();
    made->head = *base;
    made->head.ops = &prefix_ops;
    made->head.max_key = base->max_key - len - 1;
    made->base = base;
    made->len = len + 1;
    memcpy(made->prefix, prefix, len);
    made->prefix[len] = '/';
    add_live(&made->head);
    *store = &made->head;
    return MST_OK;
}

/* COMPARE_SET with a value that no key ever has reads a key without changing it, in every dialect. */
static const char nothing[] = "\001nothing";

struct msi_store_req msi_read_request(struct msi_str key) {
    struct msi_str none = msi_cstr(nothing);
    return (struct msi_store_req){.op = MSI_OP_COMPARE_SET, .key = key, .value = none, .desired = none};
}

struct msi_str msi_store_reply_str(const struct msi_store_rpc *x) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    return msi_read_str(&r);
}

int64_t msi_store_reply_number(const struct msi_store_rpc *x) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    return (int64_t)msi_read_u64(&r);
}

struct msi_str msi_value_or_none(struct msi_str reply) {
    return msi_str_equal(reply, msi_cstr(nothing)) ? msi_str(NULL, 0) : reply;
}

struct msi_str msi_store_reply_value(const struct msi_store_rpc *x) {
    return msi_value_or_none(msi_store_reply_str(x));
}
