/* diagnose.c - see diagnose.h. text.c prints the diagnoses. */
#include "base/kind.h"
#include "prof/flight/wait_graph.h"

#include <stdlib.h>
#include <string.h>

static int least_of_circle(const struct msi_wait_graph *g, int at) {
    int least = at;
    for (int i = g->waits_for[at]; i != at; i = g->waits_for[i])
        if (i < least) least = i;
    return least;
}

static bool goes_on(const struct msi_wait_graph *g, int at) {
    return at < g->n && g->waits_for[at] != MSI_NO_RANK;
}

/* Follows each chain of waiting ranks to its end; reuses the ends that are known already. */
static void find_ends(struct msi_wait_graph *g) {
    for (int r = 0; r < g->n; r++) g->ends[r] = MSI_NO_RANK;
    for (int r = 0; r < g->n; r++) {
        int at = r, steps = 0;
        while (goes_on(g, at) && g->ends[at] == MSI_NO_RANK && steps++ <= g->n) at = g->waits_for[at];
        int end = at < g->n && g->ends[at] != MSI_NO_RANK ? g->ends[at]
                  : goes_on(g, at)                        ? least_of_circle(g, at)
                                                          : at;
        for (at = r; at < g->n && g->ends[at] == MSI_NO_RANK; at = g->waits_for[at]) {
            g->ends[at] = end;
            if (!goes_on(g, at)) break;
        }
    }
}

/* The end with most votes; MSI_NO_RANK: none is left. */
static int next_end(const struct msi_wait_graph *g) {
    int best = MSI_NO_RANK;
    for (int i = 0; i < g->n + g->n_groups; i++)
        if (g->votes[i] > 0 && (best == MSI_NO_RANK || g->votes[i] > g->votes[best])) best = i;
    return best;
}

static enum msi_kind family_of(const char *name) {
    return msi_kind_family(msi_kind_find(name));
}

static bool same_call(const char *a, const char *b) {
    if (!a[0] || !b[0] || !strcmp(a, b)) return true; /* "": the recorder had no space for the name */
    enum msi_kind family = family_of(a);
    return family != MSI_KIND_NONE && family == family_of(b);
}

/* Must all ranks pass the same count? */
static bool counts_agree(const char *name) {
    enum msi_kind family = family_of(name);
    return family != MSI_KIND_ALL_TO_ALL && family != MSI_KIND_BARRIER && !strstr(name, "bytes");
}

static bool differ(const struct msi_flight_op *a, const struct msi_flight_op *b) {
    if (!same_call(a->name, b->name) || a->dtype != b->dtype) return true;
    return !strcmp(a->name, b->name) && counts_agree(a->name) && a->count != b->count;
}

/* An operation of another rank with this number that does not match; NULL: none. */
static const struct msi_flight_op *find_different(const struct msi_wait_graph *g, int owner,
                                                  const struct msi_flight_op *op, int *rank) {
    for (int r = 0; r < g->n && !msi_flight_is_message(op); r++) {
        const struct msi_flight_view *view = g->ranks[r].view;
        for (int k = 0; view && k < view->n; k++) {
            const struct msi_flight_op *other = &view->ops[k];
            if (other->seq != op->seq || msi_flight_is_message(other) || !differ(op, other) ||
                !msi_flight_same_group(&view->groups[other->group], msi_wait_graph_group_of(g, owner, op)))
                continue;
            *rank = r;
            return other;
        }
    }
    return NULL;
}

static bool is_in(const struct msi_wait_graph *g, int rank, const struct msi_diagnosis *d) {
    const struct msi_flight_op *op = g->in[rank];
    if (!op || rank == d->owner || msi_flight_is_message(d->op)) return rank == d->owner;
    return !msi_flight_is_message(op) && op->seq == d->op->seq &&
           msi_flight_same_group(msi_wait_graph_group_of(g, rank, op),
                                 msi_wait_graph_group_of(g, d->owner, d->op));
}

/* Lists of ranks follow each other in one array; next is where the next list begins. */
static void list_waiting(const struct msi_wait_graph *g, struct msi_diagnosis *d, int end, int **next) {
    d->waiting = *next;
    for (int r = 0; r < g->n; r++)
        if (is_in(g, r, d)) *(*next)++ = r;
    d->further = *next;
    for (int r = 0; r < g->n; r++)
        if (g->ends[r] == end && r != end && !is_in(g, r, d)) *(*next)++ = r;
    d->n_waiting = (int)(d->further - d->waiting);
    d->n_further = (int)(*next - d->further);
}

/* Is the rank a member of the diagnosed group that has not reached the awaited collective? */
static bool is_late(const struct msi_wait_graph *g, const struct msi_diagnosis *d, int rank) {
    int group = msi_flight_is_message(d->op)
                    ? MSI_NO_RANK
                    : msi_wait_graph_find_group(g, msi_wait_graph_group_of(g, d->owner, d->op));
    return group != MSI_NO_RANK && msi_wait_graph_is_late(g, &g->groups[group], rank);
}

/* Is the rank blamed for the end of a chain? */
static bool is_blamed(const struct msi_wait_graph *g, const struct msi_diagnosis *d, int end, int rank) {
    const struct msi_flight_rank *known = &g->ranks[rank];
    if (d->kind == MSI_DIAGNOSIS_TOGETHER) return false;
    if (end >= g->n) return g->groups[end - g->n].size == g->n && !known->view && !known->elsewhere;
    if (rank == end) return true;
    return d->kind == MSI_DIAGNOSIS_BEHIND && known->view && g->waits_for[rank] == MSI_NO_RANK &&
           is_late(g, d, rank);
}

static void list_blamed(const struct msi_wait_graph *g, struct msi_diagnosis *d, int end, int **next) {
    d->blamed = *next;
    int at = end;
    for (int r = 0; r < g->n && d->kind != MSI_DIAGNOSIS_CIRCLE; r++)
        if (is_blamed(g, d, end, r)) *(*next)++ = r;
    while (d->kind == MSI_DIAGNOSIS_CIRCLE && (at != end || *next == d->blamed)) {
        *(*next)++ = at;
        at = g->waits_for[at];
    }
    d->n_blamed = (int)(*next - d->blamed);
}

/* A rank that waits for the end; the end itself if none does. */
static int find_waiter(const struct msi_wait_graph *g, int end) {
    for (int r = 0; r < g->n; r++)
        if (g->waits_for[r] == end) return r;
    return end;
}

static enum msi_diagnosis_kind kind_of(const struct msi_wait_graph *g, const struct msi_diagnosis *d,
                                       int end) {
    if (end >= g->n) return MSI_DIAGNOSIS_MISSING;
    if (g->waits_for[end] != MSI_NO_RANK) return MSI_DIAGNOSIS_CIRCLE;
    if (d->owner == end) return MSI_DIAGNOSIS_TOGETHER;
    if (!g->ranks[end].view) return MSI_DIAGNOSIS_MISSING;
    bool named = msi_wait_graph_names(g, d->owner, d->op) == end;
    return named && !is_late(g, d, end) ? MSI_DIAGNOSIS_LOST : MSI_DIAGNOSIS_BEHIND;
}

static void diagnose(const struct msi_wait_graph *g, int end, struct msi_diagnosis *d, int **next) {
    int other;
    d->owner = find_waiter(g, end);
    d->op = g->in[d->owner];
    d->kind = kind_of(g, d, end);
    const struct msi_flight_group *known = msi_wait_graph_group_of(g, d->owner, d->op);
    if (d->kind == MSI_DIAGNOSIS_BEHIND && !msi_flight_is_message(d->op) && known->size) {
        const struct msi_wait_graph_group *group = &g->groups[msi_wait_graph_find_group(g, known)];
        d->op = group->awaited;
        d->owner = group->awaiter;
    }
    d->other = find_different(g, d->owner, d->op, &other);
    if (d->other) {
        d->kind = MSI_DIAGNOSIS_DIFFERENT;
        d->blamed = *next;
        d->n_blamed = 2;
        *(*next)++ = d->owner;
        *(*next)++ = other;
    } else {
        list_blamed(g, d, end, next);
    }
    list_waiting(g, d, end, next);
}

/* Counts the ranks behind each end. If no rank waits for another, the first rank in a call gets a vote. */
static void count_votes(struct msi_wait_graph *g) {
    int first = MSI_NO_RANK;
    bool any = false;
    for (int r = 0; r < g->n; r++) {
        if (!g->in[r]) continue;
        bool waits = g->waits_for[r] != MSI_NO_RANK, message = msi_flight_is_message(g->in[r]);
        if (waits) g->votes[g->ends[r]]++;
        any |= waits;
        if (first == MSI_NO_RANK || (msi_flight_is_message(g->in[first]) && !message)) first = r;
    }
    if (!any && first != MSI_NO_RANK) g->votes[first] = 1;
}

bool msi_flight_diagnose(const struct msi_flight_rank *ranks, int size, struct msi_diagnoses *to) {
    struct msi_wait_graph g;
    *to = (struct msi_diagnoses){.ranks = ranks, .size = size};
    bool whole = msi_wait_graph_open(&g, ranks, size);
    to->memory = calloc(MSI_DIAGNOSES_MOST, 3 * ((size_t)size + 1) * sizeof *to->memory);
    int *next = to->memory;
    if (whole) {
        find_ends(&g);
        count_votes(&g);
    }
    whole = whole && to->memory;
    for (int end; whole && to->n < MSI_DIAGNOSES_MOST && (end = next_end(&g)) != MSI_NO_RANK; to->n++) {
        diagnose(&g, end, &to->of[to->n], &next);
        g.votes[end] = 0;
    }
    if (!to->n) to->of[to->n++] = (struct msi_diagnosis){.kind = MSI_DIAGNOSIS_NONE, .owner = MSI_NO_RANK};
    to->in = g.in;
    g.in = NULL;
    msi_wait_graph_close(&g);
    return whole;
}

void msi_diagnoses_free(struct msi_diagnoses *diagnoses) {
    free(diagnoses->memory);
    free(diagnoses->in);
    *diagnoses = (struct msi_diagnoses){0};
}
