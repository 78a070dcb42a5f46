/*
 * summary_pairs.c - matches each collective call on all ranks of its group by its sequence number. See
 * summary.h.
 *
 * The remembered calls of each rank are sorted by group and sequence number, then the calls of a group's
 * ranks are merged. Calls that one rank has forgotten are skipped on all ranks: an unpaired call was not made
 * or not recorded. Nothing is copied: with 1,024 ranks there are 16 million calls.
 */
#include "prof/summary/summary.h"

#include "base/error.h"

#include <stdlib.h>

/* A cursor in the calls of one member of a group. */
struct cursor {
    int rank;
    const struct msi_op_stats *stats;
    const struct msi_op_stats_call_ref *begin, *at, *end;
};

struct pairing {
    struct msi_summary *s;
    int group;
    struct cursor *cursors; /* of the current group, by its members */
};

static int group_of(const struct msi_op_stats *stats, const struct msi_op_stats_call_ref *call) {
    return stats->groups[stats->rows[call->row].group].shown;
}

static int by_number(const void *a, const void *b, void *stats) {
    const struct msi_op_stats_call_ref *x = a, *y = b;
    int group = group_of(stats, x), other = group_of(stats, y);
    if (group != other) return group < other ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* With one group they are in order, unless works have overlapped. */
static void sort_calls(struct msi_op_stats *stats) {
    size_t i = 1;
    while (i < stats->call_count && by_number(&stats->calls[i - 1], &stats->calls[i], stats) <= 0) i++;
    if (i < stats->call_count)
        qsort_r(stats->calls, stats->call_count, sizeof *stats->calls, by_number, stats);
}

/* The first call of the rank that is not before (group, seq). */
static const struct msi_op_stats_call_ref *seek(const struct msi_op_stats *stats, int group, uint64_t seq) {
    size_t low = 0, high = stats->call_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int at = group_of(stats, &stats->calls[middle]);
        if (at < group || (at == group && stats->calls[middle].seq < seq))
            low = middle + 1;
        else
            high = middle;
    }
    return low ? stats->calls + low : stats->calls;
}

static const struct msi_op_stats_row *row_of(const struct cursor *cursor) {
    return &cursor->stats->rows[cursor->at->row];
}

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
        const struct msi_op_stats *stats = p->s->stats[rank];
        const struct msi_op_stats_call_ref *begin = seek(stats, p->group, group->first_seq);
        p->cursors[i] = (struct cursor){rank, stats, begin, begin, seek(stats, p->group + 1, 0)};
    }
}

static bool is_at(const struct cursor *cursor, uint64_t seq) {
    return cursor->at < cursor->end && cursor->at->seq == seq;
}

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

static mst_status pair_line(struct msi_summary *s, const struct cursor *cursor, uint64_t least) {
    int line = row_of(cursor)->line;
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

static void add_clash(struct msi_summary_group *group, const struct cursor *one, const struct cursor *other) {
    if (group->clashes++) return;
    group->clash_seq = one->at->seq;
    group->clash_calls[0] = row_of(one)->call;
    group->clash_calls[1] = row_of(other)->call;
    group->clash_ranks[0] = one->rank;
    group->clash_ranks[1] = other->rank;
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

/* Handles the calls of one number: all members have it, some have it, or it differs. Moves past them. */
static mst_status match(struct pairing *p, struct msi_summary_group *group, uint64_t seq) {
    const struct cursor *one = p->cursors, *other = NULL;
    int have = 0;
    for (int i = 0; i < group->member_count; i++) {
        const struct cursor *cursor = &p->cursors[i];
        if (!is_at(cursor, seq)) continue;
        if (!have++) one = cursor;
        if (strcmp(row_of(cursor)->call, row_of(one)->call) != 0) other = cursor;
    }
    mst_status st = MST_OK;
    if (have < group->member_count)
        add_note(p, row_of(one));
    else if (other)
        add_clash(group, one, other);
    else
        st = pair(p, group);
    for (int i = 0; i < group->member_count; i++)
        while (is_at(&p->cursors[i], seq)) p->cursors[i].at++;
    return st;
}

/* Counts the calls of each member for the notes of the group. */
static void count_notes(struct pairing *p, const struct msi_summary_group *group) {
    for (size_t n = 0; n < p->s->note_count; n++) {
        struct msi_summary_note *note = &p->s->notes[n];
        if (note->group != p->group) continue;
        for (int i = 0; i < group->member_count; i++) {
            const struct cursor *cursor = &p->cursors[i];
            uint64_t count = 0;
            for (const struct msi_op_stats_call_ref *call = cursor->begin; call < cursor->end; call++)
                count += same_name(&cursor->stats->rows[call->row], note->row);
            if (!i || count < note->few) note->few = count, note->few_rank = cursor->rank;
            if (!i || count > note->many) note->many = count, note->many_rank = cursor->rank;
        }
    }
}

static mst_status pair_group(struct pairing *p) {
    struct msi_summary_group *group = &p->s->groups[p->group];
    uint64_t seq = 0;
    mst_status st = list_members(p->s, group);
    if (st != MST_OK) return st;
    begin_cursors(p, group);
    while (st == MST_OK && next_seq(p, group->member_count, &seq)) st = match(p, group, seq);
    count_notes(p, group);
    return st;
}

mst_status msi_summary_pair(struct msi_summary *s) {
    struct pairing p = {.s = s, .cursors = calloc((size_t)s->n, sizeof *p.cursors)};
    mst_status st = p.cursors ? MST_OK : msi_fail_memory();
    for (int r = 0; st == MST_OK && r < s->n; r++)
        if (s->stats[r]) sort_calls(s->stats[r]);
    for (; st == MST_OK && p.group < (int)s->group_count; p.group++) st = pair_group(&p);
    free(p.cursors);
    return st;
}
