/* terminal.c - prints the diagnosis of a failure and the most important figures on the terminal. */
#include "cli/text.h"
#include "report/flight.h"
#include "report/report.h"

#include "base/median.h"
#include "base/units.h"
#include "prof/flight/diagnose.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS_SHOWN = 8, LATE_SHOWN = 3, RANKS_SHOWN = 16, WARNINGS_SHOWN = 10 };

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

static void print_shares(const struct report_job *job) {
    double *shares = report_alloc((size_t)job->n_ranks, sizeof *shares);
    for (int i = 0; i < job->n_ranks; i++) shares[i] = report_comm_share(job, job->ranks[i]);
    double median = msi_median(shares, job->n_ranks); /* sorts them */
    printf("in communication: %.1f %% of the time at least, %.1f %% in the median, %.1f %% at most\n",
           100 * shares[0], 100 * median, 100 * shares[job->n_ranks - 1]);
    free(shares);
}

static void print_failed(const struct report_job *job) {
    int64_t failed = 0;
    for (size_t i = 0; i < job->n_operations; i++) failed += job->operations[i].figures.failed;
    if (failed > 0)
        printf("%lld call%s failed; their time counts as waiting and is in no figure below\n",
               (long long)failed, failed == 1 ? "" : "s");
}

static void print_head(const struct report_job *job) {
    char time[MSI_UNITS_TEXT];
    printf("%s: %d ranks on %u host%s, %lld events in %s\n", clean(job, job->ranks[0]->program), job->size,
           job->hosts.n, job->hosts.n == 1 ? "" : "s", (long long)job->n_events,
           msi_seconds_text((double)(job->end - job->begin) / 1e9, time));
    print_shares(job);
    print_failed(job);
}

static int by_total(const void *a, const void *b) {
    const struct report_operation *x = *(const struct report_operation *const *)a,
                                  *y = *(const struct report_operation *const *)b;
    return (x->figures.total < y->figures.total) - (x->figures.total > y->figures.total);
}

static void print_operations(const struct report_job *job) {
    const struct report_operation **order =
        report_alloc(job->n_operations, sizeof(struct report_operation *));
    char size[MSI_UNITS_TEXT], total[MSI_UNITS_TEXT], average[MSI_UNITS_TEXT];
    for (size_t i = 0; i < job->n_operations; i++) order[i] = &job->operations[i];
    qsort(order, job->n_operations, sizeof *order, by_total);
    printf("\n%-24s %12s %6s %10s %10s %10s %14s\n", "most time", "size", "ranks", "calls", "total",
           "average", "busbw (Gbps)");
    for (size_t i = 0; i < job->n_operations && i < OPERATIONS_SHOWN; i++) {
        const struct report_operation *o = order[i];
        printf("%-24.40s %12s %6d %10lld %10s %10s %14.2f\n", clean(job, o->row.name),
               msi_bytes_text((double)o->row.bytes, size), o->row.size, (long long)o->figures.count,
               msi_seconds_text((double)o->figures.total / 1e9, total),
               msi_seconds_text(o->figures.average / 1e9, average), o->figures.busbw);
        if (o->figures.failed > 0)
            printf("%-24s %12s %6s %10lld failed calls\n", "", "", "", (long long)o->figures.failed);
    }
    if (job->n_operations > OPERATIONS_SHOWN)
        printf("and %zu more rows\n", job->n_operations - OPERATIONS_SHOWN);
    free(order);
}

static int by_waited_for(const void *a, const void *b) {
    const struct report_rank *x = *(const struct report_rank *const *)a,
                             *y = *(const struct report_rank *const *)b;
    return x->waited_for != y->waited_for ? (x->waited_for < y->waited_for) - (x->waited_for > y->waited_for)
                                          : (x->rank > y->rank) - (x->rank < y->rank);
}

static void print_late(const struct report_job *job) {
    const struct report_rank **order = report_alloc((size_t)job->n_ranks, sizeof(struct report_rank *));
    char time[MSI_UNITS_TEXT];
    for (int i = 0; i < job->n_ranks; i++) order[i] = job->ranks[i];
    qsort(order, (size_t)job->n_ranks, sizeof *order, by_waited_for);
    if (order[0]->waited_for > 0) printf("\nothers waited for\n");
    for (int i = 0; i < job->n_ranks && i < LATE_SHOWN && order[i]->waited_for > 0; i++)
        printf("  rank %-4d %s in total\n", order[i]->rank,
               msi_seconds_text((double)order[i]->waited_for / 1e9, time));
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
        print_operations(job);
        print_late(job);
    }
}
