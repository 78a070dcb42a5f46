/* diagnose.c - see diagnose.h. text.c prints the diagnoses. */
#include "base/kind.h"
#include "prof/flight/wait_graph.h"

#include <stdlib.h>
#include <string.h>

static int least_of_circle(const struct msi_wait_graph *c, int at) {
    int least = at;
    for (int i = c->waits_for[at]; i != at; i = c->waits_for[i])
        if (i < least) least = i;
    return least;
}

static bool goes_on(const struct msi_wait_graph *c, int at) {
    return at < c->n && c->waits_for[at] != MSI_NO_RANK;
}

/* Follows each chain of waiting ranks to its end; reuses the ends that are known already. */
static void find_ends(struct msi_wait_graph *c) {
    for (int r = 0; r < c->n; r++) c->ends[r] = MSI_NO_RANK;
    for (int r = 0; r < c->n; r++) {
        int at = r, steps = 0;
        while (goes_on(c, at) && c->ends[at] == MSI_NO_RANK && steps++ <= c->n) at = c->waits_for[at];
        int end = at < c->n && c->ends[at] != MSI_NO_RANK ? c->ends[at]
                  : goes_on(c, at)                        ? least_of_circle(c, at)
                                                          : at;
        for (at = r; at < c->n && c->ends[at] == MSI_NO_RANK; at = c->waits_for[at]) {
            c->ends[at] = end;
            if (!goes_on(c, at)) break;
        }
    }
}

/* The end with most votes; MSI_NO_RANK: none is left. */
static int next_end(const struct msi_wait_graph *c) {
    int best = MSI_NO_RANK;
    for (int i = 0; i < c->n + c->n_groups; i++)
        if (c->votes[i] > 0 && (best == MSI_NO_RANK || c->votes[i] > c->votes[best])) best = i;
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
static const struct msi_flight_op *find_different(const struct msi_wait_graph *c, int owner,
                                                  const struct msi_flight_op *op, int *rank) {
    for (int r = 0; r < c->n && !msi_flight_is_message(op); r++) {
        const struct msi_flight_view *view = c->ranks[r].view;
        for (int k = 0; view && k < view->n; k++) {
            const struct msi_flight_op *other = &view->ops[k];
            if (other->seq != op->seq || msi_flight_is_message(other) || !differ(op, other) ||
                !msi_flight_same_group(&view->groups[other->group], msi_wait_graph_group_of(c, owner, op)))
                continue;
            *rank = r;
            return other;
        }
    }
    return NULL;
}

static bool is_in(const struct msi_wait_graph *c, int rank, const struct msi_diagnosis *v) {
    const struct msi_flight_op *op = c->in[rank];
    if (!op || rank == v->owner || msi_flight_is_message(v->op)) return rank == v->owner;
    return !msi_flight_is_message(op) && op->seq == v->op->seq &&
           msi_flight_same_group(msi_wait_graph_group_of(c, rank, op),
                                 msi_wait_graph_group_of(c, v->owner, v->op));
}

/* Lists of ranks follow each other in one array; next is where the next list begins. */
static void list_waiting(const struct msi_wait_graph *c, struct msi_diagnosis *v, int end, int **next) {
    v->waiting = *next;
    for (int r = 0; r < c->n; r++)
        if (is_in(c, r, v)) *(*next)++ = r;
    v->further = *next;
    for (int r = 0; r < c->n; r++)
        if (c->ends[r] == end && r != end && !is_in(c, r, v)) *(*next)++ = r;
    v->n_waiting = (int)(v->further - v->waiting);
    v->n_further = (int)(*next - v->further);
}

static bool is_unknown(const struct msi_wait_graph *c, int rank) {
    return !c->ranks[rank].view && !c->ranks[rank].elsewhere;
}

/* Is the rank blamed for the end of a chain? */
static bool is_blamed(const struct msi_wait_graph *c, const struct msi_diagnosis *v, int end, int rank) {
    if (v->kind == MSI_DIAGNOSIS_TOGETHER) return false;
    if (end >= c->n) return c->groups[end - c->n].size == c->n && is_unknown(c, rank);
    if (rank == end) return true;
    if (v->kind != MSI_DIAGNOSIS_BEHIND || msi_flight_is_message(v->op)) return false;
    const struct msi_wait_graph_group *group =
        &c->groups[msi_wait_graph_find_group(c, msi_wait_graph_group_of(c, v->owner, v->op))];
    return c->ranks[rank].view && c->waits_for[rank] == MSI_NO_RANK && msi_wait_graph_is_late(c, group, rank);
}

static void list_blamed(const struct msi_wait_graph *c, struct msi_diagnosis *v, int end, int **next) {
    v->blamed = *next;
    int at = end;
    for (int r = 0; r < c->n && v->kind != MSI_DIAGNOSIS_CIRCLE; r++)
        if (is_blamed(c, v, end, r)) *(*next)++ = r;
    while (v->kind == MSI_DIAGNOSIS_CIRCLE && (at != end || *next == v->blamed)) {
        *(*next)++ = at;
        at = c->waits_for[at];
    }
    v->n_blamed = (int)(*next - v->blamed);
}

/* A rank that waits for the end; the end itself if none does. */
static int find_waiter(const struct msi_wait_graph *c, int end) {
    for (int r = 0; r < c->n; r++)
        if (c->waits_for[r] == end) return r;
    return end;
}

static enum msi_diagnosis_kind kind_of(const struct msi_wait_graph *c, const struct msi_diagnosis *v,
                                       int end) {
    if (end >= c->n) return MSI_DIAGNOSIS_MISSING;
    if (c->waits_for[end] != MSI_NO_RANK) return MSI_DIAGNOSIS_CIRCLE;
    if (v->owner == end) return MSI_DIAGNOSIS_TOGETHER;
    if (!c->ranks[end].view) return MSI_DIAGNOSIS_MISSING;
    bool named = msi_wait_graph_names(c, v->owner, v->op) == end;
    bool late =
        !msi_flight_is_message(v->op) && msi_wait_graph_group_of(c, v->owner, v->op)->size &&
        msi_wait_graph_is_late(
            c, &c->groups[msi_wait_graph_find_group(c, msi_wait_graph_group_of(c, v->owner, v->op))], end);
    return named && !late ? MSI_DIAGNOSIS_LOST : MSI_DIAGNOSIS_BEHIND;
}

static void diagnose(const struct msi_wait_graph *c, int end, struct msi_diagnosis *v, int **next) {
    int other;
    v->owner = find_waiter(c, end);
    v->op = c->in[v->owner];
    v->kind = kind_of(c, v, end);
    const struct msi_flight_group *known = msi_wait_graph_group_of(c, v->owner, v->op);
    if (v->kind == MSI_DIAGNOSIS_BEHIND && !msi_flight_is_message(v->op) && known->size) {
        const struct msi_wait_graph_group *group = &c->groups[msi_wait_graph_find_group(c, known)];
        v->op = group->awaited;
        v->owner = group->awaiter;
    }
    v->other = find_different(c, v->owner, v->op, &other);
    if (v->other) {
        v->kind = MSI_DIAGNOSIS_DIFFERENT;
        v->blamed = *next;
        v->n_blamed = 2;
        *(*next)++ = v->owner;
        *(*next)++ = other;
    } else {
        list_blamed(c, v, end, next);
    }
    list_waiting(c, v, end, next);
}

/* Counts the ranks behind each end. If no rank waits for another, the first rank in a call gets a vote. */
static void count_votes(struct msi_wait_graph *c) {
    int first = MSI_NO_RANK;
    bool any = false;
    for (int r = 0; r < c->n; r++) {
        if (!c->in[r]) continue;
        bool waits = c->waits_for[r] != MSI_NO_RANK, message = msi_flight_is_message(c->in[r]);
        if (waits) c->votes[c->ends[r]]++;
        any |= waits;
        if (first == MSI_NO_RANK || (msi_flight_is_message(c->in[first]) && !message)) first = r;
    }
    if (!any && first != MSI_NO_RANK) c->votes[first] = 1;
}

bool msi_flight_diagnose(const struct msi_flight_rank *ranks, int size, struct msi_diagnoses *to) {
    struct msi_wait_graph c;
    *to = (struct msi_diagnoses){.ranks = ranks, .size = size};
    bool whole = msi_wait_graph_open(&c, ranks, size);
    to->memory = calloc(MSI_DIAGNOSES_MOST, 3 * ((size_t)size + 1) * sizeof *to->memory);
    int *next = to->memory;
    if (whole) {
        find_ends(&c);
        count_votes(&c);
    }
    whole = whole && to->memory;
    for (int end; whole && to->n < MSI_DIAGNOSES_MOST && (end = next_end(&c)) != MSI_NO_RANK; to->n++) {
        diagnose(&c, end, &to->of[to->n], &next);
        c.votes[end] = 0;
    }
    if (!to->n) to->of[to->n++] = (struct msi_diagnosis){.kind = MSI_DIAGNOSIS_NONE, .owner = MSI_NO_RANK};
    to->in = c.in;
    c.in = NULL;
    msi_wait_graph_close(&c);
    return whole;
}

void msi_diagnoses_free(struct msi_diagnoses *diagnoses) {
    free(diagnoses->memory);
    free(diagnoses->in);
    *diagnoses = (struct msi_diagnoses){0};
}
