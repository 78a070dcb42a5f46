/*
 * trace_read.c - reads the trace of a rank line by line. A crash may truncate it anywhere; complete lines
 * count.
 */
#include "report/report.h"
#include "report/trace_line.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/*
 * The recorder adds a multiple of THREADS_APART to thread numbers, so that they differ from ranks
 * (prof/trace/trace.c).
 */
enum { THREADS_APART = 100000, TEXT_MOST = 4096, ALIKE_MOST = 1000 };

/* A trace that is being read. */
struct source {
    struct report_lines in;
    struct report_job *job;
    struct report_rank *rank;
    int expected; /* the rank in the file name */
    int size;
    struct msi_table groups; /* by their number in this file; the value is the number in the job, plus 1 */
    struct msi_table group_keys, open_ids;
    struct report_event *open_works; /* by number of open_ids */
    size_t works_capacity;
    bool described, bracket; /* "muster" was read, "]" was read */
};

/* The text's number in job.strings; a missing text has number 0. */
static uint32_t intern(struct source *s, struct msi_json_text text) {
    char value[TEXT_MOST];
    size_t len = text.n;
    if (text.n == 0) return 0;
    if (text.escaped || len >= sizeof value) {
        msi_json_copy(text, value, sizeof value);
        text.p = value;
        len = strlen(value);
    }
    return report_add(&s->job->strings, text.p, len);
}

/* Adds a group, identified by name, id, ranks and its index among equal ones of this file. Owns ranks. */
static uint32_t add_group(struct source *s, struct msi_json_text name, struct msi_json_text id,
                          int32_t *ranks, int n) {
    struct report_job *job = s->job;
    size_t len = ((size_t)n + 3) * sizeof(uint32_t);
    uint32_t *key = report_alloc(1, len), title = intern(s, name);
    key[0] = title;
    key[1] = intern(s, id);
    if (n > 0) memcpy(key + 3, ranks, (size_t)n * sizeof *ranks);
    /* key[2] counts groups of the same ranks without ids, which differ by their order alone. */
    while (!id.p && key[2] < ALIKE_MOST && msi_table_find(&s->group_keys, key, len) != MSI_TABLE_NONE)
        key[2]++;
    report_add(&s->group_keys, key, len);
    uint32_t number = report_add(&job->group_keys, key, len);
    free(key);
    if (number < job->n_groups) {
        free(ranks);
        return number;
    }
    report_reserve(&job->groups, job->n_groups, &job->groups_capacity, sizeof *job->groups);
    job->groups[job->n_groups++] = (struct report_group){title, n, ranks};
    return number;
}

static void name_group(struct source *s, int64_t number, uint32_t group) {
    uint32_t at = report_add(&s->groups, &number, sizeof number);
    s->groups.entries[at].value = (void *)((uintptr_t)group + 1);
}

static bool read_group(struct source *s, const struct report_line *line) {
    if (line->group == REPORT_UNKNOWN || line->size < 1 || line->size > REPORT_RANKS_MOST || !line->ranks.p)
        return false;
    int32_t *ranks = report_alloc((size_t)line->size, sizeof *ranks);
    if (!report_parse_numbers(line->ranks, (int)line->size, REPORT_RANKS_MOST - 1, ranks)) {
        free(ranks);
        return false;
    }
    if (line->group == 0 && msi_table_find(&s->groups, &line->group, sizeof line->group) != MSI_TABLE_NONE) {
        free(ranks); /* the world again */
        return true;
    }
    name_group(s, line->group, add_group(s, line->title, line->group_id, ranks, (int)line->size));
    return true;
}

/* The group of an event: one that was described, the world, or an unknown one. */
static uint32_t group_of(struct source *s, int64_t number) {
    uint32_t at = msi_table_find(&s->groups, &number, sizeof number);
    char name[32];
    if (at != MSI_TABLE_NONE) return (uint32_t)((uintptr_t)s->groups.entries[at].value - 1);
    int n = number == 0 ? s->size : 0;
    int32_t *ranks = n > 0 ? report_alloc((size_t)n, sizeof *ranks) : NULL;
    for (int i = 0; i < n; i++) ranks[i] = i;
    if (number == 0)
        snprintf(name, sizeof name, "world");
    else
        snprintf(name, sizeof name, "group %lld", (long long)number);
    struct msi_json_text text = {.p = name, .n = strlen(name)}, no_id = {0};
    uint32_t group = add_group(s, text, no_id, ranks, n);
    name_group(s, number, group);
    return group;
}

static bool read_description(struct source *s, const struct report_line *line) {
    if (line->version != 1 || line->rank == REPORT_UNKNOWN || line->size < 1 ||
        line->size > REPORT_RANKS_MOST || line->rank >= line->size || s->described)
        return false;
    s->described = true;
    s->size = (int)line->size;
    s->rank->rank = (int)line->rank;
    s->rank->host = intern(s, line->host);
    s->rank->program = intern(s, line->program);
    s->rank->pid = line->pid;
    return true;
}

static bool read_metadata(struct source *s, const struct report_line *line) {
    struct report_rank *r = s->rank;
    if (msi_json_is(line->name, "muster")) return read_description(s, line);
    if (!s->described) return true;
    if (msi_json_is(line->name, "muster_group")) return read_group(s, line);
    if (msi_json_is(line->name, "muster_clock")) {
        if (line->error_ns == REPORT_UNKNOWN) return false;
        if (line->error_ns > r->clock_error) r->clock_error = line->error_ns;
    } else if (msi_json_is(line->name, "muster_end")) {
        r->ended = true;
        if (line->end != REPORT_UNKNOWN && line->end > r->end) r->end = line->end;
        if (line->dropped != REPORT_UNKNOWN) r->dropped = line->dropped;
    }
    return true;
}

/* Cached as the value of the call's name, because comparing names would take most of the time. */
static uint32_t class_of(struct source *s, uint32_t call) {
    void **cached = &s->job->strings.entries[call].value;
    if (!*cached) *cached = (void *)((uintptr_t)report_class_of(report_string(s->job, call)) + 1);
    return (uint32_t)((uintptr_t)*cached - 1);
}

static uint32_t message_class(const struct report_line *line) {
    return msi_json_is(line->dir, "send")   ? MST_KIND_SEND
           : msi_json_is(line->dir, "recv") ? MST_KIND_RECV
                                            : REPORT_OTHER;
}

static bool make_event(struct source *s, const struct report_line *line, bool work,
                       struct report_event *event) {
    if (line->ts == REPORT_UNKNOWN || !line->name.p || line->group == REPORT_UNKNOWN ||
        (!work && (line->dur == REPORT_UNKNOWN || line->dur < 0)))
        return false;
    bool message = msi_json_is(line->cat, "message");
    if (line->seq == REPORT_UNKNOWN && !message) return false;
    uint32_t call = intern(s, line->call.p ? line->call : line->name);
    struct report_kind kind = {
        .name = intern(s, line->name),
        .call = call,
        .dtype = intern(s, line->dtype),
        .op = intern(s, line->op),
        .backend = intern(s, line->backend),
        .algorithm = intern(s, line->algorithm),
        .site = intern(s, line->site),
        .function = intern(s, line->function),
        .status = intern(s, line->status),
        .group = group_of(s, line->group),
        .tid = line->tid == REPORT_UNKNOWN ? 0 : (uint32_t)(line->tid % THREADS_APART),
        .class = message ? message_class(line) : class_of(s, call),
        .message = message,
        .work = work,
    };
    struct report_shape shape = {
        .bytes = line->bytes == REPORT_UNKNOWN ? 0 : line->bytes, .peer = REPORT_NONE, .tag = REPORT_NONE};
    if (message && line->peer != REPORT_UNKNOWN) shape.peer = (int32_t)line->peer;
    if (message && line->tag != REPORT_UNKNOWN) shape.tag = (int32_t)line->tag;
    *event = (struct report_event){
        .begin = line->ts,
        .took = work ? 0 : line->dur,
        .queued = line->queued,
        .waited = line->waited,
        .device = line->device,
        .seq = line->seq,
        .arrived = REPORT_UNKNOWN,
        .kind = report_add(&s->job->kinds, &kind, sizeof kind),
        .shape = report_add(&s->job->shapes, &shape, sizeof shape),
    };
    return true;
}

static void add_event(struct source *s, const struct report_event *event) {
    struct report_rank *r = s->rank;
    int64_t end = event->begin + event->took;
    report_reserve(&r->events, r->n, &r->capacity, sizeof *r->events);
    r->events[r->n++] = *event;
    if (end > r->end) r->end = end;
}

static bool begin_work(struct source *s, const struct report_line *line) {
    struct report_event event;
    if (!line->id.p || !make_event(s, line, true, &event)) return false;
    uint32_t at = report_add(&s->open_ids, line->id.p, line->id.n);
    report_reserve(&s->open_works, at, &s->works_capacity, sizeof *s->open_works);
    s->open_works[at] = event;
    s->rank->open++;
    return true;
}

static bool end_work(struct source *s, const struct report_line *line) {
    if (!line->id.p || line->ts == REPORT_UNKNOWN) return false;
    uint32_t at = msi_table_find(&s->open_ids, line->id.p, line->id.n);
    if (at == MSI_TABLE_NONE || s->open_works[at].took < 0 || line->ts < s->open_works[at].begin)
        return false;
    struct report_event event = s->open_works[at];
    event.took = line->ts - event.begin;
    add_event(s, &event);
    s->open_works[at].took = -1; /* ended */
    s->rank->open--;
    if (s->rank->open == 0) msi_table_clear(&s->open_ids);
    return true;
}

static bool read_line(struct source *s, struct msi_str text) {
    struct report_line line;
    struct report_event event;
    if (!report_parse_line(text, &line)) return false;
    if (!line.phase.p) {
        s->bracket = s->bracket || memchr(text.p, ']', text.n);
        return true;
    }
    s->bracket = s->bracket || text.p[text.n - 1] == ']';
    if (line.phase.n != 1) return false;
    char phase = line.phase.p[0];
    if (phase == 'M') return line.name.p && read_metadata(s, &line);
    if (!s->described) return false;
    if (phase == 'b') return begin_work(s, &line);
    if (phase == 'e') return end_work(s, &line);
    /* Viewers attach the arrow of a message to an event of length zero; here messages match by number. */
    if (phase != 'X' || msi_json_is(line.cat, "arrow")) return true;
    if (!make_event(s, &line, false, &event)) return false;
    add_event(s, &event);
    return true;
}

/* The reasons complete the sentence "it …". */
static mst_status check_source(const struct source *s, int error) {
    if (error != 0) return msi_fail(MST_ERR_SYSTEM, NULL, "cannot be read: %s", strerror(error));
    if (!s->described)
        return msi_fail(
            MST_ERR_PROTOCOL, NULL,
            "does not say which rank wrote it: it is not a trace of muster, or its beginning is missing");
    if (s->rank->rank != s->expected)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "was written by rank %d", s->rank->rank);
    if (s->job->size != 0 && s->size != s->job->size)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "belongs to a world of %d ranks, the others to one of %d",
                        s->size, s->job->size);
    return MST_OK;
}

mst_status report_read_trace(struct report_job *job, const char *path, int rank, struct report_rank **out) {
    struct source s = {.job = job, .expected = rank, .rank = report_alloc(1, sizeof *s.rank)};
    struct msi_str text;
    report_lines_open(&s.in, path);
    while (report_next_line(&s.in, &text)) {
        bool good = read_line(&s, text);
        s.rank->cut = !good && s.in.last;
        s.rank->malformed += !good && !s.in.last;
    }
    s.rank->cut = s.rank->cut || !s.bracket;
    mst_status st = check_source(&s, report_lines_close(&s.in));
    msi_table_free(&s.groups);
    msi_table_free(&s.group_keys);
    msi_table_free(&s.open_ids);
    free(s.open_works);
    if (st != MST_OK) {
        report_rank_free(s.rank);
        return st;
    }
    job->size = s.size;
    *out = s.rank;
    return MST_OK;
}

void report_rank_free(struct report_rank *rank) {
    free(rank->events);
    free(rank);
}
