/*
 * summary_pairs.c - finds each collective call on all ranks of its group, by its sequence number. See summary.h.
 *
 * The remembered calls of each rank are sorted by group and sequence number, and those of a group's ranks walked side by
 * side. What one of them has forgotten is left out on all: a call is without a pair only if it was not made or not recorded.
 */
#include "prof/summary/summary.h"

#include "base/error.h"

#include <stdlib.h>

/* One remembered call. */
struct met {
    int group;
    uint32_t row;
    uint64_t seq, ns;
};

/* The calls of one rank in one group. */
struct walk {
    const struct met *begin, *at, *end;
    const struct msi_op_stats_row *rows;
    int rank;
};

struct pairing {
    struct msi_summary *s;
    struct met **met; /* by rank, ascending */
    size_t *met_count;
    struct walk *walks; /* of the group at hand, by its members */
    int group;
};

static int by_seq(const void *a, const void *b) {
    const struct met *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static mst_status sort_calls(struct pairing *p, int rank) {
    const struct msi_op_stats *stats = p->s->tallies[rank];
    struct met *met = malloc((stats->mark_count + 1) * sizeof *met);
    if (!met) return msi_fail_memory();
    for (size_t i = 0; i < stats->mark_count; i++) {
        const struct msi_op_stats_call_ref *mark = &stats->marks[i];
        int group = p->s->group_of[rank][stats->rows[mark->row].group];
        met[i] = (struct met){group, mark->row, mark->seq, mark->ns};
    }
    qsort(met, stats->mark_count, sizeof *met, by_seq);
    p->met[rank] = met;
    p->met_count[rank] = stats->mark_count;
    return MST_OK;
}

/* The first call of the rank that is not before (group, seq). */
static const struct met *seek(const struct pairing *p, int rank, int group, uint64_t seq) {
    size_t low = 0, high = p->met_count[rank];
    const struct met wanted = {.group = group, .seq = seq};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_seq(&p->met[rank][middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return &p->met[rank][low];
}

static const struct msi_op_stats_row *row_of(const struct walk *walk) {
    return &walk->rows[walk->at->row];
}

/* ---- members ---- */

static int by_rank(const void *a, const void *b) {
    const struct msi_summary_member *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Whoever is in the group and has a stats, once. */
static mst_status list_members(struct msi_summary *s, struct msi_summary_group *group) {
    group->members = calloc((size_t)group->is->size, sizeof *group->members);
    if (!group->members) return msi_fail_memory();
    int count = 0;
    for (int i = 0; i < group->is->size; i++) {
        int rank = group->is->ranks[i];
        if (rank < s->n && s->tallies[rank]) group->members[count++].rank = rank;
    }
    qsort(group->members, (size_t)count, sizeof *group->members, by_rank);
    for (int i = 0; i < count; i++)
        if (!i || group->members[i].rank != group->members[i - 1].rank)
            group->members[group->member_count++] = group->members[i];
    return MST_OK;
}

/* Sets out behind all that a member has forgotten. */
static void begin_walks(struct pairing *p, const struct msi_summary_group *group) {
    for (int i = 0; i < group->member_count; i++) {
        int rank = group->members[i].rank;
        const struct met *begin = seek(p, rank, p->group, group->floor),
                         *end = seek(p, rank, p->group + 1, 0);
        p->walks[i] = (struct walk){begin, begin, end, p->s->tallies[rank]->rows, rank};
    }
}

/* ---- calls ---- */

/* The lowest sequence number that is ahead; false: none is. */
static bool next_seq(const struct pairing *p, int count, uint64_t *seq) {
    bool any = false;
    for (int i = 0; i < count; i++) {
        const struct walk *walk = &p->walks[i];
        if (walk->at == walk->end || (any && walk->at->seq >= *seq)) continue;
        *seq = walk->at->seq;
        any = true;
    }
    return any;
}

static bool is_at(const struct walk *walk, uint64_t seq) {
    return walk->at < walk->end && walk->at->seq == seq;
}

static void pass(struct walk *walk, uint64_t seq) {
    while (is_at(walk, seq)) walk->at++;
}

static mst_status pair_line(struct msi_summary *s, const struct walk *walk, uint64_t least) {
    int line = s->line_of[walk->rank][walk->at->row];
    if (line < 0) return MST_OK;
    struct msi_paired *paired = &s->lines[line].paired;
    uint64_t straggler = walk->at->ns - least;
    if (!msi_histogram_add(&paired->comm, least) || !msi_histogram_add(&paired->straggler, straggler))
        return msi_fail_memory();
    paired->count++;
    paired->comm_ns += least;
    paired->straggler_ns += straggler;
    return MST_OK;
}

/* All members are at the same call. */
static mst_status pair(struct pairing *p, struct msi_summary_group *group) {
    int last = 0, first = 0;
    for (int i = 1; i < group->member_count; i++) {
        if (p->walks[i].at->ns < p->walks[last].at->ns) last = i;
        if (p->walks[i].at->ns > p->walks[first].at->ns) first = i;
    }
    uint64_t least = p->walks[last].at->ns, most = p->walks[first].at->ns;
    group->paired++;
    /* Who comes last finds all others there, and so has the shortest time. Where a root is, some need not wait. */
    if (row_of(&p->walks[0])->share != MSI_SHARE_WHOLE) {
        group->mutual++;
        group->members[last].last++;
        group->members[last].waited_ns += most - least;
    }
    mst_status st = MST_OK;
    for (int i = 0; st == MST_OK && i < group->member_count; i++) st = pair_line(p->s, &p->walks[i], least);
    return st;
}

static void clash(struct pairing *p, struct msi_summary_group *group, int other) {
    if (group->clashes++) return;
    group->clash_seq = p->walks[0].at->seq;
    group->clash_calls[0] = row_of(&p->walks[0])->call;
    group->clash_calls[1] = row_of(&p->walks[other])->call;
    group->clash_ranks[0] = p->walks[0].rank;
    group->clash_ranks[1] = p->walks[other].rank;
}

static bool same_name(const struct msi_op_stats_row *a, const struct msi_op_stats_row *b) {
    return a == b || (!strcmp(a->name, b->name) && !strcmp(a->call, b->call) &&
                      msi_summary_same_text(a->function, b->function));
}

static void note(struct pairing *p, const struct msi_op_stats_row *row) {
    struct msi_summary *s = p->s;
    for (size_t i = 0; i < s->note_count; i++) {
        if (s->notes[i].group != p->group || !same_name(s->notes[i].row, row)) continue;
        s->notes[i].count++;
        return;
    }
    if (s->note_count < MSI_SUMMARY_NOTES)
        s->notes[s->note_count++] = (struct msi_summary_note){.group = p->group, .row = row, .count = 1};
    else
        s->unnamed++;
}

/* The call seq on all members: who of them has it, and whether it is one. */
static mst_status meet(struct pairing *p, struct msi_summary_group *group, uint64_t seq) {
    int have = 0, one = 0, other = -1;
    for (int i = 0; i < group->member_count; i++) {
        if (!is_at(&p->walks[i], seq)) continue;
        if (!have++) one = i;
        if (strcmp(row_of(&p->walks[i])->call, row_of(&p->walks[one])->call) != 0) other = i;
    }
    mst_status st = MST_OK;
    if (have < group->member_count)
        note(p, row_of(&p->walks[one]));
    else if (other >= 0)
        clash(p, group, other);
    else
        st = pair(p, group);
    for (int i = 0; i < group->member_count; i++) pass(&p->walks[i], seq);
    return st;
}

/* Who has how many of the calls that the group's notes are about. */
static void count_notes(struct pairing *p, const struct msi_summary_group *group, size_t first_note) {
    for (size_t n = first_note; n < p->s->note_count; n++) {
        struct msi_summary_note *note = &p->s->notes[n];
        for (int i = 0; i < group->member_count; i++) {
            const struct walk *walk = &p->walks[i];
            uint64_t count = 0;
            for (const struct met *met = walk->begin; met < walk->end; met++)
                count += same_name(&walk->rows[met->row], note->row);
            if (!i || count < note->few) note->few = count, note->few_rank = walk->rank;
            if (!i || count > note->many) note->many = count, note->many_rank = walk->rank;
        }
    }
}

static mst_status pair_group(struct pairing *p, int index) {
    struct msi_summary_group *group = &p->s->groups[index];
    size_t first_note = p->s->note_count;
    uint64_t seq = 0;
    p->group = index;
    mst_status st = list_members(p->s, group);
    if (st != MST_OK) return st;
    begin_walks(p, group);
    while (st == MST_OK && next_seq(p, group->member_count, &seq)) st = meet(p, group, seq);
    count_notes(p, group, first_note);
    return st;
}

mst_status msi_summary_pair(struct msi_summary *s) {
    size_t n = (size_t)s->n;
    struct pairing p = {.s = s,
                        .met = calloc(n, sizeof *p.met),
                        .met_count = calloc(n, sizeof *p.met_count),
                        .walks = calloc(n, sizeof *p.walks)};
    mst_status st = p.met && p.met_count && p.walks ? MST_OK : msi_fail_memory();
    for (int r = 0; st == MST_OK && r < s->n; r++)
        if (s->tallies[r]) st = sort_calls(&p, r);
    for (size_t g = 0; st == MST_OK && g < s->group_count; g++) st = pair_group(&p, (int)g);
    for (int r = 0; p.met && r < s->n; r++) free(p.met[r]);
    free(p.met);
    free(p.met_count);
    free(p.walks);
    return st;
}
