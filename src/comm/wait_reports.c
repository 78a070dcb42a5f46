/* wait_reports.c - see wait_reports.h. Any thread that may use the communicator. */
#include "comm/wait_reports.h"
#include "base/error.h"
#include "base/hash.h"
#include "wire/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEY_MAX = 768,
    LISTED_MOST = 16, /* ranks in a report */
    NOTE_MAX = 280 + 12 * (LISTED_MOST + MSI_RECENT),
    GAVE_UP_MAX = 700,
    STORE_MS = 500,
};
static const int64_t long_ns = 400000000;

static struct msi_str wait_key(const struct msi_comm *comm, int rank, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/wait/%d", comm->key, rank);
    return msi_cstr(out);
}

/* There are several keys, because several ranks may reject calls at a time. */
static struct msi_str rejected_key(const struct msi_comm *comm, int number, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/rejected.%d", comm->key, number);
    return msi_cstr(out);
}

static struct msi_str gave_up_key(const struct msi_comm *comm, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/gave_up", comm->key);
    return msi_cstr(out);
}

static struct msi_str failed_key(const struct msi_comm *comm, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/failed", comm->key);
    return msi_cstr(out);
}

static mst_status exec(struct msi_comm *comm, struct msi_store_rpc *x, size_t n) {
    struct msi_wait wait;
    if (!msi_comm_may_ask(comm, STORE_MS, &wait)) return MST_ERR_TIMEOUT;
    return msi_comm_asked(comm, comm->hooks.exec(comm->hooks.context, &wait, x, n));
}

/* Writes the report of a collective; returns its length. */
static size_t describe(struct msi_comm *comm, const struct mst_work *work, char text[NOTE_MAX]) {
    int ranks[LISTED_MOST], n = comm->engine->missing(work, ranks, LISTED_MOST);
    size_t used = (size_t)snprintf(text, NOTE_MAX, "%" PRIu64, work->seq);
    for (int i = 0; i < n && i < LISTED_MOST; i++)
        used += (size_t)snprintf(text + used, NOTE_MAX - used, " %d", ranks[i]);
    used += (size_t)snprintf(text + used, NOTE_MAX - used, " ;");
    for (uint64_t i = 0; i < MSI_RECENT; i++)
        used += (size_t)snprintf(text + used, NOTE_MAX - used, "%" PRIx32 " ",
                                 work->seq > i ? comm->recent[(work->seq - i) % MSI_RECENT] : 0);
    return used + strlen(msi_call_signature_show(&work->op.signature, text + used, NOTE_MAX - used));
}

void msi_wait_report_post(struct msi_comm *comm, const struct mst_work *work, int64_t since, int64_t now) {
    static const uint64_t hash_key[2] = {7, 8};
    int64_t half = (int64_t)work->timeout_ms * 1000000 / 2, enough = half < long_ns ? half : long_ns;
    char key[KEY_MAX], text[NOTE_MAX];
    bool message = msi_op_is_message(&work->op);
    if (now - since < enough) return;
    size_t used = message ? (size_t)snprintf(text, sizeof text, "%" PRIu64 " %d", comm->engine->count(comm),
                                             msi_comm_peer(work))
                          : describe(comm, work, text);
    uint64_t hash = msi_hash(text, used, hash_key);
    if (hash == comm->waiting.reported) return;
    comm->waiting.reported = hash;
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_SET, .key = wait_key(comm, comm->rank, key), .value = msi_cstr(text)}};
    msi_comm_unlock(comm);
    mst_status st = exec(comm, &x, 1); /* without it the others know a little less */
    msi_comm_lock(comm);
    if (st == MST_ERR_TIMEOUT) comm->waiting.reported = 0; /* tries again, if the wait goes on */
    msi_store_rpc_free(&x, 1);
}

static void delete_report(struct msi_comm *comm) {
    char key[KEY_MAX];
    struct msi_store_rpc x = {.req = {.op = MSI_OP_DELETE_KEY, .key = wait_key(comm, comm->rank, key)}};
    exec(comm, &x, 1);
    msi_store_rpc_free(&x, 1);
}

void msi_wait_report_remove(struct msi_comm *comm) {
    if (comm->waiting.reported) delete_report(comm);
}

void msi_wait_report_withdraw(struct msi_comm *comm) {
    if (!comm->waiting.reported || comm->failure.status != MST_OK) return;
    comm->waiting.reported = 0;
    msi_comm_unlock(comm);
    delete_report(comm);
    msi_comm_lock(comm);
}

/* Ranks to examine one after the other; each is listed once. */
struct search {
    int *ranks, n;
    bool *seen;
};

/* What a rank does while this one waits for it. */
enum doing {
    DOES_ELSE, /* no report says that it waits */
    WAITS,     /* in the same operation, or it is ahead and keeps no rank waiting */
    WAITED,    /* it waits in an earlier operation, or that is over and it has not called the next one */
};

static void look_at(struct search *search, int rank) {
    if (search->seen[rank]) return;
    search->seen[rank] = true;
    search->ranks[search->n++] = rank;
}

/* If the rank waits, lists the ranks it waits for. */
static enum doing follow(struct search *search, const struct msi_comm *comm, uint64_t seq,
                         struct msi_str note) {
    char text[NOTE_MAX], *at;
    if (note.n == 0 || note.n >= sizeof text) return DOES_ELSE;
    memcpy(text, note.p, note.n);
    text[note.n] = '\0';
    uint64_t noted = strtoull(text, &at, 10);
    if (noted > seq) return WAITS;
    for (char *end; *at; at = end) {
        long rank = strtol(at, &end, 10);
        if (end == at) break;
        if (rank >= 0 && rank < comm->size) look_at(search, (int)rank);
    }
    return noted == seq ? WAITS : WAITED;
}

static struct msi_str read_note(struct msi_comm *comm, struct msi_str key, struct msi_store_rpc *x) {
    *x = (struct msi_store_rpc){.req = msi_read_request(key)};
    if (exec(comm, x, 1) != MST_OK) return msi_str(NULL, 0);
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    struct msi_str text = msi_value_or_none(msi_read_str(&r));
    return r.bad ? msi_str(NULL, 0) : text;
}

/* Can the message come from that rank, or go to it? peer -1: any rank can send it. */
static bool may_send(const struct msi_comm *comm, int peer, int rank) {
    return peer < 0 ? !comm->hooks.is_gone(comm->hooks.context, rank) && !msi_comm_has_left(comm, rank)
                    : rank == peer;
}

int msi_wait_report_missing(struct msi_comm *comm, const struct mst_work *work, int *ranks, int max,
                            bool *all_wait) {
    size_t size = (size_t)comm->size;
    struct search search = {malloc(2 * size * sizeof *ranks), 0, calloc(size, sizeof(bool))};
    bool message = msi_op_is_message(&work->op);
    uint64_t seq = message ? UINT64_MAX : work->seq;
    int late = 0, behind = 0, *before = NULL, direct = 0, peer = msi_comm_peer(work);
    int64_t end = msi_deadline(STORE_MS);
    if (!message) direct = comm->engine->missing(work, ranks, max);
    if (message && peer >= 0) ranks[direct++] = peer;
    if (search.ranks) before = search.ranks + size;
    if (search.seen) search.seen[comm->rank] = true;
    for (int r = 0; search.ranks && search.seen && r < comm->size; r++)
        if (r != comm->rank && (message ? may_send(comm, peer, r) : comm->engine->waits_for(work, r)))
            look_at(&search, r);
    for (int i = 0; i < search.n && search.ranks && msi_ms_until(end) > 0; i++) {
        char key[KEY_MAX];
        struct msi_store_rpc x;
        int rank = search.ranks[i];
        enum doing doing = follow(&search, comm, seq, read_note(comm, wait_key(comm, rank, key), &x));
        msi_store_rpc_free(&x, 1);
        if (doing == WAITED) before[behind++] = rank;
        if (doing != DOES_ELSE) continue;
        if (late < max) ranks[late] = rank;
        late++;
    }
    if (all_wait) *all_wait = !late && behind;
    if (!late) /* all wait, or have not called the next operation */
        for (; late < behind && late < max; late++) ranks[late] = before[late];
    free(search.ranks);
    free(search.seen);
    return late ? late : direct;
}

/* A wait report: the number of the collective, the hashes of it and of those before it, and the call. */
struct report {
    uint64_t seq;
    uint32_t recent[MSI_RECENT];
    const char *call;
};

/* Parses a report; false: there is none. */
static bool parse_report(const char *text, struct report *report) {
    char *at = strchr(text, ';');
    if (!at || sscanf(text, "%" SCNu64, &report->seq) != 1) return false;
    at++;
    for (int i = 0; i < MSI_RECENT; i++) {
        char *end;
        report->recent[i] = (uint32_t)strtoul(at, &end, 16);
        if (*end != ' ') return false;
        at = end + 1;
    }
    report->call = at;
    return true;
}

/* The first collective that both ranks have called, as far as both remember, and that differs; 0: none. */
static uint64_t first_difference(const struct msi_waiting *at, const struct report *report) {
    uint64_t last = at->seq < report->seq ? at->seq : report->seq;
    uint64_t most = at->seq > report->seq ? at->seq : report->seq;
    for (uint64_t seq = most > MSI_RECENT ? most - MSI_RECENT + 1 : 1; seq <= last; seq++)
        if (at->recent[seq % MSI_RECENT] != report->recent[report->seq - seq]) return seq;
    return 0;
}

static mst_status say_different(struct msi_comm *comm, const struct msi_waiting *at, int rank,
                                const struct report *report) {
    char who[200], ours[200];
    uint64_t seq = first_difference(at, report);
    if (seq == 0) return MST_OK;
    msi_call_signature_show(&at->signature, ours, sizeof ours);
    msi_comm_show(comm, rank, who, sizeof who);
    const char *remedy = "all ranks of a group must make the same calls in the same order";
    if (seq == at->seq && seq == report->seq)
        msi_fail(MST_ERR_MISMATCH, remedy,
                 "operation %" PRIu64 " of the group is %s on this rank, but %s called %s", seq, ours, who,
                 report->call);
    else
        msi_fail(MST_ERR_MISMATCH, remedy,
                 "%s made another call as operation %" PRIu64 " of the group; it waits in operation %" PRIu64
                 ", %s, and this rank in operation %" PRIu64 ", %s",
                 who, seq, report->seq, report->call, at->seq, ours);
    return msi_blame(MST_ERR_MISMATCH, msi_comm_global(comm, rank));
}

static mst_status compare_with(struct msi_comm *comm, const struct msi_waiting *at, int rank, int *culprit) {
    char key[KEY_MAX], text[NOTE_MAX];
    struct report report;
    struct msi_store_rpc x;
    struct msi_str note = read_note(comm, wait_key(comm, rank, key), &x);
    msi_str_copy(note, text, sizeof text);
    msi_store_rpc_free(&x, 1);
    mst_status st = parse_report(text, &report) ? say_different(comm, at, rank, &report) : MST_OK;
    if (st != MST_OK) *culprit = rank;
    return st;
}

mst_status msi_wait_report_compare(struct msi_comm *comm, const struct msi_waiting *at, int *culprit) {
    mst_status st = compare_with(comm, at, (comm->rank + 1) % comm->size, culprit);
    for (int i = 0; i < at->n_awaited && i < MSI_AWAITED_MOST && st == MST_OK; i++)
        st = compare_with(comm, at, at->awaited[i], culprit);
    return st;
}

mst_status msi_failure_report_post(struct msi_comm *comm, const struct msi_failure *failure) {
    char key[KEY_MAX], failed[KEY_MAX], rank[16], text[GAVE_UP_MAX];
    snprintf(rank, sizeof rank, "%d ", comm->rank);
    bool aborts = failure->culprit <= MSI_BLAMES_ABORT;
    snprintf(text, sizeof text, "%d %d %d %s", comm->rank, (int)failure->status,
             aborts ? failure->culprit : failure->global, failure->message);
    struct msi_store_req first = {
        .op = MSI_OP_COMPARE_SET, .key = gave_up_key(comm, key), .desired = msi_cstr(text)};
    struct msi_store_req last = {.op = MSI_OP_SET, .key = first.key, .value = first.desired};
    /* An abort also ends waits that a failure does not end. */
    struct msi_store_rpc x[] = {
        {.req = aborts ? last : first},
        {.req = {.op = MSI_OP_APPEND, .key = failed_key(comm, failed), .value = msi_cstr(rank)}}};
    mst_status st = exec(comm, x, 2);
    if (st == MST_OK) st = x[0].status;
    msi_store_rpc_free(x, 2);
    return st;
}

/* Is the number of the rank in the text, after a space or at the start? */
static bool lists(const char *text, int rank) {
    for (char *end; *text; text = end + 1)
        if (strtol(text, &end, 10) == rank || end == text || !*end) return end != text;
    return false;
}

/* Has the last call of that rank failed, perhaps in another group? */
static bool has_failed(struct msi_comm *comm, int rank) {
    struct msi_wait wait;
    return msi_comm_may_ask(comm, STORE_MS, &wait) &&
           comm->hooks.read_cause(comm->hooks.context, msi_comm_global(comm, rank), false, &wait) >= 0;
}

bool msi_failure_report_by_all(struct msi_comm *comm) {
    char key[KEY_MAX];
    struct msi_store_rpc x;
    struct msi_str ranks = read_note(comm, failed_key(comm, key), &x);
    char *text = malloc(ranks.n + 1);
    bool all = text;
    if (text) msi_str_copy(ranks, text, ranks.n + 1);
    bool failed = comm->failure.status != MST_OK;
    for (int r = 0; r < comm->size && all; r++)
        all = r == comm->rank || (failed && r == comm->failure.culprit) ||
              comm->hooks.is_gone(comm->hooks.context, r) || lists(text, r) || has_failed(comm, r);
    free(text);
    msi_store_rpc_free(&x, 1);
    return all;
}

mst_status msi_failure_report_read(struct msi_comm *comm, int by, int *culprit) {
    char key[KEY_MAX], text[GAVE_UP_MAX + 1], who[200];
    struct msi_store_rpc x;
    struct msi_str note = read_note(comm, gave_up_key(comm, key), &x);
    int rank = -1, status = 0, blamed = -1, used = 0;
    snprintf(text, sizeof text, "%.*s", (int)(note.n < GAVE_UP_MAX ? note.n : GAVE_UP_MAX),
             note.n ? note.p : "");
    msi_store_rpc_free(&x, 1);
    if (sscanf(text, "%d %d %d %n", &rank, &status, &blamed, &used) != 3 || used == 0) return MST_OK;
    if (rank < 0 || rank >= comm->size || rank == comm->rank || status <= 0 || status >= MST_STATUS_COUNT)
        return MST_OK;
    if (blamed <= MSI_BLAMES_ABORT) {
        int cause = MSI_BLAMES_ABORT - 1 - blamed;
        *culprit = cause >= 0 && cause < comm->size ? cause : rank;
        msi_fail((mst_status)status, "the group must be recreated", "%s", text + used);
        return msi_blame((mst_status)status, msi_comm_global(comm, *culprit));
    }
    if (by != -1 && by != rank) return MST_OK;
    int member = blamed >= 0 ? msi_comm_rank_of(comm, blamed) : -1;
    bool outside = blamed >= 0 && member < 0; /* the cause is the loss of a rank of another group */
    *culprit = member >= 0 && member != comm->rank ? member : rank;
    msi_fail((mst_status)status, "look at that rank's own message; the group must be recreated",
             "%s gave up this group: %s", msi_comm_show(comm, rank, who, sizeof who), text + used);
    return msi_blame((mst_status)status, outside ? blamed : msi_comm_global(comm, *culprit));
}

void msi_rejection_post(struct msi_comm *comm, const struct msi_rejected *rejected) {
    char key[KEY_MAX], value[GAVE_UP_MAX];
    snprintf(value, sizeof value, "%" PRIu64 " %" PRIu64 " %d %s", rejected->first, rejected->last,
             comm->rank, rejected->text);
    struct msi_store_rpc x = {.req = {.op = MSI_OP_SET,
                                      .key = rejected_key(comm, comm->rank % MSI_REJECTED_KEYS, key),
                                      .value = msi_cstr(value)}};
    exec(comm, &x, 1); /* without it the others learn only that the calls differ */
    msi_store_rpc_free(&x, 1);
}

/* Does the note say that a rank has rejected the collective with that number? */
static bool tells_rejection(const struct msi_comm *comm, const char *text, uint64_t seq, int *rank,
                            int *used) {
    uint64_t first = 0, last = 0;
    *used = 0;
    if (sscanf(text, "%" SCNu64 " %" SCNu64 " %d %n", &first, &last, rank, used) != 3 || *used == 0)
        return false;
    return first <= seq && seq <= last && *rank >= 0 && *rank < comm->size;
}

/* Reads all notes in one batch; the first that tells the rejection goes to text. */
static bool find_rejection(struct msi_comm *comm, uint64_t seq, char text[GAVE_UP_MAX], int *rank,
                           int *used) {
    char keys[MSI_REJECTED_KEYS][KEY_MAX];
    struct msi_store_rpc x[MSI_REJECTED_KEYS];
    int n = comm->size < MSI_REJECTED_KEYS ? comm->size : MSI_REJECTED_KEYS;
    bool found = false;
    for (int i = 0; i < n; i++)
        x[i] = (struct msi_store_rpc){.req = msi_read_request(rejected_key(comm, i, keys[i]))};
    bool read = exec(comm, x, (size_t)n) == MST_OK;
    for (int i = 0; i < n && read && !found; i++) {
        msi_str_copy(msi_store_reply_value(&x[i]), text, GAVE_UP_MAX);
        found = tells_rejection(comm, text, seq, rank, used);
    }
    msi_store_rpc_free(x, (size_t)n);
    return found;
}

mst_status msi_rejection_read(struct msi_comm *comm, uint64_t seq, const struct msi_call_signature *own,
                              int *culprit) {
    char text[GAVE_UP_MAX], who[200], ours[200];
    int rank, used;
    if (!find_rejection(comm, seq, text, &rank, &used)) return MST_OK;
    *culprit = rank;
    msi_comm_show(comm, rank, who, sizeof who);
    if (rank == comm->rank) /* the others have made the call meanwhile */
        return msi_fail(MST_ERR_MISMATCH, "correct the call; the group must be recreated",
                        "%s rejected operation %" PRIu64 " of the group, which other ranks called: %s", who,
                        seq, text + used);
    mst_status st = msi_fail(MST_ERR_MISMATCH, "correct the call of that rank; the group must be recreated",
                             "operation %" PRIu64 " of the group is %s on this rank, but %s rejected %s", seq,
                             msi_call_signature_show(own, ours, sizeof ours), who, text + used);
    return msi_blame(st, msi_comm_global(comm, rank));
}
