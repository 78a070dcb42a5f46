/* store.c - the public calls on stores: check the arguments, run a request, unpack the reply. */
#include "store/store.h"
#include "base/error.h"
#include "base/options.h"
#include "wire/cursor.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

enum { DEFAULT_TIMEOUT_MS = 300000 };

void mst_bytes_free(mst_bytes *bytes) {
    if (!bytes) return;
    free(bytes->data);
    *bytes = (mst_bytes){NULL, 0};
}

void mst_store_free_keys(char **keys) {
    free(keys);
}

static mst_status check_store(const mst_store *store) {
    if (!store) return msi_fail(MST_ERR_INVALID, "open one with mst_store_open", "store is NULL");
    if (msi_store_is_live(store)) return MST_OK;
    return msi_fail(MST_ERR_STATE, "use a store between mst_store_open and mst_store_free",
                    "the store does not exist: it was freed, or the handle is invalid");
}

static int get_timeout(const mst_store *store) {
    return atomic_load_explicit(&store->timeout_ms, memory_order_relaxed);
}

static void set_timeout(mst_store *store, int timeout_ms) {
    atomic_store_explicit(&store->timeout_ms, timeout_ms, memory_order_relaxed);
}

/* Does the call not wait for keys? It still waits for the answer of the store. */
static bool is_now(const mst_store_call *call) {
    return call && call->size > offsetof(mst_store_call, timeout_ms) && call->timeout_ms == MST_NOW;
}

/* Begins a call. */
static mst_status begin(const char *name, const mst_store *store, const mst_store_call *given,
                        struct msi_wait *wait) {
    mst_store_call call;
    mst_status st = msi_options_begin(name, &call, sizeof call, given);
    if (st == MST_OK) st = check_store(store);
    if (st == MST_OK) st = msi_check_wait_timeout(call.timeout_ms);
    if (st == MST_OK)
        *wait = (struct msi_wait){msi_deadline(call.timeout_ms > 0 ? call.timeout_ms : get_timeout(store)),
                                  call.cancel};
    return st;
}

mst_status mst_store_open_with(const char *url, mst_store **store, const mst_store_options *given) {
    mst_store_options options;
    struct msi_settings settings;
    struct msi_url parsed;
    mst_status st = msi_options_begin("mst_store_open", &options, sizeof options, given);
    if (st == MST_OK && (!url || !store))
        st = msi_fail(MST_ERR_INVALID, NULL, "%s is NULL", url ? "store" : "url");
    if (st == MST_OK) st = msi_check_timeout(options.timeout_ms);
    if (st == MST_OK) st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = msi_url_parse(url, &parsed);
    if (st != MST_OK) return st;
    if (options.open) settings.store_open = 1;
    if (options.tls) settings.tls = 1;
    int timeout_ms = options.timeout_ms ? options.timeout_ms : DEFAULT_TIMEOUT_MS;
    struct msi_wait wait = {msi_deadline(timeout_ms), options.cancel};
    mst_store *made;
    st = msi_store_open(&parsed, &settings, &wait, &options, &made);
    if (st != MST_OK) return st;
    set_timeout(made, timeout_ms);
    *store = made;
    return MST_OK;
}

mst_status mst_store_open_prefix(mst_store *base, const char *prefix, mst_store **store) {
    msi_call_begin("mst_store_open_prefix", NULL, msi_call_get_rank());
    if (!base || !prefix || !store) return msi_fail(MST_ERR_INVALID, NULL, "base, prefix or store is NULL");
    mst_status st = check_store(base);
    return st == MST_OK ? msi_store_open_prefix(base, prefix, store) : st;
}

static mst_status check_ops(const mst_store_ops *ops) {
    if (!ops) return msi_fail(MST_ERR_INVALID, NULL, "ops is NULL");
    if (ops->size < offsetof(mst_store_ops, multi_get))
        return msi_fail(MST_ERR_INVALID, "set .size = sizeof(mst_store_ops)",
                        "ops->size is %zu, fewer bytes than the required operations have", ops->size);
    const char *missing = !ops->set           ? "set"
                          : !ops->get         ? "get"
                          : !ops->add         ? "add"
                          : !ops->compare_set ? "compare_set"
                          : !ops->wait        ? "wait"
                          : !ops->check       ? "check"
                          : !ops->delete_key  ? "delete_key"
                                              : NULL;
    return missing ? msi_fail(MST_ERR_INVALID, NULL,
                              "ops->%s is NULL; only multi_get, append and free may be", missing)
                   : MST_OK;
}

mst_status mst_store_open_custom(const mst_store_ops *ops, void *context, mst_store **store) {
    struct msi_settings settings;
    msi_call_begin("mst_store_open_custom", NULL, msi_call_get_rank());
    mst_status st = check_ops(ops);
    if (st == MST_OK && !store) st = msi_fail(MST_ERR_INVALID, NULL, "store is NULL");
    if (st == MST_OK) st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = msi_store_open_custom(ops, context, &settings, store);
    if (st == MST_OK) set_timeout(*store, DEFAULT_TIMEOUT_MS);
    return st;
}

mst_status mst_store_clone_with(mst_store *store, mst_store **copy, const mst_store_call *call) {
    struct msi_wait wait;
    struct msi_settings settings;
    mst_store *made;
    mst_status st = begin("mst_store_clone", store, call, &wait);
    if (st == MST_OK && !copy) st = msi_fail(MST_ERR_INVALID, NULL, "copy is NULL");
    if (st == MST_OK) st = msi_settings_load(&settings, NULL);
    if (st == MST_OK) st = store->ops->clone(store, &settings, &wait, &made);
    if (st != MST_OK) return st;
    set_timeout(made, get_timeout(store));
    *copy = made;
    return MST_OK;
}

mst_status mst_store_set_timeout(mst_store *store, int timeout_ms) {
    msi_call_begin("mst_store_set_timeout", NULL, msi_call_get_rank());
    mst_status st = check_store(store);
    if (st == MST_OK) st = msi_check_timeout(timeout_ms);
    if (st == MST_OK) set_timeout(store, timeout_ms ? timeout_ms : DEFAULT_TIMEOUT_MS);
    return st;
}

void mst_store_free(mst_store *store) {
    if (msi_store_is_live(store)) msi_store_free(store);
}

int mst_store_port(const mst_store *store) {
    return msi_store_is_live(store) ? store->port : 0;
}

static mst_status check_key(const mst_store *store, const char *key) {
    if (!key) return msi_fail(MST_ERR_INVALID, NULL, "key is NULL");
    size_t len = strlen(key);
    if (len >= store->max_key)
        return msi_fail(MST_ERR_LIMIT,
                        "shorten it, or raise MUSTER_STORE_MAX_KEY here and where the store is hosted",
                        "the key '%.40s…' has %zu bytes, the limit is %zu", key, len, store->max_key - 1);
    return MST_OK;
}

static mst_status check_value(const mst_store *store, const void *value, size_t len) {
    if (!value && len) return msi_fail(MST_ERR_INVALID, NULL, "value is NULL but has a length of %zu", len);
    if (len > store->max_value)
        return msi_fail(MST_ERR_LIMIT, "raise MUSTER_STORE_MAX_VALUE here and where the store is hosted",
                        "the value has %zu bytes, the limit is %zu", len, store->max_value);
    return MST_OK;
}

static mst_status copy_out(struct msi_str from, mst_bytes *to) {
    char *data = malloc(from.n + 1);
    if (!data) return msi_fail_memory();
    if (from.n) memcpy(data, from.p, from.n);
    data[from.n] = 0;
    *to = (mst_bytes){data, from.n};
    return MST_OK;
}

/* Runs one request whose reply is a number or nothing. */
static mst_status run_number(mst_store *store, const struct msi_wait *wait, struct msi_store_req req,
                             int64_t *number) {
    struct msi_store_rpc x = {.req = req};
    mst_status st = msi_store_exec(store, wait, &x, 1);
    if (st == MST_OK && number) {
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        *number = (int64_t)msi_read_uint(&r, x.reply.len > 8 ? 8 : x.reply.len);
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

/* With MST_NOW: fails if a key does not exist. */
static mst_status check_present(mst_store *store, const mst_store_call *call, const struct msi_wait *wait,
                                const struct msi_str *keys, size_t n) {
    if (!is_now(call)) return MST_OK;
    int64_t missing;
    mst_status st =
        run_number(store, wait, (struct msi_store_req){.op = MSI_OP_CHECK, .n = n, .keys = keys}, &missing);
    if (st != MST_OK || missing == 0) return st;
    return msi_fail(MST_ERR_TIMEOUT, "wait with a longer .timeout_ms", "the key '%.40s'%s does not exist yet",
                    keys[0].p, n == 1 ? "" : ", or one of the others,");
}

/* Runs one request whose reply is n values, after skip bytes. */
static mst_status run_values(mst_store *store, const struct msi_wait *wait, struct msi_store_req req,
                             size_t skip, mst_bytes *values, size_t n) {
    struct msi_store_rpc x = {.req = req};
    mst_status st = msi_store_exec(store, wait, &x, 1);
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    msi_read_bytes(&r, skip);
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        struct msi_str value = msi_read_str(&r);
        st = r.bad ? msi_fail(MST_ERR_PROTOCOL, NULL, "the store's reply is truncated")
                   : copy_out(value, &values[i]);
        if (st != MST_OK)
            while (i--) mst_bytes_free(&values[i]);
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

/* A call on one key whose reply is a number or nothing. */
static mst_status call_key(const char *name, mst_store *store, const char *key, struct msi_store_req req,
                           int64_t *number, const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin(name, store, call, &wait);
    if (st == MST_OK) st = check_key(store, key);
    if (st == MST_OK) st = check_value(store, req.value.p, req.value.n);
    if (st != MST_OK) return st;
    req.key = msi_cstr(key);
    return run_number(store, &wait, req, number);
}

mst_status mst_store_set_with(mst_store *store, const char *key, const void *value, size_t len,
                              const mst_store_call *call) {
    struct msi_store_req req = {.op = MSI_OP_SET, .value = msi_str(value, len)};
    return call_key("mst_store_set", store, key, req, NULL, call);
}

mst_status mst_store_append_with(mst_store *store, const char *key, const void *value, size_t len,
                                 const mst_store_call *call) {
    struct msi_store_req req = {.op = MSI_OP_APPEND, .value = msi_str(value, len)};
    return call_key("mst_store_append", store, key, req, NULL, call);
}

mst_status mst_store_queue_push_with(mst_store *store, const char *key, const void *value, size_t len,
                                     const mst_store_call *call) {
    struct msi_store_req req = {.op = MSI_OP_QUEUE_PUSH, .value = msi_str(value, len)};
    return call_key("mst_store_queue_push", store, key, req, NULL, call);
}

mst_status mst_store_add_with(mst_store *store, const char *key, int64_t delta, int64_t *result,
                              const mst_store_call *call) {
    struct msi_store_req req = {.op = MSI_OP_ADD, .number = delta};
    return call_key("mst_store_add", store, key, req, result, call);
}

mst_status mst_store_delete_key_with(mst_store *store, const char *key, bool *deleted,
                                     const mst_store_call *call) {
    int64_t number;
    struct msi_store_req req = {.op = MSI_OP_DELETE_KEY};
    mst_status st = call_key("mst_store_delete_key", store, key, req, &number, call);
    if (st == MST_OK && deleted) *deleted = number > 0;
    return st;
}

mst_status mst_store_queue_len_with(mst_store *store, const char *key, int64_t *length,
                                    const mst_store_call *call) {
    struct msi_store_req req = {.op = MSI_OP_QUEUE_LEN};
    return call_key("mst_store_queue_len", store, key, req, length, call);
}

mst_status mst_store_get_with(mst_store *store, const char *key, mst_bytes *value,
                              const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin("mst_store_get", store, call, &wait);
    if (st == MST_OK) st = check_key(store, key);
    if (st == MST_OK && !value) st = msi_fail(MST_ERR_INVALID, NULL, "value is NULL");
    if (st != MST_OK) return st;
    struct msi_str name = msi_cstr(key);
    st = check_present(store, call, &wait, &name, 1);
    if (st != MST_OK) return st;
    return run_values(store, &wait, (struct msi_store_req){.op = MSI_OP_WAIT_GET, .n = 1, .keys = &name}, 0,
                      value, 1);
}

mst_status mst_store_compare_set_with(mst_store *store, const char *key, const void *expected,
                                      size_t expected_len, const void *desired, size_t desired_len,
                                      mst_bytes *value, const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin("mst_store_compare_set", store, call, &wait);
    if (st == MST_OK) st = check_key(store, key);
    if (st == MST_OK) st = check_value(store, expected, expected_len);
    if (st == MST_OK) st = check_value(store, desired, desired_len);
    if (st != MST_OK) return st;
    struct msi_store_req req = {.op = MSI_OP_COMPARE_SET,
                                .key = msi_cstr(key),
                                .value = msi_str(expected, expected_len),
                                .desired = msi_str(desired, desired_len)};
    mst_bytes unwanted = {NULL, 0};
    st = run_values(store, &wait, req, 0, value ? value : &unwanted, 1);
    mst_bytes_free(&unwanted);
    return st;
}

/* The keys of a list call as views; the caller frees them. */
static mst_status check_keys(const mst_store *store, const char *const *keys, size_t n,
                             struct msi_str **views) {
    if (!keys && n) return msi_fail(MST_ERR_INVALID, NULL, "keys is NULL");
    if (n > store->max_items)
        return msi_fail(MST_ERR_LIMIT, "use several calls", "%zu keys in one call; the limit is %zu", n,
                        store->max_items);
    struct msi_str *made = malloc((n + 1) * sizeof *made);
    if (!made) return msi_fail_memory();
    for (size_t i = 0; i < n; i++) {
        mst_status st = check_key(store, keys[i]);
        if (st != MST_OK) {
            free(made);
            return st;
        }
        made[i] = msi_cstr(keys[i]);
    }
    *views = made;
    return MST_OK;
}

/* A call on req.n keys whose reply is a number or nothing. */
static mst_status call_keys(const char *name, mst_store *store, const char *const *keys,
                            struct msi_store_req req, int64_t *number, const mst_store_call *call) {
    struct msi_wait wait;
    struct msi_str *views;
    mst_status st = begin(name, store, call, &wait);
    if (st == MST_OK) st = check_keys(store, keys, req.n, &views);
    if (st != MST_OK) return st;
    req.keys = views;
    if (req.op == MSI_OP_WAIT) st = check_present(store, call, &wait, views, req.n);
    if (st == MST_OK) st = run_number(store, &wait, req, number);
    free(views);
    return st;
}

mst_status mst_store_wait_with(mst_store *store, const char *const *keys, size_t n,
                               const mst_store_call *call) {
    struct msi_store_req req = {.op = MSI_OP_WAIT, .n = n};
    return call_keys("mst_store_wait", store, keys, req, NULL, call);
}

mst_status mst_store_check_with(mst_store *store, const char *const *keys, size_t n, bool *ready,
                                const mst_store_call *call) {
    int64_t missing;
    struct msi_store_req req = {.op = MSI_OP_CHECK, .n = n};
    mst_status st = call_keys("mst_store_check", store, keys, req, &missing, call);
    if (st == MST_OK && ready) *ready = missing == 0;
    return st;
}

mst_status mst_store_num_keys_with(mst_store *store, int64_t *count, const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin("mst_store_num_keys", store, call, &wait);
    return st == MST_OK ? run_number(store, &wait, (struct msi_store_req){.op = MSI_OP_NUM_KEYS}, count) : st;
}

mst_status mst_store_multi_get_with(mst_store *store, const char *const *keys, size_t n, mst_bytes *values,
                                    const mst_store_call *call) {
    struct msi_wait wait;
    struct msi_str *views;
    mst_status st = begin("mst_store_multi_get", store, call, &wait);
    if (st == MST_OK && !values && n) st = msi_fail(MST_ERR_INVALID, NULL, "values is NULL");
    if (st == MST_OK) st = check_keys(store, keys, n, &views);
    if (st != MST_OK) return st;
    st = check_present(store, call, &wait, views, n);
    if (st == MST_OK)
        st = run_values(store, &wait, (struct msi_store_req){.op = MSI_OP_WAIT_GET, .n = n, .keys = views}, 0,
                        values, n);
    free(views);
    return st;
}

mst_status mst_store_multi_set_with(mst_store *store, const char *const *keys, const mst_bytes *values,
                                    size_t n, const mst_store_call *call) {
    struct msi_wait wait;
    struct msi_str *views;
    mst_status st = begin("mst_store_multi_set", store, call, &wait);
    if (st == MST_OK && !values && n) st = msi_fail(MST_ERR_INVALID, NULL, "values is NULL");
    size_t total = 0;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        st = check_value(store, values[i].data, values[i].len);
        if (st == MST_OK && keys && keys[i]) total += values[i].len + strlen(keys[i]) + 32;
        if (total > store->max_message)
            st = msi_fail(
                MST_ERR_LIMIT,
                "use several calls, or raise MUSTER_STORE_MAX_VALUE here and where the store is hosted",
                "more than %zu bytes in one call", store->max_message);
    }
    if (st == MST_OK) st = check_keys(store, keys, n, &views);
    if (st != MST_OK) return st;
    struct msi_str *given = malloc((n + 1) * sizeof *given);
    for (size_t i = 0; given && i < n; i++) given[i] = msi_str(values[i].data, values[i].len);
    struct msi_store_req req = {.op = MSI_OP_MULTI_SET, .n = n, .keys = views, .values = given};
    st = given ? run_number(store, &wait, req, NULL) : msi_fail_memory();
    free(given);
    free(views);
    return st;
}

/* Several clients may wait for one entry: a client that finds the queue empty waits again. If the key
 * holds a value instead of a queue, WAIT returns at once; the pause checks the deadline. */
mst_status mst_store_queue_pop_with(mst_store *store, const char *key, mst_bytes *value,
                                    const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin("mst_store_queue_pop", store, call, &wait);
    if (st == MST_OK) st = check_key(store, key);
    if (st == MST_OK && !value) st = msi_fail(MST_ERR_INVALID, NULL, "value is NULL");
    for (bool popped = false, waited = false; st == MST_OK; waited = true) {
        struct msi_store_rpc x = {.req = {.op = MSI_OP_QUEUE_POP, .key = msi_cstr(key)}};
        st = msi_store_exec(store, &wait, &x, 1);
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        popped = st == MST_OK && (int64_t)msi_read_u64(&r) > 0;
        if (popped) st = copy_out(msi_read_str(&r), value);
        msi_store_rpc_free(&x, 1);
        if (popped || st != MST_OK) break;
        if (is_now(call)) st = msi_fail(MST_ERR_TIMEOUT, NULL, "the queue '%.40s' is empty", key);
        /* Another client was faster, or the key is not a queue. */
        if (st == MST_OK && waited) st = msi_wait_pause(&wait, 1, "waiting for the queue");
        struct msi_store_req exists = {.op = MSI_OP_WAIT, .n = 1, .keys = &x.req.key};
        if (st == MST_OK) st = run_number(store, &wait, exists, NULL);
    }
    return st;
}

/* Copies a list of keys into one block: pointers first, then the strings. */
static mst_status copy_keys(const struct msi_buf *reply, char ***keys, size_t *count) {
    struct msi_reader r = msi_reader(reply->data, reply->len);
    size_t n = (size_t)msi_read_u64(&r);
    if (n > reply->len / 8) return msi_fail(MST_ERR_PROTOCOL, NULL, "the store's list of keys is malformed");
    char **made = malloc((n + 1) * sizeof *made + reply->len);
    if (!made) return msi_fail_memory();
    char *at = (char *)(made + n + 1);
    for (size_t i = 0; i < n; i++) {
        struct msi_str key = msi_read_str(&r);
        made[i] = at;
        if (key.n) memcpy(at, key.p, key.n);
        at[key.n] = 0;
        at += key.n + 1;
    }
    made[n] = NULL;
    *keys = made;
    *count = n;
    return MST_OK;
}

mst_status mst_store_list_keys_with(mst_store *store, char ***keys, size_t *n, const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin("mst_store_list_keys", store, call, &wait);
    if (st == MST_OK && (!keys || !n)) st = msi_fail(MST_ERR_INVALID, NULL, "keys or n is NULL");
    if (st != MST_OK) return st;
    struct msi_store_rpc x = {.req = {.op = MSI_OP_LIST_KEYS}};
    st = msi_store_exec(store, &wait, &x, 1);
    if (st == MST_OK) st = copy_keys(&x.reply, keys, n);
    msi_store_rpc_free(&x, 1);
    return st;
}

mst_status mst_store_barrier_with(mst_store *store, const char *key, int64_t world_size,
                                  const mst_store_call *call) {
    struct msi_wait wait;
    mst_status st = begin("mst_store_barrier", store, call, &wait);
    if (st == MST_OK) st = check_key(store, key);
    if (st == MST_OK && world_size < 1)
        st = msi_fail(MST_ERR_INVALID, NULL, "world_size is %lld", (long long)world_size);
    if (st != MST_OK) return st;
    return run_number(
        store, &wait,
        (struct msi_store_req){.op = MSI_OP_BARRIER, .key = msi_cstr(key), .number = world_size}, NULL);
}
