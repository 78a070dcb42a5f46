/* terminal.c - prints the diagnosis of a failure and the most important figures on the terminal. */
#include "cli/text.h"
#include "report/flight.h"
#include "report/report.h"

#include "base/units.h"
#include "prof/flight/diagnose.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS_SHOWN = 8, RANKS_SHOWN = 16, WARNINGS_SHOWN = 10 };

/* A text of a trace without control characters; valid until the next call. */
static const char *clean(const struct report_job *job, uint32_t number) {
    static char copy[128];
    snprintf(copy, sizeof copy, "%s", report_string(job, number));
    text_clean(copy, false);
    return copy;
}

static void print_flights(const struct report_job *job) {
    const struct report_flights *f = job->flights;
    printf("%s\n", (const char *)f->text.data);
    for (int i = 0; i < f->n && i < RANKS_SHOWN; i++) {
        const struct flight *flight = &f->list[i];
        const struct msi_flight_op *current = report_flight_current(f, flight->rank),
                                   *op = current ? current : report_flight_done(flight);
        struct msi_buf text = {0};
        if (op)
            msi_flight_print_op(&flight->view, op, &text);
        else
            msi_buf_add_format(&text, "has made no call");
        printf("  rank %-4d %-8s %.*s\n", flight->rank, op ? report_flight_state(op) : "idle", (int)text.len,
               (const char *)text.data);
        msi_buf_free(&text);
    }
    if (f->n > RANKS_SHOWN) printf("  and %d more ranks\n", f->n - RANKS_SHOWN);
    printf("\n");
}

static void print_failed(const struct report_job *job) {
    int64_t failed = 0;
    for (size_t i = 0; i < job->n_operations; i++) failed += job->operations[i].figures.failed;
    if (failed > 0)
        printf("%lld call%s failed; their time counts as waiting, and is in no mean or bandwidth\n",
               (long long)failed, failed == 1 ? "" : "s");
}

static void print_head(const struct report_job *job) {
    char time[MSI_UNITS_TEXT];
    printf("%s: %d ranks on %u host%s, %lld events in %s\n", clean(job, job->ranks[0]->program), job->size,
           job->hosts.n, job->hosts.n == 1 ? "" : "s", (long long)job->n_events,
           msi_seconds_text((double)(job->end - job->begin) / 1e9, time));
    print_failed(job);
}

static void print_ranks(const struct report_job *job) {
    struct msi_rank_times *times = report_alloc((size_t)job->n_ranks, sizeof *times);
    struct msi_buf text = {0};
    for (int i = 0; i < job->n_ranks; i++) times[i] = job->ranks[i]->times;
    if (!msi_add_rank_times(&text, times, job->n_ranks, true) || text.failed) report_no_memory();
    printf("\n%.*s", (int)text.len, (const char *)text.data);
    msi_buf_free(&text);
    free(times);
}

static int by_comm(const void *a, const void *b) {
    const struct report_operation *x = *(const struct report_operation *const *)a,
                                  *y = *(const struct report_operation *const *)b;
    return (x->figures.comm < y->figures.comm) - (x->figures.comm > y->figures.comm);
}

/* Times are those of a rank on average, so that they can be compared with the run time. */
static void print_operation(const struct report_job *job, const struct report_operation *o, int64_t run) {
    char size[MSI_UNITS_TEXT], mean[32], comm[32], waiting[32];
    const struct report_figures *f = &o->figures;
    printf("%-22.40s %10s %6d %9lld %9s %8.2f %10s %6.1f %10s\n", clean(job, o->row.name),
           msi_bytes_text((double)o->row.bytes, size), o->row.size, (long long)f->count,
           msi_ms_text(f->average, mean), f->busbw, msi_ms_text((double)f->comm / job->n_ranks, comm),
           run > 0 ? 100.0 * (double)f->comm / (double)run : 0,
           msi_ms_text((double)f->waiting / job->n_ranks, waiting));
    if (f->failed > 0) printf("%-22s %10s %6s %9lld failed calls\n", "", "", "", (long long)f->failed);
}

static void print_operations(const struct report_job *job) {
    const struct report_operation **order =
        report_alloc(job->n_operations, sizeof(struct report_operation *));
    int64_t run = 0;
    for (int i = 0; i < job->n_ranks; i++) run += job->ranks[i]->times.run_ns;
    for (size_t i = 0; i < job->n_operations; i++) order[i] = &job->operations[i];
    qsort(order, job->n_operations, sizeof *order, by_comm);
    printf("\nOperations: calls of all ranks; times: mean of a rank            communication     waiting\n"
           "                             size  ranks     calls  ms/call*   busbw*         ms  %% run         "
           "ms\n");
    for (size_t i = 0; i < job->n_operations && i < OPERATIONS_SHOWN; i++)
        print_operation(job, order[i], run);
    if (job->n_operations > OPERATIONS_SHOWN)
        printf("and %zu more rows\n", job->n_operations - OPERATIONS_SHOWN);
    printf("* trimmed mean: without the shortest and the longest tenth of the calls; busbw in Gbps\n");
    free(order);
}

void report_print_warnings(const struct report_job *job) {
    for (int i = 0; i < job->n_warnings && i < WARNINGS_SHOWN; i++)
        fprintf(stderr, "muster report: warning: %s\n", job->warnings[i]);
    if (job->n_warnings > WARNINGS_SHOWN)
        fprintf(stderr, "muster report: and %d more warnings\n", job->n_warnings - WARNINGS_SHOWN);
}

void report_print(const struct report_job *job) {
    if (report_flights_any(job)) print_flights(job);
    if (job->n_ranks > 0) {
        print_head(job);
        print_ranks(job);
        print_operations(job);
    }
}
