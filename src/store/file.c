/*
 * file.c - the file store. The file is a log of changes. Every process keeps the resulting map, reads new
 * records before each call and appends its own changes. Waiting requests poll with growing pauses.
 */
#include "base/error.h"
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
    CHECK_MEMBERS_MS = 100,
    CLOSE_LOCK_MS = 3000,
    LAST_READ_MS = 20,
    LOG_PER_CONTENTS = 16 /* the log may be that many times as large as MUSTER_STORE_MAX_TOTAL */
};

struct file_store {
    struct mst_store head;
    pthread_mutex_t lock; /* of all below, and around the file's own lock */
    struct msi_file_log log;
    struct msi_kv *kv, *on_disconnect; /* on_disconnect: by slot, as text */
    int64_t checked_members;           /* time of the last check for dead members */
    bool broken;                       /* a write failed, so the map differs from the file */
    bool incomplete;                   /* a record was not applied for lack of memory */
};

/* False without memory. */
static bool apply(struct msi_kv *kv, const struct msi_store_req *req) {
    struct msi_buf reply = {0};
    mst_status st = msi_kv_apply(kv, req, &reply);
    msi_buf_free(&reply);
    return st != MST_ERR_LIMIT;
}

/* A barrier of 0 arrivals counts its caller and never waits. */
static bool arrive(struct msi_kv *kv, struct msi_str key) {
    struct msi_store_req req = {.op = MSI_OP_BARRIER, .key = key};
    struct msi_kv_waiter unused = {0};
    bool waiting;
    mst_status st = msi_kv_wait_begin(kv, &req, NULL, &unused, &waiting);
    return st != MST_ERR_LIMIT && st != MST_ERR_MEMORY;
}

/* Records that repeat an operation. */
static const struct {
    enum msi_file_event event;
    enum msi_store_op op;
} changes[] = {{MSI_FILE_SET, MSI_OP_SET},
               {MSI_FILE_DELETE, MSI_OP_DELETE_KEY},
               {MSI_FILE_APPEND, MSI_OP_APPEND},
               {MSI_FILE_PUSH, MSI_OP_QUEUE_PUSH},
               {MSI_FILE_POP, MSI_OP_QUEUE_POP}};
enum { CHANGES = sizeof changes / sizeof *changes };

static void apply_record(void *context, const struct msi_file_record *record) {
    struct file_store *store = context;
    struct msi_store_req req = {.key = record->key, .value = record->value};
    bool done = record->event != MSI_FILE_ARRIVE || arrive(store->kv, record->key);
    if (record->event == MSI_FILE_ON_DISCONNECT) {
        req.op = record->value.n ? MSI_OP_SET : MSI_OP_DELETE_KEY;
        done = apply(store->on_disconnect, &req);
    }
    for (int i = 0; i < CHANGES; i++) {
        if (changes[i].event != record->event) continue;
        req.op = changes[i].op;
        done = apply(store->kv, &req);
    }
    store->incomplete |= !done;
}

/* Writes a record and applies it to the map. */
static void record(struct file_store *store, enum msi_file_event event, struct msi_str key,
                   struct msi_str value) {
    struct msi_file_record made = {event, key, value};
    msi_file_record_write(&store->log.pending, event, key, value);
    apply_record(store, &made);
}

/* Applies the on_disconnect value of a slot if its member is dead. */
static void apply_on_disconnect(struct file_store *store, struct msi_str slot_text) {
    char text[16];
    int slot = atoi(msi_str_copy(slot_text, text, sizeof text));
    struct msi_str value;
    if (msi_file_log_alive(&store->log, slot) || !msi_kv_get(store->on_disconnect, slot_text, &value)) return;
    struct msi_buf copy = {0};
    msi_buf_add(&copy, value.p, value.n);
    struct msi_reader r = msi_reader(copy.data, copy.len);
    struct msi_str key = msi_read_str(&r);
    if (!copy.failed) { /* else it is applied later */
        if (!r.bad) record(store, MSI_FILE_APPEND, key, msi_str(r.p, r.left));
        record(store, MSI_FILE_ON_DISCONNECT, slot_text, msi_str(NULL, 0));
    }
    msi_buf_free(&copy);
}

static void check_members(struct file_store *store) {
    int64_t now = msi_now();
    if (store->log.alive_fd < 0 || now - store->checked_members < CHECK_MEMBERS_MS * 1000000ll) return;
    store->checked_members = now;
    struct msi_store_req list = {.op = MSI_OP_LIST_KEYS};
    struct msi_buf slots = {0};
    msi_kv_apply(store->on_disconnect, &list, &slots);
    struct msi_reader r = msi_reader(slots.data, slots.len);
    for (uint64_t n = msi_read_u64(&r); n && !r.bad; n--) apply_on_disconnect(store, msi_read_str(&r));
    msi_buf_free(&slots);
}

/* Takes both locks. Does not hold the mutex while another process holds the file's lock. */
static mst_status lock_both(struct file_store *store, const struct msi_wait *wait) {
    for (;;) {
        bool locked = false;
        pthread_mutex_lock(&store->lock);
        mst_status st = store->broken ? msi_fail(MST_ERR_STORE_LOST, "open the store again",
                                                 "an earlier write to %s failed", store->log.path)
                                      : msi_file_log_try_lock(&store->log, &locked);
        if (st == MST_OK && locked) return MST_OK;
        pthread_mutex_unlock(&store->lock);
        if (st == MST_OK)
            st = msi_wait_pause(wait, FIRST_PAUSE_MS, "waiting for the lock of the store's file");
        if (st != MST_OK) return st;
    }
}

/* Takes both locks and reads new records. On an error neither lock is held. */
static mst_status enter(struct file_store *store, const struct msi_wait *wait) {
    mst_status st = lock_both(store, wait);
    if (st != MST_OK) return st;
    st = msi_file_log_read(&store->log, apply_record, store);
    if (st == MST_OK && store->incomplete)
        st = msi_fail(MST_ERR_MEMORY, "raise MUSTER_STORE_MAX_TOTAL or the memory of this process",
                      "out of memory for the contents of %s", store->log.path);
    if (st == MST_OK) {
        check_members(store);
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

/* Releases the locks, pauses and takes them again, also after the deadline; *locked: it did. */
static mst_status poll_again(struct file_store *store, const struct msi_wait *wait, int pause, bool *locked) {
    *locked = false;
    mst_status st = leave(store);
    if (st != MST_OK) return st;
    mst_status late = msi_wait_pause(wait, pause, "waiting in the file store");
    struct msi_wait last = {late == MST_OK ? wait->deadline : msi_deadline(LAST_READ_MS),
                            late == MST_OK ? wait->cancel : NULL};
    st = enter(store, &last);
    if (st != MST_OK) return late == MST_OK ? st : late;
    *locked = true;
    return late;
}

static mst_status wait_for(struct file_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                           const struct msi_store_req *guard, bool *locked) {
    struct msi_kv_waiter self = {0};
    if (x->req.op == MSI_OP_BARRIER && x->req.number >= 0)
        msi_file_record_write(&store->log.pending, MSI_FILE_ARRIVE, x->req.key, msi_str(NULL, 0));
    bool waiting;
    x->status = msi_kv_wait_begin(store->kv, &x->req, guard, &self, &waiting);
    if (x->status == MST_ERR_PEER_LOST) return x->status;
    mst_status st = MST_OK;
    for (int pause = FIRST_PAUSE_MS; waiting && !self.ended && st == MST_OK;) {
        st = poll_again(store, wait, pause, locked);
        pause = pause * 2 > LONGEST_PAUSE_MS ? LONGEST_PAUSE_MS : pause * 2;
    }
    if (!waiting) return MST_OK;
    if (!*locked) pthread_mutex_lock(&store->lock);
    msi_kv_wait_end(store->kv, &self);
    if (!*locked) pthread_mutex_unlock(&store->lock);
    return self.ended ? self.status : st;
}

static void write_value(struct file_store *store, struct msi_str key) {
    struct msi_str value;
    if (msi_kv_get(store->kv, key, &value))
        msi_file_record_write(&store->log.pending, MSI_FILE_SET, key, value);
}

/* Records the change that a successful request has made. */
static void write_change(struct file_store *store, const struct msi_store_req *req, bool swapped) {
    if (req->op == MSI_OP_ADD || (req->op == MSI_OP_COMPARE_SET && swapped)) write_value(store, req->key);
    if (req->op == MSI_OP_MULTI_SET)
        for (size_t i = 0; i < req->n; i++) write_value(store, req->keys[i]);
    for (int i = 0; i < CHANGES; i++)
        if (changes[i].op == req->op)
            msi_file_record_write(&store->log.pending, changes[i].event, req->key, req->value);
}

static mst_status set_on_disconnect(struct file_store *store, const struct msi_store_req *req) {
    if (store->log.slot < 0) return MST_OK;
    char slot[16];
    struct msi_buf value = {0};
    snprintf(slot, sizeof slot, "%d", store->log.slot);
    if (req->key.n) {
        msi_put_str(&value, req->key);
        msi_buf_add(&value, req->value.p, req->value.n);
    }
    bool failed = value.failed;
    if (!failed) record(store, MSI_FILE_ON_DISCONNECT, msi_cstr(slot), msi_buf_str(&value));
    msi_buf_free(&value);
    return failed ? msi_fail_memory() : MST_OK;
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
    const struct msi_store_req *guard = NULL;
    bool locked = true;
    mst_status st = enter(store, wait);
    if (st != MST_OK) return st;
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        const struct msi_store_req *req = &x[i].req;
        x[i].status = MST_OK;
        if (req->op == MSI_OP_GUARD) {
            guard = req;
        } else if (req->op == MSI_OP_ON_DISCONNECT) {
            st = set_on_disconnect(store, req);
        } else {
            if (msi_ops[req->op].waits) st = wait_for(store, wait, &x[i], guard, &locked);
            if (st == MST_OK && x[i].status == MST_OK) perform(store, &x[i]);
            if (msi_store_rpc_full(&x[i])) break;
        }
        if (st == MST_OK && x[i].reply.failed) st = msi_fail_memory();
    }
    if (!locked) return st;
    mst_status written = leave(store);
    return st == MST_OK ? written : st;
}

/* The last member removes the file. The other members apply an on_disconnect value that was not removed. */
static void close_store(struct mst_store *head) {
    struct file_store *store = (struct file_store *)head;
    struct msi_wait wait = {msi_deadline(CLOSE_LOCK_MS), NULL};
    if (store->log.slot >= 0 && enter(store, &wait) == MST_OK) {
        if (!msi_file_log_others(&store->log)) msi_file_log_remove(&store->log);
        msi_file_log_resign(&store->log); /* under the lock: the next one must not count this member */
        leave(store);
    }
    msi_file_log_close(&store->log);
    msi_kv_free(store->kv);
    msi_kv_free(store->on_disconnect);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static mst_status clone_store(struct mst_store *head, const struct msi_settings *settings,
                              const struct msi_wait *wait, struct mst_store **copy) {
    struct file_store *store = (struct file_store *)head;
    return msi_store_open_file(store->log.path, store->log.slot >= 0, settings, wait, copy);
}

static const struct msi_store_ops ops = {exec, clone_store, close_store};

/* Reads the file for the first time and registers a member. MST_ERR_STALE: all earlier members are dead. */
static mst_status first_read(struct file_store *store, bool member, const struct msi_wait *wait) {
    mst_status st = enter(store, wait);
    if (st != MST_OK) return st;
    if (member) st = msi_file_log_watch(&store->log);
    if (st == MST_OK && member && store->log.end > 0 && !msi_file_log_others(&store->log))
        st = msi_fail(MST_ERR_STALE, "remove it, and use a separate file for each job",
                      "%s belongs to an earlier job, whose ranks are all dead", store->log.path);
    if (st == MST_OK && member) {
        check_members(store); /* before new members reuse the slots */
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
    const struct msi_file_limits limits = {made->head.max_key, made->head.max_value,
                                           settings->store_max_total * LOG_PER_CONTENTS};
    mst_status st = msi_file_log_open(&made->log, path, &limits);
    made->kv = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    made->on_disconnect = msi_kv_new((size_t)settings->store_max_total, (size_t)settings->store_max_value);
    if (st == MST_OK && (!made->kv || !made->on_disconnect)) st = msi_fail_memory();
    if (st == MST_OK) st = first_read(made, member, wait);
    if (st != MST_OK) {
        made->log.slot = -1; /* not a member: must not remove the file */
        msi_store_free(&made->head);
        return st;
    }
    *store = &made->head;
    return MST_OK;
}
