/* report.c - what ranks tell each other when a world cannot form. See report.h. */
#include "bootstrap/report.h"
#include "base/error.h"
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
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(params));
    return sscanf(text, "%d", &size) == 1 && size > 0 ? size : INT64_MAX;
}

static mst_status read_value(struct mst_store *store, const struct msi_wait *wait, struct msi_str key,
                             struct msi_buf *value) {
    struct msi_store_rpc x = {.req = msi_read_request(key)};
    mst_status st = msi_store_exec(store, wait, &x, 1);
    if (st == MST_OK) {
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        struct msi_str text = msi_value_or_none(msi_read_str(&r));
        msi_buf_add(value, text.p, text.n);
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

/* The world's events so far, which may be none. */
static mst_status read_events(struct mst_store *store, const struct msi_wait *wait, const char *prefix,
                              struct msi_buf *events) {
    char key[MSI_KEY_MAX];
    return read_value(store, wait, msi_key(key, "%sevents", prefix), events);
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

const char *msi_join_who(struct mst_store *store, const char *prefix, int rank, char *out, size_t size) {
    char key[MSI_KEY_MAX];
    struct msi_buf value = {0};
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    out[0] = 0;
    if (read_value(store, &wait, msi_key(key, "%swho/%d", prefix, rank), &value) == MST_OK)
        snprintf(out, size, "%.*s", value.len > 17 ? (int)value.len - 17 : 0,
                 value.len > 17 ? (const char *)value.data + 17 : "");
    msi_buf_free(&value);
    return out;
}

mst_status msi_events_explain(struct mst_store *store, const char *prefix, struct msi_str events, int rank) {
    struct msi_event event;
    while (msi_event_next(&events, &event)) {
        char who[MSI_WHO_MAX];
        if (event.rank == rank && event.kind != 'F') continue;
        msi_join_who(store, prefix, event.rank, who, sizeof who);
        bool backend = event.status == MST_ERR_MISMATCH;
        bool plain = event.status == MST_ERR_DUPLICATE_RANK || event.status == MST_ERR_WORLD_SIZE ||
                     event.status == MST_ERR_VERSION ||
                     backend; /* these say by themselves whom they concern */
        if (event.kind == 'F' && plain) {
            mst_status st = msi_fail(event.status,
                                     backend ? MSI_SAME_BACKEND
                                             : "start every rank once, with the same world size and version",
                                     "%.*s", (int)event.text.n, event.text.p);
            return msi_blame(st, backend && event.culprit == rank ? event.rank : event.culprit);
        }
        if (event.kind == 'F') {
            mst_status st = msi_fail(event.status, NULL, "rank %d%s%s%s gave up: %.*s", event.rank,
                                     *who ? " (" : "", who, *who ? ")" : "", (int)event.text.n, event.text.p);
            return msi_blame(st, event.culprit >= 0 ? event.culprit : event.rank);
        }
        mst_status st = msi_fail(MST_ERR_PEER_LOST, "look at that rank's own output",
                                 "rank %d%s%s%s %s while the world was forming", event.rank, *who ? " (" : "",
                                 who, *who ? ")" : "", event.kind == 'D' ? "died" : "left");
        return msi_blame(st, event.rank);
    }
    return MST_OK;
}

mst_status msi_join_explain_loss(struct mst_store *store, const char *prefix, int rank) {
    struct msi_buf events = {0};
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    mst_status st = read_events(store, &wait, prefix, &events);
    if (st == MST_OK) st = msi_events_explain(store, prefix, msi_buf_str(&events), rank);
    if (st == MST_OK) st = msi_fail(MST_ERR_PEER_LOST, NULL, "a rank was lost while the world was forming");
    msi_buf_free(&events);
    return st;
}

void msi_join_post(struct mst_store *store, const char *prefix, int rank, char kind, bool with_will) {
    const mst_error_info before = *mst_last_error();
    char key[MSI_KEY_MAX], text[MSI_EVENT_TEXT_MAX], remedy[256];
    snprintf(text, sizeof text, "%s", before.message);
    snprintf(remedy, sizeof remedy, "%s", before.remedy);
    struct msi_event event = {kind, rank, before.status, before.culprit, msi_cstr(text)};
    struct msi_buf line = {0};
    msi_event_write(&line, &event);
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_APPEND, .key = msi_key(key, "%sevents", prefix), .value = msi_buf_str(&line)}},
        {.req = {.op = MSI_OP_WILL}},
    };
    store->ops->exec(store, &wait, x, with_will ? 2 : 1);
    msi_store_rpc_free(x, 2);
    msi_buf_free(&line);
    msi_blame(msi_fail(before.status, remedy, "%s", text), before.culprit);
}

/* Marks the ranks on the members; returns how many there are, or -1 if the store does not say. */
static int mark_arrived(struct mst_store *store, const char *prefix, bool *arrived, int size) {
    char key[MSI_KEY_MAX];
    struct msi_buf members = {0};
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    int count = -1;
    if (read_value(store, &wait, msi_key(key, "%sroster", prefix), &members) == MST_OK) {
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

/* The next line of a text; false at its end. */
static bool next_line(struct msi_str *text, char *line, size_t size) {
    if (!text->n) return false;
    const char *newline = memchr(text->p, '\n', text->n);
    size_t n = newline ? (size_t)(newline - (const char *)text->p) : text->n;
    snprintf(line, size, "%.*s", (int)(n < size ? n : size - 1), (const char *)text->p);
    n += newline != NULL;
    *text = msi_str((const char *)text->p + n, text->n - n);
    return true;
}

/* The host where the launcher has put a rank; "" if it does not say. */
static const char *find_host(struct msi_str hosts, const char *run, int rank, char out[MSI_HOST_MAX]) {
    char line[MSI_RUN_MAX + MSI_HOST_MAX + 48], name[256];
    _Static_assert(MSI_HOST_MAX >= sizeof name, "a name fits");
    size_t len = strlen(run);
    out[0] = 0;
    while (next_line(&hosts, line, sizeof line)) {
        int first, count;
        if (strncmp(line, run, len) != 0 || line[len] != ' ' ||
            sscanf(line + len, " %9d %9d %255s", &first, &count, name) != 3)
            continue;
        if (rank >= first && rank - first < count) strcpy(out, name);
    }
    return out;
}

/* "2 (host a), 5 and 3 more": those that have not arrived. Returns the first of them. */
static int list_missing(struct mst_store *store, const struct msi_place *place, const bool *arrived,
                        int missing, char *list, size_t size) {
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    struct msi_buf hosts = {0};
    int listed = 0, first = -1;
    size_t used = 0;
    read_value(store, &wait, msi_cstr(MSI_LAUNCH_HOSTS_KEY), &hosts);
    for (int r = 0; r < place->world_size && listed < LISTED_MOST && used < size; r++) {
        char host[MSI_HOST_MAX];
        if (arrived[r]) continue;
        if (first < 0) first = r;
        find_host(msi_buf_str(&hosts), place->run, r, host);
        used += (size_t)snprintf(list + used, size - used, "%s%d%s%s%s", listed++ ? ", " : "", r,
                                 *host ? " (host " : "", host, *host ? ")" : "");
    }
    if (missing > listed && used < size) snprintf(list + used, size - used, " and %d more", missing - listed);
    msi_buf_free(&hosts);
    return first;
}

mst_status msi_join_explain_missing(struct mst_store *store, const char *prefix,
                                    const struct msi_place *place) {
    bool *arrived = calloc((size_t)place->world_size, sizeof *arrived);
    if (!arrived) return msi_fail_memory();
    int come = mark_arrived(store, prefix, arrived, place->world_size);
    if (come < 0) {
        char where[MSI_ADDRESS_TEXT_MAX];
        free(arrived);
        return msi_fail(MST_ERR_STORE_LOST, "is its host still there, and the network between?",
                        "the store at %s has stopped answering",
                        place->url.scheme == MSI_SCHEME_TCP ? msi_address_format(&place->url.address, where)
                                                            : place->url.path);
    }
    char list[512] = "";
    int missing = place->world_size - come;
    int culprit = list_missing(store, place, arrived, missing, list, sizeof list);
    free(arrived);
    mst_status st = msi_fail(MST_ERR_MISSING_RANK,
                             place->url.scheme == MSI_SCHEME_TCP
                                 ? "are they started, and with the same master address and port?"
                                 : "are they started, and told to meet at the same place?",
                             "%d of %d ranks came in time; missing: rank%s %s", come, place->world_size,
                             missing == 1 ? "" : "s", list);
    return msi_blame(st, culprit);
}
