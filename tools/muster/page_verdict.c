/*
 * page_verdict.c - what the flight recordings say together: from each rank that is in a call one asks for whom it waits, and for whom
 * that one, until somebody waits for nobody. Where most of these walks end, there is the culprit; page_tell.c says so.
 *
 * A rank waits for whom it blames itself. In a collective it waits for the rank of the group that called the fewest so far, if that has not
 * called this one yet; in a receive for the sender, unless it has sent. A rank without a recording waits for nobody that is known.
 */
#include "page_inquiry.h"

#include <stdlib.h>

static int find(const struct inquiry *q, int rank) {
    return rank >= 0 && rank < q->f->size ? q->at[rank] : NOBODY;
}

/* What went well after a failure makes that one a thing of the past. */
static void note_done(struct flight *flight, const struct flight_op *op) {
    flight->last = op;
    if (flight->current != NULL && flight->current->state == FLIGHT_FAILED) flight->current = NULL;
}

/* Finds what each rank is in, and for each group who called the fewest. */
static void survey(struct page_flights *f) {
    for (int i = 0; i < f->n; i++) {
        struct flight *flight = &f->list[i];
        for (size_t k = 0; k < flight->n; k++) {
            const struct flight_op *op = &flight->ops[k];
            struct flight_group *group = &f->groups[op->group];
            if (op->state != FLIGHT_DONE)
                flight->current = op;
            else
                note_done(flight, op);
            if (page_is_message(op)) continue;
            if (group->newest_reader != i) {
                group->seen++;
                group->newest_reader = i;
                group->newest_seq = op->seq;
            } else if (op->seq > group->newest_seq) {
                group->newest_seq = op->seq;
            }
        }
        /* Numbers only grow, so what the rank called last in a group is its highest. */
        for (size_t k = flight->n; k-- > 0;) {
            struct flight_group *group = &f->groups[flight->ops[k].group];
            if (group->newest_reader != i || page_is_message(&flight->ops[k])) continue;
            if (group->slowest == PAGE_NONE || group->newest_seq < group->slowest_seq) {
                group->slowest = i;
                group->slowest_seq = group->newest_seq;
            }
        }
    }
}

static bool has_sent(const struct flight *sender, int to, const struct flight_op *receive) {
    for (size_t i = 0; i < sender->n; i++) {
        const struct flight_op *op = &sender->ops[i];
        if (op->class == PAGE_SEND && op->peer == to && op->group == receive->group &&
            op->seq >= receive->seq)
            return true;
    }
    return false;
}

static int whom(const struct inquiry *q, int i) {
    const struct flight *flight = &q->f->list[i];
    const struct flight_op *op = flight->current;

    if (op == NULL) return NOBODY;
    if (flight->blames != PAGE_NONE && flight->blames != flight->rank)
        return find(q, flight->blames) == NOBODY ? MISSING : find(q, flight->blames);
    if (page_is_message(op)) {
        if (op->peer < 0) return NOBODY;
        int peer = find(q, op->peer);
        if (peer == NOBODY) return MISSING;
        if (op->class == PAGE_SEND) return NOBODY;
        return has_sent(&q->f->list[peer], q->f->list[i].rank, op) ? NOBODY : peer;
    }
    const struct flight_group *group = &q->f->groups[op->group];
    if (group->seen > group->size) return NOBODY; /* several groups that cannot be told apart */
    if (group->slowest != i && group->slowest_seq < op->seq) return group->slowest;
    return group->seen < group->size ? MISSING : NOBODY;
}

static int least_of_circle(const struct inquiry *q, int at) {
    int least = at;

    for (int i = q->waits_for[at]; i != at; i = q->waits_for[i])
        if (i < least) least = i;
    return least;
}

/* Follows each walk to its end, once: ends of walks that were made before are known. */
static void walk(struct inquiry *q) {
    for (int i = 0; i < q->f->n; i++) q->ends[i] = NOBODY;
    for (int i = 0; i < q->f->n; i++) {
        int at = i, steps = 0;
        while (q->ends[at] == NOBODY && q->waits_for[at] >= 0 && steps++ <= q->f->n) at = q->waits_for[at];
        int end = q->ends[at] != NOBODY ? q->ends[at] : q->waits_for[at] < 0 ? at : least_of_circle(q, at);
        for (at = i; q->ends[at] == NOBODY; at = q->waits_for[at]) {
            q->ends[at] = end;
            if (q->waits_for[at] < 0) break;
        }
    }
}

/*
 * The end that most walks have, of those that wait at all; NOBODY: no rank is in a call. One for which nobody waits, and who waits for nobody,
 * may just be on its way: it counts where there is no other.
 */
static int find_culprit(const struct inquiry *q) {
    int *votes = calloc((size_t)q->f->n + 1, sizeof *votes), best = NOBODY;

    if (votes == NULL) {
        q->job->failed = true;
        return NOBODY;
    }
    for (int i = 0; i < q->f->n; i++)
        if (q->f->list[i].current != NULL)
            votes[q->ends[i]] += 1 + (q->ends[i] != i || q->waits_for[i] != NOBODY ? q->f->n : 0);
    for (int i = 0; i < q->f->n; i++)
        if (votes[i] > 0 && (best == NOBODY || votes[i] > votes[best])) best = i;
    free(votes);
    return best;
}

void page_judge(struct page_job *job) {
    struct page_flights *f = job->flights;
    struct inquiry q = {.job = job, .f = f};
    size_t n = (size_t)f->n + 1;

    q.at = calloc((size_t)f->size + 1, sizeof *q.at);
    q.waits_for = calloc(n, sizeof *q.waits_for);
    q.ends = calloc(n, sizeof *q.ends);
    f->blamed = calloc((size_t)f->size + n, sizeof *f->blamed);
    if (q.at == NULL || q.waits_for == NULL || q.ends == NULL || f->blamed == NULL) {
        job->failed = true;
    } else {
        for (int i = 0; i < f->size; i++) q.at[i] = NOBODY;
        for (int i = 0; i < f->n; i++)
            if (f->list[i].rank < f->size) q.at[f->list[i].rank] = i;
        survey(f);
        for (int i = 0; i < f->n; i++) q.waits_for[i] = whom(&q, i);
        walk(&q);
        page_tell(&q, find_culprit(&q));
    }
    if (f->words.failed) job->failed = true;
    if (f->words.data != NULL) text_clean(f->words.data, false);
    free(q.at);
    free(q.waits_for);
    free(q.ends);
}
