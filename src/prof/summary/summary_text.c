/*
 * summary_text.c - the summary as text of at most 95 columns, since "muster run" adds "[0] ". See summary.h.
 *
 *     Operation           calls    mean *    tput *   busbw *   communication    waiting   transfer
 *         size                         ms      Gbps      Gbps         ms  % run         ms         ms
 *     all_reduce
 *         4.0 KB            150      0.19      0.56      0.84      45.28   12.3      40.10       5.18
 */
#include "prof/summary/figures.h"
#include "prof/summary/summary.h"

#include <stdio.h>

enum { CELL = 32, RANKS_SHOWN = 8 };

static double ms(double ns) {
    return ns / 1e6;
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* Gbps with at most 9 characters below 10^7. */
static const char *rate_text(double gbps, char text[CELL]) {
    snprintf(text, CELL, "%.*f", gbps < 99999 ? msi_decimals(gbps) : 0, gbps);
    return text;
}

/* "group of 2 (ranks 0, 1)", for a group without a name */
static void add_members(struct msi_buf *to, const struct msi_prof_group *group) {
    msi_buf_add_format(to, "group of %d (rank%s", group->size, plural((uint64_t)group->size));
    for (int r = 0; r < group->size && r < RANKS_SHOWN; r++)
        msi_buf_add_format(to, "%s %d", r ? "," : "", group->ranks[r]);
    msi_buf_add_format(to, group->size > RANKS_SHOWN ? ", ...)" : ")");
}

static void add_group(struct msi_buf *to, const struct msi_summary_group *group) {
    if (*group->is->name) {
        msi_buf_add_format(to, "group ");
        msi_add_printable(to, group->is->name);
    } else {
        add_members(to, group->is);
    }
    if (group->twin) msi_buf_add_format(to, " (%s)", group->is->id);
}

/* "all_reduce", "all_reduce [group dp]", "all_reduce [group tp1, rank 2]", "recv [rank 1]" */
static void add_operation(const struct msi_summary *s, const struct msi_summary_op *op, struct msi_buf *to) {
    const struct msi_op_stats_row *row = s->lines[op->first].row;
    const struct msi_summary_group *group = &s->groups[op->group];
    bool world = group->is->number == 0;
    msi_add_name(to, row->name, row->function);
    if (op->shared_name) msi_buf_add_format(to, " (%s)", row->call);
    if (!world || op->rank) msi_buf_add_format(to, " [");
    if (!world) add_group(to, group);
    if (!world && op->rank) msi_buf_add_format(to, ", ");
    if (op->rank) msi_buf_add_format(to, "rank %d", op->rank);
    msi_buf_add_format(to, !world || op->rank ? "]\n" : "\n");
}

/* ---- the table ---- */

/* The rank whose numbers a row shows. */
static const struct msi_rank_times *times_of(const struct msi_summary *s, int rank) {
    int i = 0;
    while (i < s->rank_count - 1 && s->ranks[i].rank < rank) i++;
    return &s->ranks[i];
}

static void add_row(const struct msi_summary *s, const struct msi_summary_line *line, const char *size,
                    int ranks, int rank, struct msi_buf *to) {
    struct msi_op_stats_row *row = line->row;
    struct msi_summary_averages averages = msi_summary_averages(row, ranks);
    char mean[CELL], tput[CELL], busbw[CELL], comm[CELL], waiting[CELL], transfer[CELL];
    uint64_t waited = line->waiting_ns < row->comm_ns ? line->waiting_ns : row->comm_ns;
    msi_buf_add_format(to, "    %-12s %8llu %9s %9s %9s %10s %6.1f", size, (unsigned long long)row->count,
                       msi_ms_text(averages.ns, mean), rate_text(averages.algbw, tput),
                       rate_text(averages.busbw, busbw), msi_ms_text((double)row->comm_ns, comm),
                       100 * msi_run_share(times_of(s, rank), (int64_t)row->comm_ns));
    if (s->show_straggler)
        msi_buf_add_format(to, " %10s %10s", msi_ms_text((double)waited, waiting),
                           msi_ms_text((double)(row->comm_ns - waited), transfer));
    msi_buf_add_format(to, "\n");
    if (row->works)
        msi_buf_add_format(to, "%17s%llu with .work: %.2f of %.2f ms overlapped\n", "",
                           (unsigned long long)row->works, ms((double)(row->works_ns - row->waited_ns)),
                           ms((double)row->works_ns));
    if (row->failed)
        msi_buf_add_format(to, "%17s%llu more failed, after %.2f ms\n", "", (unsigned long long)row->failed,
                           ms((double)row->failed_ns));
}

static void add_table(const struct msi_summary *s, struct msi_buf *to) {
    char size[MSI_SIZE_TEXT];
    msi_buf_add_format(to, "Operation           calls    mean *    tput *   busbw *   communication%s\n",
                       s->show_straggler ? "    waiting   transfer" : "");
    msi_buf_add_format(to, "    size                         ms      Gbps      Gbps         ms  %% run%s\n",
                       s->show_straggler ? "         ms         ms" : "");
    for (size_t i = 0; i < s->op_count; i++) {
        const struct msi_summary_op *op = &s->ops[i];
        add_operation(s, op, to);
        for (size_t l = op->first; l < op->first + op->count; l++)
            add_row(s, &s->lines[l], msi_size_text(s->lines[l].row->bytes, size),
                    s->groups[op->group].is->size, op->rank, to);
    }
    struct msi_summary_line other = {.row = &s->stats[s->first]->other};
    other.waiting_ns = other.row->failed_ns;
    if (other.row->count || other.row->failed) {
        msi_buf_add_format(to, "other\n");
        add_row(s, &other, "-", 1, s->first, to);
    }
    msi_buf_add_format(to, "* trimmed mean: without the shortest and the longest tenth of the calls\n");
}

static void add_overall(const struct msi_summary *s, struct msi_buf *to) {
    msi_buf_add_format(
        to, "figures of rank %d, or of the rank in brackets; %llu call%s of rank %d, %d rank%s\n", s->first,
        (unsigned long long)s->calls, plural(s->calls), s->first, s->n, plural((uint64_t)s->n));
    if (s->failed)
        msi_buf_add_format(to, "%llu more call%s of rank %d failed\n", (unsigned long long)s->failed,
                           plural(s->failed), s->first);
}

static bool is_late(const struct msi_summary *s, int rank) {
    return !s->stats[rank] && s->late && s->late[rank];
}

/* "rank 3", "ranks 1, 2": ranks without statistics, or only the late ones. */
static bool add_ranks(const struct msi_summary *s, bool late, const char *before, struct msi_buf *to) {
    int count = 0, n = 0;
    for (int r = 0; r < s->n; r++) count += late ? is_late(s, r) : !s->stats[r];
    if (!count) return false;
    msi_buf_add_format(to, "%srank%s", before, plural((uint64_t)count));
    for (int r = 0; r < s->n; r++)
        if (late ? is_late(s, r) : !s->stats[r]) msi_buf_add_format(to, "%s %d", n++ ? "," : "", r);
    return true;
}

static void add_missing(const struct msi_summary *s, struct msi_buf *to) {
    if (!add_ranks(s, false, "missing: the profile of ", to)) return;
    msi_buf_add_format(to, s->show_straggler ? "; waiting covers the other ranks\n" : "\n");
    if (add_ranks(s, true, "summary not called, or not in time: ", to)) msi_buf_add_format(to, "\n");
}

static void add_limits(const struct msi_summary *s, struct msi_buf *to) {
    for (int r = 0; r < s->n; r++) {
        const struct msi_op_stats *stats = s->stats[r];
        if (!stats) continue;
        uint64_t others = stats->other.count + stats->other.failed;
        if (others)
            msi_buf_add_format(to, "rank %d has more than %d names and sizes: %llu call%s are in \"other\"\n",
                               r, MSI_OP_STATS_ROWS, (unsigned long long)others, plural(others));
        if (stats->lost)
            msi_buf_add_format(to, "rank %d lost %llu call%s for lack of memory\n", r,
                               (unsigned long long)stats->lost, plural(stats->lost));
    }
}

/* ---- stragglers ---- */

static void add_last(const struct msi_summary_group *group, struct msi_buf *to) {
    const struct msi_summary_member *most = group->members;
    if (group->member_count < 2 || !group->ordered) return;
    for (int i = 1; i < group->member_count; i++)
        if (group->members[i].last > most->last) most = &group->members[i];
    add_group(to, group);
    msi_buf_add_format(to, ": rank %d began last most often, in %llu of %llu call%s\n", most->rank,
                       (unsigned long long)most->last, (unsigned long long)group->ordered,
                       plural(group->ordered));
}

static void add_note(const struct msi_summary *s, const struct msi_summary_note *note, struct msi_buf *to) {
    bool one = note->count == 1;
    msi_buf_add_format(to, "%llu call%s of ", (unsigned long long)note->count, plural(note->count));
    msi_add_name(to, note->row->name, note->row->function);
    msi_buf_add_format(to, " in ");
    add_group(to, &s->groups[note->group]);
    msi_buf_add_format(to, one ? " is not matched: " : " are not matched: ");
    if (note->few == note->many)
        msi_buf_add_format(to, "each rank has %llu, but not all the same\n", (unsigned long long)note->few);
    else
        msi_buf_add_format(to, "rank %d has %llu, rank %d has %llu\n", note->few_rank,
                           (unsigned long long)note->few, note->many_rank, (unsigned long long)note->many);
}

static void add_unmatched(const struct msi_summary *s, struct msi_buf *to) {
    for (size_t i = 0; i < s->note_count; i++) add_note(s, &s->notes[i], to);
    if (s->unnamed)
        msi_buf_add_format(to, "%llu unmatched call%s of other names\n", (unsigned long long)s->unnamed,
                           plural(s->unnamed));
    for (size_t g = 0; g < s->group_count; g++) {
        const struct msi_summary_group *group = &s->groups[g];
        if (group->clashes) {
            msi_buf_add_format(to, "%llu call%s in ", (unsigned long long)group->clashes,
                               plural(group->clashes));
            add_group(to, group);
            msi_buf_add_format(to, " not matched: number %llu is %s on rank %d, %s on rank %d\n",
                               (unsigned long long)group->clash_seq, group->clash_calls[0],
                               group->clash_ranks[0], group->clash_calls[1], group->clash_ranks[1]);
        }
    }
}

void msi_summary_text(const struct msi_summary *s, struct msi_buf *to) {
    add_table(s, to);
    add_overall(s, to);
    add_missing(s, to);
    add_limits(s, to);
    to->failed |= !msi_add_rank_times(to, s->ranks, s->rank_count, s->show_straggler);
    if (!s->show_straggler) return;
    for (size_t g = 0; g < s->group_count; g++) add_last(&s->groups[g], to);
    add_unmatched(s, to);
    if (s->sample_bits)
        msi_buf_add_format(to, "waiting is estimated from one call in %llu; a rank remembers %d calls\n",
                           1ull << s->sample_bits, MSI_OP_STATS_CALLS);
}
