/* wait_graph.c - see wait_graph.h. */
#include "prof/flight/wait_graph.h"

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

static void note_completed(struct completed *completed, const struct msi_flight_op *op) {
    if (op->state != MSI_FLIGHT_DONE) return;
    completed->any = true;
    if (op->begin > completed->begin) completed->begin = op->begin;
}

/* Does the rank wait in it? A failed operation counts even if its group was destroyed afterwards. */
static bool is_open(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op,
                    const struct completed *completed) {
    if (op->state == MSI_FLIGHT_DONE) return false;
    if (op->state != MSI_FLIGHT_FAILED) return !msi_wait_graph_group_of(c, rank, op)->gone;
    return op->end == MSI_FLIGHT_UNKNOWN ? !completed->any : completed->begin <= op->end;
}

static void join(struct msi_wait_graph *c, int rank, int at, int group) {
    c->members[at] =
        (struct msi_wait_graph_member){.rank = rank, .group = group, .next = c->groups[group].members};
    c->groups[group].members = at;
    c->groups[group].seen++;
}

/* All groups of all recorders, each once. */
static void gather_groups(struct msi_wait_graph *c) {
    int n = 0;
    for (int r = 0; r < c->n; r++)
        for (int k = 0; c->ranks[r].view && k < c->ranks[r].view->n_groups; k++) {
            const struct msi_flight_group *group = &c->ranks[r].view->groups[k];
            if (group->size)
                c->groups[n++] =
                    (struct msi_wait_graph_group){.id = group->id, .size = group->size, .members = -1};
        }
    if (n) qsort(c->groups, (size_t)n, sizeof *c->groups, compare_groups);
    for (int i = 0; i < n; i++)
        if (!c->n_groups || compare_groups(&c->groups[c->n_groups - 1], &c->groups[i]) != 0)
            c->groups[c->n_groups++] = c->groups[i];
}

int msi_wait_graph_find_group(const struct msi_wait_graph *c, const struct msi_flight_group *group) {
    struct msi_wait_graph_group key = {.id = group->id, .size = group->size};
    if (!group->size) return MSI_NO_RANK;
    const struct msi_wait_graph_group *found =
        bsearch(&key, c->groups, (size_t)c->n_groups, sizeof *c->groups, compare_groups);
    return (int)(found - c->groups);
}

static bool is_world(const struct msi_wait_graph *c, const struct msi_flight_group *group) {
    return group->size == c->n && !strcmp(group->name, "world");
}

/* Every rank is a member of the world, even if its recorder has no entry for it. */
static int find_world(const struct msi_wait_graph *c) {
    for (int r = 0; r < c->n; r++)
        for (int k = 0; c->ranks[r].view && k < c->ranks[r].view->n_groups; k++)
            if (is_world(c, &c->ranks[r].view->groups[k]))
                return msi_wait_graph_find_group(c, &c->ranks[r].view->groups[k]);
    return MSI_NO_RANK;
}

static bool has_joined(const struct msi_wait_graph *c, int group, int rank) {
    for (int i = c->groups[group].members; i >= 0; i = c->members[i].next)
        if (c->members[i].rank == rank) return true;
    return false;
}

/* Adds members that another member lists, although they have not created the group yet. */
static void join_named(struct msi_wait_graph *c, const struct msi_flight_group *named, int *next) {
    int group = msi_wait_graph_find_group(c, named);
    for (int r = 0; r < c->n && named->known && c->groups[group].seen < named->size; r++)
        if (c->ranks[r].view && msi_flight_has_member(named, r) && !has_joined(c, group, r))
            join(c, r, (*next)++, group);
}

static void gather_named(struct msi_wait_graph *c) {
    int next = c->own[c->n];
    for (int r = 0; r < c->n; r++)
        for (int k = 0; c->ranks[r].view && k < c->ranks[r].view->n_groups; k++)
            if (c->ranks[r].view->groups[k].size) join_named(c, &c->ranks[r].view->groups[k], &next);
}

static void gather_members(struct msi_wait_graph *c) {
    int world = find_world(c);
    for (int r = 0; r < c->n; r++) {
        const struct msi_flight_view *view = c->ranks[r].view;
        bool has_world = false;
        for (int k = 0; view && k < view->n_groups; k++) {
            int group = msi_wait_graph_find_group(c, &view->groups[k]);
            if (group != MSI_NO_RANK) join(c, r, c->own[r] + k, group);
            has_world |= group == world;
        }
        if (view && !has_world && world != MSI_NO_RANK) join(c, r, c->own[r] + view->n_groups, world);
    }
    gather_named(c);
}

/* Finds the first unfinished and the newest collective of the rank in each of its groups. */
static void survey(struct msi_wait_graph *c, int rank) {
    const struct msi_flight_view *view = c->ranks[rank].view;
    struct completed completed = {false, MSI_FLIGHT_UNKNOWN};
    for (int k = view ? view->n - 1 : -1; k >= 0; k--) {
        const struct msi_flight_op *op = &view->ops[k];
        struct msi_wait_graph_member *m = &c->members[c->own[rank] + op->group];
        bool open = is_open(c, rank, op, &completed);
        c->busy[rank] |= open;
        note_completed(&completed, op);
        if (msi_flight_is_message(op) || !msi_wait_graph_group_of(c, rank, op)->size) continue;
        if (!m->newest || op->seq > m->newest->seq) m->newest = op;
        if (open && (!m->first || op->seq < m->first->seq)) m->first = op;
    }
}

static bool is_behind(const struct msi_wait_graph_member *m, uint64_t seq) {
    return !m->newest || m->newest->seq < seq;
}

/* The first collective of the group in which a member waits for another that has not reached it. */
static void find_awaited(struct msi_wait_graph *c, struct msi_wait_graph_group *group) {
    const struct msi_wait_graph_member *last = NULL;
    if (group->seen > group->size) return; /* several groups that cannot be told apart */
    for (int i = group->members; i >= 0; i = c->members[i].next) {
        const struct msi_wait_graph_member *m = &c->members[i];
        if (!last || (last->newest && is_behind(m, last->newest->seq))) last = m;
    }
    for (int i = group->members; i >= 0 && last; i = c->members[i].next) {
        const struct msi_wait_graph_member *m = &c->members[i];
        if (!m->first || !is_behind(last, m->first->seq)) continue;
        if (group->awaited && group->awaited->seq <= m->first->seq) continue;
        group->awaited = m->first;
        group->awaiter = m->rank;
    }
}

bool msi_wait_graph_is_late(const struct msi_wait_graph *c, const struct msi_wait_graph_group *group,
                            int rank) {
    for (int i = group->members; i >= 0 && group->awaited; i = c->members[i].next)
        if (c->members[i].rank == rank) return is_behind(&c->members[i], group->awaited->seq);
    return false;
}

/* The lowest late member; one that is not waiting itself comes first. */
static void find_late(const struct msi_wait_graph *c, struct msi_wait_graph_group *group) {
    group->late = MSI_NO_RANK;
    for (int i = group->members; i >= 0 && group->awaited; i = c->members[i].next) {
        int rank = c->members[i].rank, found = group->late;
        if (!is_behind(&c->members[i], group->awaited->seq)) continue;
        bool equal = found != MSI_NO_RANK && c->busy[rank] == c->busy[found];
        if (found == MSI_NO_RANK || c->busy[rank] < c->busy[found] || (equal && rank < found))
            group->late = rank;
    }
}

/* Has the peer called the matching operation? A message without a number matches any. */
static bool has_met(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op) {
    const struct msi_flight_view *view = c->ranks[op->peer].view;
    enum msi_flight_type type = op->type == MSI_FLIGHT_SEND ? MSI_FLIGHT_RECV : MSI_FLIGHT_SEND;
    for (int k = 0; k < view->n; k++) {
        const struct msi_flight_op *other = &view->ops[k];
        if (other->type != type || other->tag != op->tag ||
            !msi_flight_same_group(&view->groups[other->group], msi_wait_graph_group_of(c, rank, op)))
            continue;
        if (other->peer < 0 && !msi_flight_is_over(other)) return true; /* from any source */
        if (other->peer != rank || other->seq == MSI_FLIGHT_NO_NUMBER) continue;
        if (op->seq == MSI_FLIGHT_NO_NUMBER || other->seq >= op->seq) return true;
    }
    return false;
}

int msi_wait_graph_names(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op) {
    int blames = c->ranks[rank].blames;
    if (op->state != MSI_FLIGHT_FAILED || blames < 0 || blames >= c->n || blames == rank) return MSI_NO_RANK;
    return blames;
}

static int peer_waited_for(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op) {
    if (op->peer < 0 || op->peer >= c->n || op->peer == rank) return MSI_NO_RANK;
    return c->ranks[op->peer].view && has_met(c, rank, op) ? MSI_NO_RANK : op->peer;
}

static int member_waited_for(const struct msi_wait_graph *c, const struct msi_wait_graph_member *m,
                             int named) {
    const struct msi_wait_graph_group *group = &c->groups[m->group];
    bool waits = group->awaited && m->first->seq >= group->awaited->seq;
    if (named != MSI_NO_RANK && !(waits && msi_wait_graph_is_late(c, group, named))) return named;
    if (waits) return group->late;
    return group->seen < group->size ? c->n + m->group : MSI_NO_RANK;
}

/* The operation that the rank waits in, and the rank that it waits for: the newest one with a known rank. */
static void find_wait(struct msi_wait_graph *c, int rank) {
    const struct msi_flight_view *view = c->ranks[rank].view;
    struct completed completed = {false, MSI_FLIGHT_UNKNOWN};
    c->waits_for[rank] = MSI_NO_RANK;
    for (int k = view ? view->n - 1 : -1; k >= 0; k--) {
        const struct msi_flight_op *op = &view->ops[k];
        const struct msi_wait_graph_member *m = &c->members[c->own[rank] + op->group];
        bool open = is_open(c, rank, op, &completed), known = msi_wait_graph_group_of(c, rank, op)->size;
        note_completed(&completed, op);
        if (!open || (!msi_flight_is_message(op) && known && m->first != op)) continue;
        int named = msi_wait_graph_names(c, rank, op), found = named;
        if (!msi_flight_is_message(op) && known)
            found = member_waited_for(c, m, named);
        else if (msi_flight_is_message(op) && named == MSI_NO_RANK)
            found = peer_waited_for(c, rank, op);
        bool better = c->waits_for[rank] == MSI_NO_RANK
                          ? found != MSI_NO_RANK
                          : c->waits_for[rank] >= c->n && found != MSI_NO_RANK && found < c->n;
        if (c->in[rank] && !better) continue;
        c->in[rank] = op;
        c->waits_for[rank] = found;
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

bool msi_wait_graph_open(struct msi_wait_graph *c, const struct msi_flight_rank *ranks, int size) {
    size_t n = (size_t)size + 1, members = 0;
    *c = (struct msi_wait_graph){.ranks = ranks, .n = size, .own = calloc(n, sizeof *c->own)};
    for (int r = 0; r < size && c->own; r++) {
        if (ranks[r].view) members += (size_t)ranks[r].view->n_groups + 1;
        c->own[r + 1] = (int)members;
    }
    size_t named = count_named(ranks, size);
    c->groups = calloc(members + 1, sizeof *c->groups);
    c->members = calloc(members + named + 1, sizeof *c->members);
    c->busy = calloc(n, sizeof *c->busy);
    c->waits_for = calloc(n, sizeof *c->waits_for);
    c->ends = calloc(n, sizeof *c->ends);
    c->votes = calloc(n + members, sizeof *c->votes);
    c->in = calloc(n, sizeof *c->in);
    if (!c->own || !c->groups || !c->members || !c->busy || !c->waits_for || !c->ends || !c->votes || !c->in)
        return false;
    for (size_t i = 0; i < members + named; i++) c->members[i].group = MSI_NO_RANK;
    gather_groups(c);
    gather_members(c);
    for (int r = 0; r < size; r++) survey(c, r);
    for (int i = 0; i < c->n_groups; i++) {
        find_awaited(c, &c->groups[i]);
        find_late(c, &c->groups[i]);
    }
    for (int r = 0; r < size; r++) find_wait(c, r);
    return true;
}

void msi_wait_graph_close(struct msi_wait_graph *c) {
    free(c->own);
    free(c->groups);
    free(c->members);
    free(c->busy);
    free(c->waits_for);
    free(c->ends);
    free(c->votes);
    free(c->in);
}
