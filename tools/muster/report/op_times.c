/*
 * op_times.c - the figures of operations. The durations are stored in one array, row by row and within a row
 * rank by rank, so that every figure is computed from one range of it. Failed calls are counted separately.
 *
 * Averages leave out round(0.1 n) of the shortest and of the longest calls, as in DeepSpeed. Bandwidths are
 * averages over the same calls.
 */
#include "report/report.h"

#include "prof/summary/histogram.h"

#include <stdlib.h>
#include <string.h>

enum { RADIX_FROM = 512, CELLS_MOST = 400000 };

struct layout {
    struct report_job *job;
    size_t *starts; /* of each row and rank, in took; two more at the end */
    struct sums {
        int64_t failed, comm, waiting;
    } * sums; /* of each row and rank */
    int64_t *took, *moving, *spare, *took_copy, *moving_copy;
    size_t capacity; /* of cells */
};

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Radix sort of values that are not negative. A byte that is the same in all values needs no copying. */
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

/* zero replaces a duration of 0; if it is 0, too, the call does not count. */
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

/* Sorts both arrays. */
static struct report_figures figures_of(const struct layout *t, int64_t *took, int64_t *moving, size_t n,
                                        const struct report_operation *o) {
    size_t cut = (size_t)msi_histogram_trimmed(n), kept = n - 2 * cut;
    struct report_figures f = {.count = (int64_t)n};
    double sum = 0;
    if (n == 0) return f;
    sort_values(took, t->spare, n);
    sort_values(moving, t->spare, n);
    for (size_t i = 0; i < n; i++) f.total += took[i];
    for (size_t i = cut; i < n - cut; i++) sum += (double)took[i];
    f.average = sum / (double)kept;
    f.algbw = mean_rate(took, cut, n - cut, o->row.bytes, 1);
    f.free_algbw = mean_rate(moving, cut, n - cut, o->row.bytes, 0);
    f.busbw = f.algbw * report_bus_factor(o->row.class, o->row.size);
    return f;
}

static size_t slot(const struct layout *t, size_t row, int rank) {
    return row * (size_t)t->job->n_ranks + (size_t)rank;
}

static int64_t moving_part(const struct report_job *job, const struct report_event *e) {
    return e->device != REPORT_UNKNOWN ? e->device : e->begin + e->took - report_ready(job, e);
}

static void store_event(struct layout *t, const struct report_event *e, size_t at) {
    t->sums[at].comm += report_comm(t->job, e);
    t->sums[at].waiting += report_waiting(t->job, e);
    if (report_failed(t->job, e)) return;
    size_t to = t->starts[at + 1]++;
    t->took[to] = report_duration(e);
    t->moving[to] = moving_part(t->job, e);
}

static void lay_out(struct layout *t) {
    struct report_job *job = t->job;
    size_t slots = job->n_rows * (size_t)job->n_ranks, n = (size_t)job->n_events;
    t->starts = report_alloc(slots + 2, sizeof *t->starts);
    t->sums = report_alloc(slots, sizeof *t->sums);
    t->took = report_alloc(5 * n, sizeof *t->took);
    t->moving = t->took + n;
    t->spare = t->took + 2 * n;
    t->took_copy = t->took + 3 * n;
    t->moving_copy = t->took + 4 * n;
    for (int i = 0; i < job->n_ranks; i++)
        for (size_t k = 0; k < job->ranks[i]->n; k++) {
            size_t at = slot(t, job->ranks[i]->rows[k], i);
            bool failed = report_failed(job, &job->ranks[i]->events[k]);
            t->sums[at].failed += failed;
            t->starts[at + 2] += !failed;
        }
    for (size_t i = 0; i < slots; i++) t->starts[i + 2] += t->starts[i + 1];
    for (int i = 0; i < job->n_ranks; i++) {
        struct report_rank *r = job->ranks[i];
        for (size_t k = 0; k < r->n; k++) store_event(t, &r->events[k], slot(t, r->rows[k], i));
        free(r->rows);
        r->rows = NULL;
    }
}

static void add_sums(struct report_figures *f, const struct sums *sums) {
    f->failed += sums->failed;
    f->comm += sums->comm;
    f->waiting += sums->waiting;
}

/* The figures of the slots from first to end. */
static struct report_figures range_figures(struct layout *t, const struct report_operation *o, size_t first,
                                           size_t end) {
    size_t begin = t->starts[first], n = t->starts[end] - begin;
    struct report_figures f = figures_of(t, t->took + begin, t->moving + begin, n, o);
    for (size_t i = first; i < end; i++) add_sums(&f, &t->sums[i]);
    return f;
}

static void add_cell(struct layout *t, size_t operation, int32_t group, int32_t rank,
                     struct report_figures figures) {
    struct report_job *job = t->job;
    if (figures.count + figures.failed == 0) return;
    report_reserve(&job->cells, job->n_cells, &t->capacity, sizeof *job->cells);
    job->cells[job->n_cells++] = (struct report_cell){(int32_t)operation, group, rank, figures};
}

/* The calls of one rank in all groups of the operation, which are copied together. */
static void add_rank(struct layout *t, size_t operation, int rank) {
    const struct report_operation *o = &t->job->operations[operation];
    struct report_figures sums = {0}, all;
    size_t n = 0;
    for (size_t row = o->first; row < o->first + o->n; row++) {
        size_t at = slot(t, row, rank), begin = t->starts[at], count = t->starts[at + 1] - begin;
        memcpy(t->took_copy + n, t->took + begin, count * sizeof *t->took);
        memcpy(t->moving_copy + n, t->moving + begin, count * sizeof *t->moving);
        n += count;
        add_sums(&sums, &t->sums[at]);
        if (o->n == 1) break;
        add_cell(t, operation, t->job->rows[row].group, t->job->ranks[rank]->rank,
                 range_figures(t, o, at, at + 1));
    }
    all = figures_of(t, t->took_copy, t->moving_copy, n, o);
    all.failed = sums.failed;
    all.comm = sums.comm;
    all.waiting = sums.waiting;
    add_cell(t, operation, REPORT_NONE, t->job->ranks[rank]->rank, all);
}

/* Ranks come first, because sorting the whole range mixes their calls. */
static void add_operation(struct layout *t, size_t operation, bool each_rank) {
    struct report_job *job = t->job;
    struct report_operation *o = &job->operations[operation];
    for (int rank = 0; rank < job->n_ranks && each_rank; rank++) add_rank(t, operation, rank);
    for (size_t row = o->first; row < o->first + o->n && o->n > 1; row++)
        add_cell(t, operation, job->rows[row].group, REPORT_NONE,
                 range_figures(t, o, slot(t, row, 0), slot(t, row + 1, 0)));
    o->figures = range_figures(t, o, slot(t, o->first, 0), slot(t, o->first + o->n, 0));
}

void report_make_cells(struct report_job *job) {
    struct layout t = {.job = job};
    bool each_rank = job->n_rows * (size_t)job->n_ranks <= CELLS_MOST;
    lay_out(&t);
    for (size_t i = 0; i < job->n_operations; i++) add_operation(&t, i, each_rank);
    if (!each_rank)
        report_warn(job, "too many operations and ranks: the table has no figures of single ranks");
    free(t.starts);
    free(t.sums);
    free(t.took); /* with the other arrays */
}
