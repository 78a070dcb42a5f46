/*
 * table.c - groups the events by operation and size into the rows of a table. A program may name every call
 * differently or send a different size each time. Both are limited; beyond the limits, events share rows.
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES_MOST = 64, ROWS_MOST = 4000 };

/* The row of all operations beyond the limits. */
static const struct report_row rest = {UINT32_MAX, UINT32_MAX, REPORT_OTHER, 0, 0, REPORT_NONE, 0};

static uint32_t name_number(struct report_table *t, uint32_t name, uint32_t call) {
    uint32_t key[2] = {name, call}, other[2] = {UINT32_MAX, UINT32_MAX};
    uint32_t number = msi_table_find(&t->names, key, sizeof key);
    if (number != MSI_TABLE_NONE) return number;
    bool full = t->names.n >= REPORT_NAMES_MOST;
    number = msi_table_add(&t->names, full ? other : key, sizeof key);
    if (number == MSI_TABLE_NONE) {
        t->job->failed = true;
        return 0;
    }
    if (full) t->sizes_of[number] = SIZES_MOST + 1;
    return number;
}

static void count_size(struct report_table *t, const struct report_event *e) {
    const struct report_kind *kind = report_kind_of(t->job, e);
    int64_t key[2] = {name_number(t, kind->name, kind->call), report_shape_of(t->job, e)->bytes};
    if (t->job->failed || t->sizes_of[key[0]] > SIZES_MOST) return;
    uint32_t before = t->sizes.n, at = msi_table_add(&t->sizes, key, sizeof key);
    if (at == MSI_TABLE_NONE) t->job->failed = true;
    if (at == before) t->sizes_of[key[0]]++;
}

static int64_t round_up(int64_t bytes) {
    int64_t power = 1;
    while (power < bytes) power *= 2;
    return bytes > 0 ? power : 0;
}

static uint32_t row_of(struct report_table *t, const struct report_event *e) {
    const struct report_kind *kind = report_kind_of(t->job, e);
    uint32_t name = name_number(t, kind->name, kind->call);
    bool other = *(const uint32_t *)msi_table_key(&t->names, name) == UINT32_MAX;
    int64_t bytes = report_shape_of(t->job, e)->bytes;
    bool many = t->sizes_of[name] > SIZES_MOST;
    struct report_row row = {kind->name, kind->call,           kind->class, t->job->groups[kind->group].size,
                             bytes,      (int32_t)kind->group, many};
    if (many) row.bytes = round_up(bytes);
    if (other) row = rest;
    uint32_t at = t->rows.n < ROWS_MOST ? msi_table_add(&t->rows, &row, sizeof row)
                                        : msi_table_find(&t->rows, &row, sizeof row);
    if (at != MSI_TABLE_NONE) return at;
    at = msi_table_add(&t->rows, &rest, sizeof rest);
    if (at == MSI_TABLE_NONE) t->job->failed = true;
    return at;
}

static void find_rows(struct report_table *t) {
    struct report_job *job = t->job;
    size_t at = 0;
    for (int i = 0; i < job->n_ranks; i++) t->n_events += job->ranks[i]->n;
    t->row_of = calloc(t->n_events + 1, sizeof *t->row_of);
    if (!t->row_of) job->failed = true;
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n && !job->failed; k++)
            count_size(t, &job->ranks[i]->events[k]);
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n && !job->failed; k++)
            t->row_of[at++] = row_of(t, &job->ranks[i]->events[k]);
}

struct named_row {
    const struct report_job *job;
    struct report_row row;
    uint32_t number;
};

static int by_row(const void *a, const void *b) {
    const struct named_row *x = a, *y = b;
    int order = strcmp(report_string(x->job, x->row.name), report_string(y->job, y->row.name));
    if (order != 0) return order;
    if (x->row.name != y->row.name) return x->row.name < y->row.name ? -1 : 1;
    if (x->row.call != y->row.call) return x->row.call < y->row.call ? -1 : 1;
    if (x->row.bytes != y->row.bytes) return x->row.bytes < y->row.bytes ? -1 : 1;
    if (x->row.size != y->row.size) return x->row.size < y->row.size ? -1 : 1;
    return x->row.group < y->row.group ? -1 : x->row.group > y->row.group;
}

static bool same_operation(const struct report_row *a, const struct report_row *b) {
    return a->name == b->name && a->call == b->call && a->bytes == b->bytes && a->size == b->size &&
           a->up_to == b->up_to;
}

static void make_operations(struct report_job *job) {
    job->operations = calloc(job->n_rows + 1, sizeof *job->operations);
    if (!job->operations) {
        job->failed = true;
        return;
    }
    for (size_t i = 0; i < job->n_rows; i++) {
        const struct report_row *row = &job->rows[i];
        if (i == 0 || !same_operation(row, row - 1))
            job->operations[job->n_operations++] = (struct report_operation){.name = row->name,
                                                                             .call = row->call,
                                                                             .bytes = row->bytes,
                                                                             .up_to = row->up_to != 0,
                                                                             .size = row->size,
                                                                             .class = row->class,
                                                                             .first = i};
        job->operations[job->n_operations - 1].n++;
    }
}

/* Sorts the rows for the table. */
static void sort_rows(struct report_table *t) {
    struct report_job *job = t->job;
    struct named_row *named = calloc(t->rows.n + 1, sizeof *named);
    uint32_t *position = calloc(t->rows.n + 1, sizeof *position);
    job->rows = calloc(t->rows.n + 1, sizeof *job->rows);
    if (!named || !position || !job->rows) {
        job->failed = true;
    } else {
        for (uint32_t i = 0; i < t->rows.n; i++) {
            named[i] = (struct named_row){.job = job, .number = i};
            memcpy(&named[i].row, msi_table_key(&t->rows, i), sizeof named[i].row);
        }
        qsort(named, t->rows.n, sizeof *named, by_row);
        for (uint32_t i = 0; i < t->rows.n; i++) {
            position[named[i].number] = i;
            job->rows[i] = named[i].row;
        }
        for (size_t i = 0; i < t->n_events; i++) t->row_of[i] = position[t->row_of[i]];
        job->n_rows = t->rows.n;
    }
    free(named);
    free(position);
}

void report_make_tables(struct report_job *job) {
    struct report_table t = {.job = job};
    find_rows(&t);
    if (!job->failed) sort_rows(&t);
    if (!job->failed) make_operations(job);
    if (!job->failed) report_make_cells(&t);
    if (!job->failed) report_make_sites(job);
    msi_table_free(&t.names);
    msi_table_free(&t.sizes);
    msi_table_free(&t.rows);
    free(t.row_of);
}
