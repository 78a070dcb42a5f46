/* summary.c - selects the rows and orders them. See summary.h. */
#include "prof/summary/summary.h"

#include "base/error.h"
#include "prof/summary/figures.h"

#include <stdlib.h>

/* ---- groups: groups of ranks with the same id are one ---- */

struct known {
    const struct msi_op_stats_group *group;
    int rank, local;
};

static int by_id(const void *a, const void *b) {
    const struct known *x = a, *y = b;
    int order = strcmp(x->group->is->id, y->group->is->id);
    return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static size_t list_known(const struct msi_summary *s, struct known *known) {
    size_t count = 0;
    for (int r = 0; r < s->n; r++)
        for (size_t g = 0; s->stats[r] && g < s->stats[r]->group_count; g++) {
            if (known) known[count] = (struct known){&s->stats[r]->groups[g], r, (int)g};
            count++;
        }
    return count;
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

/* An array of ints for each rank with statistics: one for each of its groups or rows. */
static int **make_map(const struct msi_summary *s, bool rows) {
    int **map = calloc((size_t)s->n, sizeof *map);
    for (int r = 0; map && r < s->n; r++) {
        if (!s->stats[r]) continue;
        size_t count = rows ? s->stats[r]->row_count : s->stats[r]->group_count;
        map[r] = malloc((count + 1) * sizeof **map);
        for (size_t i = 0; map[r] && i < count; i++) map[r][i] = -1;
        if (map[r]) continue;
        while (r--) free(map[r]);
        free(map);
        return NULL;
    }
    return map;
}

static void free_map(int **map, int n) {
    for (int r = 0; map && r < n; r++) free(map[r]);
    free(map);
}

static void merge_group(struct msi_summary *s, const struct known *known, bool fresh) {
    const struct msi_op_stats_group *group = known->group;
    if (fresh)
        s->groups[s->group_count++] = (struct msi_summary_group){.is = group->is, .first = known->rank};
    struct msi_summary_group *all = &s->groups[s->group_count - 1];
    if (group->first_seq > all->first_seq) all->first_seq = group->first_seq;
    if (group->forgotten > all->forgotten) all->forgotten = group->forgotten;
    s->group_of[known->rank][known->local] = (int)s->group_count - 1;
}

static mst_status merge_groups(struct msi_summary *s) {
    size_t count = list_known(s, NULL);
    struct known *known = malloc((count + 1) * sizeof *known);
    s->groups = calloc(count + 1, sizeof *s->groups);
    s->group_of = make_map(s, false);
    if (!known || !s->groups || !s->group_of) {
        free(known);
        return msi_fail_memory();
    }
    list_known(s, known);
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
    size_t index; /* among the rank's rows */
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

static size_t list_rows(const struct msi_summary *s, struct entry *entries) {
    size_t count = 0;
    for (int r = 0; r < s->n; r++)
        for (size_t i = 0; s->stats[r] && i < s->stats[r]->row_count; i++) {
            struct msi_op_stats_row *row = &s->stats[r]->rows[i];
            if (entries) entries[count] = (struct entry){row, r, s->group_of[r][row->group], i};
            count++;
        }
    return count;
}

/* Adds the lines of the operation that begins at entries; returns the number of its entries. */
static size_t add_operation(struct msi_summary *s, const struct entry *entries, size_t left) {
    struct msi_summary_op op = {.first = s->line_count, .rank = entries->rank, .group = entries->group};
    size_t i;
    op.order = entries->index;
    for (i = 0; i < left && !by_operation(&entries[0], &entries[i]); i++) {
        if (entries[i].rank != op.rank) continue;
        if (entries[i].index < op.order) op.order = entries[i].index;
        s->line_of[op.rank][entries[i].index] = (int)s->line_count;
        s->lines[s->line_count++].row = entries[i].row;
        op.count++;
    }
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

static mst_status list_operations(struct msi_summary *s) {
    size_t count = list_rows(s, NULL);
    struct entry *entries = malloc((count + 1) * sizeof *entries);
    s->lines = calloc(count + 1, sizeof *s->lines);
    s->ops = calloc(count + 1, sizeof *s->ops);
    s->line_of = make_map(s, true);
    if (!entries || !s->lines || !s->ops || !s->line_of) {
        free(entries);
        return msi_fail_memory();
    }
    list_rows(s, entries);
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

static void add_up(struct msi_summary *s, const struct msi_op_stats_row *row) {
    s->calls += row->count;
    s->failed += row->failed;
    s->total_ns += row->total_ns;
}

static void add_up_first(struct msi_summary *s) {
    const struct msi_op_stats *stats = s->stats[s->first];
    for (size_t i = 0; i < stats->row_count; i++) add_up(s, &stats->rows[i]);
    add_up(s, &stats->other);
}

static mst_status fill(struct msi_summary *s) {
    while (s->first < s->n && !s->stats[s->first]) s->first++;
    if (s->first >= s->n) return msi_fail(MST_ERR_INVALID, NULL, "no rank has a profile to summarize");
    add_up_first(s);
    mst_status st = merge_groups(s);
    if (st == MST_OK) st = list_operations(s);
    if (st == MST_OK && s->show_straggler) st = msi_summary_pair(s);
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
    for (size_t i = 0; i < s->line_count; i++) {
        msi_histogram_free(&s->lines[i].paired.comm);
        msi_histogram_free(&s->lines[i].paired.straggler);
    }
    for (size_t i = 0; i < s->group_count; i++) free(s->groups[i].members);
    free_map(s->group_of, s->n);
    free_map(s->line_of, s->n);
    free(s->groups);
    free(s->lines);
    free(s->ops);
    free(s);
}
