/* terminal.c - what "muster report" says on the terminal: the verdict first, then the job in a few lines. */
#include "cli/text.h"
#include "report/flight.h"
#include "report/report.h"

#include "prof/flight/text.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 8, LATE = 3, RANKS_SHOWN = 16, SIZE_MOST = 32, TIME_MOST = 32 };

/* Texts of files, harmless on a terminal; the job's own copy may be changed. */
static const char *clean(const struct page_job *job, uint32_t number) {
    static char copies[4][128];
    static int next;
    char *copy = copies[next++ % 4];

    snprintf(copy, sizeof copies[0], "%s", number == UINT32_MAX ? "(others)" : page_string(job, number));
    text_clean(copy, false);
    return copy;
}

static const char *show_time(double ns, char text[TIME_MOST]) {
    if (ns >= 1e9)
        snprintf(text, TIME_MOST, "%.3g s", ns / 1e9 >= 1000 ? (double)(long long)(ns / 1e9) : ns / 1e9);
    else if (ns >= 1e6)
        snprintf(text, TIME_MOST, "%.3g ms", ns / 1e6);
    else
        snprintf(text, TIME_MOST, "%.3g us", ns / 1e3);
    return text;
}

static const char *show_size(int64_t bytes, char text[SIZE_MOST]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;

    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    snprintf(text, SIZE_MOST, unit == 0 || value == (double)(int64_t)value ? "%.0f %s" : "%.2f %s", value,
             units[unit]);
    return text;
}

static void print_flights(const struct page_job *job) {
    const struct page_flights *f = job->flights;

    printf("%s\n", (const char *)f->words.data);
    for (int i = 0; i < f->n && i < RANKS_SHOWN; i++) {
        const struct flight *flight = &f->list[i];
        const struct msi_flight_op *current = page_flight_current(f, flight->rank),
                                   *op = current ? current : page_flight_done(flight);
        struct msi_buf words = {0};
        if (op != NULL) msi_flight_say_op(&flight->view, op, &words);
        printf("  rank %-4d %-8s %.*s\n", flight->rank, op ? page_flight_state(op) : "idle",
               op ? (int)words.len : INT_MAX, op ? (const char *)words.data : "nothing was called");
        msi_buf_free(&words);
    }
    if (f->n > RANKS_SHOWN) printf("  and %d ranks more\n", f->n - RANKS_SHOWN);
    printf("\n");
}

static int by_share(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_shares(const struct page_job *job) {
    double *shares = calloc((size_t)job->n_ranks, sizeof *shares);

    if (shares == NULL) return;
    for (int i = 0; i < job->n_ranks; i++) {
        int64_t own = job->ranks[i]->end - job->begin;
        shares[i] = own > 0 ? (double)job->ranks[i]->in_comm / (double)own : 0;
    }
    qsort(shares, (size_t)job->n_ranks, sizeof *shares, by_share);
    printf("in communication: %.1f %% of the time at least, %.1f %% in the middle, %.1f %% at most\n",
           100 * shares[0], 100 * (shares[(job->n_ranks - 1) / 2] + shares[job->n_ranks / 2]) / 2,
           100 * shares[job->n_ranks - 1]);
    free(shares);
}

static void print_failed(const struct page_job *job) {
    int64_t failed = 0;

    for (size_t i = 0; i < job->n_operations; i++) failed += job->operations[i].is.failed;
    if (failed > 0)
        printf("%lld call%s failed; time in failed calls is waiting, and in no figure below\n",
               (long long)failed, failed == 1 ? "" : "s");
}

static void print_head(const struct page_job *job) {
    struct page_set hosts = {0};
    size_t events = 0;
    char time[TIME_MOST];

    for (int i = 0; i < job->n_ranks; i++) {
        page_set_add(&hosts, &job->ranks[i]->host, sizeof job->ranks[i]->host);
        events += job->ranks[i]->n;
    }
    printf("%s: %d ranks on %u %s, %zu events in %s\n", clean(job, job->ranks[0]->program), job->size,
           hosts.n, hosts.n == 1 ? "host" : "hosts", events,
           show_time((double)(job->end - job->begin), time));
    page_set_free(&hosts);
    print_shares(job);
    print_failed(job);
}

static int by_total(const void *a, const void *b) {
    const struct page_operation *x = *(const struct page_operation *const *)a,
                                *y = *(const struct page_operation *const *)b;
    return (x->is.total < y->is.total) - (x->is.total > y->is.total);
}

static void print_operations(const struct page_job *job) {
    const struct page_operation **order = calloc(job->n_operations + 1, sizeof(struct page_operation *));
    char size[SIZE_MOST], total[TIME_MOST], average[TIME_MOST];

    if (order == NULL) return;
    for (size_t i = 0; i < job->n_operations; i++) order[i] = &job->operations[i];
    qsort(order, job->n_operations, sizeof *order, by_total);
    printf("\n%-24s %12s %6s %10s %10s %10s %14s\n", "most time", "size", "ranks", "calls", "total",
           "average", "busbw (Gbps)");
    for (size_t i = 0; i < job->n_operations && i < TOP; i++) {
        const struct page_operation *o = order[i];
        printf("%-24.40s %12s %6d %10lld %10s %10s %14.2f\n", clean(job, o->name), show_size(o->bytes, size),
               o->size, (long long)o->is.count, show_time((double)o->is.total, total),
               show_time(o->is.average, average), o->is.busbw);
        if (o->is.failed > 0)
            printf("%-24s %12s %6s %10lld more failed\n", "", "", "", (long long)o->is.failed);
    }
    if (job->n_operations > TOP) printf("and %zu rows more\n", job->n_operations - TOP);
    free(order);
}

static int by_waited_for(const void *a, const void *b) {
    const struct page_rank *x = *(const struct page_rank *const *)a, *y = *(const struct page_rank *const *)b;
    return x->waited_for != y->waited_for ? (x->waited_for < y->waited_for) - (x->waited_for > y->waited_for)
                                          : (x->rank > y->rank) - (x->rank < y->rank);
}

static void print_late(const struct page_job *job) {
    const struct page_rank **order = calloc((size_t)job->n_ranks, sizeof(struct page_rank *));
    char time[TIME_MOST];

    if (order == NULL) return;
    for (int i = 0; i < job->n_ranks; i++) order[i] = job->ranks[i];
    qsort(order, (size_t)job->n_ranks, sizeof *order, by_waited_for);
    if (order[0]->waited_for > 0) printf("\nothers waited for\n");
    for (int i = 0; i < job->n_ranks && i < LATE && order[i]->waited_for > 0; i++)
        printf("  rank %-4d %s in all\n", order[i]->rank, show_time((double)order[i]->waited_for, time));
    free(order);
}

void page_say_warnings(const struct page_job *job) {
    enum { WARNINGS_SHOWN = 10 };

    for (int i = 0; i < job->n_warnings && i < WARNINGS_SHOWN; i++)
        fprintf(stderr, "muster report: warning: %s\n", job->warnings[i]);
    if (job->n_warnings > WARNINGS_SHOWN)
        fprintf(stderr, "muster report: and %d warnings more\n", job->n_warnings - WARNINGS_SHOWN);
}

void page_words(const struct page_job *job) {
    if (page_flights_any(job)) print_flights(job);
    if (job->n_ranks > 0) {
        print_head(job);
        print_operations(job);
        print_late(job);
    }
}
