/*
 * page_verdict.c - what the flight recordings say together: from each rank that is in a call one asks for whom it waits, and for whom
 * that one, until somebody waits for nobody. Where most of these walks end, there is the culprit.
 *
 * In a collective a rank waits for the rank of the group that called the fewest so far, if that has not called this one yet; in a receive for
 * the sender, unless it has sent. A rank without a recording waits for nobody that is known.
 */
#include "page_flight.h"

#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1, MISSING = -2, LIST_MOST = 8 };

struct inquiry {
    struct page_job *job;
    struct page_flights *f;
    int *at;        /* of each rank: its index in the list, or NOBODY */
    int *waits_for; /* of each recording: an index, NOBODY or MISSING */
    int *ends;      /* where its walk ends: an index; in circles the least index of it */
};

static int find(const struct inquiry *q, int rank) {
    return rank >= 0 && rank < q->f->size ? q->at[rank] : NOBODY;
}

static bool is_message(const struct flight_op *op) {
    return op->peer != PAGE_NONE || op->class == PAGE_SEND || op->class == PAGE_RECV;
}

void page_flight_words(const struct page_job *job, const struct flight_op *op, struct text *to) {
    text_format(to, "%s", page_string(job, op->name));
    if (is_message(op) && op->peer >= 0)
        text_format(to, " %s rank %d", op->class == PAGE_SEND ? "to" : "from", op->peer);
    text_format(to, " number %lld of %s", (long long)op->seq,
                page_string(job, job->flights->groups[op->group].name));
    if (op->site != 0) text_format(to, " at %s", page_string(job, op->site));
    if (op->function != 0) text_format(to, " (%s)", page_string(job, op->function));
}

/* Finds what each rank is in, and for each group who called the fewest. */
static void survey(struct page_flights *f) {
    for (int i = 0; i < f->n; i++) {
        struct flight *flight = &f->list[i];
        for (size_t k = 0; k < flight->n; k++) {
            const struct flight_op *op = &flight->ops[k];
            struct flight_group *group = &f->groups[op->group];
            if (op->state == FLIGHT_DONE)
                flight->last = op;
            else
                flight->current = op;
            if (is_message(op)) continue;
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
            if (group->newest_reader != i || is_message(&flight->ops[k])) continue;
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
    const struct flight_op *op = q->f->list[i].current;

    if (op == NULL) return NOBODY;
    if (is_message(op)) {
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

static void blame(struct inquiry *q, int rank) {
    for (int i = 0; i < q->f->n_blamed; i++)
        if (q->f->blamed[i] == rank) return;
    q->f->blamed[q->f->n_blamed++] = rank;
}

/* "ranks 0, 1, 3": those that which says, at most a few of them by number. */
static void list_ranks(const struct inquiry *q, bool (*which)(const struct inquiry *, int rank, int about),
                       int about, struct text *to) {
    int n = 0;

    for (int rank = 0; rank < q->f->size; rank++) n += which(q, rank, about);
    text_add(to, n == 1 ? "rank" : "ranks");
    for (int rank = 0, shown = 0; rank < q->f->size && shown < LIST_MOST; rank++)
        if (which(q, rank, about)) text_format(to, "%s %d", shown++ > 0 ? "," : "", rank);
    if (n > LIST_MOST) text_format(to, " and %d more", n - LIST_MOST);
}

static bool is_absent(const struct inquiry *q, int rank, int about) {
    (void)about;
    return q->at[rank] == NOBODY;
}

/* Is the rank in the same operation as the recording? */
static bool is_with(const struct inquiry *q, int rank, int about) {
    const struct flight_op *other = q->f->list[about].current,
                           *op = q->at[rank] != NOBODY ? q->f->list[q->at[rank]].current : NULL;
    return op != NULL && other != NULL && op->group == other->group && op->seq == other->seq &&
           !is_message(op);
}

static bool ends_at(const struct inquiry *q, int rank, int about) {
    return q->at[rank] != NOBODY && q->at[rank] != about && q->ends[q->at[rank]] == about;
}

static void tell_reason(const struct inquiry *q, int i) {
    const struct flight *flight = &q->f->list[i];
    if (flight->reason != 0)
        text_format(&q->f->words, " Its recorder says: %s.", page_string(q->job, flight->reason));
}

/* How many ranks are in the same operation as the recording. */
static int count_with(const struct inquiry *q, int about) {
    int n = 0;

    for (int rank = 0; rank < q->f->size; rank++) n += is_with(q, rank, about);
    return n;
}

static int waiter_of(const struct inquiry *q, int culprit) {
    for (int i = 0; i < q->f->n; i++)
        if (q->waits_for[i] == culprit) return i;
    return NOBODY;
}

static bool waits_alone(const struct inquiry *q, int culprit) {
    int n = 0;

    for (int i = 0; i < q->f->n; i++) n += i != culprit && q->ends[i] == culprit;
    return n == 1;
}

static void tell_behind(struct inquiry *q, int culprit) {
    struct text *to = &q->f->words;
    const struct flight *flight = &q->f->list[culprit];
    int waiter = waiter_of(q, culprit);

    q->f->verdict = VERDICT_BEHIND;
    blame(q, flight->rank);
    text_format(to, "Rank %d is behind: ", flight->rank);
    if (flight->current != NULL) {
        text_add(to, "it is in ");
        page_flight_words(q->job, flight->current, to);
    } else if (flight->last != NULL) {
        text_add(to, "the last that it finished is ");
        page_flight_words(q->job, flight->last, to);
    } else {
        text_add(to, "it has called nothing yet");
    }
    text_add(to, ", while ");
    list_ranks(q, ends_at, culprit, to);
    text_add(to, waits_alone(q, culprit) ? " waits for it" : " wait for it");
    if (waiter != NOBODY) {
        text_add(to, ": it has not come to ");
        page_flight_words(q->job, q->f->list[waiter].current, to);
    }
    text_add(to, ".");
    tell_reason(q, culprit);
}

static void tell_missing(struct inquiry *q, int waiter) {
    struct text *to = &q->f->words;
    const struct flight_op *op = q->f->list[waiter].current;

    q->f->verdict = VERDICT_MISSING;
    if (is_message(op)) {
        text_format(to, "Rank %d left no recording, and rank %d waits for it in ", op->peer,
                    q->f->list[waiter].rank);
        blame(q, op->peer);
    } else {
        for (int rank = 0; rank < q->f->size; rank++)
            if (is_absent(q, rank, 0)) q->f->blamed[q->f->n_blamed++] = rank;
        text_add(to, "Missing are ");
        list_ranks(q, is_absent, 0, to);
        text_add(to, " without a recording, and ");
        list_ranks(q, is_with, waiter, to);
        text_add(to, count_with(q, waiter) == 1 ? " waits in " : " wait in ");
    }
    page_flight_words(q->job, op, to);
    text_add(to, ".");
}

static void tell_circle(struct inquiry *q, int first) {
    struct text *to = &q->f->words;
    int at = first, n = 0;

    q->f->verdict = VERDICT_CIRCLE;
    text_add(to, "Ranks wait for each other:");
    do {
        const struct flight *flight = &q->f->list[at];
        blame(q, flight->rank);
        if (n++ < LIST_MOST) {
            text_format(to, "%s rank %d in ", n > 1 ? ", and" : "", flight->rank);
            page_flight_words(q->job, flight->current, to);
            text_format(to, " for rank %d", q->f->list[q->waits_for[at]].rank);
        }
        at = q->waits_for[at];
    } while (at != first && n <= q->f->n);
    text_add(to, ".");
}

/* A rank in the same collective that calls it by another name; NOBODY: there is none. */
static int find_different(const struct inquiry *q, int about) {
    const struct flight_op *op = q->f->list[about].current;

    for (int i = 0; i < q->f->n; i++) {
        const struct flight_op *other = q->f->list[i].current;
        if (is_with(q, q->f->list[i].rank, about) &&
            (other->name != op->name || other->dtype != op->dtype || other->count != op->count))
            return i;
    }
    return NOBODY;
}

static void tell_call(const struct inquiry *q, int i) {
    const struct flight_op *op = q->f->list[i].current;

    text_format(&q->f->words, "rank %d called ", q->f->list[i].rank);
    page_flight_words(q->job, op, &q->f->words);
    if (op->count != PAGE_UNKNOWN)
        text_format(&q->f->words, ", %lld %s", (long long)op->count, page_string(q->job, op->dtype));
}

/* Nobody is behind. */
static void tell_together(struct inquiry *q, int i) {
    struct text *to = &q->f->words;
    const struct flight_op *op = q->f->list[i].current;
    int other = is_message(op) ? NOBODY : find_different(q, i);

    if (other != NOBODY) {
        q->f->verdict = VERDICT_DIFFERENT;
        blame(q, q->f->list[i].rank);
        blame(q, q->f->list[other].rank);
        text_add(to, "Ranks differ in what they call: ");
        tell_call(q, i);
        text_add(to, ", and ");
        tell_call(q, other);
        text_add(to, ".");
        return;
    }
    q->f->verdict = VERDICT_TOGETHER;
    if (is_message(op) || count_with(q, i) == 1) {
        text_format(to, "Rank %d is in ", q->f->list[i].rank);
        page_flight_words(q->job, op, to);
        text_add(to, ", and nobody is behind.");
    } else {
        text_add(to, "Nobody is behind: ");
        list_ranks(q, is_with, i, to);
        text_add(to, " are all in ");
        page_flight_words(q->job, op, to);
        text_add(to, ", which does not end.");
    }
    tell_reason(q, i);
}

static void tell(struct inquiry *q) {
    int culprit = find_culprit(q);

    if (culprit == NOBODY) {
        q->f->verdict = VERDICT_NONE;
        text_add(&q->f->words, "No rank was in a call: all had finished what they called.");
    } else if (q->waits_for[culprit] >= 0) {
        tell_circle(q, culprit);
    } else if (q->waits_for[culprit] == MISSING) {
        tell_missing(q, culprit);
    } else if (waiter_of(q, culprit) != NOBODY) {
        tell_behind(q, culprit);
    } else {
        tell_together(q, culprit);
    }
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
        tell(&q);
    }
    if (f->words.failed) job->failed = true;
    if (f->words.data != NULL) text_clean(f->words.data, false);
    free(q.at);
    free(q.waits_for);
    free(q.ends);
}
