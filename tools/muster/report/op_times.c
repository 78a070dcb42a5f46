/*
 * op_times.c - the figures of operations. Durations are laid out in one array, row by row and in each row rank by rank, so that
 * every figure is one of a stretch of it. Those of calls that failed are left out, and counted beside it.
 *
 * An average leaves out round(0.1 n) of the shortest and of the longest, as DeepSpeed's does; bandwidths are averages over the same calls.
 */
#include "report/table.h"

#include "prof/summary/histogram.h"

#include <stdlib.h>
#include <string.h>

enum { RADIX_FROM = 512, CELLS_MOST = 400000 };

struct layout {
    struct page_job *job;
    const struct page_table *table;
    size_t *starts;  /* of each row and rank: where it begins in took; two more at the end */
    int64_t *failed; /* of each row and rank */
    int64_t *took, *moving, *spare, *took_copy, *moving_copy;
    size_t capacity; /* of cells */
};

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Values are not negative. Bytes in which all are alike, most of them, cost one look. */
static void sort_values(int64_t *values, int64_t *spare, size_t n) {
    if (n < RADIX_FROM) {
        qsort(values, n, sizeof *values, by_value);
        return;
    }
    int64_t *from = values, *to = spare;
    for (int shift = 0; shift < 64; shift += 8) {
        size_t counts[257] = {0};
        for (size_t i = 0; i < n; i++) counts[((uint64_t)from[i] >> shift & 255) + 1]++;
        if (counts[((uint64_t)from[0] >> shift & 255) + 1] == n) continue;
        for (int i = 0; i < 256; i++) counts[i + 1] += counts[i];
        for (size_t i = 0; i < n; i++) to[counts[(uint64_t)from[i] >> shift & 255]++] = from[i];
        int64_t *other = from;
        from = to;
        to = other;
    }
    if (from != values) memcpy(values, from, n * sizeof *values);
}

/* zero: what no time at all counts as, since nothing is infinitely fast; or 0, and it does not count. */
static double mean_rate(const int64_t *values, size_t first, size_t last, int64_t bytes, int64_t zero) {
    double sum = 0;
    size_t n = 0;

    for (size_t i = first; i < last; i++) {
        int64_t ns = values[i] > 0 ? values[i] : zero;
        if (ns <= 0) continue;
        sum += 8.0 * (double)bytes / (double)ns;
        n++;
    }
    return n > 0 ? sum / (double)n : 0;
}

/* Both arrays are put into order. */
static struct page_figures figures_of(const struct layout *t, int64_t *took, int64_t *moving, size_t n,
                                      const struct page_operation *o) {
    size_t cut = (size_t)msi_histogram_trimmed(n), kept = n - 2 * cut;
    struct page_figures f = {.count = (int64_t)n};
    double sum = 0;

    if (n == 0) return f;
    sort_values(took, t->spare, n);
    sort_values(moving, t->spare, n);
    for (size_t i = 0; i < n; i++) f.total += took[i], f.moving += moving[i];
    for (size_t i = cut; i < n - cut; i++) sum += (double)took[i];
    f.average = sum / (double)kept;
    f.algbw = mean_rate(took, cut, n - cut, o->bytes, 1);
    f.free_algbw = mean_rate(moving, cut, n - cut, o->bytes, 0);
    f.busbw = f.algbw * page_bus_factor(o->class, o->size);
    return f;
}

static size_t slot(const struct layout *t, size_t row, int rank) {
    return row * (size_t)t->job->n_ranks + (size_t)rank;
}

static int64_t moving_part(const struct page_job *job, const struct page_event *e) {
    return e->device != PAGE_UNKNOWN ? e->device : e->begin + e->took - page_ready(job, e);
}

/* How much of the row the event is, if it did not fail. */
static void count(struct layout *t, const struct page_event *e, size_t slot) {
    if (page_failed(t->job, e))
        t->failed[slot]++;
    else
        t->starts[slot + 2]++;
}

static void place(struct layout *t, const struct page_event *e, size_t slot) {
    if (page_failed(t->job, e)) return;
    size_t to = t->starts[slot + 1]++;
    t->took[to] = page_lasted(e);
    t->moving[to] = moving_part(t->job, e);
}

static void lay_out(struct layout *t) {
    struct page_job *job = t->job;
    size_t slots = job->n_rows * (size_t)job->n_ranks, at = 0;

    const uint32_t *row_of = t->table->row_of;
    int64_t **arrays[] = {&t->took, &t->moving, &t->spare, &t->took_copy, &t->moving_copy};

    t->starts = calloc(slots + 2, sizeof *t->starts);
    t->failed = calloc(slots + 1, sizeof *t->failed);
    if (t->starts == NULL || t->failed == NULL) job->failed = true;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = malloc((t->table->n_events + 1) * sizeof(int64_t));
        if (*arrays[i] == NULL) job->failed = true;
    }
    if (job->failed) return;
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++)
            count(t, &job->ranks[i]->events[k], slot(t, row_of[at++], i));
    for (size_t i = 0; i < slots; i++) t->starts[i + 2] += t->starts[i + 1];
    at = 0;
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++)
            place(t, &job->ranks[i]->events[k], slot(t, row_of[at++], i));
}

/* Of the slots from begin to end. */
static int64_t failures(const struct layout *t, size_t begin, size_t end) {
    int64_t n = 0;

    for (size_t i = begin; i < end; i++) n += t->failed[i];
    return n;
}

static void add_cell(struct layout *t, size_t operation, int32_t group, int32_t rank,
                     const struct page_figures *is) {
    struct page_job *job = t->job;

    if (is->count + is->failed == 0 ||
        !page_room(job, &job->cells, job->n_cells, &t->capacity, sizeof *job->cells))
        return;
    job->cells[job->n_cells++] = (struct page_cell){(int32_t)operation, group, rank, *is};
}

/* The calls of one rank, copied together out of the rows of the operation's groups. */
static void add_rank(struct layout *t, size_t operation, int rank) {
    const struct page_operation *o = &t->job->operations[operation];
    size_t n = 0;
    int64_t failed = 0;

    for (size_t row = o->first; row < o->first + o->n; row++) {
        size_t begin = t->starts[slot(t, row, rank)], count = t->starts[slot(t, row, rank) + 1] - begin;
        memcpy(t->took_copy + n, t->took + begin, count * sizeof *t->took);
        memcpy(t->moving_copy + n, t->moving + begin, count * sizeof *t->moving);
        n += count;
        failed += t->failed[slot(t, row, rank)];
        if (o->n == 1) break;
        struct page_figures one = figures_of(t, t->took + begin, t->moving + begin, count, o);
        one.failed = t->failed[slot(t, row, rank)];
        add_cell(t, operation, t->job->rows[row].group, t->job->ranks[rank]->rank, &one);
    }
    struct page_figures all = figures_of(t, t->took_copy, t->moving_copy, n, o);
    all.failed = failed;
    add_cell(t, operation, PAGE_NONE, t->job->ranks[rank]->rank, &all);
}

/* Ranks come first, since their stretches lose their order in that of the whole. */
static void add_operation(struct layout *t, size_t operation, bool each_rank) {
    struct page_job *job = t->job;
    struct page_operation *o = &job->operations[operation];

    for (int rank = 0; rank < job->n_ranks && each_rank; rank++) add_rank(t, operation, rank);
    for (size_t row = o->first; row < o->first + o->n && o->n > 1; row++) {
        size_t begin = t->starts[slot(t, row, 0)], end = t->starts[slot(t, row + 1, 0)];
        struct page_figures one = figures_of(t, t->took + begin, t->moving + begin, end - begin, o);
        one.failed = failures(t, slot(t, row, 0), slot(t, row + 1, 0));
        add_cell(t, operation, job->rows[row].group, PAGE_NONE, &one);
    }
    size_t begin = t->starts[slot(t, o->first, 0)], end = t->starts[slot(t, o->first + o->n, 0)];
    o->is = figures_of(t, t->took + begin, t->moving + begin, end - begin, o);
    o->is.failed = failures(t, slot(t, o->first, 0), slot(t, o->first + o->n, 0));
}

void page_cells(const struct page_table *table) {
    struct page_job *job = table->job;
    struct layout t = {.job = job, .table = table};
    bool each_rank = job->n_rows * (size_t)job->n_ranks <= CELLS_MOST;

    lay_out(&t);
    for (size_t i = 0; i < job->n_operations && !job->failed; i++) add_operation(&t, i, each_rank);
    if (!each_rank)
        page_warn(job, "there are too many operations and ranks to show each rank's figures: the table has "
                       "those of all ranks alone");
    free(t.starts);
    free(t.failed);
    free(t.took);
    free(t.moving);
    free(t.spare);
    free(t.took_copy);
    free(t.moving_copy);
}
