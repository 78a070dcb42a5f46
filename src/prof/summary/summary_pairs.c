/*
 * summary_pairs.c - matches each collective call on all ranks of its group by its sequence number. See
 * summary.h.
 *
 * The remembered calls of each rank are sorted by group and sequence number, then the calls of a group's
 * ranks are merged. Calls that one rank has forgotten are skipped on all ranks: an unpaired call was not made
 * or not recorded.
 */
#include "prof/summary/summary.h"

#include "base/error.h"

#include <stdlib.h>

struct call {
    int group;
    uint32_t row;
    uint64_t seq, ns;
};

/* A cursor in the calls of one rank in one group. */
struct cursor {
    const struct call *begin, *at, *end;
    const struct msi_op_stats_row *rows;
    int rank;
};

struct pairing {
    struct msi_summary *s;
    struct call **calls; /* by rank, ascending */
    size_t *call_count;
    struct cursor *cursors; /* of the current group, by its members */
    int group;
};

static int by_seq(const void *a, const void *b) {
    const struct call *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static mst_status sort_calls(struct pairing *p, int rank) {
    const struct msi_op_stats *stats = p->s->stats[rank];
    struct call *calls = malloc((stats->call_count + 1) * sizeof *calls);
    if (!calls) return msi_fail_memory();
    for (size_t i = 0; i < stats->call_count; i++) {
        const struct msi_op_stats_call_ref *call = &stats->calls[i];
        int group = p->s->group_of[rank][stats->rows[call->row].group];
        calls[i] = (struct call){group, call->row, call->seq, call->ns};
    }
    qsort(calls, stats->call_count, sizeof *calls, by_seq);
    p->calls[rank] = calls;
    p->call_count[rank] = stats->call_count;
    return MST_OK;
}

/* The first call of the rank that is not before (group, seq). */
static const struct call *seek(const struct pairing *p, int rank, int group, uint64_t seq) {
    size_t low = 0, high = p->call_count[rank];
    const struct call wanted = {.group = group, .seq = seq};
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_seq(&p->calls[rank][middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return &p->calls[rank][low];
}

static const struct msi_op_stats_row *row_of(const struct cursor *cursor) {
    return &cursor->rows[cursor->at->row];
}

/* ---- members ---- */

static int by_rank(const void *a, const void *b) {
    const struct msi_summary_member *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The group's ranks with statistics, each once. */
static mst_status list_members(struct msi_summary *s, struct msi_summary_group *group) {
    group->members = calloc((size_t)group->is->size, sizeof *group->members);
    if (!group->members) return msi_fail_memory();
    int count = 0;
    for (int i = 0; i < group->is->size; i++) {
        int rank = group->is->ranks[i];
        if (rank < s->n && s->stats[rank]) group->members[count++].rank = rank;
    }
    qsort(group->members, (size_t)count, sizeof *group->members, by_rank);
    for (int i = 0; i < count; i++)
        if (!i || group->members[i].rank != group->members[i - 1].rank)
            group->members[group->member_count++] = group->members[i];
    return MST_OK;
}

/* Skips all calls that a member has forgotten. */
static void begin_cursors(struct pairing *p, const struct msi_summary_group *group) {
    for (int i = 0; i < group->member_count; i++) {
        int rank = group->members[i].rank;
        const struct call *begin = seek(p, rank, p->group, group->first_seq),
                          *end = seek(p, rank, p->group + 1, 0);
        p->cursors[i] = (struct cursor){begin, begin, end, p->s->stats[rank]->rows, rank};
    }
}

/* ---- calls ---- */

/* The lowest sequence number of all cursors; false: all are at the end. */
static bool next_seq(const struct pairing *p, int count, uint64_t *seq) {
    bool any = false;
    for (int i = 0; i < count; i++) {
        const struct cursor *cursor = &p->cursors[i];
        if (cursor->at == cursor->end || (any && cursor->at->seq >= *seq)) continue;
        *seq = cursor->at->seq;
        any = true;
    }
    return any;
}

static bool is_at(const struct cursor *cursor, uint64_t seq) {
    return cursor->at < cursor->end && cursor->at->seq == seq;
}

static void pass(struct cursor *cursor, uint64_t seq) {
    while (is_at(cursor, seq)) cursor->at++;
}

static mst_status pair_line(struct msi_summary *s, const struct cursor *cursor, uint64_t least) {
    int line = s->line_of[cursor->rank][cursor->at->row];
    if (line < 0) return MST_OK;
    struct msi_paired *paired = &s->lines[line].paired;
    uint64_t straggler = cursor->at->ns - least;
    if (!msi_histogram_add(&paired->comm, least) || !msi_histogram_add(&paired->straggler, straggler))
        return msi_fail_memory();
    paired->count++;
    paired->comm_ns += least;
    paired->straggler_ns += straggler;
    return MST_OK;
}

/* All members have the call. */
static mst_status pair(struct pairing *p, struct msi_summary_group *group) {
    int last = 0, first = 0;
    for (int i = 1; i < group->member_count; i++) {
        if (p->cursors[i].at->ns < p->cursors[last].at->ns) last = i;
        if (p->cursors[i].at->ns > p->cursors[first].at->ns) first = i;
    }
    uint64_t least = p->cursors[last].at->ns, most = p->cursors[first].at->ns;
    group->paired++;
    /*
     * The last rank does not wait, so it has the shortest time. In calls with a root some ranks never wait.
     */
    if (row_of(&p->cursors[0])->share != MSI_SHARE_WHOLE) {
        group->mutual++;
        group->members[last].last++;
        group->members[last].waited_ns += most - least;
    }
    mst_status st = MST_OK;
    for (int i = 0; st == MST_OK && i < group->member_count; i++) st = pair_line(p->s, &p->cursors[i], least);
    return st;
}

static void add_clash(struct pairing *p, struct msi_summary_group *group, int other) {
    if (group->clashes++) return;
    group->clash_seq = p->cursors[0].at->seq;
    group->clash_calls[0] = row_of(&p->cursors[0])->call;
    group->clash_calls[1] = row_of(&p->cursors[other])->call;
    group->clash_ranks[0] = p->cursors[0].rank;
    group->clash_ranks[1] = p->cursors[other].rank;
}

static bool same_name(const struct msi_op_stats_row *a, const struct msi_op_stats_row *b) {
    return a == b || (!strcmp(a->name, b->name) && !strcmp(a->call, b->call) &&
                      !strcmp(a->function ? a->function : "", b->function ? b->function : ""));
}

static void add_note(struct pairing *p, const struct msi_op_stats_row *row) {
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

/* Handles the call seq: all members have it, some have it, or it differs. */
static mst_status match_seq(struct pairing *p, struct msi_summary_group *group, uint64_t seq) {
    int have = 0, one = 0, other = -1;
    for (int i = 0; i < group->member_count; i++) {
        if (!is_at(&p->cursors[i], seq)) continue;
        if (!have++) one = i;
        if (strcmp(row_of(&p->cursors[i])->call, row_of(&p->cursors[one])->call) != 0) other = i;
    }
    mst_status st = MST_OK;
    if (have < group->member_count)
        add_note(p, row_of(&p->cursors[one]));
    else if (other >= 0)
        add_clash(p, group, other);
    else
        st = pair(p, group);
    for (int i = 0; i < group->member_count; i++) pass(&p->cursors[i], seq);
    return st;
}

/* Counts the calls of each member for the notes of the group. */
static void count_notes(struct pairing *p, const struct msi_summary_group *group, size_t first_note) {
    for (size_t n = first_note; n < p->s->note_count; n++) {
        struct msi_summary_note *note = &p->s->notes[n];
        for (int i = 0; i < group->member_count; i++) {
            const struct cursor *cursor = &p->cursors[i];
            uint64_t count = 0;
            for (const struct call *call = cursor->begin; call < cursor->end; call++)
                count += same_name(&cursor->rows[call->row], note->row);
            if (!i || count < note->few) note->few = count, note->few_rank = cursor->rank;
            if (!i || count > note->many) note->many = count, note->many_rank = cursor->rank;
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
    begin_cursors(p, group);
    while (st == MST_OK && next_seq(p, group->member_count, &seq)) st = match_seq(p, group, seq);
    count_notes(p, group, first_note);
    return st;
}

mst_status msi_summary_pair(struct msi_summary *s) {
    size_t n = (size_t)s->n;
    struct pairing p = {.s = s,
                        .calls = calloc(n, sizeof *p.calls),
                        .call_count = calloc(n, sizeof *p.call_count),
                        .cursors = calloc(n, sizeof *p.cursors)};
    mst_status st = p.calls && p.call_count && p.cursors ? MST_OK : msi_fail_memory();
    for (int r = 0; st == MST_OK && r < s->n; r++)
        if (s->stats[r]) st = sort_calls(&p, r);
    for (size_t g = 0; st == MST_OK && g < s->group_count; g++) st = pair_group(&p, (int)g);
    for (int r = 0; p.calls && r < s->n; r++) free(p.calls[r]);
    free(p.calls);
    free(p.call_count);
    free(p.cursors);
    return st;
}
