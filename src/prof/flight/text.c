/* text.c - see text.h. */
#include "prof/flight/text.h"

#include <muster/dtype.h>
#include <string.h>

enum { LISTED_MOST = 8, TOLD_MOST = 4 };

/* "the group of ranks 0, 3" */
static void say_members(const struct msi_flight_team *team, struct msi_buf *to) {
    int n = 0;
    msi_buf_add_format(to, team->size == 1 ? "the group of rank" : "the group of ranks");
    for (int r = 0; r < MSI_FLIGHT_MEMBERS; r++)
        if (msi_flight_has_member(team, r)) msi_buf_add_format(to, "%s %d", n++ ? "," : "", r);
}

/* "world", "group 'dp'", "a group of 40 ranks" */
static void say_team(const struct msi_flight_team *team, struct msi_buf *to) {
    if (!strcmp(team->name, "world"))
        msi_buf_add_format(to, "world");
    else if (team->name[0])
        msi_buf_add_format(to, "group '%s'", team->name);
    else if (team->known && team->size <= LISTED_MOST)
        say_members(team, to);
    else if (team->size)
        msi_buf_add_format(to, "a group of %d ranks", team->size);
    else
        msi_buf_add_format(to, "a group");
}

/* "mst_recv #3 from rank 1 with tag 5 of world" */
static void say_call(const struct msi_flight_view *view, const struct msi_flight_op *op, struct msi_buf *to) {
    if (op->name[0])
        msi_buf_add_format(to, "mst_%s", op->name);
    else
        msi_buf_add_format(to, "a call");
    if (op->seq != MSI_FLIGHT_NO_NUMBER) msi_buf_add_format(to, " #%llu", (unsigned long long)op->seq);
    if (msi_flight_is_message(op)) {
        msi_buf_add_format(to, op->way == MSI_FLIGHT_SEND ? " to" : " from");
        if (op->peer >= 0)
            msi_buf_add_format(to, " rank %d", op->peer);
        else
            msi_buf_add_format(to, " any rank");
        if (op->tag) msi_buf_add_format(to, " with tag %d", op->tag);
    }
    msi_buf_add_format(to, " of ");
    say_team(&view->teams[op->team], to);
}

void msi_flight_say_op(const struct msi_flight_view *view, const struct msi_flight_op *op,
                       struct msi_buf *to) {
    const struct msi_flight_team *team = &view->teams[op->team];
    say_call(view, op, to);
    if (team->gone) msi_buf_add_format(to, " that is gone");
    if (team->name[0] && team->size)
        msi_buf_add_format(to, " (%d rank%s)", team->size, team->size == 1 ? "" : "s");
    if (op->dtype)
        msi_buf_add_format(to, ", %llu %s", (unsigned long long)op->count,
                           mst_dtype_name((mst_dtype)op->dtype));
    if (op->site[0]) msi_buf_add_format(to, ", at %s", op->site);
    if (op->site[0] && op->function[0]) msi_buf_add_format(to, " (%s)", op->function);
}

/* ", for 12.3 s": what comes before and behind; nothing where it is not known, and false. */
static bool say_span(const char *before, int64_t from, int64_t until, const char *behind,
                     struct msi_buf *to) {
    if (from == MSI_FLIGHT_UNKNOWN || until == MSI_FLIGHT_UNKNOWN) return false;
    double seconds = until > from ? (double)(until - from) * 1e-9 : 0;
    msi_buf_add_format(to, seconds < 0.1 ? "%s%.3f s%s" : "%s%.1f s%s", before, seconds, behind);
    return true;
}

static void say_over(const struct msi_flight_op *op, int64_t now, struct msi_buf *to) {
    bool failed = op->state == MSI_FLIGHT_FAILED;
    if (say_span(failed ? ", failed " : ", returned ", op->end, now, " ago", to)) return;
    say_span(", begun ", op->begin, now, " ago", to);
    msi_buf_add_format(to, ", has %s", failed ? "failed" : "returned");
}

void msi_flight_say_rank(const struct msi_flight_view *view, struct msi_buf *to) {
    const struct msi_flight_op *op = view ? msi_flight_current(view) : NULL;
    if (!op && view) op = msi_flight_last(view);
    if (!op) {
        msi_buf_add_format(to, view ? "has not communicated yet" : "has recorded nothing");
        return;
    }
    bool over = msi_flight_is_over(op);
    msi_buf_add_format(to, over ? "last was " : "in ");
    msi_flight_say_op(view, op, to);
    if (over)
        say_over(op, view->now, to);
    else
        say_span(", for ", op->begin, view->now, "", to);
}

/* "rank 2", "ranks 0, 1, 3" */
static void say_ranks(const int *ranks, int n, struct msi_buf *to) {
    msi_buf_add_format(to, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < n && i < LISTED_MOST; i++) msi_buf_add_format(to, "%s %d", i ? "," : "", ranks[i]);
    if (n > LISTED_MOST) msi_buf_add_format(to, " and %d more", n - LISTED_MOST);
}

/* How long those who wait have done so, at most; MSI_FLIGHT_UNKNOWN. */
static int64_t longest(const struct msi_diagnoses *all, const struct msi_diagnosis *v) {
    int64_t most = MSI_FLIGHT_UNKNOWN;
    for (int i = 0; i < v->n_waiting; i++) {
        const struct msi_flight_op *op = all->in[v->waiting[i]];
        if (op->begin == MSI_FLIGHT_UNKNOWN) continue;
        int64_t until = op->state == MSI_FLIGHT_FAILED ? op->end : all->ranks[v->waiting[i]].view->now;
        if (until != MSI_FLIGHT_UNKNOWN && until - op->begin > most) most = until - op->begin;
    }
    return most;
}

/* "mst_all_reduce #17 of world, in which ranks 0, 1 wait since 12.3 s (train.c:33)" */
static void say_awaited(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    bool failed = v->op->state == MSI_FLIGHT_FAILED;
    say_call(all->ranks[v->owner].view, v->op, to);
    msi_buf_add_format(to, ", in which ");
    say_ranks(v->waiting, v->n_waiting, to);
    msi_buf_add_format(to, failed ? " waited" : v->n_waiting == 1 ? " waits" : " wait");
    int64_t span = longest(all, v);
    if (span != MSI_FLIGHT_UNKNOWN) say_span(failed ? " for " : " since ", 0, span, "", to);
    if (v->op->site[0]) msi_buf_add_format(to, " (%s)", v->op->site);
    if (!v->n_further) return;
    msi_buf_add_format(to, ", and ");
    say_ranks(v->further, v->n_further, to);
    msi_buf_add_format(to, v->n_further == 1 ? " waits because of it" : " wait because of it");
}

/* What fits before what a rank does. */
static const char *pronoun(const struct msi_flight_view *view) {
    return !view || !view->n ? "it" : msi_flight_current(view) ? "it is" : "its";
}

/* What those do who are blamed, and why they say that they ended. */
static void say_blamed(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    for (int i = 0; i < v->n_blamed && i < TOLD_MOST; i++) {
        const struct msi_flight_of *rank = &all->ranks[v->blamed[i]];
        if (v->n_blamed == 1)
            msi_buf_add_format(to, "; %s ", pronoun(rank->view));
        else
            msi_buf_add_format(to, "; rank %d: ", v->blamed[i]);
        msi_flight_say_rank(rank->view, to);
        if (rank->reason && rank->reason[0]) msi_buf_add_format(to, "; its recorder says: %s", rank->reason);
    }
}

static void say_behind(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    bool one = v->n_blamed == 1;
    say_ranks(v->blamed, v->n_blamed, to);
    msi_buf_add_format(to, one ? " is behind: it has not come to " : " are behind: they have not come to ");
    say_awaited(all, v, to);
    say_blamed(all, v, to);
}

/* "ranks 0, 1, 3 name"; false: nobody names it. */
static bool say_names(const struct msi_diagnoses *all, int blamed, const char *before, struct msi_buf *to) {
    int listed[LISTED_MOST], n = 0;
    for (int r = 0; r < all->size; r++)
        if (r != blamed && all->ranks[r].blames == blamed && n++ < LISTED_MOST) listed[n - 1] = r;
    if (!n) return false;
    msi_buf_add_format(to, "%s", before);
    say_ranks(listed, n, to);
    msi_buf_add_format(to, n == 1 ? " names" : " name");
    return true;
}

static void say_missing(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    const struct msi_flight_team *team = &all->ranks[v->owner].view->teams[v->op->team];
    if (!v->n_blamed) {
        msi_buf_add_format(to, "not all %d ranks of ", team->size);
        say_team(team, to);
        msi_buf_add_format(to, " are known here, and none of those that are is behind: all have come to ");
    } else {
        bool one = v->n_blamed == 1, elsewhere = all->ranks[v->blamed[0]].elsewhere;
        if (elsewhere) msi_buf_add_format(to, "nothing is known here of ");
        say_ranks(v->blamed, v->n_blamed, to);
        if (!elsewhere) msi_buf_add_format(to, one ? " has recorded nothing" : " have recorded nothing");
        if (one && say_names(all, v->blamed[0], ", and ", to)) msi_buf_add_format(to, " it as the cause");
        msi_buf_add_format(to, one ? ": it may not have come to " : ": they may not have come to ");
    }
    say_awaited(all, v, to);
}

static void say_lost(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    msi_buf_add_format(to, "rank %d is the cause", v->blamed[0]);
    say_names(all, v->blamed[0], " that ", to);
    say_blamed(all, v, to);
}

static void say_circle(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    msi_buf_add_format(to, "ranks wait for each other:");
    for (int i = 0; i < v->n_blamed && i < LISTED_MOST; i++) {
        int rank = v->blamed[i];
        msi_buf_add_format(to, "%s rank %d in ", i ? ", and" : "", rank);
        msi_flight_say_op(all->ranks[rank].view, all->in[rank], to);
        msi_buf_add_format(to, " for rank %d", v->blamed[(i + 1) % v->n_blamed]);
    }
    if (v->n_blamed > LISTED_MOST) msi_buf_add_format(to, ", and %d more", v->n_blamed - LISTED_MOST);
}

static void say_different(const struct msi_diagnoses *all, const struct msi_diagnosis *v,
                          struct msi_buf *to) {
    msi_buf_add_format(to, "ranks differ: rank %d called ", v->blamed[0]);
    msi_flight_say_op(all->ranks[v->blamed[0]].view, v->op, to);
    msi_buf_add_format(to, ", but rank %d ", v->blamed[1]);
    msi_flight_say_op(all->ranks[v->blamed[1]].view, v->other, to);
}

static void say_together(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    bool message = msi_flight_is_message(v->op);
    if (message && v->op->peer < 0)
        msi_buf_add_format(to, "nobody is known to send what is waited for in ");
    else if (!message && !all->ranks[v->owner].view->teams[v->op->team].size)
        msi_buf_add_format(to,
                           "who is behind is not known, since the recorders had no room for this group: ");
    else
        msi_buf_add_format(to, "nobody is behind: all have come to ");
    say_awaited(all, v, to);
}

/* Nobody waits; but some may have ended otherwise. */
static void say_none(const struct msi_diagnoses *all, const struct msi_diagnosis *v, struct msi_buf *to) {
    (void)v;
    msi_buf_add_format(to, "no rank waits for another");
    for (int r = 0, told = 0; r < all->size && told < TOLD_MOST; r++) {
        const char *reason = all->ranks[r].reason;
        if (!reason || !reason[0]) continue;
        msi_buf_add_format(to, "; ");
        if (strncmp(reason, "rank ", 5) != 0) msi_buf_add_format(to, "rank %d: ", r);
        msi_buf_add_format(to, "%s", reason);
        told++;
    }
}

void msi_flight_print_diagnoses(const struct msi_diagnoses *diagnoses, struct msi_buf *to) {
    static void (*const say[MSI_DIAGNOSIS_KINDS])(const struct msi_diagnoses *, const struct msi_diagnosis *,
                                                  struct msi_buf *) = {
        [MSI_DIAGNOSIS_NONE] = say_none,         [MSI_DIAGNOSIS_BEHIND] = say_behind,
        [MSI_DIAGNOSIS_MISSING] = say_missing,   [MSI_DIAGNOSIS_LOST] = say_lost,
        [MSI_DIAGNOSIS_CIRCLE] = say_circle,     [MSI_DIAGNOSIS_DIFFERENT] = say_different,
        [MSI_DIAGNOSIS_TOGETHER] = say_together,
    };
    for (int i = 0; i < diagnoses->n; i++) {
        say[diagnoses->of[i].kind](diagnoses, &diagnoses->of[i], to);
        msi_buf_add_format(to, "\n");
    }
}
