/* page_tell.c - the verdict on what flight recordings say, in words: see page_verdict.c. */
#include "page_inquiry.h"

enum { LIST_MOST = 8 };

void page_flight_words(const struct page_job *job, const struct flight_op *op, struct text *to) {
    text_format(to, "%s", page_string(job, op->name));
    if (page_is_message(op) && op->peer >= 0)
        text_format(to, " %s rank %d", op->class == PAGE_SEND ? "to" : "from", op->peer);
    text_format(to, " number %lld of %s", (long long)op->seq,
                page_string(job, job->flights->groups[op->group].name));
    if (op->site != 0) text_format(to, " at %s", page_string(job, op->site));
    if (op->function != 0) text_format(to, " (%s)", page_string(job, op->function));
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
           !page_is_message(op);
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

static bool names(const struct inquiry *q, int rank, int about) {
    return q->at[rank] != NOBODY && rank != about && q->f->list[q->at[rank]].blames == about;
}

static bool is_blamed(const struct inquiry *q, int culprit) {
    for (int i = 0; i < q->f->n; i++)
        if (i != culprit && q->f->list[i].blames == q->f->list[culprit].rank) return true;
    return false;
}

/* Has it not called what those who wait for it are in? */
static bool is_behind(const struct inquiry *q, int culprit) {
    int waiter = waiter_of(q, culprit);
    const struct flight_op *op = waiter != NOBODY ? q->f->list[waiter].current : NULL;
    const struct flight *flight = &q->f->list[culprit];

    if (op == NULL || page_is_message(op)) return false;
    for (size_t i = 0; i < flight->n; i++)
        if (flight->ops[i].group == op->group && !page_is_message(&flight->ops[i]) &&
            flight->ops[i].seq >= op->seq)
            return false;
    return true;
}

/* It had come to where the others are, and they name it. */
static void tell_lost(struct inquiry *q, int culprit) {
    struct text *to = &q->f->words;
    const struct flight *flight = &q->f->list[culprit];
    const struct flight_op *op = flight->current ? flight->current : flight->last;

    q->f->verdict = VERDICT_LOST;
    blame(q, flight->rank);
    text_format(to, "Rank %d is the cause that others name: ", flight->rank);
    text_add(to, op == NULL        ? "it has called nothing"
                 : flight->current ? "it was in "
                                   : "the last that it finished is ");
    if (op != NULL) page_flight_words(q->job, op, to);
    text_add(to, "; it is named by ");
    list_ranks(q, names, flight->rank, to);
    text_add(to, ".");
    tell_reason(q, culprit);
}

static void tell_missing(struct inquiry *q, int waiter) {
    struct text *to = &q->f->words;
    const struct flight_op *op = q->f->list[waiter].current;

    q->f->verdict = VERDICT_MISSING;
    if (q->f->list[waiter].blames != PAGE_NONE) {
        int rank = q->f->list[waiter].blames;
        text_format(to, "Rank %d left no recording, and it is named as the cause by ", rank);
        list_ranks(q, names, rank, to);
        text_format(to, ": rank %d in ", q->f->list[waiter].rank);
        blame(q, rank);
    } else if (page_is_message(op)) {
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
    int other = page_is_message(op) ? NOBODY : find_different(q, i);

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
    if (page_is_message(op) || count_with(q, i) == 1) {
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

void page_tell(struct inquiry *q, int culprit) {
    if (culprit == NOBODY) {
        q->f->verdict = VERDICT_NONE;
        text_add(&q->f->words, "No rank was in a call: all had finished what they called.");
    } else if (q->waits_for[culprit] >= 0) {
        tell_circle(q, culprit);
    } else if (q->waits_for[culprit] == MISSING) {
        tell_missing(q, culprit);
    } else if (is_blamed(q, culprit) && !is_behind(q, culprit)) {
        tell_lost(q, culprit);
    } else if (waiter_of(q, culprit) != NOBODY) {
        tell_behind(q, culprit);
    } else {
        tell_together(q, culprit);
    }
}
