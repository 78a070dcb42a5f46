/*
 * pair.c - which events of different ranks belong together, and who waited for whom.
 *
 * A collective is known by its group and its number there. Where all ranks of the group have it, the last to begin is late, and every other
 * rank waited for it from its own beginning until then, or until its own end if that was earlier. A message is known by group, tag,
 * sender, receiver and number: the receiver waited from its beginning until that of the send. A program does not stand still for a
 * work that is in flight: there no more counts than what it spent in mst_wait. All the time of a call that failed is waiting, for nobody in
 * particular where it is not known who came last.
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

struct collective_key {
    int64_t seq;
    uint32_t group, pad;
};

struct message_key {
    int64_t seq;
    uint32_t group;
    int32_t tag, from, to;
};

/* What is known of a collective, or of the sending of a message. */
struct meeting {
    int64_t begin; /* of the last */
    int32_t late, n;
    int32_t latest_reader; /* the rank that was counted last, to see doubles */
    bool doubled, message;
};

struct pairing {
    struct page_job *job;
    struct page_set keys;
    struct meeting *meetings;
    size_t capacity;
};

/* The key of an event; 0 bytes: it belongs to nothing. */
static size_t key_of(const struct page_job *job, const struct page_rank *r, const struct page_event *e,
                     void *key) {
    const struct page_kind *kind = page_kind_of(job, e);
    const struct page_shape *shape = page_shape_of(job, e);

    if (!kind->message) {
        *(struct collective_key *)key = (struct collective_key){e->seq, kind->group, 0};
        return sizeof(struct collective_key);
    }
    if (shape->peer < 0 || e->seq == PAGE_UNKNOWN || (kind->class != PAGE_SEND && kind->class != PAGE_RECV))
        return 0;
    bool sends = kind->class == PAGE_SEND;
    *(struct message_key *)key = (struct message_key){
        e->seq, kind->group, shape->tag, sends ? r->rank : shape->peer, sends ? shape->peer : r->rank};
    return sizeof(struct message_key);
}

static struct meeting *meet(struct pairing *p, const void *key, size_t len, int64_t *number) {
    uint32_t before = p->keys.n, at = page_set_add(&p->keys, key, len);

    if (at == PAGE_SET_FULL || !page_room(p->job, &p->meetings, at, &p->capacity, sizeof *p->meetings)) {
        p->job->failed = true;
        return NULL;
    }
    if (at == before)
        p->meetings[at] = (struct meeting){.begin = INT64_MIN, .late = PAGE_NONE, .latest_reader = PAGE_NONE};
    *number = at;
    return &p->meetings[at];
}

/* First round: everybody comes. The number of its meeting is kept in arrived for the second one. */
static void gather(struct pairing *p, const struct page_rank *r, struct page_event *e) {
    const struct page_kind *kind = page_kind_of(p->job, e);
    union {
        struct collective_key collective;
        struct message_key message;
    } key;
    size_t len = key_of(p->job, r, e, &key);

    e->arrived = PAGE_UNKNOWN;
    struct meeting *m = len > 0 ? meet(p, &key, len, &e->arrived) : NULL;
    if (m == NULL) return;
    m->message = kind->message;
    if (kind->message && kind->class == PAGE_RECV) return;
    m->doubled = m->doubled || m->latest_reader == r->rank;
    m->latest_reader = r->rank;
    m->n++;
    if (e->begin <= m->begin) return;
    m->begin = e->begin;
    m->late = r->rank;
}

static bool is_complete(const struct pairing *p, const struct meeting *m, const struct page_kind *kind) {
    const struct page_group *group = &p->job->groups[kind->group];
    return !m->doubled && m->n == (m->message ? 1 : group->ranks != NULL ? group->size : 0);
}

static void add_to_picture(struct page_job *job, int rank, int late, int64_t ns) {
    int32_t key[2] = {rank, late};
    uint32_t at = page_set_add(&job->wait_keys, key, sizeof key);

    if (at == PAGE_SET_FULL) {
        job->failed = true;
        return;
    }
    if (at == job->n_waits) {
        if (!page_room(job, &job->waits, at, &job->waits_capacity, sizeof *job->waits)) return;
        job->waits[job->n_waits++] = (struct page_wait){.rank = rank, .late = late};
    }
    job->waits[at].ns += ns;
    job->waits[at].times++;
}

static int64_t window_begin(const struct page_job *job, int window) {
    return job->begin + (int64_t)((double)(job->end - job->begin) * window / PAGE_WINDOWS);
}

/* Shares the time from begin to end out among the windows that it lies in. */
static void add_to_windows(const struct page_job *job, int64_t *windows, int64_t begin, int64_t end) {
    int i = (int)((double)(begin - job->begin) / (double)(job->end - job->begin) * PAGE_WINDOWS);

    if (i < 0) i = 0;
    if (i >= PAGE_WINDOWS) i = PAGE_WINDOWS - 1;
    while (i > 0 && window_begin(job, i) > begin) i--;
    for (; i < PAGE_WINDOWS && begin < end; i++) {
        int64_t until = i + 1 < PAGE_WINDOWS ? window_begin(job, i + 1) : end;
        if (until > end) until = end;
        if (until <= begin) continue;
        windows[i] += until - begin;
        begin = until;
    }
}

/* So long the program stood still for it. */
static int64_t standstill(const struct page_job *job, const struct page_event *e) {
    bool known = page_kind_of(job, e)->work && e->waited != PAGE_UNKNOWN && e->waited < e->took;
    return !known ? e->took : e->waited > 0 ? e->waited : 0;
}

static void add_wait(struct page_job *job, struct page_rank *r, const struct page_event *e, int late) {
    int64_t end = e->begin + e->took, until = e->arrived < end ? e->arrived : end, ns = until - e->begin;

    if (ns > standstill(job, e)) ns = standstill(job, e);
    if (ns <= 0 || late == r->rank) return;
    int at = page_find_rank(job, late);
    if (!page_failed(job, e)) r->waited += ns;
    add_to_picture(job, r->rank, late, ns);
    if (at == PAGE_NONE) return;
    job->ranks[at]->waited_for += ns;
    add_to_windows(job, job->ranks[at]->windows, until - ns, until);
}

/* Second round: who came last is known. */
static void settle(struct pairing *p, struct page_rank *r, struct page_event *e) {
    const struct page_kind *kind = page_kind_of(p->job, e);

    if (e->arrived == PAGE_UNKNOWN) return;
    const struct meeting *m = &p->meetings[e->arrived];
    bool complete = is_complete(p, m, kind), sends = kind->message && kind->class == PAGE_SEND;
    e->arrived = complete && !sends ? m->begin : PAGE_UNKNOWN;
    if (kind->message && kind->class == PAGE_RECV) {
        p->job->messages++;
        p->job->messages_paired += complete;
    } else if (!kind->message && (complete ? m->late : m->latest_reader) == r->rank) {
        p->job->collectives++; /* counted where it was found last */
        p->job->paired += complete;
    }
    if (e->arrived != PAGE_UNKNOWN) add_wait(p->job, r, e, m->late);
}

static void add_failed_wait(const struct page_job *job, struct page_rank *r, const struct page_event *e) {
    if (page_failed(job, e)) r->waited += standstill(job, e);
}

/* Time in which the program was in communication: in blocking calls, which may overlap in several threads, and waiting for works. */
static void measure_share(const struct page_job *job, struct page_rank *r) {
    int64_t covered = INT64_MIN, own = r->end - job->begin;

    for (size_t i = 0; i < r->n; i++) {
        const struct page_event *e = &r->events[i];
        int64_t from = e->begin > covered ? e->begin : covered, until = e->begin + e->took;
        if (page_kind_of(job, e)->work) {
            r->in_comm += standstill(job, e);
        } else if (until > from) {
            r->in_comm += until - from;
            covered = until;
        }
    }
    if (r->in_comm > own) r->in_comm = own;
}

static int by_begin(const void *a, const void *b) {
    const struct page_event *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void sort_events(struct page_rank *r) {
    for (size_t i = 1; i < r->n; i++)
        if (r->events[i].begin < r->events[i - 1].begin) {
            qsort(r->events, r->n, sizeof *r->events, by_begin);
            return;
        }
}

void page_pair(struct page_job *job) {
    struct pairing p = {.job = job};

    for (int i = 0; i < job->n_ranks && !job->failed; i++) {
        sort_events(job->ranks[i]);
        measure_share(job, job->ranks[i]);
        for (size_t k = 0; k < job->ranks[i]->n && !job->failed; k++)
            gather(&p, job->ranks[i], &job->ranks[i]->events[k]);
    }
    for (int i = 0; i < job->n_ranks && !job->failed; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++) {
            settle(&p, job->ranks[i], &job->ranks[i]->events[k]);
            add_failed_wait(job, job->ranks[i], &job->ranks[i]->events[k]);
        }
    page_set_free(&p.keys);
    free(p.meetings);
}
