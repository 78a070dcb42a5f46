/* report.c - failures while a world forms. See report.h. */
#include "bootstrap/report.h"
#include "base/error.h"
#include "base/hash.h"
#include "os/host.h"
#include "os/pidfd.h"
#include "wire/cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LISTED_MOST = 16 };

struct msi_str msi_key(char out[MSI_KEY_MAX], const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out, MSI_KEY_MAX, format, args);
    va_end(args);
    return msi_str(out, n < 0 ? 0 : n < MSI_KEY_MAX ? (size_t)n : MSI_KEY_MAX - 1);
}

int64_t msi_params_size(struct msi_str params) {
    char text[24];
    int size = 0;
    return sscanf(msi_str_copy(params, text, sizeof text), "%d", &size) == 1 && size > 0 ? size : INT64_MAX;
}

/* Reads a value, which is empty if there is none; waits for the store at most for MSI_REPORT_MS. */
static mst_status read_value(struct mst_store *store, struct msi_str key, struct msi_buf *value) {
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {.req = msi_read_request(key)};
    mst_status st = msi_store_exec(store, &wait, &x, 1);
    if (st == MST_OK) {
        struct msi_str text = msi_store_reply_value(&x);
        msi_buf_add(value, text.p, text.n);
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

bool msi_events_mention(struct msi_str events, int rank) {
    struct msi_event event;
    while (msi_event_next(&events, &event))
        if (event.rank == rank) return true;
    return false;
}

bool msi_events_all(struct msi_str events, int64_t size) {
    for (int rank = 0; rank < size; rank++)
        if (!msi_events_mention(events, rank)) return false;
    return true;
}

const char *msi_process_of(struct msi_str registration, char *out, size_t size) {
    enum { MARK = 17 }; /* characters before the host */
    bool known = registration.n > MARK;
    snprintf(out, size, "%.*s", known ? (int)(registration.n - MARK) : 0, known ? registration.p + MARK : "");
    return out;
}

const char *msi_join_process(struct mst_store *store, const char *prefix, int rank, char *out, size_t size) {
    char key[MSI_KEY_MAX];
    struct msi_buf value = {0};
    out[0] = 0;
    if (read_value(store, msi_key(key, "%srank/%d", prefix, rank), &value) == MST_OK)
        msi_process_of(msi_buf_str(&value), out, size);
    msi_buf_free(&value);
    return out;
}

mst_status msi_events_explain(struct mst_store *store, const char *prefix, struct msi_str events, int rank) {
    struct msi_event event;
    while (msi_event_next(&events, &event)) {
        char process[MSI_PROCESS_MAX], who[MSI_PROCESS_MAX + 24];
        if (event.rank == rank && event.kind != 'F') continue;
        msi_join_process(store, prefix, event.rank, process, sizeof process);
        snprintf(who, sizeof who, "rank %d%s%s%s", event.rank, *process ? " (" : "", process,
                 *process ? ")" : "");
        if (event.kind != 'F')
            return msi_blame(msi_fail(MST_ERR_PEER_LOST, "look at that rank's own output",
                                      "%s %s while the world was forming", who,
                                      event.silent        ? "was lost, because its host does not answer,"
                                      : event.kind == 'D' ? "died"
                                                          : "left"),
                             event.rank);
        bool backend = event.status == MST_ERR_MISMATCH;
        bool plain = event.status == MST_ERR_DUPLICATE_RANK || event.status == MST_ERR_WORLD_SIZE ||
                     event.status == MST_ERR_VERSION || backend; /* these messages name the ranks */
        if (plain) {
            mst_status st = msi_fail(event.status,
                                     backend ? MSI_SAME_BACKEND
                                             : "start every rank once, with the same world size and version",
                                     "%.*s", (int)event.text.n, event.text.p);
            return msi_blame(st, backend && event.culprit == rank ? event.rank : event.culprit);
        }
        mst_status st =
            msi_fail(event.status, NULL, "%s gave up: %.*s", who, (int)event.text.n, event.text.p);
        return msi_blame(st, event.culprit >= 0 ? event.culprit : event.rank);
    }
    return MST_OK;
}

mst_status msi_join_explain_loss(struct mst_store *store, const char *prefix, int rank) {
    char key[MSI_KEY_MAX];
    struct msi_buf events = {0};
    mst_status st = read_value(store, msi_key(key, "%sevents", prefix), &events);
    if (st == MST_OK) st = msi_events_explain(store, prefix, msi_buf_str(&events), rank);
    if (st == MST_OK) st = msi_fail(MST_ERR_PEER_LOST, NULL, "a rank was lost while the world was forming");
    msi_buf_free(&events);
    return st;
}

void msi_join_post(struct mst_store *store, const char *prefix, int rank, char kind, bool leaving) {
    char key[MSI_KEY_MAX];
    struct msi_saved_error error;
    msi_error_save(&error, mst_last_error()->status);
    struct msi_event event = {kind, rank, error.status, error.culprit, msi_cstr(error.message), false};
    struct msi_buf line = {0};
    msi_event_write(&line, &event);
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_APPEND, .key = msi_key(key, "%sevents", prefix), .value = msi_buf_str(&line)}},
        {.req = {.op = MSI_OP_ON_DISCONNECT}},
    };
    store->ops->exec(store, &wait, x, leaving ? 2 : 1);
    msi_store_rpc_free(x, 2);
    msi_buf_free(&line);
    msi_error_restore(&error);
}

/* Marks the ranks that have arrived; returns their number, or -1 if the store does not answer. */
static int mark_arrived(struct mst_store *store, const char *prefix, bool *arrived, int size) {
    char key[MSI_KEY_MAX];
    struct msi_buf members = {0};
    int count = -1;
    if (read_value(store, msi_key(key, "%smembers", prefix), &members) == MST_OK) {
        count = 0;
        struct msi_str text = msi_buf_str(&members);
        struct msi_member_entry entry;
        while (msi_members_next(&text, &entry)) {
            if (entry.rank >= (uint32_t)size) continue;
            count += !arrived[entry.rank];
            arrived[entry.rank] = true;
        }
    }
    msi_buf_free(&members);
    return count;
}

uint32_t msi_join_host_mark(void) {
    static const uint64_t seed[2] = {0x6d7573746572, 2};
    char key[MSI_HOST_KEY_MAX];
    msi_host_key(key);
    return (uint32_t)msi_hash(key, strlen(key), seed);
}

/* Has a process of this host registered as the rank, and ended? */
static bool has_died(struct mst_store *store, const char *prefix, int rank) {
    char key[MSI_KEY_MAX], text[MSI_PROCESS_MAX + 20];
    struct msi_buf value = {0};
    unsigned mark;
    int pid;
    bool known = read_value(store, msi_key(key, "%srank/%d", prefix, rank), &value) == MST_OK;
    msi_str_copy(msi_buf_str(&value), text, sizeof text);
    msi_buf_free(&value);
    return known && sscanf(text, "%*8x%8x host %*[^,], pid %d", &mark, &pid) == 2 &&
           mark == msi_join_host_mark() && pid > 0 && msi_process_has_ended(pid);
}

static void post_death(struct mst_store *store, const char *prefix, int rank) {
    char key[MSI_KEY_MAX];
    struct msi_buf line = {0};
    msi_event_write(&line, &(struct msi_event){.kind = 'D', .rank = rank});
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_APPEND, .key = msi_key(key, "%sevents", prefix), .value = msi_buf_str(&line)}};
    store->ops->exec(store, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    msi_buf_free(&line);
}

void msi_join_report_dead(struct mst_store *store, const char *prefix, const struct msi_join_spec *spec,
                          int *next) {
    int size = spec->world_size, dead = -1, looked = 0;
    bool *arrived = calloc((size_t)size, sizeof *arrived);
    if (!arrived) return;
    if (mark_arrived(store, prefix, arrived, size) >= 0)
        for (int i = 0; i < size && dead < 0 && looked < LISTED_MOST; i++) {
            int rank = *next = (*next + 1) % size;
            if (arrived[rank]) continue;
            looked++;
            if (has_died(store, prefix, rank)) dead = rank;
        }
    /* It may have arrived before it ended: then the world has formed, and the store reports its end. */
    if (dead >= 0 && mark_arrived(store, prefix, arrived, size) >= 0 && !arrived[dead])
        post_death(store, prefix, dead);
    free(arrived);
}

/* The host on which the launcher has started a rank; "" if it is not known. */
static const char *find_host(struct msi_str hosts, const char *run, int rank, char out[MSI_HOST_MAX]) {
    char text[MSI_RUN_MAX + MSI_HOST_MAX + 48], name[MSI_HOST_MAX];
    struct msi_str line;
    size_t len = strlen(run);
    out[0] = 0;
    while (msi_str_line(&hosts, &line)) {
        int first, count;
        msi_str_copy(line, text, sizeof text);
        if (strncmp(text, run, len) != 0 || text[len] != ' ' ||
            sscanf(text + len, " %9d %9d %255s", &first, &count, name) != 3)
            continue;
        if (rank >= first && rank - first < count) strcpy(out, name);
    }
    return out;
}

/* Lists the ranks that have not arrived, as "2 (host a), 5 and 3 more". */
static void list_missing(struct mst_store *store, const struct msi_join_spec *spec, const bool *arrived,
                         struct msi_rank_list *missing) {
    struct msi_buf hosts = {0};
    read_value(store, msi_cstr(MSI_LAUNCH_HOSTS_KEY), &hosts);
    for (int r = 0; r < spec->world_size; r++) {
        char host[MSI_HOST_MAX], who[MSI_HOST_MAX + 32];
        if (arrived[r]) continue;
        host[0] = 0;
        if (missing->n < missing->most) find_host(msi_buf_str(&hosts), spec->run, r, host); /* takes time */
        snprintf(who, sizeof who, "%d%s%s%s", r, *host ? " (host " : "", host, *host ? ")" : "");
        msi_rank_list_add(missing, r, who);
    }
    msi_buf_free(&hosts);
}

static mst_status find_missing(struct mst_store *store, const char *prefix, const struct msi_join_spec *spec,
                               struct msi_rank_list *missing) {
    bool *arrived = calloc((size_t)spec->world_size, sizeof *arrived);
    char where[MSI_ADDRESS_TEXT_MAX];
    if (!arrived) return msi_fail_memory();
    int n = mark_arrived(store, prefix, arrived, spec->world_size);
    msi_rank_list_init(missing, LISTED_MOST);
    if (n >= 0) list_missing(store, spec, arrived, missing);
    free(arrived);
    if (n >= 0) return MST_OK;
    return msi_fail(
        MST_ERR_STORE_LOST, "check its host and the network", "the store at %s has stopped answering",
        spec->url.scheme == MSI_SCHEME_TCP ? msi_address_format(&spec->url.address, where) : spec->url.path);
}

mst_status msi_join_explain_missing(struct mst_store *store, const char *prefix,
                                    const struct msi_join_spec *spec) {
    struct msi_rank_list missing;
    mst_status st = find_missing(store, prefix, spec, &missing);
    if (st != MST_OK) return st;
    if (missing.n == 0)
        return msi_fail(MST_ERR_TIMEOUT, "raise the timeout of the call, or MUSTER_INIT_TIMEOUT_MS",
                        "all %d ranks arrived, but the last ones after the timeout", spec->world_size);
    st = msi_fail(MST_ERR_MISSING_RANK,
                  spec->url.scheme == MSI_SCHEME_TCP
                      ? "check that they are started, with the same master address and port"
                      : "check that they are started, with the same init method",
                  "%d of %d ranks arrived in time; missing: %s %s", spec->world_size - missing.n,
                  spec->world_size, missing.n == 1 ? "rank" : "ranks", missing.text);
    return msi_blame_missing(st, &missing.ranks);
}

void msi_join_write_slow(struct mst_store *store, const char *prefix, const struct msi_join_spec *spec,
                         struct msi_slow *slow, int64_t deadline) {
    struct msi_rank_list missing;
    char list[sizeof missing.text + 8];
    if (find_missing(store, prefix, spec, &missing) != MST_OK || !missing.n) return;
    snprintf(list, sizeof list, "%s %s", missing.n == 1 ? "rank" : "ranks", missing.text);
    msi_slow_write(slow, deadline, NULL, NULL, list);
}
