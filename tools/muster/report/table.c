/*
 * table.c - groups the events by operation and size into the rows of a table. A program may name every call
 * differently or send a different size each time. Both are limited; beyond the limits, events share rows.
 */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_MOST = 400, SIZES_MOST = 64, ROWS_MOST = 4000 };

struct table {
    struct report_job *job;
    struct msi_table names, sizes, rows;
    uint32_t sizes_of[NAMES_MOST + 1]; /* the number of sizes of each name */
};

/* The row of all operations beyond the limits. */
static const struct report_row rest = {UINT32_MAX, UINT32_MAX, REPORT_OTHER, 0, 0, REPORT_NONE, 0};

static uint32_t name_number(struct table *t, uint32_t name, uint32_t call) {
    uint32_t key[2] = {name, call}, other[2] = {UINT32_MAX, UINT32_MAX};
    uint32_t number = msi_table_find(&t->names, key, sizeof key);
    if (number != MSI_TABLE_NONE) return number;
    bool full = t->names.n >= NAMES_MOST;
    number = report_add(&t->names, full ? other : key, sizeof key);
    if (full) t->sizes_of[number] = SIZES_MOST + 1;
    return number;
}

static void count_size(struct table *t, const struct report_event *e) {
    const struct report_kind *kind = report_kind_of(t->job, e);
    int64_t key[2] = {name_number(t, kind->name, kind->call), report_shape_of(t->job, e)->bytes};
    if (t->sizes_of[key[0]] > SIZES_MOST) return;
    uint32_t before = t->sizes.n;
    if (report_add(&t->sizes, key, sizeof key) == before) t->sizes_of[key[0]]++;
}

static int64_t round_up(int64_t bytes) {
    int64_t power = 1;
    while (power < bytes) power *= 2;
    return bytes > 0 ? power : 0;
}

static uint32_t row_of(struct table *t, const struct report_event *e) {
    const struct report_kind *kind = report_kind_of(t->job, e);
    uint32_t name = name_number(t, kind->name, kind->call);
    bool other = *(const uint32_t *)msi_table_key(&t->names, name) == UINT32_MAX;
    int64_t bytes = report_shape_of(t->job, e)->bytes;
    bool many = t->sizes_of[name] > SIZES_MOST;
    struct report_row row = {kind->name, kind->call,           kind->class, t->job->groups[kind->group].size,
                             bytes,      (int32_t)kind->group, many};
    if (many) row.bytes = round_up(bytes);
    if (other) row = rest;
    if (t->rows.n < ROWS_MOST) return report_add(&t->rows, &row, sizeof row);
    uint32_t at = msi_table_find(&t->rows, &row, sizeof row);
    return at != MSI_TABLE_NONE ? at : report_add(&t->rows, &rest, sizeof rest);
}

static void find_rows(struct table *t) {
    struct report_job *job = t->job;
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++) count_size(t, &job->ranks[i]->events[k]);
    for (int i = 0; i < job->n_ranks; i++) {
        struct report_rank *r = job->ranks[i];
        r->rows = report_alloc(r->n, sizeof *r->rows);
        for (size_t k = 0; k < r->n; k++) r->rows[k] = row_of(t, &r->events[k]);
    }
}

static int by_row(const void *a, const void *b, void *table) {
    const struct table *t = table;
    const struct report_row *x = msi_table_key(&t->rows, *(const uint32_t *)a),
                            *y = msi_table_key(&t->rows, *(const uint32_t *)b);
    int order = strcmp(report_string(t->job, x->name), report_string(t->job, y->name));
    if (order != 0) return order;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static bool same_operation(const struct report_row *a, const struct report_row *b) {
    return a->name == b->name && a->call == b->call && a->bytes == b->bytes && a->size == b->size &&
           a->up_to == b->up_to;
}

static void make_operations(struct report_job *job) {
    job->operations = report_alloc(job->n_rows, sizeof *job->operations);
    for (size_t i = 0; i < job->n_rows; i++) {
        const struct report_row *row = &job->rows[i];
        if (i == 0 || !same_operation(row, row - 1))
            job->operations[job->n_operations++] = (struct report_operation){.row = *row, .first = i};
        job->operations[job->n_operations - 1].n++;
    }
}

/* Sorts the rows for the table. */
static void sort_rows(struct table *t) {
    struct report_job *job = t->job;
    uint32_t *order = report_alloc(t->rows.n, sizeof *order);
    uint32_t *position = report_alloc(t->rows.n, sizeof *position);
    job->n_rows = t->rows.n;
    job->rows = report_alloc(job->n_rows, sizeof *job->rows);
    for (uint32_t i = 0; i < t->rows.n; i++) order[i] = i;
    qsort_r(order, t->rows.n, sizeof *order, by_row, t);
    for (uint32_t i = 0; i < t->rows.n; i++) {
        position[order[i]] = i;
        job->rows[i] = *(const struct report_row *)msi_table_key(&t->rows, order[i]);
    }
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++)
            job->ranks[i]->rows[k] = position[job->ranks[i]->rows[k]];
    free(order);
    free(position);
}

void report_make_rows(struct report_job *job) {
    struct table *t = report_alloc(1, sizeof *t);
    t->job = job;
    find_rows(t);
    sort_rows(t);
    make_operations(job);
    msi_table_free(&t->names);
    msi_table_free(&t->sizes);
    msi_table_free(&t->rows);
    free(t);
}
