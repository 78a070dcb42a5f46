/* text.c - diagnoses, operations and ranks as text. See diagnose.h. */
#include "prof/flight/diagnose.h"

#include <muster/comm.h>
#include <string.h>

enum { LISTED_MOST = 8, DESCRIBED_MOST = 4 };

/* "the group of ranks 0, 3" */
static void print_members(const struct msi_flight_group *group, struct msi_buf *to) {
    int n = 0;
    msi_buf_add_format(to, group->size == 1 ? "the group of rank" : "the group of ranks");
    for (int r = 0; r < MSI_FLIGHT_MEMBERS; r++)
        if (msi_flight_has_member(group, r)) msi_buf_add_format(to, "%s %d", n++ ? "," : "", r);
}

/* "world", "group 'dp'", "a group of 40 ranks" */
static void print_group(const struct msi_flight_group *group, struct msi_buf *to) {
    if (!strcmp(group->name, "world"))
        msi_buf_add_format(to, "world");
    else if (group->name[0])
        msi_buf_add_format(to, "group '%s'", group->name);
    else if (group->known && group->size <= LISTED_MOST)
        print_members(group, to);
    else if (group->size)
        msi_buf_add_format(to, "a group of %d rank%s", group->size, group->size == 1 ? "" : "s");
    else
        msi_buf_add_format(to, "a group");
}

/* "mst_recv #3 from rank 1 with tag 5 of world" */
static void print_call(const struct msi_flight_view *view, const struct msi_flight_op *op,
                       struct msi_buf *to) {
    if (op->name[0])
        msi_buf_add_format(to, "mst_%s", op->name);
    else
        msi_buf_add_format(to, "a call");
    if (op->seq != MSI_FLIGHT_NO_NUMBER) msi_buf_add_format(to, " #%llu", (unsigned long long)op->seq);
    if (msi_flight_is_message(op)) {
        msi_buf_add_format(to, op->type == MSI_FLIGHT_SEND ? " to" : " from");
        if (op->peer >= 0)
            msi_buf_add_format(to, " rank %d", op->peer);
        else
            msi_buf_add_format(to, " any rank");
        if (op->tag == MST_ANY_TAG)
            msi_buf_add_format(to, " with any tag");
        else if (op->tag)
            msi_buf_add_format(to, " with tag %d", op->tag);
    }
    msi_buf_add_format(to, " of ");
    print_group(&view->groups[op->group], to);
}

void msi_flight_print_op(const struct msi_flight_view *view, const struct msi_flight_op *op,
                         struct msi_buf *to) {
    const struct msi_flight_group *group = &view->groups[op->group];
    print_call(view, op, to);
    if (group->gone) msi_buf_add_format(to, " that was destroyed");
    if (group->name[0] && group->size)
        msi_buf_add_format(to, " (%d rank%s)", group->size, group->size == 1 ? "" : "s");
    if (op->dtype)
        msi_buf_add_format(to, ", %llu %s", (unsigned long long)op->count,
                           mst_dtype_name((mst_dtype)op->dtype));
    if (op->site[0]) msi_buf_add_format(to, ", at %s", op->site);
    if (op->site[0] && op->function[0]) msi_buf_add_format(to, " (%s)", op->function);
}

/* ", for 12.3 s", with the texts before and after; false: the times are not known, and nothing is printed. */
static bool print_span(const char *before, int64_t from, int64_t until, const char *after,
                       struct msi_buf *to) {
    if (from == MSI_FLIGHT_UNKNOWN || until == MSI_FLIGHT_UNKNOWN) return false;
    double seconds = until > from ? (double)(until - from) * 1e-9 : 0;
    msi_buf_add_format(to, seconds < 0.1 ? "%s%.3f s%s" : "%s%.1f s%s", before, seconds, after);
    return true;
}

static void print_over(const struct msi_flight_op *op, int64_t now, struct msi_buf *to) {
    bool failed = op->state == MSI_FLIGHT_FAILED;
    if (print_span(failed ? ", failed " : ", returned ", op->end, now, " ago", to)) return;
    print_span(", begun ", op->begin, now, " ago", to);
    msi_buf_add_format(to, ", has %s", failed ? "failed" : "returned");
}

void msi_flight_print_rank(const struct msi_flight_view *view, struct msi_buf *to) {
    const struct msi_flight_op *op = view ? msi_flight_current(view) : NULL;
    if (!op && view) op = msi_flight_last(view);
    if (!op) {
        msi_buf_add_format(to, view ? "has not communicated yet" : "has recorded nothing");
        return;
    }
    bool over = msi_flight_is_over(op);
    msi_buf_add_format(to, over ? "last operation was " : "in ");
    msi_flight_print_op(view, op, to);
    if (over)
        print_over(op, view->now, to);
    else
        print_span(", for ", op->begin, view->now, "", to);
}

/* "rank 2", "ranks 0, 1, 3" */
static void print_ranks(const int *ranks, int n, struct msi_buf *to) {
    msi_buf_add_format(to, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n && i < LISTED_MOST; i++) msi_buf_add_format(to, "%s %d", i ? "," : "", ranks[i]);
    if (n > LISTED_MOST) msi_buf_add_format(to, " and %d more", n - LISTED_MOST);
}

/* The longest time that a rank has waited; MSI_FLIGHT_UNKNOWN. */
static int64_t longest(const struct msi_diagnoses *all, const struct msi_diagnosis *d) {
    int64_t most = MSI_FLIGHT_UNKNOWN;
    for (int i = 0; i < d->n_waiting; i++) {
        const struct msi_flight_op *op = all->in[d->waiting[i]];
        if (op->begin == MSI_FLIGHT_UNKNOWN) continue;
        int64_t until = op->state == MSI_FLIGHT_FAILED ? op->end : all->ranks[d->waiting[i]].view->now;
        if (until != MSI_FLIGHT_UNKNOWN && until - op->begin > most) most = until - op->begin;
    }
    return most;
}

/* "mst_all_reduce #17 of world, in which ranks 0, 1 have been waiting for 12.3 s (train.c:33)" */
static void print_awaited(const struct msi_diagnoses *all, const struct msi_diagnosis *d,
                          struct msi_buf *to) {
    bool failed = d->op->state == MSI_FLIGHT_FAILED, one = d->n_waiting == 1;
    int64_t span = longest(all, d);
    print_call(all->ranks[d->owner].view, d->op, to);
    msi_buf_add_format(to, ", in which ");
    print_ranks(d->waiting, d->n_waiting, to);
    if (span == MSI_FLIGHT_UNKNOWN)
        msi_buf_add_format(to, failed ? " waited" : one ? " waits" : " wait");
    else
        print_span(failed ? " waited for "
                   : one  ? " has been waiting for "
                          : " have been waiting for ",
                   0, span, "", to);
    if (d->op->site[0]) msi_buf_add_format(to, " (%s)", d->op->site);
    if (!d->n_further) return;
    msi_buf_add_format(to, ", and ");
    print_ranks(d->further, d->n_further, to);
    msi_buf_add_format(to, d->n_further == 1 ? " waits because of it" : " wait because of it");
}

/* The words before the text of msi_flight_print_rank. */
static const char *pronoun(const struct msi_flight_view *view) {
    return !view || !view->n ? "it" : msi_flight_current(view) ? "it is" : "its";
}

/* What the blamed ranks do, and why they ended. */
static void print_blamed(const struct msi_diagnoses *all, const struct msi_diagnosis *d, struct msi_buf *to) {
    for (int i = 0; i < d->n_blamed && i < DESCRIBED_MOST; i++) {
        const struct msi_flight_rank *rank = &all->ranks[d->blamed[i]];
        if (d->n_blamed == 1)
            msi_buf_add_format(to, "; %s ", pronoun(rank->view));
        else
            msi_buf_add_format(to, "; rank %d: ", d->blamed[i]);
        msi_flight_print_rank(rank->view, to);
        if (rank->reason && rank->reason[0]) msi_buf_add_format(to, "; its recorder says: %s", rank->reason);
    }
}

static void print_behind(const struct msi_diagnoses *all, const struct msi_diagnosis *d, struct msi_buf *to) {
    bool one = d->n_blamed == 1;
    print_ranks(d->blamed, d->n_blamed, to);
    msi_buf_add_format(to, one ? " is behind: it has not reached " : " are behind: they have not reached ");
    print_awaited(all, d, to);
    print_blamed(all, d, to);
}

/* "ranks 0, 1, 3 name"; false: no rank names it. */
static bool print_names(const struct msi_diagnoses *all, int blamed, const char *before, struct msi_buf *to) {
    int listed[LISTED_MOST], n = 0;
    for (int r = 0; r < all->size; r++)
        if (r != blamed && all->ranks[r].blames == blamed && n++ < LISTED_MOST) listed[n - 1] = r;
    if (!n) return false;
    msi_buf_add_format(to, "%s", before);
    print_ranks(listed, n, to);
    msi_buf_add_format(to, n == 1 ? " names" : " name");
    return true;
}

static void print_missing(const struct msi_diagnoses *all, const struct msi_diagnosis *d,
                          struct msi_buf *to) {
    const struct msi_flight_group *group = &all->ranks[d->owner].view->groups[d->op->group];
    if (!d->n_blamed) {
        msi_buf_add_format(to, "not all %d ranks of ", group->size);
        print_group(group, to);
        msi_buf_add_format(to, " are known here; no known rank is behind: all have reached ");
    } else {
        bool one = d->n_blamed == 1, elsewhere = all->ranks[d->blamed[0]].elsewhere;
        if (elsewhere) msi_buf_add_format(to, "nothing is known here of ");
        print_ranks(d->blamed, d->n_blamed, to);
        if (!elsewhere) msi_buf_add_format(to, one ? " has recorded nothing" : " have recorded nothing");
        if (one && print_names(all, d->blamed[0], ", and ", to)) msi_buf_add_format(to, " it as the cause");
        msi_buf_add_format(to, one ? ": it may not have reached " : ": they may not have reached ");
    }
    print_awaited(all, d, to);
}

static void print_lost(const struct msi_diagnoses *all, const struct msi_diagnosis *d, struct msi_buf *to) {
    print_names(all, d->blamed[0], "", to);
    msi_buf_add_format(to, " rank %d as the cause", d->blamed[0]);
    print_blamed(all, d, to);
}

static void print_circle(const struct msi_diagnoses *all, const struct msi_diagnosis *d, struct msi_buf *to) {
    msi_buf_add_format(to, "ranks wait for each other:");
    for (int i = 0; i < d->n_blamed && i < LISTED_MOST; i++) {
        int rank = d->blamed[i];
        msi_buf_add_format(to, "%s rank %d in ", i ? ", and" : "", rank);
        msi_flight_print_op(all->ranks[rank].view, all->in[rank], to);
        msi_buf_add_format(to, " for rank %d", d->blamed[(i + 1) % d->n_blamed]);
    }
    if (d->n_blamed > LISTED_MOST) msi_buf_add_format(to, ", and %d more", d->n_blamed - LISTED_MOST);
}

static void print_different(const struct msi_diagnoses *all, const struct msi_diagnosis *d,
                            struct msi_buf *to) {
    msi_buf_add_format(to, "ranks differ: rank %d called ", d->blamed[0]);
    msi_flight_print_op(all->ranks[d->blamed[0]].view, d->op, to);
    msi_buf_add_format(to, ", but rank %d called ", d->blamed[1]);
    msi_flight_print_op(all->ranks[d->blamed[1]].view, d->other, to);
}

static void print_together(const struct msi_diagnoses *all, const struct msi_diagnosis *d,
                           struct msi_buf *to) {
    bool message = msi_flight_is_message(d->op);
    if (message && d->op->peer < 0)
        msi_buf_add_format(to, "no rank is known to send the message that is expected in ");
    else if (!message && !all->ranks[d->owner].view->groups[d->op->group].size)
        msi_buf_add_format(to,
                           "the recorders had no space for the group, so the ranks that are behind are not "
                           "known: ");
    else
        msi_buf_add_format(to, "no rank is behind: all have reached ");
    print_awaited(all, d, to);
}

/* No rank waits, but some may have ended for another reason. */
static void print_none(const struct msi_diagnoses *all, const struct msi_diagnosis *d, struct msi_buf *to) {
    (void)d;
    msi_buf_add_format(to, "no rank waits for another");
    for (int r = 0, n = 0; r < all->size && n < DESCRIBED_MOST; r++) {
        const char *reason = all->ranks[r].reason;
        if (!reason || !reason[0]) continue;
        msi_buf_add_format(to, "; ");
        if (strncmp(reason, "rank ", 5) != 0) msi_buf_add_format(to, "rank %d: ", r);
        msi_buf_add_format(to, "%s", reason);
        n++;
    }
}

void msi_flight_print_diagnoses(const struct msi_diagnoses *diagnoses, struct msi_buf *to) {
    static void (*const print[MSI_DIAGNOSIS_KINDS])(const struct msi_diagnoses *,
                                                    const struct msi_diagnosis *, struct msi_buf *) = {
        [MSI_DIAGNOSIS_NONE] = print_none,         [MSI_DIAGNOSIS_BEHIND] = print_behind,
        [MSI_DIAGNOSIS_MISSING] = print_missing,   [MSI_DIAGNOSIS_LOST] = print_lost,
        [MSI_DIAGNOSIS_CIRCLE] = print_circle,     [MSI_DIAGNOSIS_DIFFERENT] = print_different,
        [MSI_DIAGNOSIS_TOGETHER] = print_together,
    };
    for (int i = 0; i < diagnoses->n; i++) {
        print[diagnoses->of[i].kind](diagnoses, &diagnoses->of[i], to);
        msi_buf_add_format(to, "\n");
    }
}
