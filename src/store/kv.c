/* kv.c - the map: items, values, queues and their operations. See kv.h. */
#include "base/error.h"
#include "store/kv_item.h"
#include "wire/cursor.h"

#include <stdlib.h>

enum { NUMBER_MAX = 24 };

struct queued {
    struct msi_list node;
    size_t len;
    char data[];
};

struct msi_kv *msi_kv_new(size_t max_total, size_t max_value) {
    struct msi_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return NULL;
    kv->max_total = max_total;
    kv->max_value = max_value;
    return kv;
}

void msi_kv_set_watch(struct msi_kv *kv, msi_kv_watch *changed, void *context) {
    kv->changed = changed;
    kv->context = context;
}

size_t msi_kv_bytes(const struct msi_kv *kv) {
    return kv->bytes;
}

static bool has_space(const struct msi_kv *kv, size_t more) {
    return more <= kv->max_total && kv->bytes <= kv->max_total - more;
}

static size_t item_cost(size_t key_len) {
    return sizeof(struct msi_kv_item) + sizeof(struct msi_table_entry) + key_len + 16;
}

struct msi_kv_item *msi_kv_item(struct msi_kv *kv, struct msi_str key, bool make) {
    if (kv->recent && msi_str_equal(kv->recent->key, key)) return kv->recent;
    uint32_t number = msi_table_find(&kv->items, key.p, key.n);
    if (number != MSI_TABLE_NONE) return kv->recent = kv->items.entries[number].value;
    if (!make || !has_space(kv, item_cost(key.n))) return NULL;
    struct msi_kv_item *item = calloc(1, sizeof *item);
    number = item ? msi_table_add(&kv->items, key.p, key.n) : MSI_TABLE_NONE;
    if (number == MSI_TABLE_NONE) {
        free(item);
        return NULL;
    }
    kv->items.entries[number].value = item;
    item->next_target = INT64_MAX;
    item->key = msi_str(msi_table_key(&kv->items, number), key.n);
    msi_list_init(&item->queue);
    msi_list_init(&item->links);
    kv->bytes += item_cost(key.n);
    kv->key_bytes += 8 + key.n;
    return kv->recent = item;
}

void msi_kv_item_release(struct msi_kv *kv, struct msi_kv_item *item) {
    if (msi_kv_exists(item) || item->arrived || !msi_list_empty(&item->links)) return;
    if (kv->recent == item) kv->recent = NULL;
    kv->bytes -= item_cost(item->key.n);
    kv->key_bytes -= 8 + item->key.n;
    msi_table_remove(&kv->items, item->key.p, item->key.n);
    free(item);
}

static void drop_first(struct msi_kv *kv, struct msi_kv_item *item) {
    struct queued *first = msi_container(item->queue.next, struct queued, node);
    msi_list_remove(&first->node);
    item->queued--;
    kv->bytes -= sizeof *first + first->len;
    free(first);
}

/* Drops value and queue. */
static void drop_all(struct msi_kv *kv, struct msi_kv_item *item) {
    while (item->queued) drop_first(kv, item);
    kv->bytes -= item->cap;
    free(item->value);
    item->value = NULL;
    item->len = item->cap = 0;
    item->has_value = item->counts = false;
}

void msi_kv_free(struct msi_kv *kv) {
    if (!kv) return;
    for (uint32_t i = 0; i < kv->items.n; i++) {
        struct msi_kv_item *item = kv->items.entries[i].value;
        drop_all(kv, item);
        free(item);
    }
    msi_table_free(&kv->items);
    free(kv);
}

/* The capacity for a value of len bytes: appending grows in steps. */
static size_t fitting(const struct msi_kv_item *item, size_t len) {
    if (item && len <= item->cap && len >= item->cap / 4) return item->cap;
    size_t cap = len < 16 ? 16 : len;
    if (item && item->len && len > item->len) cap += cap / 2;
    return cap;
}

/* Resizes the value to len bytes and keeps its first bytes; false at the limit. */
static bool fit_value(struct msi_kv *kv, struct msi_kv_item *item, size_t len) {
    size_t cap = fitting(item, len);
    if (len > kv->max_value) return false;
    if (cap == item->cap) return true;
    if (cap > item->cap && !has_space(kv, cap - item->cap)) return false;
    char *value = realloc(item->value, cap);
    if (!value) return false;
    kv->bytes += cap - item->cap; /* unsigned arithmetic: also when it shrinks */
    item->value = value;
    item->cap = cap;
    return true;
}

static mst_status full(struct msi_kv *kv, struct msi_kv_item *item) {
    if (item) msi_kv_item_release(kv, item);
    return MST_ERR_LIMIT;
}

/* Sets the item's value, or appends to it, and notifies waiters and watchers. */
static mst_status put_item(struct msi_kv *kv, struct msi_kv_item *item, struct msi_str value, bool append) {
    struct msi_buf old = {0};
    bool had = item->has_value, existed = msi_kv_exists(item);
    if (kv->changed) msi_buf_add(&old, item->value, item->len);
    size_t keep = append ? item->len : 0;
    if (!fit_value(kv, item, keep + value.n)) {
        msi_buf_free(&old);
        return full(kv, item);
    }
    if (value.n && item->value) memcpy(item->value + keep, value.p, value.n);
    item->len = keep + value.n;
    item->has_value = true;
    item->counts = false;
    if (!existed) kv->n_keys++;
    if (kv->changed)
        kv->changed(kv->context, had ? MSI_KV_UPDATED : MSI_KV_CREATED, item->key, msi_buf_str(&old),
                    msi_str(item->value, item->len));
    msi_buf_free(&old);
    msi_kv_item_changed(kv, item);
    return MST_OK;
}

static mst_status put(struct msi_kv *kv, struct msi_str key, struct msi_str value, bool append) {
    struct msi_kv_item *item = msi_kv_item(kv, key, true);
    return item ? put_item(kv, item, value, append) : MST_ERR_LIMIT;
}

/* Writes decimal digits to the end of text; returns their start. */
static const char *format_number(char text[static NUMBER_MAX], int64_t number) {
    char *at = text + NUMBER_MAX;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) *--at = '-';
    return at;
}

/* Decimal digits with an optional minus, nothing else. */
static bool parse_number(struct msi_str text, int64_t *number) {
    bool minus = text.n && text.p[0] == '-';
    int64_t value = 0;
    if (text.n <= (size_t)minus) return false;
    for (size_t i = minus; i < text.n; i++) {
        int digit = text.p[i] - '0';
        if (digit < 0 || digit > 9) return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, minus ? -digit : digit, &value)) return false;
    }
    *number = value;
    return true;
}

static mst_status add(struct msi_kv *kv, const struct msi_store_req *req, struct msi_buf *reply) {
    struct msi_kv_item *item = msi_kv_item(kv, req->key, true);
    int64_t number = 0;
    if (!item) return MST_ERR_LIMIT;
    if (item->counts)
        number = item->count;
    else if (item->has_value && !parse_number(msi_str(item->value, item->len), &number))
        return MST_ERR_STATE;
    if (__builtin_add_overflow(number, req->number, &number)) return MST_ERR_STATE;
    char text[NUMBER_MAX];
    const char *digits = format_number(text, number);
    mst_status st = put_item(kv, item, msi_str(digits, (size_t)(text + NUMBER_MAX - digits)), false);
    if (st != MST_OK) return st;
    item->counts = true;
    item->count = number;
    msi_put_u64(reply, (uint64_t)number);
    return MST_OK;
}

static mst_status compare_set(struct msi_kv *kv, const struct msi_store_req *req, struct msi_buf *reply) {
    struct msi_str now;
    bool found = msi_kv_get(kv, req->key, &now);
    if (found ? msi_str_equal(now, req->value) : req->value.n == 0) {
        mst_status st = put(kv, req->key, req->desired, false);
        if (st == MST_OK) msi_put_str(reply, req->desired);
        return st;
    }
    msi_put_str(reply, found ? now : req->value);
    return MST_OK;
}

static mst_status push(struct msi_kv *kv, const struct msi_store_req *req) {
    struct msi_kv_item *item = msi_kv_item(kv, req->key, true);
    if (!item) return MST_ERR_LIMIT;
    struct queued *entry = NULL;
    if (has_space(kv, sizeof *entry + req->value.n)) entry = malloc(sizeof *entry + req->value.n);
    if (!entry) return full(kv, item);
    entry->len = req->value.n;
    if (entry->len) memcpy(entry->data, req->value.p, entry->len);
    if (!msi_kv_exists(item)) kv->n_keys++;
    msi_list_push(&item->queue, &entry->node);
    item->queued++;
    kv->bytes += sizeof *entry + entry->len;
    msi_kv_item_changed(kv, item);
    return MST_OK;
}

static void pop(struct msi_kv *kv, struct msi_str key, struct msi_buf *reply) {
    struct msi_kv_item *item = msi_kv_item(kv, key, false);
    msi_put_u64(reply, item ? (uint64_t)item->queued : 0);
    if (!item || item->queued == 0) return;
    const struct queued *first = msi_container(item->queue.next, struct queued, node);
    msi_put_str(reply, msi_str(first->data, first->len));
    drop_first(kv, item);
    if (!msi_kv_exists(item)) kv->n_keys--;
    msi_kv_item_release(kv, item);
}

static bool delete_key(struct msi_kv *kv, struct msi_str key) {
    struct msi_kv_item *item = msi_kv_item(kv, key, false);
    if (!item) return false;
    bool existed = msi_kv_exists(item);
    if (item->has_value && kv->changed)
        kv->changed(kv->context, MSI_KV_DELETED, key, msi_str(item->value, item->len), msi_str("", 0));
    drop_all(kv, item);
    item->arrived = 0;
    if (existed) kv->n_keys--;
    msi_kv_item_release(kv, item);
    return existed;
}

bool msi_kv_get(const struct msi_kv *kv, struct msi_str key, struct msi_str *value) {
    const struct msi_kv_item *item = msi_kv_item((struct msi_kv *)(uintptr_t)kv, key, false);
    if (!item || !item->has_value) return false;
    *value = msi_str(item->value, item->len);
    return true;
}

static mst_status get_values(struct msi_kv *kv, const struct msi_str *keys, size_t n, struct msi_buf *reply) {
    size_t start = reply->len;
    for (size_t i = 0; i < n; i++) {
        struct msi_str value;
        if (!msi_kv_get(kv, keys[i], &value)) {
            reply->len = start;
            return MST_ERR_NOT_FOUND;
        }
        msi_put_str(reply, value);
    }
    return MST_OK;
}

static bool all_exist(struct msi_kv *kv, const struct msi_store_req *req) {
    for (size_t i = 0; i < req->n; i++) {
        const struct msi_kv_item *item = msi_kv_item(kv, req->keys[i], false);
        if (!item || !msi_kv_exists(item)) return false;
    }
    return true;
}

static void list_keys(struct msi_kv *kv, struct msi_buf *reply) {
    msi_put_u64(reply, (uint64_t)kv->n_keys);
    for (uint32_t i = 0; i < kv->items.n; i++) {
        const struct msi_kv_item *item = kv->items.entries[i].value;
        if (msi_kv_exists(item)) msi_put_str(reply, item->key);
    }
}

static void write_item(const struct msi_kv_item *item, struct msi_buf *out) {
    struct msi_store_req req = {.op = MSI_OP_SET, .key = item->key, .value = msi_str(item->value, item->len)};
    if (item->has_value) msi_store_encode(out, MSI_DIALECT_M, &req);
    req.op = MSI_OP_QUEUE_PUSH;
    for (const struct msi_list *at = item->queue.next; at != &item->queue; at = at->next) {
        const struct queued *entry = msi_container(at, const struct queued, node);
        req.value = msi_str(entry->data, entry->len);
        msi_store_encode(out, MSI_DIALECT_M, &req);
    }
    req.op = MSI_OP_BARRIER; /* with the number 0: counts and does not wait */
    for (int64_t i = 0; i < item->arrived; i++) msi_store_encode(out, MSI_DIALECT_M, &req);
}

void msi_kv_write_state(const struct msi_kv *kv, struct msi_buf *out) {
    for (uint32_t i = 0; i < kv->items.n; i++) write_item(kv->items.entries[i].value, out);
}

/* All or nothing: checks the space for all values first. */
static mst_status multi_set(struct msi_kv *kv, const struct msi_store_req *req) {
    mst_status st = MST_OK;
    size_t more = 0;
    for (size_t i = 0; i < req->n; i++) {
        const struct msi_kv_item *item = msi_kv_item(kv, req->keys[i], false);
        size_t cap = fitting(item, req->values[i].n), has = item ? item->cap : 0;
        if (!item) more += item_cost(req->keys[i].n);
        if (cap > has) more += cap - has;
        if (req->values[i].n > kv->max_value) return MST_ERR_LIMIT;
    }
    if (!has_space(kv, more)) return MST_ERR_LIMIT;
    for (size_t i = 0; i < req->n && st == MST_OK; i++) st = put(kv, req->keys[i], req->values[i], false);
    return st;
}

size_t msi_kv_reply_size(struct msi_kv *kv, const struct msi_store_req *req) {
    size_t total = 0;
    if (req->op == MSI_OP_LIST_KEYS) return 8 + kv->key_bytes;
    bool one = req->op == MSI_OP_GET, several = req->op == MSI_OP_MULTI_GET || req->op == MSI_OP_WAIT_GET;
    for (size_t i = 0; i < (one ? 1 : several ? req->n : 0); i++) {
        const struct msi_kv_item *item = msi_kv_item(kv, one ? req->key : req->keys[i], false);
        total += 8 + (item ? item->len : 0);
    }
    return total;
}

mst_status msi_kv_apply(struct msi_kv *kv, const struct msi_store_req *req, struct msi_buf *reply) {
    const struct msi_kv_item *item;
    switch (req->op) {
    case MSI_OP_SET:
        return put(kv, req->key, req->value, false);
    case MSI_OP_APPEND:
        return put(kv, req->key, req->value, true);
    case MSI_OP_MULTI_SET:
        return multi_set(kv, req);
    case MSI_OP_COMPARE_SET:
        return compare_set(kv, req, reply);
    case MSI_OP_ADD:
        return add(kv, req, reply);
    case MSI_OP_GET:
        return get_values(kv, &req->key, 1, reply);
    case MSI_OP_MULTI_GET:
    case MSI_OP_WAIT_GET:
        return get_values(kv, req->keys, req->n, reply);
    case MSI_OP_QUEUE_PUSH:
        return push(kv, req);
    case MSI_OP_CHECK:
        msi_buf_add_u8(reply, !all_exist(kv, req));
        return MST_OK;
    case MSI_OP_WAIT:
    case MSI_OP_BARRIER:
        msi_buf_add_u8(reply, 0);
        return MST_OK;
    case MSI_OP_NUM_KEYS:
        msi_put_u64(reply, (uint64_t)kv->n_keys);
        return MST_OK;
    case MSI_OP_DELETE_KEY:
        msi_put_u64(reply, delete_key(kv, req->key));
        return MST_OK;
    case MSI_OP_QUEUE_POP:
        pop(kv, req->key, reply);
        return MST_OK;
    case MSI_OP_QUEUE_LEN:
        item = msi_kv_item(kv, req->key, false);
        msi_put_u64(reply, item ? (uint64_t)item->queued : 0);
        return MST_OK;
    case MSI_OP_LIST_KEYS:
        list_keys(kv, reply);
        return MST_OK;
    default:
        return MST_ERR_UNSUPPORTED;
    }
}
