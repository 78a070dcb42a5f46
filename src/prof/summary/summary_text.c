/*
 * summary_text.c - the summary as tables of text: DeepSpeed's columns, each 20 wide. See summary.h.
 *
 *     Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     …
 *     all_reduce
 *                         4.0 KB              100                 12.30               0.12                …
 */
#include "prof/summary/figures.h"
#include "prof/summary/summary.h"

#include <stdio.h>

enum { WIDTH = 20, COLUMNS = 7, CELL = 48, RANKS_SHOWN = 8 };

/* One line without trailing blanks. */
static void add_cells(struct msi_buf *to, const char *const cells[COLUMNS]) {
    for (int i = 0; i < COLUMNS - 1; i++) msi_buf_add_format(to, "%-*s", WIDTH, cells[i]);
    msi_buf_add_format(to, "%s\n", cells[COLUMNS - 1]);
}

static void add_figures(struct msi_buf *to, const char *size, uint64_t count, const double figures[4]) {
    char cells[5][CELL];
    snprintf(cells[0], CELL, "%llu", (unsigned long long)count);
    for (int i = 0; i < 4; i++) snprintf(cells[i + 1], CELL, "%.*f", msi_decimals(figures[i]), figures[i]);
    add_cells(to, (const char *const[COLUMNS]){"", size, cells[0], cells[1], cells[2], cells[3], cells[4]});
}

static double ms(double ns) {
    return ns / 1e6;
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
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

static void add_row(struct msi_buf *to, struct msi_op_stats_row *row, const char *size, int ranks) {
    struct msi_summary_averages averages = msi_summary_averages(row, ranks);
    const double figures[] = {ms((double)row->total_ns), ms(averages.ns), averages.algbw, averages.busbw};
    add_figures(to, size, row->count, figures);
    if (row->works)
        msi_buf_add_format(to, "%*s%llu with .work: %.2f of %.2f ms overlapped\n", WIDTH, "",
                           (unsigned long long)row->works, ms((double)(row->works_ns - row->waited_ns)),
                           ms((double)row->works_ns));
    if (row->failed)
        msi_buf_add_format(to, "%*s%llu more failed\n", WIDTH, "", (unsigned long long)row->failed);
}

static void add_table(const struct msi_summary *s, struct msi_buf *to) {
    char size[MSI_SIZE_TEXT];
    add_cells(to, (const char *const[COLUMNS]){"Comm. Op", "Message Size", "Count", "Total Latency(ms)",
                                               "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)"});
    for (size_t i = 0; i < s->op_count; i++) {
        const struct msi_summary_op *op = &s->ops[i];
        add_operation(s, op, to);
        for (size_t l = op->first; l < op->first + op->count; l++) {
            struct msi_op_stats_row *row = s->lines[l].row;
            add_row(to, row, msi_size_text(row->bytes, size), s->groups[op->group].is->size);
        }
    }
    struct msi_op_stats_row *other = &s->stats[s->first]->other;
    if (!other->count && !other->failed) return;
    msi_buf_add_format(to, "other\n");
    add_row(to, other, "-", 1);
}

static void add_overall(const struct msi_summary *s, struct msi_buf *to) {
    msi_buf_add_format(to, "communication %.2f ms in %llu call%s of rank %d, %d rank%s\n",
                       ms((double)s->total_ns), (unsigned long long)s->calls, plural(s->calls), s->first,
                       s->n, plural((uint64_t)s->n));
    if (s->works)
        msi_buf_add_format(to, "each work counts in full even if several overlap: the sum may exceed the "
                               "time of the run\n");
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
    msi_buf_add_format(to, s->show_straggler ? "; the breakdown below covers the other ranks\n" : "\n");
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

static void add_paired(const struct msi_summary *s, const struct msi_summary_op *op, struct msi_buf *to) {
    char size[MSI_SIZE_TEXT];
    bool named = false;
    for (size_t l = op->first; l < op->first + op->count; l++) {
        struct msi_paired *paired = &s->lines[l].paired;
        if (!paired->count) continue;
        if (!named) add_operation(s, op, to);
        named = true;
        const double figures[] = {ms((double)paired->comm_ns), ms((double)paired->straggler_ns),
                                  ms(msi_histogram_means(&paired->comm).ns),
                                  ms(msi_histogram_means(&paired->straggler).ns)};
        add_figures(to, msi_size_text(s->lines[l].row->bytes, size), paired->count, figures);
    }
}

static void add_breakdown(const struct msi_summary *s, struct msi_buf *to) {
    msi_buf_add_format(to, "_______________________________\n"
                           "Breakdown with straggler effect\n"
                           "-------------------------------\n");
    add_cells(to,
              (const char *const[COLUMNS]){"Comm. Op", "Message Size", "Count", "Total comm lat(ms)",
                                           "Total straggler(ms)", "Avg comm lat(ms)", "Avg straggler(ms)"});
    for (size_t i = 0; i < s->op_count; i++) add_paired(s, &s->ops[i], to);
}

static void add_last(const struct msi_summary_group *group, struct msi_buf *to) {
    const struct msi_summary_member *most = group->members;
    if (group->member_count < 2 || !group->mutual) return;
    for (int i = 1; i < group->member_count; i++)
        if (group->members[i].last > most->last) most = &group->members[i];
    add_group(to, group);
    msi_buf_add_format(to, ": rank %d was last most often, in %llu of %llu call%s; ", most->rank,
                       (unsigned long long)most->last, (unsigned long long)group->mutual,
                       plural(group->mutual));
    msi_buf_add_format(to, "the first rank waited %.2f ms in them\n", ms((double)most->waited_ns));
}

static void add_lasts(const struct msi_summary *s, struct msi_buf *to) {
    bool any = false;
    for (size_t g = 0; g < s->group_count; g++) any |= s->groups[g].member_count > 1 && s->groups[g].mutual;
    if (any)
        msi_buf_add_format(
            to, "The last rank to enter a call waits for no other and has the shortest time in it. Calls "
                "with a root are left out, since not all of their ranks wait.\n");
    for (size_t g = 0; g < s->group_count; g++) add_last(&s->groups[g], to);
}

static void add_note(const struct msi_summary *s, const struct msi_summary_note *note, struct msi_buf *to) {
    bool one = note->count == 1;
    msi_buf_add_format(to, "%llu call%s of ", (unsigned long long)note->count, plural(note->count));
    msi_add_name(to, note->row->name, note->row->function);
    msi_buf_add_format(to, " in ");
    add_group(to, &s->groups[note->group]);
    msi_buf_add_format(to, one ? " is not paired: " : " are not paired: ");
    if (note->few == note->many)
        msi_buf_add_format(to, "each rank has %llu, but not all the same\n", (unsigned long long)note->few);
    else
        msi_buf_add_format(to, "rank %d has %llu, rank %d has %llu\n", note->few_rank,
                           (unsigned long long)note->few, note->many_rank, (unsigned long long)note->many);
}

static void add_unpaired(const struct msi_summary *s, struct msi_buf *to) {
    for (size_t i = 0; i < s->note_count; i++) add_note(s, &s->notes[i], to);
    if (s->unnamed)
        msi_buf_add_format(to, "%llu unpaired call%s of other names\n", (unsigned long long)s->unnamed,
                           plural(s->unnamed));
    for (size_t g = 0; g < s->group_count; g++) {
        const struct msi_summary_group *group = &s->groups[g];
        if (group->clashes) {
            msi_buf_add_format(to, "%llu call%s in ", (unsigned long long)group->clashes,
                               plural(group->clashes));
            add_group(to, group);
            msi_buf_add_format(to, " not paired: number %llu is %s on rank %d, %s on rank %d\n",
                               (unsigned long long)group->clash_seq, group->clash_calls[0],
                               group->clash_ranks[0], group->clash_calls[1], group->clash_ranks[1]);
        }
        if (group->forgotten) {
            add_group(to, group);
            msi_buf_add_format(
                to, ": the breakdown begins at call %llu, since a rank remembers its last %d calls\n",
                (unsigned long long)group->first_seq, MSI_OP_STATS_CALLS);
        }
    }
}

void msi_summary_text(const struct msi_summary *s, struct msi_buf *to) {
    add_table(s, to);
    add_overall(s, to);
    add_missing(s, to);
    add_limits(s, to);
    if (!s->show_straggler) return;
    add_breakdown(s, to);
    add_lasts(s, to);
    add_unpaired(s, to);
}
