/*
 * match.c - matches events of different ranks and computes which rank waited for which.
 *
 * A collective is identified by its group and its sequence number there. If all ranks of the group have it,
 * the rank that began last is late, and the others waited for it. A message is identified by group, tag,
 * sender, receiver and sequence number; the receiver waited for the sender. prof/summary/comm_time.h defines
 * how long. The whole time of a failed call is waiting, for no rank in particular, so it is not matched.
 */
#include "report/report.h"

#include "prof/summary/comm_time.h"

#include <stdlib.h>
#include <string.h>

/* Of a collective, tag, from and to are REPORT_NONE. */
struct match_key {
    int64_t seq;
    uint32_t group;
    int32_t tag, from, to;
};

/* A collective, or the send of a message. */
struct match {
    int64_t begin;   /* of the last rank */
    int32_t late, n; /* that rank, and how many ranks have begun */
    int32_t counted; /* the rank that was counted last */
    bool doubled;
};

struct matching {
    struct report_job *job;
    struct msi_table keys;
    struct match *matches;
    size_t capacity;
};

/* False: the event cannot be matched. */
static bool key_of(const struct report_job *job, const struct report_rank *r, const struct report_event *e,
                   struct match_key *key) {
    const struct report_kind *kind = report_kind_of(job, e);
    const struct report_shape *shape = report_shape_of(job, e);
    bool sends = kind->class == MST_KIND_SEND;
    *key = (struct match_key){e->seq, kind->group, REPORT_NONE, REPORT_NONE, REPORT_NONE};
    if (!kind->message) return true;
    key->tag = shape->tag;
    key->from = sends ? r->rank : shape->peer;
    key->to = sends ? shape->peer : r->rank;
    return shape->peer >= 0 && e->seq != REPORT_UNKNOWN && kind->class != REPORT_OTHER;
}

/* First pass: counts the event. Its arrived holds the number of the match until the second pass. */
static void count_arrival(struct matching *p, const struct report_rank *r, struct report_event *e) {
    struct match_key key;
    uint32_t before = p->keys.n;
    e->arrived = REPORT_UNKNOWN;
    if (report_failed(p->job, e) || !key_of(p->job, r, e, &key)) return;
    e->arrived = report_add(&p->keys, &key, sizeof key);
    report_reserve(&p->matches, (size_t)e->arrived, &p->capacity, sizeof *p->matches);
    struct match *m = &p->matches[e->arrived];
    if (e->arrived == before)
        *m = (struct match){.begin = INT64_MIN, .late = REPORT_NONE, .counted = REPORT_NONE};
    if (report_kind_of(p->job, e)->class == MST_KIND_RECV) return;
    m->doubled = m->doubled || m->counted == r->rank;
    m->counted = r->rank;
    m->n++;
    if (e->begin <= m->begin) return;
    m->begin = e->begin;
    m->late = r->rank;
}

static bool is_complete(const struct matching *p, const struct match *m, const struct report_kind *kind) {
    const struct report_group *group = &p->job->groups[kind->group];
    return !m->doubled && m->n == (kind->message ? 1 : group->ranks ? group->size : 0);
}

static void add_to_pair(struct report_job *job, int rank, int late, int64_t ns) {
    int32_t key[2] = {rank, late};
    uint32_t at = report_add(&job->wait_keys, key, sizeof key);
    if (at == job->n_waits) {
        report_reserve(&job->waits, at, &job->waits_capacity, sizeof *job->waits);
        job->waits[job->n_waits++] = (struct report_wait){.rank = rank, .late = late};
    }
    job->waits[at].ns += ns;
    job->waits[at].times++;
}

static int64_t window_begin(const struct report_job *job, int window) {
    return job->begin + (int64_t)((double)(job->end - job->begin) * window / REPORT_WINDOWS);
}

/* Divides the time from begin to end among the windows in which it lies. */
static void add_to_windows(const struct report_job *job, int64_t *windows, int64_t begin, int64_t end) {
    int i = (int)((double)(begin - job->begin) / (double)(job->end - job->begin) * REPORT_WINDOWS);
    if (i < 0) i = 0;
    if (i >= REPORT_WINDOWS) i = REPORT_WINDOWS - 1;
    while (i > 0 && window_begin(job, i) > begin) i--;
    for (; i < REPORT_WINDOWS && begin < end; i++) {
        int64_t until = i + 1 < REPORT_WINDOWS ? window_begin(job, i + 1) : end;
        if (until > end) until = end;
        if (until <= begin) continue;
        windows[i] += until - begin;
        begin = until;
    }
}

/* arrived is known. */
static void add_wait(struct report_job *job, struct report_rank *r, const struct report_event *e, int late) {
    int64_t end = e->begin + e->took, until = e->arrived < end ? e->arrived : end;
    int64_t ns = msi_waiting_time(end, report_comm(job, e), e->arrived);
    if (ns == 0 || late == r->rank) return;
    int at = report_find_rank(job, late);
    add_to_pair(job, r->rank, late, ns);
    if (at == REPORT_NONE) return;
    job->ranks[at]->times.waited_for_ns += ns;
    add_to_windows(job, job->ranks[at]->windows, until - ns, until);
}

/* Second pass: the last rank of each match is known. */
static void finish_event(struct matching *p, struct report_rank *r, struct report_event *e) {
    const struct report_kind *kind = report_kind_of(p->job, e);
    if (e->arrived == REPORT_UNKNOWN) return;
    const struct match *m = &p->matches[e->arrived];
    bool complete = is_complete(p, m, kind), sends = kind->class == MST_KIND_SEND;
    e->arrived = complete && !sends ? m->begin : REPORT_UNKNOWN;
    if (kind->class == MST_KIND_RECV) {
        p->job->messages++;
        p->job->messages_complete += complete;
    } else if (!kind->message && (complete ? m->late : m->counted) == r->rank) {
        p->job->collectives++; /* once, at one of its ranks */
        p->job->collectives_complete += complete;
    }
    if (e->arrived != REPORT_UNKNOWN) add_wait(p->job, r, e, m->late);
}

static void sum_times(const struct report_job *job, struct report_rank *r) {
    r->times.rank = r->rank;
    r->times.run_ns = r->end - job->begin;
    for (size_t i = 0; i < r->n; i++) {
        r->times.comm_ns += report_comm(job, &r->events[i]);
        r->times.waiting_ns += report_waiting(job, &r->events[i]);
    }
}

static int by_begin(const void *a, const void *b) {
    const struct report_event *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void sort_events(struct report_rank *r) {
    for (size_t i = 1; i < r->n; i++)
        if (r->events[i].begin < r->events[i - 1].begin) {
            qsort(r->events, r->n, sizeof *r->events, by_begin);
            return;
        }
}

void report_match_events(struct report_job *job) {
    struct matching p = {.job = job};
    for (int i = 0; i < job->n_ranks; i++) {
        sort_events(job->ranks[i]);
        for (size_t k = 0; k < job->ranks[i]->n; k++)
            count_arrival(&p, job->ranks[i], &job->ranks[i]->events[k]);
    }
    for (int i = 0; i < job->n_ranks; i++) {
        for (size_t k = 0; k < job->ranks[i]->n; k++)
            finish_event(&p, job->ranks[i], &job->ranks[i]->events[k]);
        sum_times(job, job->ranks[i]);
    }
    msi_table_free(&p.keys);
    free(p.matches);
}
