/* wait_graph.c - see wait_graph.h. */
#include "prof/flight/wait_graph.h"

#include <stdlib.h>
#include <string.h>

static int compare_teams(const void *a, const void *b) {
    const struct msi_wait_graph_team *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

/* What a rank has done well since: whether anything that it called later, and when the last of all began. */
struct well {
    bool any;
    int64_t begin;
};

static void note_well(struct well *well, const struct msi_flight_op *op) {
    if (op->state != MSI_FLIGHT_DONE) return;
    well->any = true;
    if (op->begin > well->begin) well->begin = op->begin;
}

/* Does the rank wait in it? Who ends a group after a failure there still shows where that was. */
static bool is_open(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op,
                    const struct well *well) {
    if (op->state == MSI_FLIGHT_DONE) return false;
    if (op->state != MSI_FLIGHT_FAILED) return !msi_wait_graph_team_of(c, rank, op)->gone;
    return op->end == MSI_FLIGHT_UNKNOWN ? !well->any : well->begin <= op->end;
}

static void join(struct msi_wait_graph *c, int rank, int at, int team) {
    c->members[at] =
        (struct msi_wait_graph_member){.rank = rank, .team = team, .next = c->teams[team].members};
    c->teams[team].members = at;
    c->teams[team].seen++;
}

/* All groups that recorders speak of, each once. */
static void gather_teams(struct msi_wait_graph *c) {
    int n = 0;
    for (int r = 0; r < c->n; r++)
        for (int k = 0; c->ranks[r].view && k < c->ranks[r].view->n_teams; k++) {
            const struct msi_flight_team *team = &c->ranks[r].view->teams[k];
            if (team->size)
                c->teams[n++] =
                    (struct msi_wait_graph_team){.id = team->id, .size = team->size, .members = -1};
        }
    if (n) qsort(c->teams, (size_t)n, sizeof *c->teams, compare_teams);
    for (int i = 0; i < n; i++)
        if (!c->n_teams || compare_teams(&c->teams[c->n_teams - 1], &c->teams[i]) != 0)
            c->teams[c->n_teams++] = c->teams[i];
}

int msi_wait_graph_find_team(const struct msi_wait_graph *c, const struct msi_flight_team *team) {
    struct msi_wait_graph_team key = {.id = team->id, .size = team->size};
    if (!team->size) return MSI_NOBODY;
    const struct msi_wait_graph_team *found =
        bsearch(&key, c->teams, (size_t)c->n_teams, sizeof *c->teams, compare_teams);
    return (int)(found - c->teams);
}

static bool is_world(const struct msi_wait_graph *c, const struct msi_flight_team *team) {
    return team->size == c->n && !strcmp(team->name, "world");
}

/* Every rank is in the world, also where its recorder does not say so. */
static int find_world(const struct msi_wait_graph *c) {
    for (int r = 0; r < c->n; r++)
        for (int k = 0; c->ranks[r].view && k < c->ranks[r].view->n_teams; k++)
            if (is_world(c, &c->ranks[r].view->teams[k]))
                return msi_wait_graph_find_team(c, &c->ranks[r].view->teams[k]);
    return MSI_NOBODY;
}

static bool has_joined(const struct msi_wait_graph *c, int team, int rank) {
    for (int i = c->teams[team].members; i >= 0; i = c->members[i].next)
        if (c->members[i].rank == rank) return true;
    return false;
}

/* Those whom another member names, though they have not made the group yet: pen is where they are put. */
static void join_named(struct msi_wait_graph *c, const struct msi_flight_team *named, int *pen) {
    int team = msi_wait_graph_find_team(c, named);
    for (int r = 0; r < c->n && named->known && c->teams[team].seen < named->size; r++)
        if (c->ranks[r].view && msi_flight_has_member(named, r) && !has_joined(c, team, r))
            join(c, r, (*pen)++, team);
}

static void gather_named(struct msi_wait_graph *c) {
    int pen = c->own[c->n];
    for (int r = 0; r < c->n; r++)
        for (int k = 0; c->ranks[r].view && k < c->ranks[r].view->n_teams; k++)
            if (c->ranks[r].view->teams[k].size) join_named(c, &c->ranks[r].view->teams[k], &pen);
}

static void gather_members(struct msi_wait_graph *c) {
    int world = find_world(c);
    for (int r = 0; r < c->n; r++) {
        const struct msi_flight_view *view = c->ranks[r].view;
        bool has_world = false;
        for (int k = 0; view && k < view->n_teams; k++) {
            int team = msi_wait_graph_find_team(c, &view->teams[k]);
            if (team != MSI_NOBODY) join(c, r, c->own[r] + k, team);
            has_world |= team == world;
        }
        if (view && !has_world && world != MSI_NOBODY) join(c, r, c->own[r] + view->n_teams, world);
    }
    gather_named(c);
}

/* How far each rank has come in its groups. */
static void survey(struct msi_wait_graph *c, int rank) {
    const struct msi_flight_view *view = c->ranks[rank].view;
    struct well well = {false, MSI_FLIGHT_UNKNOWN};
    for (int k = view ? view->n - 1 : -1; k >= 0; k--) {
        const struct msi_flight_op *op = &view->ops[k];
        struct msi_wait_graph_member *m = &c->members[c->own[rank] + op->team];
        bool open = is_open(c, rank, op, &well);
        c->busy[rank] |= open;
        note_well(&well, op);
        if (msi_flight_is_message(op) || !msi_wait_graph_team_of(c, rank, op)->size) continue;
        if (!m->newest || op->seq > m->newest->seq) m->newest = op;
        if (open && (!m->first || op->seq < m->first->seq)) m->first = op;
    }
}

static bool is_behind(const struct msi_wait_graph_member *m, uint64_t seq) {
    return !m->newest || m->newest->seq < seq;
}

/* The first collective of the group in which somebody waits for one that has not come. */
static void find_awaited(struct msi_wait_graph *c, struct msi_wait_graph_team *team) {
    const struct msi_wait_graph_member *last = NULL;
    if (team->seen > team->size) return; /* several groups that cannot be told apart */
    for (int i = team->members; i >= 0; i = c->members[i].next) {
        const struct msi_wait_graph_member *m = &c->members[i];
        if (!last || (last->newest && is_behind(m, last->newest->seq))) last = m;
    }
    for (int i = team->members; i >= 0 && last; i = c->members[i].next) {
        const struct msi_wait_graph_member *m = &c->members[i];
        if (!m->first || !is_behind(last, m->first->seq)) continue;
        if (team->awaited && team->awaited->seq <= m->first->seq) continue;
        team->awaited = m->first;
        team->awaiter = m->rank;
    }
}

/* Is the rank among those who have not come to what is awaited? */
bool msi_wait_graph_is_late(const struct msi_wait_graph *c, const struct msi_wait_graph_team *team,
                            int rank) {
    for (int i = team->members; i >= 0 && team->awaited; i = c->members[i].next)
        if (c->members[i].rank == rank) return is_behind(&c->members[i], team->awaited->seq);
    return false;
}

/* One who waits for nothing itself, if there is any, and then the least. */
static void find_late(const struct msi_wait_graph *c, struct msi_wait_graph_team *team) {
    team->late = MSI_NOBODY;
    for (int i = team->members; i >= 0 && team->awaited; i = c->members[i].next) {
        int rank = c->members[i].rank, found = team->late;
        if (!is_behind(&c->members[i], team->awaited->seq)) continue;
        bool equal = found != MSI_NOBODY && c->busy[rank] == c->busy[found];
        if (found == MSI_NOBODY || c->busy[rank] < c->busy[found] || (equal && rank < found))
            team->late = rank;
    }
}

/* Has the other end done its part? Of numbers that are not known any will do. */
static bool has_met(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op) {
    const struct msi_flight_view *view = c->ranks[op->peer].view;
    enum msi_flight_way way = op->way == MSI_FLIGHT_SEND ? MSI_FLIGHT_RECV : MSI_FLIGHT_SEND;
    for (int k = 0; k < view->n; k++) {
        const struct msi_flight_op *other = &view->ops[k];
        if (other->way != way || other->tag != op->tag ||
            !msi_flight_same_team(&view->teams[other->team], msi_wait_graph_team_of(c, rank, op)))
            continue;
        if (other->peer < 0 && !msi_flight_is_over(other)) return true; /* it takes what comes */
        if (other->peer != rank || other->seq == MSI_FLIGHT_NO_NUMBER) continue;
        if (op->seq == MSI_FLIGHT_NO_NUMBER || other->seq >= op->seq) return true;
    }
    return false;
}

int msi_wait_graph_names(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op) {
    int blames = c->ranks[rank].blames;
    if (op->state != MSI_FLIGHT_FAILED || blames < 0 || blames >= c->n || blames == rank) return MSI_NOBODY;
    return blames;
}

static int whom_in_message(const struct msi_wait_graph *c, int rank, const struct msi_flight_op *op) {
    if (op->peer < 0 || op->peer >= c->n || op->peer == rank) return MSI_NOBODY;
    return c->ranks[op->peer].view && has_met(c, rank, op) ? MSI_NOBODY : op->peer;
}

static int whom_in_collective(const struct msi_wait_graph *c, const struct msi_wait_graph_member *m,
                              int named) {
    const struct msi_wait_graph_team *team = &c->teams[m->team];
    bool waits = team->awaited && m->first->seq >= team->awaited->seq;
    if (named != MSI_NOBODY && !(waits && msi_wait_graph_is_late(c, team, named))) return named;
    if (waits) return team->late;
    return team->seen < team->size ? c->n + m->team : MSI_NOBODY;
}

/* What the rank is in, and for whom it waits there: of several the newest in which it waits for somebody. */
static void find_wait(struct msi_wait_graph *c, int rank) {
    const struct msi_flight_view *view = c->ranks[rank].view;
    struct well well = {false, MSI_FLIGHT_UNKNOWN};
    c->waits_for[rank] = MSI_NOBODY;
    for (int k = view ? view->n - 1 : -1; k >= 0; k--) {
        const struct msi_flight_op *op = &view->ops[k];
        const struct msi_wait_graph_member *m = &c->members[c->own[rank] + op->team];
        bool open = is_open(c, rank, op, &well), known = msi_wait_graph_team_of(c, rank, op)->size;
        note_well(&well, op);
        if (!open || (!msi_flight_is_message(op) && known && m->first != op)) continue;
        int named = msi_wait_graph_names(c, rank, op), found = named;
        if (!msi_flight_is_message(op) && known)
            found = whom_in_collective(c, m, named);
        else if (msi_flight_is_message(op) && named == MSI_NOBODY)
            found = whom_in_message(c, rank, op);
        bool better = c->waits_for[rank] == MSI_NOBODY
                          ? found != MSI_NOBODY
                          : c->waits_for[rank] >= c->n && found != MSI_NOBODY && found < c->n;
        if (c->in[rank] && !better) continue;
        c->in[rank] = op;
        c->waits_for[rank] = found;
    }
}

/* How many members are named by others at most. */
static size_t count_named(const struct msi_flight_of *ranks, int size) {
    size_t n = 0;
    for (int r = 0; r < size; r++)
        for (int k = 0; ranks[r].view && k < ranks[r].view->n_teams; k++)
            if (ranks[r].view->teams[k].known) n += (size_t)ranks[r].view->teams[k].size;
    return n;
}

bool msi_wait_graph_open(struct msi_wait_graph *c, const struct msi_flight_of *ranks, int size) {
    size_t n = (size_t)size + 1, members = 0;
    *c = (struct msi_wait_graph){.ranks = ranks, .n = size, .own = calloc(n, sizeof *c->own)};
    for (int r = 0; r < size && c->own; r++) {
        if (ranks[r].view) members += (size_t)ranks[r].view->n_teams + 1;
        c->own[r + 1] = (int)members;
    }
    size_t named = count_named(ranks, size);
    c->teams = calloc(members + 1, sizeof *c->teams);
    c->members = calloc(members + named + 1, sizeof *c->members);
    c->busy = calloc(n, sizeof *c->busy);
    c->waits_for = calloc(n, sizeof *c->waits_for);
    c->ends = calloc(n, sizeof *c->ends);
    c->votes = calloc(n + members, sizeof *c->votes);
    c->in = calloc(n, sizeof *c->in);
    if (!c->own || !c->teams || !c->members || !c->busy || !c->waits_for || !c->ends || !c->votes || !c->in)
        return false;
    for (size_t i = 0; i < members + named; i++) c->members[i].team = MSI_NOBODY;
    gather_teams(c);
    gather_members(c);
    for (int r = 0; r < size; r++) survey(c, r);
    for (int i = 0; i < c->n_teams; i++) {
        find_awaited(c, &c->teams[i]);
        find_late(c, &c->teams[i]);
    }
    for (int r = 0; r < size; r++) find_wait(c, r);
    return true;
}

void msi_wait_graph_close(struct msi_wait_graph *c) {
    free(c->own);
    free(c->teams);
    free(c->members);
    free(c->busy);
    free(c->waits_for);
    free(c->ends);
    free(c->votes);
    free(c->in);
}
