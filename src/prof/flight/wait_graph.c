/* wait_graph.c - see wait_graph.h. */
#include "prof/flight/wait_graph.h"

#include <muster/comm.h>
#include <stdlib.h>
#include <string.h>

static int compare_groups(const void *a, const void *b) {
    const struct msi_wait_graph_group *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

/*
 * Operations that a rank has completed after a given one: whether there are any, and when the last one began.
 */
struct completed {
    bool any;
    int64_t begin;
};

/*
 * Does the rank wait in it? A failed operation counts even if its group was destroyed afterwards. Called for
 * the operations of a rank from the newest to the oldest, to find the completed ones.
 */
static bool is_open(const struct msi_wait_graph *g, int rank, const struct msi_flight_op *op,
                    struct completed *completed) {
    if (op->state == MSI_FLIGHT_DONE) {
        completed->any = true;
        if (op->begin > completed->begin) completed->begin = op->begin;
        return false;
    }
    if (op->state != MSI_FLIGHT_FAILED) return !msi_wait_graph_group_of(g, rank, op)->gone;
    return op->end == MSI_FLIGHT_UNKNOWN ? !completed->any : completed->begin <= op->end;
}

static void join(struct msi_wait_graph *g, int rank, int at, int group) {
    g->members[at] =
        (struct msi_wait_graph_member){.rank = rank, .group = group, .next = g->groups[group].members};
    g->groups[group].members = at;
    g->groups[group].seen++;
}

/* All groups of all recorders, each once. */
static void gather_groups(struct msi_wait_graph *g) {
    int n = 0;
    for (int r = 0; r < g->n; r++)
        for (int k = 0; g->ranks[r].view && k < g->ranks[r].view->n_groups; k++) {
            const struct msi_flight_group *group = &g->ranks[r].view->groups[k];
            if (group->size)
                g->groups[n++] =
                    (struct msi_wait_graph_group){.id = group->id, .size = group->size, .members = -1};
        }
    if (n) qsort(g->groups, (size_t)n, sizeof *g->groups, compare_groups);
    for (int i = 0; i < n; i++)
        if (!g->n_groups || compare_groups(&g->groups[g->n_groups - 1], &g->groups[i]) != 0)
            g->groups[g->n_groups++] = g->groups[i];
}

int msi_wait_graph_find_group(const struct msi_wait_graph *g, const struct msi_flight_group *group) {
    struct msi_wait_graph_group key = {.id = group->id, .size = group->size};
    if (!group->size) return MSI_NO_RANK;
    const struct msi_wait_graph_group *found =
        bsearch(&key, g->groups, (size_t)g->n_groups, sizeof *g->groups, compare_groups);
    return (int)(found - g->groups);
}

static bool is_world(const struct msi_wait_graph *g, const struct msi_flight_group *group) {
    return group->size == g->n && !strcmp(group->name, "world");
}

/* Every rank is a member of the world, even if its recorder has no entry for it. */
static int find_world(const struct msi_wait_graph *g) {
    for (int r = 0; r < g->n; r++)
        for (int k = 0; g->ranks[r].view && k < g->ranks[r].view->n_groups; k++)
            if (is_world(g, &g->ranks[r].view->groups[k]))
                return msi_wait_graph_find_group(g, &g->ranks[r].view->groups[k]);
    return MSI_NO_RANK;
}

static bool has_joined(const struct msi_wait_graph *g, int group, int rank) {
    for (int i = g->groups[group].members; i >= 0; i = g->members[i].next)
        if (g->members[i].rank == rank) return true;
    return false;
}

/* Adds members that another member lists, although they have not created the group yet. */
static void join_named(struct msi_wait_graph *g, const struct msi_flight_group *named, int *next) {
    int group = msi_wait_graph_find_group(g, named);
    for (int r = 0; r < g->n && named->known && g->groups[group].seen < named->size; r++)
        if (g->ranks[r].view && msi_flight_has_member(named, r) && !has_joined(g, group, r))
            join(g, r, (*next)++, group);
}

static void gather_named(struct msi_wait_graph *g) {
    int next = g->own[g->n];
    for (int r = 0; r < g->n; r++)
        for (int k = 0; g->ranks[r].view && k < g->ranks[r].view->n_groups; k++)
            if (g->ranks[r].view->groups[k].size) join_named(g, &g->ranks[r].view->groups[k], &next);
}

static void gather_members(struct msi_wait_graph *g) {
    int world = find_world(g);
    for (int r = 0; r < g->n; r++) {
        const struct msi_flight_view *view = g->ranks[r].view;
        bool has_world = false;
        for (int k = 0; view && k < view->n_groups; k++) {
            int group = msi_wait_graph_find_group(g, &view->groups[k]);
            if (group != MSI_NO_RANK) join(g, r, g->own[r] + k, group);
            has_world |= group == world;
        }
        if (view && !has_world && world != MSI_NO_RANK) join(g, r, g->own[r] + view->n_groups, world);
    }
    gather_named(g);
}

/* Finds the first unfinished and the newest collective of the rank in each of its groups. */
static void survey(struct msi_wait_graph *g, int rank) {
    const struct msi_flight_view *view = g->ranks[rank].view;
    struct completed completed = {false, MSI_FLIGHT_UNKNOWN};
    for (int k = view ? view->n - 1 : -1; k >= 0; k--) {
        const struct msi_flight_op *op = &view->ops[k];
        struct msi_wait_graph_member *m = &g->members[g->own[rank] + op->group];
        bool open = is_open(g, rank, op, &completed);
        g->busy[rank] |= open;
        if (msi_flight_is_message(op) || !msi_wait_graph_group_of(g, rank, op)->size) continue;
        if (!m->newest || op->seq > m->newest->seq) m->newest = op;
        if (open && (!m->first || op->seq < m->first->seq)) m->first = op;
    }
}

static bool is_behind(const struct msi_wait_graph_member *m, uint64_t seq) {
    return !m->newest || m->newest->seq < seq;
}

/* The first collective of the group in which a member waits for another that has not reached it. */
static void find_awaited(struct msi_wait_graph *g, struct msi_wait_graph_group *group) {
    const struct msi_wait_graph_member *last = NULL;
    if (group->seen > group->size) return; /* several groups that cannot be told apart */
    for (int i = group->members; i >= 0; i = g->members[i].next) {
        const struct msi_wait_graph_member *m = &g->members[i];
        if (!last || (last->newest && is_behind(m, last->newest->seq))) last = m;
    }
    for (int i = group->members; i >= 0 && last; i = g->members[i].next) {
        const struct msi_wait_graph_member *m = &g->members[i];
        if (!m->first || !is_behind(last, m->first->seq)) continue;
        if (group->awaited && group->awaited->seq <= m->first->seq) continue;
        group->awaited = m->first;
        group->awaiter = m->rank;
    }
}

bool msi_wait_graph_is_late(const struct msi_wait_graph *g, const struct msi_wait_graph_group *group,
                            int rank) {
    for (int i = group->members; i >= 0 && group->awaited; i = g->members[i].next)
        if (g->members[i].rank == rank) return is_behind(&g->members[i], group->awaited->seq);
    return false;
}

/* The lowest late member; one that is not waiting itself comes first. */
static void find_late(const struct msi_wait_graph *g, struct msi_wait_graph_group *group) {
    group->late = MSI_NO_RANK;
    for (int i = group->members; i >= 0 && group->awaited; i = g->members[i].next) {
        int rank = g->members[i].rank, found = group->late;
        if (!is_behind(&g->members[i], group->awaited->seq)) continue;
        bool equal = found != MSI_NO_RANK && g->busy[rank] == g->busy[found];
        if (found == MSI_NO_RANK || g->busy[rank] < g->busy[found] || (equal && rank < found))
            group->late = rank;
    }
}

/* Can the two be one message? A receive with any tag that is not over has got none of the sends that are. */
static bool tags_meet(const struct msi_flight_op *op, const struct msi_flight_op *other) {
    if (op->tag == MST_ANY_TAG) return !msi_flight_is_over(other);
    return other->tag == op->tag || other->tag == MST_ANY_TAG;
}

/* Has the peer called the matching operation? A message without a number matches any. */
static bool has_met(const struct msi_wait_graph *g, int rank, const struct msi_flight_op *op) {
    const struct msi_flight_view *view = g->ranks[op->peer].view;
    enum msi_flight_type type = op->type == MSI_FLIGHT_SEND ? MSI_FLIGHT_RECV : MSI_FLIGHT_SEND;
    for (int k = 0; k < view->n; k++) {
        const struct msi_flight_op *other = &view->ops[k];
        if (other->type != type || !tags_meet(op, other) || (other->peer >= 0 && other->peer != rank) ||
            !msi_flight_same_group(&view->groups[other->group], msi_wait_graph_group_of(g, rank, op)))
            continue;
        bool wild = other->peer < 0 || other->tag == MST_ANY_TAG;
        if (wild && !msi_flight_is_over(other)) return true;
        if (wild || other->seq == MSI_FLIGHT_NO_NUMBER) continue;
        if (op->seq == MSI_FLIGHT_NO_NUMBER || other->seq >= op->seq) return true;
    }
    return false;
}

int msi_wait_graph_names(const struct msi_wait_graph *g, int rank, const struct msi_flight_op *op) {
    int blames = g->ranks[rank].blames;
    if (op->state != MSI_FLIGHT_FAILED || blames < 0 || blames >= g->n || blames == rank) return MSI_NO_RANK;
    return blames;
}

static int peer_waited_for(const struct msi_wait_graph *g, int rank, const struct msi_flight_op *op) {
    if (op->peer < 0 || op->peer >= g->n || op->peer == rank) return MSI_NO_RANK;
    return g->ranks[op->peer].view && has_met(g, rank, op) ? MSI_NO_RANK : op->peer;
}

static int member_waited_for(const struct msi_wait_graph *g, const struct msi_wait_graph_member *m,
                             int named) {
    const struct msi_wait_graph_group *group = &g->groups[m->group];
    bool waits = group->awaited && m->first->seq >= group->awaited->seq;
    if (named != MSI_NO_RANK && !(waits && msi_wait_graph_is_late(g, group, named))) return named;
    if (waits) return group->late;
    return group->seen < group->size ? g->n + m->group : MSI_NO_RANK;
}

/* The operation that the rank waits in, and the rank that it waits for: the newest one with a known rank. */
static void find_wait(struct msi_wait_graph *g, int rank) {
    const struct msi_flight_view *view = g->ranks[rank].view;
    struct completed completed = {false, MSI_FLIGHT_UNKNOWN};
    g->waits_for[rank] = MSI_NO_RANK;
    for (int k = view ? view->n - 1 : -1; k >= 0; k--) {
        const struct msi_flight_op *op = &view->ops[k];
        const struct msi_wait_graph_member *m = &g->members[g->own[rank] + op->group];
        bool open = is_open(g, rank, op, &completed), known = msi_wait_graph_group_of(g, rank, op)->size;
        if (!open || (!msi_flight_is_message(op) && known && m->first != op)) continue;
        int named = msi_wait_graph_names(g, rank, op), found = named;
        if (!msi_flight_is_message(op) && known)
            found = member_waited_for(g, m, named);
        else if (msi_flight_is_message(op) && named == MSI_NO_RANK)
            found = peer_waited_for(g, rank, op);
        bool better = g->waits_for[rank] == MSI_NO_RANK
                          ? found != MSI_NO_RANK
                          : g->waits_for[rank] >= g->n && found != MSI_NO_RANK && found < g->n;
        if (g->in[rank] && !better) continue;
        g->in[rank] = op;
        g->waits_for[rank] = found;
    }
}

/* An upper limit for the members that others list. */
static size_t count_named(const struct msi_flight_rank *ranks, int size) {
    size_t n = 0;
    for (int r = 0; r < size; r++)
        for (int k = 0; ranks[r].view && k < ranks[r].view->n_groups; k++)
            if (ranks[r].view->groups[k].known) n += (size_t)ranks[r].view->groups[k].size;
    return n;
}

bool msi_wait_graph_open(struct msi_wait_graph *g, const struct msi_flight_rank *ranks, int size) {
    size_t n = (size_t)size + 1, members = 0;
    *g = (struct msi_wait_graph){.ranks = ranks, .n = size, .own = calloc(n, sizeof *g->own)};
    for (int r = 0; r < size && g->own; r++) {
        if (ranks[r].view) members += (size_t)ranks[r].view->n_groups + 1;
        g->own[r + 1] = (int)members;
    }
    size_t named = count_named(ranks, size);
    g->groups = calloc(members + 1, sizeof *g->groups);
    g->members = calloc(members + named + 1, sizeof *g->members);
    g->busy = calloc(n, sizeof *g->busy);
    g->waits_for = calloc(n, sizeof *g->waits_for);
    g->ends = calloc(n, sizeof *g->ends);
    g->votes = calloc(n + members, sizeof *g->votes);
    g->in = calloc(n, sizeof *g->in);
    if (!g->own || !g->groups || !g->members || !g->busy || !g->waits_for || !g->ends || !g->votes || !g->in)
        return false;
    for (size_t i = 0; i < members + named; i++) g->members[i].group = MSI_NO_RANK;
    gather_groups(g);
    gather_members(g);
    for (int r = 0; r < size; r++) survey(g, r);
    for (int i = 0; i < g->n_groups; i++) {
        find_awaited(g, &g->groups[i]);
        find_late(g, &g->groups[i]);
    }
    for (int r = 0; r < size; r++) find_wait(g, r);
    return true;
}

void msi_wait_graph_close(struct msi_wait_graph *g) {
    free(g->own);
    free(g->groups);
    free(g->members);
    free(g->busy);
    free(g->waits_for);
    free(g->ends);
    free(g->votes);
    free(g->in);
}
