/*
 * flight_verdict.c - who is behind: see flight_words.h.
 *
 * All ranks of a group make the same collectives in the same order, so that their numbers tell how far each has come. Where some wait
 * in a collective, those that have not begun it are behind. Of messages only the one at the other end is known, and what it does.
 */
#include "prof/flight_words.h"

#include <stdlib.h>

enum { LISTED_MOST = 8, TOLD_MOST = 4 };

struct court {
    const struct msi_flight_of *ranks;
    int n, world_size;
    /* Of each rank, in the group in question; NULL: none. */
    const struct msi_flight_op **waits;  /* the first collective that did not end well, or not yet */
    const struct msi_flight_op **newest; /* the last that it has begun */
    bool *blamed, *chosen;
    int said; /* sentences so far */
    struct msi_buf *to;
};

static bool same_team(const struct msi_flight_team *a, const struct msi_flight_team *b) {
    return a->id == b->id && a->size == b->size;
}

static bool is_world(const struct court *c, const struct msi_flight_team *team) {
    return team->size == c->world_size && !strcmp(team->name, "world");
}

/* After the next operation of the group. One that failed ended the group, unless others went well later. */
static const struct msi_flight_op *still_waits(const struct msi_flight_op *waits,
                                               const struct msi_flight_op *op) {
    if (op->state == MSI_FLIGHT_DONE) return waits && waits->state == MSI_FLIGHT_FAILED ? NULL : waits;
    return !waits || op->seq < waits->seq ? op : waits;
}

/* How far each rank has come in a group. */
static void survey(struct court *c, const struct msi_flight_team *team) {
    for (int i = 0; i < c->n; i++) {
        const struct msi_flight_view *view = c->ranks[i].view;
        c->waits[i] = c->newest[i] = NULL;
        for (int k = 0; view && k < view->n; k++) {
            const struct msi_flight_op *op = &view->ops[k];
            if (msi_flight_is_message(op) || !same_team(op->team, team)) continue;
            if (!c->newest[i] || op->seq >= c->newest[i]->seq) c->newest[i] = op;
            c->waits[i] = still_waits(c->waits[i], op);
        }
    }
}

/* "rank 2", "ranks 0, 1, 3": those that are chosen. Returns how many. */
static int list(const struct court *c, const bool *chosen, struct msi_buf *to) {
    int n = 0, shown = 0;
    for (int i = 0; i < c->n; i++) n += chosen[i];
    msi_buf_add_format(to, n == 1 ? "rank" : "ranks");
    for (int i = 0; i < c->n && shown < LISTED_MOST; i++)
        if (chosen[i]) msi_buf_add_format(to, "%s %d", shown++ ? "," : "", c->ranks[i].rank);
    if (n > LISTED_MOST) msi_buf_add_format(to, " and %d more", n - LISTED_MOST);
    return n;
}

/* Does the group have this rank? Only of the world all are known; of others those that have done something in it. */
static bool is_member(const struct court *c, const struct msi_flight_team *team, int i) {
    return c->newest[i] || is_world(c, team);
}

static bool is_behind(const struct court *c, const struct msi_flight_team *team, int i, uint64_t seq) {
    return is_member(c, team, i) && c->ranks[i].view && (!c->newest[i] || c->newest[i]->seq < seq);
}

/* The first collective in which ranks wait for one that has not come; NULL: none. */
static const struct msi_flight_op *find_awaited(const struct court *c, const struct msi_flight_team *team) {
    const struct msi_flight_op *first = NULL;
    for (int i = 0; i < c->n; i++) {
        const struct msi_flight_op *op = c->waits[i];
        if (!op || (first && first->seq <= op->seq)) continue;
        bool awaited = false;
        for (int k = 0; k < c->n; k++) awaited |= is_behind(c, team, k, op->seq);
        if (awaited) first = op;
    }
    return first;
}

/* Chooses those that wait in it; returns since when, as how long ago at most. */
static int64_t choose_waiters(struct court *c, uint64_t seq) {
    int64_t longest = MSI_FLIGHT_UNKNOWN;
    for (int i = 0; i < c->n; i++) {
        const struct msi_flight_op *op = c->waits[i];
        c->chosen[i] = op && op->seq == seq;
        if (!c->chosen[i] || op->begin == MSI_FLIGHT_UNKNOWN) continue;
        int64_t until = op->state == MSI_FLIGHT_FAILED ? op->end : c->ranks[i].view->now;
        if (until != MSI_FLIGHT_UNKNOWN && until - op->begin > longest) longest = until - op->begin;
    }
    return longest;
}

/* "mst_all_reduce #17 of world, in which ranks 0, 1 wait since 12.3 s (train.c:33)" */
static void say_awaited(struct court *c, const struct msi_flight_op *op) {
    int64_t longest = choose_waiters(c, op->seq);
    msi_buf_add_format(c->to, "%s #%llu of ", op->site->operation, (unsigned long long)op->seq);
    msi_flight_say_team(op->team, c->to);
    msi_buf_add_format(c->to, ", in which ");
    bool one = list(c, c->chosen, c->to) == 1;
    bool gone = op->state == MSI_FLIGHT_FAILED;
    msi_buf_add_format(c->to, gone ? " waited" : one ? " waits" : " wait");
    if (longest != MSI_FLIGHT_UNKNOWN) {
        msi_buf_add_format(c->to, gone ? " for " : " since ");
        msi_flight_say_span(0, longest, c->to);
    }
    if (op->site->file[0]) msi_buf_add_format(c->to, " (%s:%d)", op->site->file, op->site->line);
}

static void end_sentence(struct court *c) {
    msi_buf_add_format(c->to, "\n");
    c->said++;
}

/* What fits before what a rank does. */
static const char *pronoun(const struct msi_flight_view *view) {
    return msi_flight_current(view) ? "it is" : view->n ? "its" : "it";
}

static void say_behind(struct court *c, const struct msi_flight_op *awaited, int told) {
    int n = 0;
    for (int i = 0; i < c->n; i++) n += c->blamed[i];
    list(c, c->blamed, c->to);
    msi_buf_add_format(c->to,
                       n == 1 ? " is behind: it has not come to " : " are behind: they have not come to ");
    say_awaited(c, awaited);
    for (int i = 0; i < c->n && told < TOLD_MOST; i++) {
        if (!c->blamed[i]) continue;
        if (n == 1)
            msi_buf_add_format(c->to, "; %s ", pronoun(c->ranks[i].view));
        else
            msi_buf_add_format(c->to, "; rank %d: ", c->ranks[i].rank);
        msi_flight_say_rank(c->ranks[i].view, c->to);
        told++;
    }
    end_sentence(c);
}

/* Those without a recorder, if ranks wait for all of the world. */
static void say_missing(struct court *c, const struct msi_flight_op *waiting) {
    int n = 0;
    for (int i = 0; i < c->n; i++) n += c->blamed[i] = !c->ranks[i].view;
    if (!n) return;
    list(c, c->blamed, c->to);
    msi_buf_add_format(c->to, n == 1 ? " has recorded nothing: it may not have come to "
                                     : " have recorded nothing: they may not have come to ");
    say_awaited(c, waiting);
    end_sentence(c);
}

/* Must ranks agree on how many elements there are? */
static bool counts_agree(const char *name) {
    return !strcmp(name, "mst_all_reduce") || !strcmp(name, "mst_broadcast") || !strcmp(name, "mst_reduce");
}

static bool differ(const struct msi_flight_op *a, const struct msi_flight_op *b) {
    const char *one = a->site->operation, *other = b->site->operation;
    if (!one[0] || !other[0]) return false; /* there was no room for its name */
    if (strcmp(one, other) != 0 || a->dtype != b->dtype) return true;
    return counts_agree(one) && a->count != b->count;
}

static const struct msi_flight_op *find_op(const struct msi_flight_view *view,
                                           const struct msi_flight_team *team, uint64_t seq) {
    for (int k = 0; view && k < view->n; k++)
        if (view->ops[k].seq == seq && !msi_flight_is_message(&view->ops[k]) &&
            same_team(view->ops[k].team, team))
            return &view->ops[k];
    return NULL;
}

/* Another rank's operation of the same number that is another; said once for a group. */
static bool say_mismatch(struct court *c, int i, const struct msi_flight_op *op) {
    for (int k = 0; k < c->n; k++) {
        const struct msi_flight_op *other = find_op(c->ranks[k].view, op->team, op->seq);
        if (!other || !differ(op, other)) continue;
        msi_buf_add_format(c->to, "ranks differ: rank %d called ", c->ranks[i].rank);
        msi_flight_say_op(op, c->to);
        msi_buf_add_format(c->to, ", but rank %d ", c->ranks[k].rank);
        msi_flight_say_op(other, c->to);
        end_sentence(c);
        return true;
    }
    return false;
}

static void say_together(struct court *c, const struct msi_flight_op *waiting) {
    bool all = true;
    int here = 0;
    for (int i = 0; i < c->n; i++) here += c->newest[i] != NULL;
    for (int i = 0; i < c->n; i++) all &= !c->newest[i] || c->newest[i]->seq >= waiting->seq;
    msi_buf_add_format(c->to, all && here >= waiting->team->size
                                  ? "nobody is behind: all have come to "
                                  : "none of these ranks is behind: all have come to ");
    say_awaited(c, waiting);
    end_sentence(c);
}

static void judge_team(struct court *c, const struct msi_flight_team *team) {
    const struct msi_flight_op *waiting = NULL;
    bool mismatch = false;
    survey(c, team);
    for (int i = 0; i < c->n; i++) {
        if (!c->waits[i]) continue;
        if (!waiting || c->waits[i]->seq < waiting->seq) waiting = c->waits[i];
        mismatch = mismatch || say_mismatch(c, i, c->waits[i]);
    }
    if (!waiting) return;
    const struct msi_flight_op *awaited = find_awaited(c, team);
    int before = c->said;
    if (awaited) {
        for (int i = 0; i < c->n; i++) c->blamed[i] = is_behind(c, team, i, awaited->seq);
        say_behind(c, awaited, 0);
    }
    if (is_world(c, team)) say_missing(c, waiting);
    if (c->said == before && !mismatch) say_together(c, waiting);
}

/* Was the group judged with an earlier rank, or an earlier place of this one? */
static bool is_known(const struct court *c, int rank, int place) {
    const struct msi_flight_team *team = &c->ranks[rank].view->teams[place];
    for (int i = 0; i <= rank; i++)
        for (int k = 0; c->ranks[i].view && k < (i < rank ? MSI_FLIGHT_GROUPS : place); k++)
            if (same_team(&c->ranks[i].view->teams[k], team)) return true;
    return false;
}

static void judge_message(struct court *c, int i, const struct msi_flight_op *op) {
    msi_buf_add_format(c->to, "rank %d waits in ", c->ranks[i].rank);
    msi_flight_say_op(op, c->to);
    for (int k = 0; k < c->n; k++) {
        if (c->ranks[k].rank != op->peer) continue;
        msi_buf_add_format(c->to, "; rank %d: ", op->peer);
        msi_flight_say_rank(c->ranks[k].view, c->to);
    }
    end_sentence(c);
}

static void judge_all(struct court *c) {
    for (int i = 0; i < c->n; i++)
        for (int k = 0; c->ranks[i].view && k < MSI_FLIGHT_GROUPS; k++)
            if (c->ranks[i].view->teams[k].size && !is_known(c, i, k))
                judge_team(c, &c->ranks[i].view->teams[k]);
    for (int i = 0, told = 0; i < c->n && told < LISTED_MOST; i++) {
        const struct msi_flight_op *op = c->ranks[i].view ? msi_flight_current(c->ranks[i].view) : NULL;
        if (!op || !msi_flight_is_message(op)) continue;
        judge_message(c, i, op);
        told++;
    }
    if (!c->said) msi_buf_add_format(c->to, "no rank waits for another\n");
}

void msi_flight_judge(const struct msi_flight_of *ranks, int n, int world_size, struct msi_buf *to) {
    size_t room = (size_t)n + 1;
    struct court c = {.ranks = ranks,
                      .n = n,
                      .world_size = world_size,
                      .waits = calloc(room, sizeof *c.waits),
                      .newest = calloc(room, sizeof *c.newest),
                      .blamed = calloc(room, sizeof *c.blamed),
                      .chosen = calloc(room, sizeof *c.chosen),
                      .to = to};
    if (c.waits && c.newest && c.blamed && c.chosen)
        judge_all(&c);
    else
        to->failed = true;
    free(c.waits);
    free(c.newest);
    free(c.blamed);
    free(c.chosen);
}
