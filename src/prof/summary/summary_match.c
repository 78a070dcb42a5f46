/*
 * summary_match.c - matches each collective call on all ranks of its group by its sequence number, and each
 * receive with its send. See summary.h.
 *
 * The remembered calls of each rank are sorted by group, class, peer, tag and sequence number, then the
 * collectives of a group's ranks are merged, and for each receive the send is searched. The sample of all
 * ranks is the same: an unmatched call was not made or not recorded. Nothing is copied: with 1,024 ranks
 * there are 16 million calls.
 */
#include "prof/summary/summary.h"

#include "base/error.h"
#include "prof/summary/comm_time.h"

#include <stdlib.h>

/* A cursor in the calls of one member of a group. */
struct cursor {
    int rank;
    const struct msi_op_stats *stats;
    const struct msi_op_stats_call_ref *begin, *at, *end;
};

struct matching {
    struct msi_summary *s;
    int group;
    struct cursor *cursors; /* of the current group, by its members */
};

/* Where a call is in the order. */
struct key {
    int group;
    enum { COLLECTIVE, SEND, RECV } class;
    int32_t peer, tag;
    uint64_t seq;
};

static struct key key_of(const struct msi_op_stats *stats, const struct msi_op_stats_call_ref *call) {
    const struct msi_op_stats_row *row = &stats->rows[call->row];
    struct key key = {.group = stats->groups[row->group].shown, .seq = call->seq};
    if (!row->message) return key;
    key.class = call->send ? SEND : RECV;
    key.peer = call->peer;
    key.tag = call->tag;
    return key;
}

static int compare(const struct key *x, const struct key *y) {
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
    if (x->tag != y->tag) return x->tag < y->tag ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_key(const void *a, const void *b, void *stats) {
    struct key x = key_of(stats, a), y = key_of(stats, b);
    return compare(&x, &y);
}

/* With one group they are in order, unless works have overlapped. */
static void sort_calls(struct msi_op_stats *stats) {
    size_t i = 1;
    while (i < stats->call_count && by_key(&stats->calls[i - 1], &stats->calls[i], stats) <= 0) i++;
    if (i < stats->call_count) qsort_r(stats->calls, stats->call_count, sizeof *stats->calls, by_key, stats);
}

/* The first call of the rank that is not before the key. */
static const struct msi_op_stats_call_ref *seek(const struct msi_op_stats *stats, struct key wanted) {
    size_t low = 0, high = stats->call_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct key key = key_of(stats, &stats->calls[middle]);
        if (compare(&key, &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? stats->calls + low : stats->calls;
}

/* The call of the rank with this key. NULL: none, or several, which are not numbered (message_seq.h). */
static const struct msi_op_stats_call_ref *find(const struct msi_op_stats *stats, struct key wanted) {
    const struct msi_op_stats_call_ref *call = seek(stats, wanted);
    size_t n = 0, left = stats->call_count - (size_t)(call - stats->calls);
    for (; n < 2 && n < left; n++) {
        struct key found = key_of(stats, call + n);
        if (compare(&found, &wanted) != 0) break;
    }
    return n == 1 ? call : NULL;
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

/* From the first to the last collective of the group. */
static void begin_cursors(struct matching *p, const struct msi_summary_group *group) {
    for (int i = 0; i < group->member_count; i++) {
        int rank = group->members[i].rank;
        const struct msi_op_stats *stats = p->s->stats[rank];
        const struct msi_op_stats_call_ref *begin = seek(stats, (struct key){.group = p->group});
        p->cursors[i] = (struct cursor){
            rank, stats, begin, begin,
            seek(stats, (struct key){.group = p->group, .class = SEND, .peer = INT32_MIN, .tag = INT32_MIN})};
    }
}

static bool is_at(const struct cursor *cursor, uint64_t seq) {
    return cursor->at < cursor->end && cursor->at->seq == seq;
}

/* The lowest sequence number of all cursors; false: all are at the end. */
static bool next_seq(const struct matching *p, int count, uint64_t *seq) {
    bool any = false;
    for (int i = 0; i < count; i++) {
        const struct cursor *cursor = &p->cursors[i];
        if (cursor->at == cursor->end || (any && cursor->at->seq >= *seq)) continue;
        *seq = cursor->at->seq;
        any = true;
    }
    return any;
}

static struct msi_rank_times *times_of(struct msi_summary *s, int rank) {
    int low = 0, high = s->rank_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (s->ranks[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return &s->ranks[low];
}

/* Waiting in the remembered calls of a row stands for that in all of its calls that did not fail. */
static int64_t scaled(const struct msi_op_stats_row *row, int64_t ns) {
    uint64_t all = row->comm_ns - row->failed_ns;
    if (!row->remembered_ns || row->remembered_ns >= all) return ns;
    double whole = (double)ns * ((double)all / (double)row->remembered_ns);
    return whole < 1e18 ? (int64_t)whole : ns;
}

static void sum_remembered(struct msi_op_stats *stats) {
    for (size_t i = 0; i < stats->row_count; i++) stats->rows[i].remembered_ns = 0;
    for (size_t i = 0; i < stats->call_count; i++)
        stats->rows[stats->calls[i].row].remembered_ns += stats->calls[i].comm;
}

/* Adds a matched call. late: the rank for which it waited until arrived; begin: of the call. */
static void add_waiting(struct msi_summary *s, const struct cursor *cursor, int64_t begin, int64_t arrived,
                        int late) {
    const struct msi_op_stats_call_ref *call = cursor->at;
    int64_t ns = msi_waiting_time(begin + (int64_t)call->took, (int64_t)call->comm, arrived);
    int line = row_of(cursor)->line;
    ns = late == cursor->rank ? 0 : scaled(row_of(cursor), ns);
    struct msi_rank_times *own = times_of(s, cursor->rank), *other = times_of(s, late);
    own->waiting_ns = msi_add_ns(own->waiting_ns, (uint64_t)ns);
    other->waited_for_ns = msi_add_ns(other->waited_for_ns, (uint64_t)ns);
    if (line < 0) return;
    s->lines[line].matched++;
    s->lines[line].waiting_ns += (uint64_t)ns;
}

/* The begin of a call; without a common clock relative to the end, which is the same on all ranks then. */
static int64_t begin_of(const struct cursor *cursor, bool clock) {
    return clock ? cursor->at->begin : -(int64_t)cursor->at->took;
}

/* All members have the call. */
static void match_call(struct matching *p, struct msi_summary_group *group) {
    bool clock = true;
    int last = 0;
    for (int i = 0; i < group->member_count; i++) clock &= p->cursors[i].at->begin != MSI_TIME_UNKNOWN;
    for (int i = 1; i < group->member_count; i++)
        if (begin_of(&p->cursors[i], clock) > begin_of(&p->cursors[last], clock)) last = i;
    group->matched++;
    /* Without a clock: the root of a call may leave early, so a short time does not mean that it was late. */
    if (clock || row_of(&p->cursors[0])->share != MSI_SHARE_WHOLE) {
        group->ordered++;
        group->members[last].last++;
    }
    int64_t arrived = begin_of(&p->cursors[last], clock);
    for (int i = 0; i < group->member_count; i++)
        add_waiting(p->s, &p->cursors[i], begin_of(&p->cursors[i], clock), arrived, p->cursors[last].rank);
}

/* Matches the receives of a rank with the sends of their peers. */
static void match_messages(struct msi_summary *s, int rank) {
    const struct msi_op_stats *stats = s->stats[rank];
    for (size_t i = 0; i < stats->call_count; i++) {
        struct cursor recv = {.rank = rank, .stats = stats, .at = &stats->calls[i]};
        int peer = recv.at->peer;
        if (!row_of(&recv)->message || recv.at->send || peer < 0 || peer >= s->n || !s->stats[peer]) continue;
        struct key key = key_of(stats, recv.at);
        if (!find(stats, key)) continue;
        key.class = SEND;
        key.peer = rank;
        const struct msi_op_stats_call_ref *send = find(s->stats[peer], key);
        if (send && recv.at->begin != MSI_TIME_UNKNOWN && send->begin != MSI_TIME_UNKNOWN)
            add_waiting(s, &recv, recv.at->begin, send->begin, peer);
    }
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

static void add_note(struct matching *p, const struct msi_op_stats_row *row) {
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
static void match(struct matching *p, struct msi_summary_group *group, uint64_t seq) {
    const struct cursor *one = p->cursors, *other = NULL;
    int have = 0;
    for (int i = 0; i < group->member_count; i++) {
        const struct cursor *cursor = &p->cursors[i];
        if (!is_at(cursor, seq)) continue;
        if (!have++) one = cursor;
        if (strcmp(row_of(cursor)->call, row_of(one)->call) != 0) other = cursor;
    }
    if (have < group->member_count)
        add_note(p, row_of(one));
    else if (other)
        add_clash(group, one, other);
    else
        match_call(p, group);
    for (int i = 0; i < group->member_count; i++)
        while (is_at(&p->cursors[i], seq)) p->cursors[i].at++;
}

/* Counts the calls of each member for the notes of the group. */
static void count_notes(struct matching *p, const struct msi_summary_group *group) {
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

static mst_status match_group(struct matching *p) {
    struct msi_summary_group *group = &p->s->groups[p->group];
    uint64_t seq = 0;
    mst_status st = list_members(p->s, group);
    if (st != MST_OK) return st;
    begin_cursors(p, group);
    while (next_seq(p, group->member_count, &seq)) match(p, group, seq);
    count_notes(p, group);
    return MST_OK;
}

/* Gives all ranks the same sample, in order. */
static void prepare(struct msi_summary *s) {
    for (int r = 0; r < s->n; r++)
        if (s->stats[r] && s->stats[r]->sample_bits > s->sample_bits)
            s->sample_bits = s->stats[r]->sample_bits;
    for (int r = 0; r < s->n; r++) {
        if (!s->stats[r]) continue;
        msi_op_stats_thin_out(s->stats[r], s->sample_bits);
        sort_calls(s->stats[r]);
        sum_remembered(s->stats[r]);
    }
}

mst_status msi_summary_match(struct msi_summary *s) {
    struct matching p = {.s = s, .cursors = calloc((size_t)s->n, sizeof *p.cursors)};
    mst_status st = p.cursors ? MST_OK : msi_fail_memory();
    if (st == MST_OK) prepare(s);
    for (; st == MST_OK && p.group < (int)s->group_count; p.group++) st = match_group(&p);
    for (int r = 0; st == MST_OK && r < s->n; r++)
        if (s->stats[r]) match_messages(s, r);
    free(p.cursors);
    return st;
}
