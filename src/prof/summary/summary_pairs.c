/*
 * summary_pairs.c - matches each collective call on all ranks of its group by its sequence number. See
 * summary.h.
 *
 * The remembered calls of all ranks are sorted by group, sequence number and rank, so that the calls of one
 * number follow each other. Calls that one rank has forgotten are skipped on all ranks: an unpaired call was
 * not made or not recorded.
 */
#include "prof/summary/summary.h"

#include "base/error.h"

#include <stdlib.h>

struct call {
    int group, rank;
    uint64_t seq, ns;
    const struct msi_op_stats_row *row;
};

struct pairing {
    struct msi_summary *s;
    int group;
    const struct call **of;  /* by member of the group: its call of the current number; NULL: none */
    uint64_t *count_of_rank; /* calls of one name */
};

static int by_number(const void *a, const void *b) {
    const struct call *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Returns the number of calls. */
static size_t list_calls(const struct msi_summary *s, struct call *calls) {
    size_t count = 0;
    for (int r = 0; r < s->n; r++)
        for (size_t i = 0; s->stats[r] && i < s->stats[r]->call_count; i++) {
            const struct msi_op_stats_call_ref *ref = &s->stats[r]->calls[i];
            const struct msi_op_stats_row *row = &s->stats[r]->rows[ref->row];
            int group = s->stats[r]->groups[row->group].shown;
            if (ref->seq >= s->groups[group].first_seq)
                calls[count++] = (struct call){group, r, ref->seq, ref->ns, row};
        }
    qsort(calls, count, sizeof *calls, by_number);
    return count;
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

static mst_status pair_line(struct msi_summary *s, const struct call *call, uint64_t least) {
    if (call->row->line < 0) return MST_OK;
    struct msi_paired *paired = &s->lines[call->row->line].paired;
    uint64_t straggler = call->ns - least;
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
        if (p->of[i]->ns < p->of[last]->ns) last = i;
        if (p->of[i]->ns > p->of[first]->ns) first = i;
    }
    uint64_t least = p->of[last]->ns, most = p->of[first]->ns;
    group->paired++;
    /*
     * The last rank does not wait, so it has the shortest time. In calls with a root some ranks never wait.
     */
    if (p->of[0]->row->share != MSI_SHARE_WHOLE) {
        group->mutual++;
        group->members[last].last++;
        group->members[last].waited_ns += most - least;
    }
    mst_status st = MST_OK;
    for (int i = 0; st == MST_OK && i < group->member_count; i++) st = pair_line(p->s, p->of[i], least);
    return st;
}

static void add_clash(struct msi_summary_group *group, const struct call *one, const struct call *other) {
    if (group->clashes++) return;
    group->clash_seq = one->seq;
    group->clash_calls[0] = one->row->call;
    group->clash_calls[1] = other->row->call;
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

/* Handles the calls of one number: all members have it, some have it, or it differs. */
static mst_status match(struct pairing *p, struct msi_summary_group *group, const struct call *calls,
                        const struct call *end) {
    const struct call *one = NULL, *other = NULL;
    int have = 0;
    for (int i = 0; i < group->member_count; i++) {
        while (calls < end && calls->rank < group->members[i].rank) calls++;
        p->of[i] = calls < end && calls->rank == group->members[i].rank ? calls : NULL;
        if (!p->of[i]) continue;
        have++;
        if (!one) one = calls;
        if (strcmp(calls->row->call, one->row->call) != 0) other = calls;
    }
    if (have == group->member_count && have && !other) return pair(p, group);
    if (have == group->member_count && other)
        add_clash(group, one, other);
    else if (one)
        add_note(p, one->row);
    return MST_OK;
}

/* Counts the calls of each member for the notes of the group. */
static void count_notes(struct pairing *p, const struct msi_summary_group *group, const struct call *calls,
                        const struct call *end) {
    for (size_t n = 0; n < p->s->note_count; n++) {
        struct msi_summary_note *note = &p->s->notes[n];
        if (note->group != p->group) continue;
        memset(p->count_of_rank, 0, (size_t)p->s->n * sizeof *p->count_of_rank);
        for (const struct call *call = calls; call < end; call++)
            p->count_of_rank[call->rank] += same_name(call->row, note->row);
        for (int i = 0; i < group->member_count; i++) {
            int rank = group->members[i].rank;
            uint64_t count = p->count_of_rank[rank];
            if (!i || count < note->few) note->few = count, note->few_rank = rank;
            if (!i || count > note->many) note->many = count, note->many_rank = rank;
        }
    }
}

/* Pairs the group's calls, which are the next ones; moves *calls past them. */
static mst_status pair_group(struct pairing *p, const struct call **calls, const struct call *end) {
    struct msi_summary_group *group = &p->s->groups[p->group];
    const struct call *begin = *calls, *at = begin;
    mst_status st = list_members(p->s, group);
    while (st == MST_OK && at < end && at->group == p->group) {
        const struct call *first = at;
        while (at < end && at->group == p->group && at->seq == first->seq) at++;
        st = match(p, group, first, at);
    }
    count_notes(p, group, begin, at);
    *calls = at;
    return st;
}

mst_status msi_summary_pair(struct msi_summary *s) {
    size_t n = (size_t)s->n, count = 0;
    for (int r = 0; r < s->n; r++) count += s->stats[r] ? s->stats[r]->call_count : 0;
    struct call *calls = malloc((count + 1) * sizeof *calls);
    struct pairing p = {
        .s = s, .of = calloc(n, sizeof *p.of), .count_of_rank = calloc(n, sizeof *p.count_of_rank)};
    mst_status st = calls && p.of && p.count_of_rank ? MST_OK : msi_fail_memory();
    if (st == MST_OK) {
        const struct call *at = calls, *end = calls + list_calls(s, calls);
        for (; st == MST_OK && p.group < (int)s->group_count; p.group++) st = pair_group(&p, &at, end);
    }
    free(calls);
    free(p.of);
    free(p.count_of_rank);
    return st;
}
