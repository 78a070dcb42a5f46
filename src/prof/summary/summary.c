/* summary.c - selects the rows and orders them. See summary.h. */
#include "prof/summary/summary.h"

#include "base/error.h"
#include "prof/summary/figures.h"

#include <stdlib.h>

/* ---- groups: groups of ranks with the same id are one ---- */

struct known {
    struct msi_op_stats_group *group;
    int rank;
};

static int by_id(const void *a, const void *b) {
    const struct known *x = a, *y = b;
    int order = strcmp(x->group->is->id, y->group->is->id);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Do they look the same in the table? Groups without a name are shown by their ranks. */
static bool look_alike(const struct msi_prof_group *a, const struct msi_prof_group *b) {
    if (strcmp(a->name, b->name) != 0) return false;
    return *a->name ||
           (a->size == b->size && !memcmp(a->ranks, b->ranks, (size_t)a->size * sizeof *a->ranks));
}

static void find_twins(struct msi_summary *s) {
    for (size_t a = 0; a < s->group_count; a++)
        for (size_t b = 0; b < a; b++) {
            struct msi_summary_group *x = &s->groups[a], *y = &s->groups[b];
            if (x->first == y->first && look_alike(x->is, y->is)) x->twin = y->twin = true;
        }
}

static void merge_group(struct msi_summary *s, const struct known *known, bool fresh) {
    struct msi_op_stats_group *group = known->group;
    if (fresh)
        s->groups[s->group_count++] = (struct msi_summary_group){.is = group->is, .first = known->rank};
    group->shown = (int)s->group_count - 1;
}

static mst_status merge_groups(struct msi_summary *s) {
    size_t count = 0;
    for (int r = 0; r < s->n; r++) count += s->stats[r] ? s->stats[r]->group_count : 0;
    struct known *known = malloc((count + 1) * sizeof *known), *next = known;
    s->groups = calloc(count + 1, sizeof *s->groups);
    if (!known || !s->groups) {
        free(known);
        return msi_fail_memory();
    }
    for (int r = 0; r < s->n; r++)
        for (size_t g = 0; s->stats[r] && g < s->stats[r]->group_count; g++)
            *next++ = (struct known){&s->stats[r]->groups[g], r};
    qsort(known, count, sizeof *known, by_id);
    for (size_t i = 0; i < count; i++)
        merge_group(s, &known[i], !i || strcmp(known[i].group->is->id, known[i - 1].group->is->id) != 0);
    free(known);
    find_twins(s);
    return MST_OK;
}

/* ---- operations ---- */

struct entry {
    struct msi_op_stats_row *row;
    int rank, group;
};

static int by_text(const char *a, const char *b) {
    return strcmp(a ? a : "", b ? b : "");
}

static int by_name(const struct entry *x, const struct entry *y) {
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    int order = strcmp(x->row->name, y->row->name);
    return order ? order : by_text(x->row->function, y->row->function);
}

static int by_operation(const struct entry *x, const struct entry *y) {
    int order = by_name(x, y);
    return order ? order : strcmp(x->row->call, y->row->call);
}

static int by_line(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    int order = by_operation(x, y);
    if (order) return order;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->row->bytes > y->row->bytes) - (x->row->bytes < y->row->bytes);
}

/* By rank, then by first call. */
static int by_age(const void *a, const void *b) {
    const struct msi_summary_op *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Adds the lines of the operation that begins at entries; returns the number of its entries. */
static size_t add_operation(struct msi_summary *s, const struct entry *entries, size_t left) {
    struct msi_summary_op op = {.first = s->line_count, .rank = entries->rank, .group = entries->group};
    const struct msi_op_stats_row *oldest = entries->row;
    size_t i;
    for (i = 0; i < left && !by_operation(&entries[0], &entries[i]); i++) {
        if (entries[i].rank != op.rank) continue;
        if (entries[i].row < oldest) oldest = entries[i].row;
        entries[i].row->line = (int)s->line_count;
        s->lines[s->line_count++] =
            (struct msi_summary_line){.row = entries[i].row, .waiting_ns = entries[i].row->failed_ns};
        op.count++;
    }
    op.order = (size_t)(oldest - s->stats[op.rank]->rows);
    s->ops[s->op_count++] = op;
    return i;
}

static void add_operations(struct msi_summary *s, const struct entry *entries, size_t count) {
    for (size_t i = 0, taken; i < count; i += taken) {
        taken = add_operation(s, &entries[i], count - i);
        if (!i || by_name(&entries[i - 1], &entries[i]) != 0) continue;
        s->ops[s->op_count - 1].shared_name = s->ops[s->op_count - 2].shared_name = true;
    }
    qsort(s->ops, s->op_count, sizeof *s->ops, by_age);
}

static void add_up(struct msi_summary *s, const struct msi_op_stats_row *row) {
    s->calls += row->count;
    s->failed += row->failed;
    s->works += row->works;
}

/* What a rank's own statistics say. */
static void add_times(struct msi_rank_times *times, const struct msi_op_stats_row *row, bool waiting) {
    times->comm_ns = msi_add_ns(times->comm_ns, row->comm_ns);
    if (waiting) times->waiting_ns = msi_add_ns(times->waiting_ns, row->failed_ns);
}

static mst_status list_ranks(struct msi_summary *s) {
    s->ranks = calloc((size_t)s->n, sizeof *s->ranks);
    if (!s->ranks) return msi_fail_memory();
    for (int r = 0; r < s->n; r++) {
        const struct msi_op_stats *stats = s->stats[r];
        if (!stats) continue;
        struct msi_rank_times *times = &s->ranks[s->rank_count++];
        *times = (struct msi_rank_times){.rank = r, .run_ns = (int64_t)stats->run_ns};
        for (size_t i = 0; i < stats->row_count; i++) add_times(times, &stats->rows[i], s->show_straggler);
        add_times(times, &stats->other, s->show_straggler);
    }
    return MST_OK;
}

static mst_status list_operations(struct msi_summary *s) {
    size_t count = 0;
    for (int r = 0; r < s->n; r++) count += s->stats[r] ? s->stats[r]->row_count : 0;
    struct entry *entries = malloc((count + 1) * sizeof *entries), *next = entries;
    s->lines = calloc(count + 1, sizeof *s->lines);
    s->ops = calloc(count + 1, sizeof *s->ops);
    if (!entries || !s->lines || !s->ops) {
        free(entries);
        return msi_fail_memory();
    }
    for (int r = 0; r < s->n; r++)
        for (size_t i = 0; s->stats[r] && i < s->stats[r]->row_count; i++) {
            struct msi_op_stats_row *row = &s->stats[r]->rows[i];
            row->line = -1;
            if (r == s->first) add_up(s, row);
            *next++ = (struct entry){row, r, s->stats[r]->groups[row->group].shown};
        }
    add_up(s, &s->stats[s->first]->other);
    qsort(entries, count, sizeof *entries, by_line);
    add_operations(s, entries, count);
    free(entries);
    return MST_OK;
}

/* ---- summary ---- */

/* The bandwidth of a call depends only on its duration, so trimming one list trims the other. */
struct msi_summary_averages msi_summary_averages(struct msi_op_stats_row *row, int ranks) {
    struct msi_histogram_means means = msi_histogram_means(&row->histogram);
    double algbw = 8.0 * (double)row->bytes * means.per_ns;
    return (struct msi_summary_averages){means.ns, algbw, algbw * msi_bus_factor(row->share, ranks)};
}

static mst_status fill(struct msi_summary *s) {
    while (s->first < s->n && !s->stats[s->first]) s->first++;
    if (s->first >= s->n) return msi_fail(MST_ERR_INVALID, NULL, "no rank has a profile to summarize");
    mst_status st = merge_groups(s);
    if (st == MST_OK) st = list_operations(s);
    if (st == MST_OK) st = list_ranks(s);
    if (st == MST_OK && s->show_straggler) st = msi_summary_match(s);
    return st;
}

mst_status msi_summary_make(struct msi_op_stats *const stats[], int n, bool show_straggler,
                            struct msi_summary **summary) {
    struct msi_summary *s = calloc(1, sizeof *s);
    if (!s) return msi_fail_memory();
    *s = (struct msi_summary){.stats = stats, .n = n, .show_straggler = show_straggler};
    mst_status st = fill(s);
    if (st != MST_OK) {
        msi_summary_free(s);
        return st;
    }
    *summary = s;
    return MST_OK;
}

void msi_summary_free(struct msi_summary *s) {
    if (!s) return;
    for (size_t i = 0; i < s->group_count; i++) free(s->groups[i].members);
    free(s->groups);
    free(s->lines);
    free(s->ranks);
    free(s->ops);
    free(s);
}
