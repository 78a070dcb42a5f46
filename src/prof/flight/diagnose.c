/* diagnose.c - see diagnose.h. What it finds is put into words by text.c. */
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
    return at < c->n && c->waits_for[at] != MSI_NOBODY;
}

/* Follows each walk to its end, once: ends of walks that were made before are known. */
static void walk(struct msi_wait_graph *c) {
    for (int r = 0; r < c->n; r++) c->ends[r] = MSI_NOBODY;
    for (int r = 0; r < c->n; r++) {
        int at = r, steps = 0;
        while (goes_on(c, at) && c->ends[at] == MSI_NOBODY && steps++ <= c->n) at = c->waits_for[at];
        int end = at < c->n && c->ends[at] != MSI_NOBODY ? c->ends[at]
                  : goes_on(c, at)                       ? least_of_circle(c, at)
                                                         : at;
        for (at = r; at < c->n && c->ends[at] == MSI_NOBODY; at = c->waits_for[at]) {
            c->ends[at] = end;
            if (!goes_on(c, at)) break;
        }
    }
}

/* The end of most walks that is not judged yet; MSI_NOBODY: none is left. */
static int next_end(const struct msi_wait_graph *c) {
    int best = MSI_NOBODY;
    for (int i = 0; i < c->n + c->n_teams; i++)
        if (c->votes[i] > 0 && (best == MSI_NOBODY || c->votes[i] > c->votes[best])) best = i;
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

/* The operations that another rank calls by this number. */
static const struct msi_flight_op *find_different(const struct msi_wait_graph *c, int owner,
                                                  const struct msi_flight_op *op, int *rank) {
    for (int r = 0; r < c->n && !msi_flight_is_message(op); r++) {
        const struct msi_flight_view *view = c->ranks[r].view;
        for (int k = 0; view && k < view->n; k++) {
            const struct msi_flight_op *other = &view->ops[k];
            if (other->seq != op->seq || msi_flight_is_message(other) || !differ(op, other) ||
                !msi_flight_same_team(&view->teams[other->team], msi_wait_graph_team_of(c, owner, op)))
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
           msi_flight_same_team(msi_wait_graph_team_of(c, rank, op),
                                msi_wait_graph_team_of(c, v->owner, v->op));
}

/* The lists of all diagnoses lie one behind the other; pen is where the next one begins. */
static void list_waiting(const struct msi_wait_graph *c, struct msi_diagnosis *v, int end, int **pen) {
    v->waiting = *pen;
    for (int r = 0; r < c->n; r++)
        if (is_in(c, r, v)) *(*pen)++ = r;
    v->further = *pen;
    for (int r = 0; r < c->n; r++)
        if (c->ends[r] == end && r != end && !is_in(c, r, v)) *(*pen)++ = r;
    v->n_waiting = (int)(v->further - v->waiting);
    v->n_further = (int)(*pen - v->further);
}

static bool is_nameless(const struct msi_wait_graph *c, int rank) {
    return !c->ranks[rank].view && !c->ranks[rank].elsewhere;
}

/* Is that what the end of a walk is blamed for? */
static bool is_blamed(const struct msi_wait_graph *c, const struct msi_diagnosis *v, int end, int rank) {
    if (v->kind == MSI_DIAGNOSIS_TOGETHER) return false;
    if (end >= c->n) return c->teams[end - c->n].size == c->n && is_nameless(c, rank);
    if (rank == end) return true;
    if (v->kind != MSI_DIAGNOSIS_BEHIND || msi_flight_is_message(v->op)) return false;
    const struct msi_wait_graph_team *team =
        &c->teams[msi_wait_graph_find_team(c, msi_wait_graph_team_of(c, v->owner, v->op))];
    return c->ranks[rank].view && c->waits_for[rank] == MSI_NOBODY && msi_wait_graph_is_late(c, team, rank);
}

static void list_blamed(const struct msi_wait_graph *c, struct msi_diagnosis *v, int end, int **pen) {
    v->blamed = *pen;
    int at = end;
    for (int r = 0; r < c->n && v->kind != MSI_DIAGNOSIS_CIRCLE; r++)
        if (is_blamed(c, v, end, r)) *(*pen)++ = r;
    while (v->kind == MSI_DIAGNOSIS_CIRCLE && (at != end || *pen == v->blamed)) {
        *(*pen)++ = at;
        at = c->waits_for[at];
    }
    v->n_blamed = (int)(*pen - v->blamed);
}

/* Some rank waits for it, or is the first in a group of which not all is known. */
static int find_waiter(const struct msi_wait_graph *c, int end) {
    for (int r = 0; r < c->n; r++)
        if (c->waits_for[r] == end) return r;
    return end;
}

static enum msi_diagnosis_kind kind_of(const struct msi_wait_graph *c, const struct msi_diagnosis *v,
                                       int end) {
    if (end >= c->n) return MSI_DIAGNOSIS_MISSING;
    if (c->waits_for[end] != MSI_NOBODY) return MSI_DIAGNOSIS_CIRCLE;
    if (v->owner == end) return MSI_DIAGNOSIS_TOGETHER;
    if (!c->ranks[end].view) return MSI_DIAGNOSIS_MISSING;
    bool named = msi_wait_graph_names(c, v->owner, v->op) == end;
    bool late =
        !msi_flight_is_message(v->op) && msi_wait_graph_team_of(c, v->owner, v->op)->size &&
        msi_wait_graph_is_late(
            c, &c->teams[msi_wait_graph_find_team(c, msi_wait_graph_team_of(c, v->owner, v->op))], end);
    return named && !late ? MSI_DIAGNOSIS_LOST : MSI_DIAGNOSIS_BEHIND;
}

static void judge(const struct msi_wait_graph *c, int end, struct msi_diagnosis *v, int **pen) {
    int other;
    v->owner = find_waiter(c, end);
    v->op = c->in[v->owner];
    v->kind = kind_of(c, v, end);
    const struct msi_flight_team *known = msi_wait_graph_team_of(c, v->owner, v->op);
    if (v->kind == MSI_DIAGNOSIS_BEHIND && !msi_flight_is_message(v->op) && known->size) {
        const struct msi_wait_graph_team *team = &c->teams[msi_wait_graph_find_team(c, known)];
        v->op = team->awaited;
        v->owner = team->awaiter;
    }
    v->other = find_different(c, v->owner, v->op, &other);
    if (v->other) {
        v->kind = MSI_DIAGNOSIS_DIFFERENT;
        v->blamed = *pen;
        v->n_blamed = 2;
        *(*pen)++ = v->owner;
        *(*pen)++ = other;
    } else {
        list_blamed(c, v, end, pen);
    }
    list_waiting(c, v, end, pen);
}

/* Ends of walks that are worth a diagnosis: where nobody waits for anybody, that of the first that is in a call. */
static void count_votes(struct msi_wait_graph *c) {
    int first = MSI_NOBODY;
    bool any = false;
    for (int r = 0; r < c->n; r++) {
        if (!c->in[r]) continue;
        bool waits = c->waits_for[r] != MSI_NOBODY, message = msi_flight_is_message(c->in[r]);
        if (waits) c->votes[c->ends[r]]++;
        any |= waits;
        if (first == MSI_NOBODY || (msi_flight_is_message(c->in[first]) && !message)) first = r;
    }
    if (!any && first != MSI_NOBODY) c->votes[first] = 1;
}

bool msi_flight_diagnose(const struct msi_flight_of *ranks, int size, struct msi_diagnoses *to) {
    struct msi_wait_graph c;
    *to = (struct msi_diagnoses){.ranks = ranks, .size = size};
    bool whole = msi_wait_graph_open(&c, ranks, size);
    to->memory = calloc(MSI_VERDICTS_MOST, 3 * ((size_t)size + 1) * sizeof *to->memory);
    int *pen = to->memory;
    if (whole) {
        walk(&c);
        count_votes(&c);
    }
    whole = whole && to->memory;
    for (int end; whole && to->n < MSI_VERDICTS_MOST && (end = next_end(&c)) != MSI_NOBODY; to->n++) {
        judge(&c, end, &to->of[to->n], &pen);
        c.votes[end] = 0;
    }
    if (!to->n) to->of[to->n++] = (struct msi_diagnosis){.kind = MSI_DIAGNOSIS_NONE, .owner = MSI_NOBODY};
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
