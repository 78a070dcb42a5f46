/* torch_model.c - see torch_model.h. */
#include "torch_model.h"
#include "torch_request.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { UPDATED, CREATED, DELETED, WATCHING };
enum { HELLO = 64, KEYS_MOST = 4096 };

struct entry {
    struct msi_buf key, value, queue; /* queue: strings with their lengths */
    bool has_value;
    uint64_t queued;
    int64_t arrived;
};

struct model {
    struct entry entries[KEYS_MOST];
    size_t n;
    struct model_conn conns[MODEL_CONNECTIONS];
    int ready[MODEL_CONNECTIONS], n_ready;
    bool resuming;
    unsigned long clock;
};

struct model *model_new(void) {
    struct model *model = calloc(1, sizeof *model);
    if (!model) abort();
    return model;
}

static void free_conn(struct model_conn *c) {
    msi_buf_free(&c->in);
    msi_buf_free(&c->out);
    msi_buf_free(&c->missing);
    msi_buf_free(&c->watched);
}

void model_free(struct model *model) {
    for (size_t i = 0; i < model->n; i++) {
        msi_buf_free(&model->entries[i].key);
        msi_buf_free(&model->entries[i].value);
        msi_buf_free(&model->entries[i].queue);
    }
    for (int i = 0; i < MODEL_CONNECTIONS; i++) free_conn(&model->conns[i]);
    free(model);
}

struct model_conn *model_conn(struct model *model, int number) {
    return &model->conns[number];
}

static struct entry *entry_of(struct model *model, struct msi_str key) {
    for (size_t i = 0; i < model->n; i++)
        if (msi_str_equal(msi_buf_str(&model->entries[i].key), key)) return &model->entries[i];
    assert(model->n < KEYS_MOST);
    struct entry *e = &model->entries[model->n++];
    msi_buf_add(&e->key, key.p, key.n);
    return e;
}

static bool exists(const struct entry *e) {
    return e->has_value || e->queued;
}

static void end(struct model_conn *c) {
    c->ended = true;
    c->state = RUNS;
}

/* Is the key in a list of strings? removed: without it. */
static bool contains(const struct msi_buf *list, struct msi_str key, struct msi_buf *removed) {
    struct msi_reader r = msi_reader(list->data, list->len);
    bool found = false;
    while (r.left) {
        struct msi_str s = msi_read_str(&r);
        bool same = msi_str_equal(s, key);
        found |= same;
        if (!same && removed) msi_put_str(removed, s);
    }
    return found;
}

/* Does the change of the key end the wait? */
static bool is_met(struct model_conn *c, const struct entry *e) {
    struct msi_buf rest = {0};
    if (c->state == ARRIVES)
        return msi_str_equal(c->barrier, msi_buf_str(&e->key)) && e->arrived >= c->threshold;
    if (c->state != WAITS || !exists(e) || !contains(&c->missing, msi_buf_str(&e->key), &rest)) {
        msi_buf_free(&rest);
        return false;
    }
    msi_buf_free(&c->missing);
    c->missing = rest;
    return rest.len == 0;
}

/* Clients whose wait has ended are ready, in the order in which they began it. */
static void changed(struct model *model, const struct entry *e) {
    for (unsigned long after = 0;;) {
        struct model_conn *next = NULL;
        for (struct model_conn *c = model->conns; c < model->conns + MODEL_CONNECTIONS; c++)
            if (c->since > after && (!next || c->since < next->since)) next = c;
        if (!next) return;
        after = next->since;
        if (!is_met(next, e)) continue;
        next->state = READY;
        model->ready[model->n_ready++] = (int)(next - model->conns);
    }
}

static void notify(struct model *model, int event, const struct entry *e, struct msi_str before) {
    for (struct model_conn *c = model->conns; c < model->conns + MODEL_CONNECTIONS; c++) {
        if (c->ended || !contains(&c->watched, msi_buf_str(&e->key), NULL)) continue;
        msi_buf_add_u8(&c->out, (uint8_t)event);
        msi_put_str(&c->out, msi_buf_str(&e->key));
        msi_put_str(&c->out, before);
        msi_put_str(&c->out, event == DELETED ? msi_cstr("") : msi_buf_str(&e->value));
    }
}

static void put(struct model *model, struct msi_str key, struct msi_str value, bool append) {
    struct entry *e = entry_of(model, key);
    struct msi_buf before = {0};
    msi_buf_add(&before, e->value.data, e->value.len);
    if (!append) e->value.len = 0;
    msi_buf_add(&e->value, value.p, value.n);
    int event = e->has_value ? UPDATED : CREATED;
    e->has_value = true;
    notify(model, event, e, msi_buf_str(&before));
    msi_buf_free(&before);
    changed(model, e);
}

static void delete_key(struct model *model, struct model_conn *c, const struct request *r) {
    struct entry *e = entry_of(model, r->key);
    bool existed = exists(e), had = e->has_value;
    e->has_value = false;
    if (had) notify(model, DELETED, e, msi_buf_str(&e->value));
    e->value.len = e->queue.len = 0;
    e->queued = 0;
    e->arrived = 0;
    msi_put_u64(&c->out, existed);
}

/* The key's number, 0 if it has no value; false: its value is no number. */
static bool number_of(const struct entry *e, int64_t *number) {
    char text[32] = "0", *stop;
    bool digits = e->value.len > 0 && e->value.len < sizeof text;
    *number = 0;
    if (!e->has_value) return true;
    for (size_t i = 0; i < e->value.len && digits; i++)
        digits = (e->value.data[i] >= '0' && e->value.data[i] <= '9') ||
                 (i == 0 && e->value.data[i] == '-' && e->value.len > 1);
    if (!digits) return false;
    memcpy(text, e->value.data, e->value.len);
    text[e->value.len] = 0;
    errno = 0;
    *number = strtoll(text, &stop, 10);
    return errno == 0;
}

static void add(struct model *model, struct model_conn *c, const struct request *r) {
    char text[32];
    int64_t number;
    if (!number_of(entry_of(model, r->key), &number) || __builtin_add_overflow(number, r->number, &number)) {
        end(c);
        return;
    }
    snprintf(text, sizeof text, "%" PRId64, number);
    put(model, r->key, msi_cstr(text), false);
    msi_put_u64(&c->out, (uint64_t)number);
}

static void compare_set(struct model *model, struct model_conn *c, const struct request *r) {
    const struct entry *e = entry_of(model, r->key);
    struct msi_str expected = r->values[0], desired = r->values[1];
    bool set = e->has_value ? msi_str_equal(msi_buf_str(&e->value), expected) : expected.n == 0;
    if (set) {
        put(model, r->key, desired, false);
        msi_put_str(&c->out, desired);
    } else {
        msi_put_str(&c->out, e->has_value ? msi_buf_str(&e->value) : expected);
    }
}

static void get(struct model *model, struct model_conn *c, const struct request *r) {
    const struct msi_str *keys = r->op == GET ? &r->key : r->keys;
    size_t n = r->op == GET ? 1 : r->n;
    size_t start = c->out.len;
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = entry_of(model, keys[i]);
        if (!e->has_value) {
            c->out.len = start;
            end(c);
            return;
        }
        msi_put_str(&c->out, msi_buf_str(&e->value));
    }
}

static void pop(struct model *model, struct model_conn *c, const struct request *r) {
    struct entry *e = entry_of(model, r->key);
    msi_put_u64(&c->out, e->queued);
    if (!e->queued) return;
    struct msi_reader queue = msi_reader(e->queue.data, e->queue.len);
    msi_put_str(&c->out, msi_read_str(&queue));
    msi_buf_drop(&e->queue, e->queue.len - queue.left);
    e->queued--;
}

static uint64_t count_keys(const struct model *model) {
    uint64_t count = 0;
    for (size_t i = 0; i < model->n; i++) count += exists(&model->entries[i]);
    return count;
}

static void list_keys(struct model *model, struct model_conn *c, const struct request *r) {
    (void)r;
    assert(c->n_lists < MODEL_LISTS);
    struct model_span *list = &c->lists[c->n_lists++];
    list->at = c->out.len;
    msi_put_u64(&c->out, count_keys(model));
    for (size_t i = 0; i < model->n; i++)
        if (exists(&model->entries[i])) msi_put_str(&c->out, msi_buf_str(&model->entries[i].key));
    list->len = c->out.len - list->at;
}

/* WAIT, CHECK and BARRIER. */
static void wait(struct model *model, struct model_conn *c, const struct request *r) {
    struct msi_str own = msi_cstr("\001muster/"); /* CHECK of such a key asks for muster's own protocol */
    c->left = r->op == CHECK && r->n == 1 && r->keys[0].n > own.n && !memcmp(r->keys[0].p, own.p, own.n);
    if (c->left) return;
    c->missing.len = 0;
    for (size_t i = 0; i < r->n; i++)
        if (!exists(entry_of(model, r->keys[i]))) msi_put_str(&c->missing, r->keys[i]);
    bool met = c->missing.len == 0;
    if (r->op == BARRIER) {
        struct entry *e = entry_of(model, r->key);
        e->arrived++;
        changed(model, e);
        c->barrier = msi_buf_str(&e->key);
        c->threshold = r->number;
        met = e->arrived >= r->number;
    }
    if (met || r->op == CHECK) {
        msi_buf_add_u8(&c->out, !met);
        return;
    }
    c->state = r->op == WAIT ? WAITS : ARRIVES;
    c->since = ++model->clock;
}

static void validate(struct model *model, struct model_conn *c, const struct request *r) {
    (void)model;
    if (r->number != 0x3C85F7CE) end(c);
}

static void set(struct model *model, struct model_conn *c, const struct request *r) {
    (void)c;
    put(model, r->key, r->values[0], r->op == APPEND);
}

static void multi_set(struct model *model, struct model_conn *c, const struct request *r) {
    (void)c;
    for (size_t i = 0; i < r->n; i++) put(model, r->keys[i], r->items[i], false);
}

static void num_keys(struct model *model, struct model_conn *c, const struct request *r) {
    (void)r;
    msi_put_u64(&c->out, count_keys(model));
}

static void cancelled(struct model *model, struct model_conn *c, const struct request *r) {
    (void)model, (void)r;
    msi_buf_add_u8(&c->out, 1);
}

static void ping(struct model *model, struct model_conn *c, const struct request *r) {
    (void)model;
    msi_put_u32(&c->out, (uint32_t)r->number);
}

static void push(struct model *model, struct model_conn *c, const struct request *r) {
    struct entry *e = entry_of(model, r->key);
    (void)c;
    msi_put_str(&e->queue, r->values[0]);
    e->queued++;
    changed(model, e);
}

static void length(struct model *model, struct model_conn *c, const struct request *r) {
    msi_put_u64(&c->out, entry_of(model, r->key)->queued);
}

static void watch(struct model *model, struct model_conn *c, const struct request *r) {
    (void)model;
    if (!contains(&c->watched, r->key, NULL)) msi_put_str(&c->watched, r->key);
    msi_buf_add_u8(&c->out, WATCHING);
}

static void (*const execute[])(struct model *, struct model_conn *, const struct request *) = {
    [VALIDATE] = validate,
    [SET] = set,
    [COMPARE_SET] = compare_set,
    [GET] = get,
    [ADD] = add,
    [CHECK] = wait,
    [WAIT] = wait,
    [NUM_KEYS] = num_keys,
    [DELETE_KEY] = delete_key,
    [APPEND] = set,
    [MULTI_GET] = get,
    [MULTI_SET] = multi_set,
    [CANCEL_WAIT] = cancelled,
    [PING] = ping,
    [PUSH] = push,
    [POP] = pop,
    [LENGTH] = length,
    [LIST_KEYS] = list_keys,
    [BARRIER] = wait,
    [WATCH_KEY] = watch,
};

static bool know_dialect(struct model_conn *c) {
    static const uint8_t opening[] = {0x00, 0xCE, 0xF7, 0x85, 0x3C};
    size_t n = c->in.len < sizeof opening ? c->in.len : sizeof opening;
    bool same = !memcmp(c->in.data, opening, n);
    if (same && n < sizeof opening) return false;
    c->newer = same;
    return c->known = true;
}

/* A client that waits sends something: the newer dialect may end the wait, the older one does. */
static bool cancel(struct model_conn *c) {
    if (c->newer && c->in.data[0] != CANCEL_WAIT) return false;
    if (c->newer) msi_buf_add_u8(&c->out, 1);
    if (c->newer) msi_buf_drop(&c->in, 1);
    c->state = RUNS;
    return true;
}

static void resume(struct model *model);

static void serve(struct model *model, struct model_conn *c) {
    while (c->in.len && !c->ended && !c->left && c->state != READY) {
        if (c->state != RUNS) {
            if (!cancel(c)) return;
            continue;
        }
        if (!c->known && !know_dialect(c)) return;
        struct request req = {.op = model_find_op(c->newer, c->in.data[0])};
        c->left = c->newer && c->in.data[0] == HELLO;
        if (!c->left && req.op == NONE) end(c);
        if (c->left || c->ended) return;
        struct msi_reader r = msi_reader(c->in.data + 1, c->in.len - 1);
        enum model_parsed got = model_parse(&r, &req);
        if (got == WRONG) end(c);
        if (got != WHOLE) return;
        execute[req.op](model, c, &req);
        msi_buf_drop(&c->in, c->in.len - r.left);
        if (c->state == RUNS) resume(model);
    }
}

/* Answers the clients whose wait has ended, and serves what they sent behind it. */
static void resume(struct model *model) {
    if (model->resuming) return;
    model->resuming = true;
    while (model->n_ready) {
        struct model_conn *c = &model->conns[model->ready[0]];
        memmove(model->ready, model->ready + 1, (size_t)--model->n_ready * sizeof *model->ready);
        msi_buf_add_u8(&c->out, 0);
        c->state = RUNS;
        serve(model, c);
    }
    model->resuming = false;
}

void model_send(struct model *model, int number, const void *p, size_t n) {
    struct model_conn *c = &model->conns[number];
    msi_buf_add(&c->in, p, n);
    serve(model, c);
    resume(model);
}

void model_reopen(struct model *model, int number) {
    free_conn(&model->conns[number]);
    model->conns[number] = (struct model_conn){0};
}
