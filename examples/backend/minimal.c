/*
 * minimal.c - a complete backend outside of muster's tree. Ranks exchange bytes through the world's store,
 * which is slow. It implements all_gather, send and recv; muster composes all other operations from them.
 *
 *   cc -shared -fPIC -o mst_backend_minimal.so minimal.c $(pkg-config --cflags muster)
 *   MUSTER_BACKEND_PATH=. MUSTER_BACKEND=minimal muster run -n 4 program
 *
 * A slot is two keys of the store: one has the data, the other one, which is written after it, a sequence
 * number and the length of the data. Ranks that wait read the second key again and again, so it must be
 * short. Collectives alternate between two slots per rank: a rank that writes number s + 2 has read s + 1 of
 * all ranks, and no rank writes s + 1 before it has read s of all ranks, so no rank needs the overwritten
 * data. Messages have a slot for each sender, receiver and tag, and another one in which the receiver
 * acknowledges the last number that it has read. Data longer than a value of the store (64 MiB,
 * MUSTER_STORE_MAX_VALUE) fails with MST_ERR_LIMIT and the message of host->set.
 */
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOT_MAX = 64 };
static const int64_t PEEK_NS = 1000000, FETCH_NS = 10000000000;

/* The value of the key that ranks wait for. */
struct head {
    uint64_t number, len;
};

struct mst_backend_engine {
    const mst_backend_host *host;
    uint64_t gathers; /* submitted so far */
    struct channel {  /* messages with one peer and tag, in one direction */
        int peer, tag, outgoing;
        uint64_t submitted, received;
    } * channels;
    int n_channels;
    mst_backend_op **receives; /* pending, in the order of submission */
    int n_receives;
};

static bool probe(char *text, size_t size) {
    snprintf(text, size, "an example that uses the store");
    return true;
}

static const mst_backend_capability *capabilities(void) {
    static const mst_backend_capability all[] = {
        {.kinds = 1u << MST_KIND_ALL_GATHER},
        {.kinds = 1u << MST_KIND_SEND | 1u << MST_KIND_RECV, .forms = MST_FORM_TAG | MST_FORM_ANY_SOURCE},
        {0},
    };
    return all;
}

static mst_status out_of_memory(mst_backend_engine *e) {
    return e->host->fail(e->host, MST_ERR_MEMORY, -1, NULL, "out of memory");
}

static mst_status open_engine(const mst_backend_host *host, mst_backend_engine **engine,
                              mst_backend_traits *traits) {
    mst_backend_engine *made = calloc(1, sizeof *made);
    (void)traits;
    if (!made) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory");
    made->host = host;
    *engine = made;
    return MST_OK;
}

static const char *data_key(char out[SLOT_MAX + 8], const char *slot) {
    snprintf(out, SLOT_MAX + 8, "%s/data", slot);
    return out;
}

static mst_status put(mst_backend_engine *e, const char *slot, uint64_t number, const void *data,
                      size_t len) {
    char key[SLOT_MAX + 8];
    struct head head = {number, len};
    mst_status st = len ? e->host->set(e->host, data_key(key, slot), data, len) : MST_OK;
    return st == MST_OK ? e->host->set(e->host, slot, &head, sizeof head) : st;
}

static int64_t deadline_in(int64_t ns) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + ns;
}

/* Reads number and length of a slot, for at most 1 ms. Both are 0 if it is empty. */
static mst_status peek(mst_backend_engine *e, const char *slot, struct head *head) {
    mst_bytes value = {NULL, 0};
    *head = (struct head){0, 0};
    mst_status st = e->host->get(e->host, slot, deadline_in(PEEK_NS), &value);
    if (st == MST_OK && value.len == sizeof *head) memcpy(head, value.data, sizeof *head);
    free(value.data);
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

/* Reads the data of a slot. *done stays false if that takes too long. */
static mst_status fetch(mst_backend_engine *e, const char *slot, void *out, size_t len, bool *done) {
    char key[SLOT_MAX + 8];
    mst_bytes value = {NULL, 0};
    mst_status st = len ? e->host->get(e->host, data_key(key, slot), deadline_in(FETCH_NS), &value) : MST_OK;
    *done = st == MST_OK && value.len == len;
    if (*done && len) memcpy(out, value.data, len);
    free(value.data);
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

static const char *gather_slot(char out[SLOT_MAX], uint64_t number, int rank) {
    snprintf(out, SLOT_MAX, "gather/%d/%d", (int)(number % 2), rank);
    return out;
}

static const char *message_slot(char out[SLOT_MAX], const char *what, int from, int to, int tag) {
    snprintf(out, SLOT_MAX, "%s/%d/%d/%d", what, from, to, tag);
    return out;
}

/* op->word[0]: sequence number of the operation; word[1]: number of ranks whose data has arrived. */
static mst_status begin_gather(mst_backend_engine *e, mst_backend_op *op) {
    char slot[SLOT_MAX];
    op->word[0] = ++e->gathers;
    return put(e, gather_slot(slot, op->word[0], e->host->rank), op->word[0], op->in,
               op->count * op->element);
}

static mst_status advance_gather(mst_backend_engine *e, mst_backend_op *op, bool *done) {
    size_t bytes = op->count * op->element;
    mst_status st = MST_OK;
    for (bool found = true; found && st == MST_OK && op->word[1] < (uint64_t)e->host->ranks;) {
        char slot[SLOT_MAX];
        struct head head;
        int rank = (int)op->word[1];
        st = peek(e, gather_slot(slot, op->word[0], rank), &head);
        found = st == MST_OK && head.number == op->word[0];
        if (found && head.len != bytes)
            st = e->host->fail(e->host, MST_ERR_MISMATCH, rank, "all ranks must pass the same count",
                               "sent another number of bytes");
        else if (found)
            st = fetch(e, slot, (char *)op->out + (size_t)rank * bytes, bytes, &found);
        if (found) op->word[1]++;
    }
    *done = st == MST_OK && op->word[1] == (uint64_t)e->host->ranks;
    return st;
}

static struct channel *find_channel(mst_backend_engine *e, int peer, int tag, int outgoing) {
    for (int i = 0; i < e->n_channels; i++)
        if (e->channels[i].peer == peer && e->channels[i].tag == tag && e->channels[i].outgoing == outgoing)
            return &e->channels[i];
    struct channel *more = realloc(e->channels, (size_t)(e->n_channels + 1) * sizeof *more);
    if (!more) return NULL;
    e->channels = more;
    more[e->n_channels] = (struct channel){.peer = peer, .tag = tag, .outgoing = outgoing};
    return &more[e->n_channels++];
}

/* Writes message n after the receiver has acknowledged n - 1. word[0]: n; word[1]: 1 once it is written. */
static mst_status advance_send(mst_backend_engine *e, mst_backend_op *op, bool *done) {
    char slot[SLOT_MAX];
    struct head acked;
    int me = e->host->rank;
    mst_status st = peek(e, message_slot(slot, "ack", me, op->peer, op->tag), &acked);
    if (st == MST_OK && !op->word[1] && acked.number + 1 == op->word[0]) {
        st = put(e, message_slot(slot, "message", me, op->peer, op->tag), op->word[0], op->in,
                 op->count * op->element);
        op->word[1] = 1;
    }
    *done = st == MST_OK && acked.number >= op->word[0];
    return st;
}

/* Receives the next message of one sender, if it has arrived. */
static mst_status try_sender(mst_backend_engine *e, mst_backend_op *op, int from, bool *done) {
    char slot[SLOT_MAX];
    struct head head;
    struct channel *channel = find_channel(e, from, op->tag, 0);
    if (!channel) return out_of_memory(e);
    mst_status st = peek(e, message_slot(slot, "message", from, e->host->rank, op->tag), &head);
    if (st != MST_OK || head.number != channel->received + 1) return st;
    if (head.len == op->count * op->element) {
        st = fetch(e, slot, op->out, head.len, done);
        if (st != MST_OK || !*done) return st;
    } else {
        st = e->host->fail(e->host, MST_ERR_MISMATCH, from, "send and receive the same count",
                           "sent a message of another length");
    }
    channel->received++;
    op->sender = from;
    if (*done) st = put(e, message_slot(slot, "ack", from, e->host->rank, op->tag), head.number, NULL, 0);
    return st;
}

/* Whether no earlier receive matches a message of this sender. */
static bool is_next(const mst_backend_engine *e, const mst_backend_op *op, int from) {
    for (int i = 0; i < e->n_receives && e->receives[i] != op; i++)
        if (e->receives[i]->tag == op->tag && (e->receives[i]->peer == from || e->receives[i]->peer < 0))
            return false;
    return true;
}

static void remove_receive(mst_backend_engine *e, const mst_backend_op *op) {
    int kept = 0;
    for (int i = 0; i < e->n_receives; i++)
        if (e->receives[i] != op) e->receives[kept++] = e->receives[i];
    e->n_receives = kept;
}

static mst_status advance_recv(mst_backend_engine *e, mst_backend_op *op, bool *done) {
    mst_status st = MST_OK;
    for (int r = 0; r < e->host->ranks && st == MST_OK && !*done; r++)
        if ((op->peer < 0 || op->peer == r) && is_next(e, op, r)) st = try_sender(e, op, r, done);
    if (*done || st != MST_OK) remove_receive(e, op);
    return st;
}

static mst_status begin_recv(mst_backend_engine *e, mst_backend_op *op) {
    mst_backend_op **more = realloc(e->receives, (size_t)(e->n_receives + 1) * sizeof(mst_backend_op *));
    if (!more) return out_of_memory(e);
    e->receives = more;
    more[e->n_receives++] = op;
    return MST_OK;
}

static mst_status submit(mst_backend_engine *e, mst_backend_op *op) {
    if (op->kind == MST_KIND_ALL_GATHER) return begin_gather(e, op);
    if (op->kind == MST_KIND_RECV) return begin_recv(e, op);
    struct channel *channel = find_channel(e, op->peer, op->tag, 1);
    if (!channel) return out_of_memory(e);
    op->word[0] = ++channel->submitted;
    return MST_OK;
}

static mst_status progress(mst_backend_engine *e, mst_backend_op *op, bool *done) {
    *done = false;
    if (op->kind == MST_KIND_ALL_GATHER) return advance_gather(e, op, done);
    return op->kind == MST_KIND_SEND ? advance_send(e, op, done) : advance_recv(e, op, done);
}

/*
 * A receive has no effect before it is done. A send may be received at any time, so it cannot be cancelled.
 */
static bool cancel(mst_backend_engine *e, mst_backend_op *op) {
    if (op->kind == MST_KIND_RECV) remove_receive(e, op);
    return op->kind == MST_KIND_RECV;
}

/* Operations make progress only in calls of progress(), so there is nothing to stop. */
static void abort_engine(mst_backend_engine *e) {
    (void)e;
}

static void close_engine(mst_backend_engine *e) {
    free(e->receives);
    free(e->channels);
    free(e);
}

__attribute__((visibility("default"))) const mst_backend *mst_backend_module(unsigned version) {
    static const mst_backend table = {
        .version = MST_BACKEND_VERSION,
        .size = sizeof table,
        .name = "minimal",
        .title = "an example: ranks exchange bytes through the store",
        .probe = probe,
        .rows = capabilities,
        .open = open_engine,
        .submit = submit,
        .progress = progress,
        .cancel = cancel,
        .abort = abort_engine,
        .close = close_engine,
    };
    return version == MST_BACKEND_VERSION ? &table : NULL;
}
