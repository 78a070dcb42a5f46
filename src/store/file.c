/*
 * file.c - the file store: every process keeps the map that the file's records amount to and reads on before
 * each call; what changes the map is written behind. Those who wait look again and again, with growing
 * pauses.
 */
#include "base/error.h"
#include "base/log.h"
#include "store/file_log.h"
#include "store/kv.h"
#include "store/store.h"
#include "wire/cursor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FIRST_PAUSE_MS = 1,
    LONGEST_PAUSE_MS = 20,
    LOOK_FOR_DEAD_MS = 100,
    LOCK_PATIENCE_MS = 3000,
    LAST_LOOK_MS = 20
};

struct file_store {
    struct mst_store head;
    pthread_mutex_t lock; /* of all below, and around the file's own lock */
    struct msi_file_log log;
    struct msi_kv *kv, *wills; /* wills: by slot, as text */
    int64_t looked_for_dead;
    bool broken; /* the map and the file have come apart: a write failed */
};

struct sleeper {
    struct msi_kv_waiter waiter;
    bool over;
};

static void wake(struct msi_kv_waiter *waiter, mst_status status) {
    (void)status;
    msi_container(waiter, struct sleeper, waiter)->over = true;
}

static void apply(struct msi_kv *kv, const struct msi_store_req *req) {
    struct msi_buf reply = {0};
    msi_kv_apply(kv, req, &reply);
    msi_buf_free(&reply);
}

/* A barrier that asks for no arrivals counts its caller and never waits. */
static void arrive(struct msi_kv *kv, struct msi_str key) {
    struct msi_store_req req = {.op = MSI_OP_BARRIER, .key = key};
    struct msi_kv_waiter nobody = {0};
    bool waiting;
    msi_kv_wait_begin(kv, &req, NULL, &nobody, &waiting);
}

static void take_record(void *context, const struct msi_file_record *record) {
    struct file_store *store = context;
    struct msi_store_req req = {.key = record->key, .value = record->value};
    switch (record->event) {
    case MSI_FILE_SET:
        req.op = MSI_OP_SET;
        break;
    case MSI_FILE_DELETE:
        req.op = MSI_OP_DELETE_KEY;
        break;
    case MSI_FILE_APPEND:
        req.op = MSI_OP_APPEND;
        break;
    case MSI_FILE_PUSH:
        req.op = MSI_OP_QUEUE_PUSH;
        break;
    case MSI_FILE_POP:
        req.op = MSI_OP_QUEUE_POP;
        break;
    case MSI_FILE_ARRIVE:
        arrive(store->kv, record->key);
        return;
    case MSI_FILE_WILL:
        req.op = record->value.n ? MSI_OP_SET : MSI_OP_DELETE_KEY;
        apply(store->wills, &req);
        return;
    default:
        return;
    }
    apply(store->kv, &req);
}

/* Writes a record and takes it into the map at once. */
static void record(struct file_store *store, enum msi_file_event event, struct msi_str key,
                   struct msi_str value) {
    struct msi_file_record made = {event, key, value};
    msi_file_record_write(&store->log.pending, event, key, value);
    take_record(store, &made);
}

/* Carries out the will of one slot if its member is dead. */
static void bury(struct file_store *store, struct msi_str slot_text) {
    char text[16];
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(slot_text));
    int slot = atoi(text);
    struct msi_str will;
    if (msi_file_log_alive(&store->log, slot) || !msi_kv_get(store->wills, slot_text, &will)) return;
    struct msi_buf copy = {0};
    msi_buf_add(&copy, will.p, will.n);
    struct msi_reader r = msi_reader(copy.data, copy.len);
    struct msi_str key = msi_read_str(&r);
    if (!r.bad && !copy.failed) record(store, MSI_FILE_APPEND, key, msi_str(r.p, r.left));
    record(store, MSI_FILE_WILL, slot_text, msi_str(NULL, 0));
    msi_buf_free(&copy);
}

static void look_for_dead(struct file_store *store) {
    int64_t now = msi_now();
    if (store->log.alive_fd < 0 || now - store->looked_for_dead < LOOK_FOR_DEAD_MS * 1000000ll) return;
    store->looked_for_dead = now;
    struct msi_store_req list = {.op = MSI_OP_LIST_KEYS};
    struct msi_buf slots = {0};
    msi_kv_apply(store->wills, &list, &slots);
    struct msi_reader r = msi_reader(slots.data, slots.len);
    for (uint64_t n = msi_read_u64(&r); n && !r.bad; n--) bury(store, msi_read_str(&r));
    msi_buf_free(&slots);
}

/* Takes both locks, within the wait. The mutex is never held while another process has the file. */
static mst_status lock_both(struct file_store *store, const struct msi_wait *wait) {
    for (;;) {
        bool locked = false;
        pthread_mutex_lock(&store->lock);
        mst_status st = store->broken ? msi_fail(MST_ERR_STORE_LOST, "open the store anew",
                                                 "an earlier write to %s failed", store->log.path)
                                      : msi_file_log_try_lock(&store->log, &locked);
        if (st == MST_OK && locked) return MST_OK;
        pthread_mutex_unlock(&store->lock);
        if (st == MST_OK)
            st = msi_wait_pause(wait, FIRST_PAUSE_MS, "waiting for the lock of the store's file");
        if (st != MST_OK) return st;
    }
}

/* Takes both locks and reads on. On an error neither is held. */
static mst_status enter(struct file_store *store, const struct msi_wait *wait) {
    mst_status st = lock_both(store, wait);
    if (st != MST_OK) return st;
    st = msi_file_log_read(&store->log, take_record, store);
    if (st == MST_OK) {
        look_for_dead(store);
        return MST_OK;
    }
    msi_file_log_unlock(&store->log);
    pthread_mutex_unlock(&store->lock);
    return st;
}

static mst_status leave(struct file_store *store) {
    mst_status st = msi_file_log_unlock(&store->log);
    if (st != MST_OK) store->broken = true;
    pthread_mutex_unlock(&store->lock);
    return st;
}

/* Leaves for a while and enters again, whatever the caller's deadline: *inside is false only if that failed.
 */
static mst_status look_again(struct file_store *store, const struct msi_wait *wait, int pause, bool *inside) {
    *inside = false;
    mst_status st = leave(store);
    if (st != MST_OK) return st;
    mst_status late = msi_wait_pause(wait, pause, "waiting in the file store");
    struct msi_wait last = {late == MST_OK ? wait->deadline : msi_deadline(LAST_LOOK_MS),
                            late == MST_OK ? wait->cancel : NULL};
    st = enter(store, &last);
    if (st != MST_OK) return late == MST_OK ? st : late;
    *inside = true;
    return late;
}

static mst_status wait_for(struct file_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                           const struct msi_kv_guard *guard, bool *inside) {
    struct sleeper sleeper = {.waiter = {.wake = wake}};
    if (x->req.op == MSI_OP_BARRIER && x->req.number >= 0)
        msi_file_record_write(&store->log.pending, MSI_FILE_ARRIVE, x->req.key, msi_str(NULL, 0));
    bool waiting;
    x->status = msi_kv_wait_begin(store->kv, &x->req, guard, &sleeper.waiter, &waiting);
    if (x->status == MST_ERR_PEER_LOST) return x->status;
    mst_status st = MST_OK;
    for (int pause = FIRST_PAUSE_MS; waiting && !sleeper.over && st == MST_OK;) {
        st = look_again(store, wait, pause, inside);
        pause = pause * 2 > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : pause * 2;
    }
    if (!waiting) return MST_OK;
    if (!*inside) pthread_mutex_lock(&store->lock);
    if (!sleeper.over) msi_kv_wait_end(store->kv, &sleeper.waiter);
    if (!*inside) pthread_mutex_unlock(&store->lock);
    return sleeper.over ? sleeper.waiter.status : st;
}

static void write_value(struct file_store *store, struct msi_str key) {
    struct msi_str value;
    if (msi_kv_get(store->kv, key, &value))
        msi_file_record_write(&store->log.pending, MSI_FILE_SET, key, value);
}

/* Writes down what a request that succeeded has changed. */
static void write_change(struct file_store *store, const struct msi_store_req *req, bool swapped) {
    struct msi_buf *out = &store->log.pending;
    switch (req->op) {
    case MSI_OP_SET:
    case MSI_OP_ADD:
        write_value(store, req->key);
        break;
    case MSI_OP_COMPARE_SET:
        if (swapped) write_value(store, req->key);
        break;
    case MSI_OP_MULTI_SET:
        for (size_t i = 0; i < req->n; i++) write_value(store, req->keys[i]);
        break;
    case MSI_OP_APPEND:
        msi_file_record_write(out, MSI_FILE_APPEND, req->key, req->value);
        break;
    case MSI_OP_QUEUE_PUSH:
        msi_file_record_write(out, MSI_FILE_PUSH, req->key, req->value);
        break;
    case MSI_OP_QUEUE_POP:
        msi_file_record_write(out, MSI_FILE_POP, req->key, msi_str(NULL, 0));
        break;
    case MSI_OP_DELETE_KEY:
        msi_file_record_write(out, MSI_FILE_DELETE, req->key, msi_str(NULL, 0));
        break;
    default:
        break;
    }
}

static void set_will(struct file_store *store, const struct msi_store_req *req) {
    if (store->log.slot < 0) return;
    char slot[16];
    struct msi_buf will = {0};
    snprintf(slot, sizeof slot, "%d", store->log.slot);
    if (req->key.n) {
        msi_put_str(&will, req->key);
        msi_buf_add(&will, req->value.p, req->value.n);
    }
    record(store, MSI_FILE_WILL, msi_cstr(slot), msi_buf_str(&will));
    msi_buf_free(&will);
}

static void perform(struct file_store *store, struct msi_store_rpc *x) {
    struct msi_str before;
    bool found = msi_kv_get(store->kv, x->req.key, &before);
    bool swapped = found ? msi_str_equal(before, x->req.value) : x->req.value.n == 0;
    x->status = msi_kv_apply(store->kv, &x->req, &x->reply);
    if (x->status == MST_OK) write_change(store, &x->req, swapped);
}

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct file_store *store = (struct file_store *)head;
    struct msi_kv_guard guard = {0};
    bool guarded = false, inside = true;
    mst_status st = enter(store, wait);
    if (st != MST_OK) return st;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        const struct msi_store_req *req = &x[i].req;
        x[i].status = MST_OK;
        if (req->op == MSI_OP_GUARD) {
            guard = (struct msi_kv_guard){req->key, req->number};
            guarded = true;
        } else if (req->op == MSI_OP_WILL) {
            set_will(store, req);
        } else {
            if (msi_ops[req->op].waits) st = wait_for(store, wait, &x[i], guarded ? &guard : NULL, &inside);
            if (st == MST_OK && x[i].status == MST_OK) perform(store, &x[i]);
        }
        if (st == MST_OK && x[i].reply.failed) st = msi_fail_memory();
    }
    if (!inside) return st;
    mst_status written = leave(store);
    return st == MST_OK ? written : st;
}

/* The last member removes the file. A will that was not taken back stays for the others to carry out. */
static void close_store(struct mst_store *head) {
    struct file_store *store = (struct file_store *)head;
    struct msi_wait wait = {msi_deadline(LOCK_PATIENCE_MS), NULL};
    if (store->log.slot >= 0 && enter(store, &wait) == MST_OK) {
        if (!msi_file_log_others(&store->log)) msi_file_log_remove(&store->log);
        msi_file_log_resign(&store->log); /* before the next one asks whether it is the last */
        leave(store);
    }
    msi_file_log_close(&store->log);
    msi_kv_free(store->kv);
    msi_kv_free(store->wills);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static const struct msi_store_ops ops = {"file", exec, close_store};

/* Reads the file for the first time; a member becomes one, unless only the dead have been here. */
static mst_status first_look(struct file_store *store, bool member, const struct msi_wait *wait) {
    mst_status st = enter(store, wait);
    if (st != MST_OK) return st;
    if (member) st = msi_file_log_watch(&store->log);
    if (st == MST_OK && member && store->log.end > 0 && !msi_file_log_others(&store->log))
        st = msi_fail(MST_ERR_STALE, "remove it, and give each job a file of its own",
                      "%s is left over from an earlier job, none of whose ranks is alive", store->log.path);
    if (st == MST_OK && member) {
        look_for_dead(store); /* before their slots are given to others */
        st = msi_file_log_join(&store->log);
    }
    mst_status written = leave(store);
    return st == MST_OK ? written : st;
}

mst_status msi_store_open_file(const char *path, bool member, const struct msi_settings *settings,
                               const struct msi_wait *wait, struct mst_store **store) {
    struct file_store *made = calloc(1, sizeof *made);
    if (!made) return msi_fail_memory();
    msi_store_init(&made->head, &ops, settings);
    pthread_mutex_init(&made->lock, NULL);
    mst_status st = msi_file_log_open(&made->log, path, made->head.max_key, made->head.max_value);
    made->kv = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    made->wills = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    if (st == MST_OK && (!made->kv || !made->wills)) st = msi_fail_memory();
    if (st == MST_OK) st = first_look(made, member, wait);
    if (st != MST_OK) {
        made->log.slot = -1; /* whoever could not join removes nothing */
        close_store(&made->head);
        return st;
    }
    *store = &made->head;
    return MST_OK;
}
