/* report.c - prints the tables and the summary of "muster bench OPERATION". See ops.h. */
#include "base/kind.h"
#include "base/units.h"
#include "bench/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = OPS_TEXT, WIDTH = 8, NAME_WIDTH = 11, NAMED_MOST = 3 };

double ops_algbw(const struct ops_case *what, int i, double us) {
    return us > 0 ? (double)what->bytes[i] / us / 1e3 : 0;
}

double ops_busbw(const struct ops_case *what, int i, double us) {
    enum msi_share share = msi_kind_share(msi_kind_find(loop_op_names[what->op]));
    return ops_algbw(what, i, us) * msi_bus_factor(share, what->ranks);
}

double ops_ratio(const struct ops_table *r, int other, int i) {
    return r->at[0][i].us > 0 ? r->at[other][i].us / r->at[0][i].us : 0;
}

const char *ops_put(char out[OPS_TEXT], double x, const char *unit) {
    snprintf(out, OPS_TEXT, "%.*f%s", x < 0.1 ? 4 : x < 1 ? 3 : x < 10 ? 2 : x < 100 ? 1 : 0, x, unit);
    return x > 0 ? out : "-";
}

void ops_print_head(const struct ops_bench *b) {
    char machine[BENCH_MACHINE_TEXT], cache[MSI_UNITS_TEXT];
    double load = 0;
    if (getloadavg(&load, 1) != 1) load = 0;
    printf("operations on %s; load %.2f at the start\n", bench_machine(machine), load);
    for (int backend = 0; backend < b->n_backends; backend++) {
        const struct bench_peer *peer = &b->backends[backend];
        if (peer->why_not[0] == '\0')
            printf("%s: %s %s%s\n", peer->name, peer->label, peer->version,
                   !peer->engine ? ", called directly" : "");
        else
            printf("%s is skipped: %s\n", peer->name, peer->why_not);
    }
    printf("median of %ld round%s, all backends in each, %g s per size%s\n", b->o.rounds,
           b->o.rounds == 1 ? "" : "s", b->o.budget, b->o.bind ? "; ranks are bound to processors" : "");
    printf("us, time: median in microseconds; p99: 99th percentile of single calls; algbw, busbw: GB/s, as\n"
           "in nccl-tests; #wrong: wrong elements of all results\n");
    if (b->o.limits) printf("bound: the least time by 'muster bench limits'; reached: bound / us\n");
    if (b->buffers[OPS_ROTATE])
        printf("rotate: up to 256 sets of buffers, if possible twice the last-level cache (%s) together\n",
               msi_bytes_text((double)b->cache, cache));
    fflush(stdout);
}

/* The first backend from this one on with a figure in a table; n_backends: none. */
static int next_shown(const struct ops_bench *b, const struct ops_table *r, int backend) {
    for (; backend < b->n_backends; backend++)
        for (int i = 0; i < r->what.n_sizes; i++)
            if (r->at[backend][i].us > 0) return backend;
    return backend;
}

/* Prints which sizes were rounded. */
static void print_rounded(const struct ops_case *what) {
    int n = 0;
    for (int i = 0; i < what->n_sizes; i++) {
        if (what->bytes[i] == what->requested[i] || n++ >= NAMED_MOST) continue;
        if (n == 1) printf("sizes are multiples of %zu bytes: ", what->unit);
        printf("%s%zu became %zu", n > 1 ? ", " : "", what->requested[i], what->bytes[i]);
    }
    if (n > NAMED_MOST) printf(", and %d more were rounded", n - NAMED_MOST);
    if (n > 0) printf("\n");
}

void ops_print_case(const struct ops_case *what, bool place) {
    bool rooted = what->op == LOOP_BROADCAST || what->op == LOOP_REDUCE || what->op == LOOP_GATHER ||
                  what->op == LOOP_SCATTER;
    printf("\n%s, ", loop_op_names[what->op]);
    if (what->op != LOOP_BARRIER)
        printf("%s, %s buffers, ", what->dtype->name, ops_buffer_names[what->buffers]);
    if (place && what->in_place) printf("in place, ");
    printf("%d rank%s, ", what->ranks, what->ranks == 1 ? "" : "s");
    printf(what->hosts > 1 ? "%d simulated hosts" : "one host", what->hosts);
    printf("%s\n", rooted && what->ranks > 1 ? ", each rank in turn is the root" : "");
    print_rounded(what);
}

static void print_titles(const struct ops_bench *b, const struct ops_case *what) {
    ops_print_case(what, true);
    if (b->n_backends > 1)
        printf("x: how many times as fast %s is; more than 1: %s is faster\n", b->backends[0].name,
               b->backends[0].name);
    printf("%10s  %-*s %*s %*s %*s %*s %*s", "bytes", NAME_WIDTH, "backend", WIDTH, "us", WIDTH, "p99", WIDTH,
           "algbw", WIDTH, "busbw", WIDTH, "#wrong");
    if (b->n_backends > 1) printf(" %*s", WIDTH, "x");
    if (b->o.limits) printf(" %*s %*s", WIDTH, "bound", WIDTH, "reached");
    printf("\n");
}

/* One line of a table. Only the first backend of a size shows the size and the bound. */
static void print_figure(const struct ops_bench *b, const struct ops_table *r, int backend, int i) {
    const struct ops_figure *f = &r->at[backend][i];
    char bytes[TEXT] = "", text[TEXT];
    if (backend == next_shown(b, r, 0)) snprintf(bytes, sizeof bytes, "%zu", r->what.bytes[i]);
    printf("%10s  %-*s %*s", bytes, NAME_WIDTH, b->backends[backend].name, WIDTH, ops_put(text, f->us, ""));
    printf(" %*s", WIDTH, ops_put(text, f->p99, ""));
    printf(" %*s", WIDTH, ops_put(text, ops_algbw(&r->what, i, f->us), ""));
    printf(" %*s", WIDTH, ops_put(text, ops_busbw(&r->what, i, f->us), ""));
    printf(" %*zu", WIDTH, f->wrong);
    if (b->n_backends > 1)
        printf(" %*s", WIDTH, backend == 0 ? "" : ops_put(text, ops_ratio(r, backend, i), "x"));
    if (b->o.limits) {
        double bound = bench_lower_bound(&b->limits, &r->what, r->what.bytes[i]);
        printf(" %*s", WIDTH, backend == next_shown(b, r, 0) ? ops_put(text, bound, "") : "");
        snprintf(text, sizeof text, "%.*f%%", bound < f->us / 10 ? 1 : 0,
                 f->us > 0 ? 100 * bound / f->us : 0);
        printf(" %*s", WIDTH, f->us > 0 ? text : "-");
    }
    printf("\n");
}

/* Wrong results, failures, missing support, and the faster setting of a backend with several threads. */
void ops_print_notes(const struct ops_bench *b, const struct ops_table *t) {
    const char *form = ops_is_alone(b) && t->what.in_place ? "in place: " : "";
    for (int backend = 0; backend < b->n_backends; backend++) {
        const char *name = b->backends[backend].name;
        size_t wrong = 0;
        for (int i = 0; i < t->what.n_sizes; i++) wrong += t->at[backend][i].wrong;
        if (wrong > 0)
            printf("%s: %sWRONG: %zu elements; the first: %s\n", name, form, wrong, t->wrong[backend]);
        if (t->gain[backend] > 0)
            printf("%s: %sits ranks are %s, which is %.2f times as fast as %s\n", name, form,
                   t->bound[backend] ? "bound to processors" : "not bound to processors", t->gain[backend],
                   t->bound[backend] ? "unbound" : "bound");
        if (t->unsupported[backend][0] != '\0')
            printf("%s: %snot supported: %s\n", name, form, t->unsupported[backend]);
        else if (t->why[backend][0] != '\0')
            printf("%s: %sfailed: %s\n", name, form, t->why[backend]);
    }
}

void ops_print_result(const struct ops_bench *b, const struct ops_table *r) {
    print_titles(b, &r->what);
    for (int i = 0; i < r->what.n_sizes; i++)
        for (int backend = next_shown(b, r, 0); backend < b->n_backends;
             backend = next_shown(b, r, backend + 1))
            print_figure(b, r, backend, i);
    ops_print_notes(b, r);
    fflush(stdout);
}

/* The ratios of one backend over sizes and tables. */
struct ratios {
    double log_sum, worst;
    int n;
    const struct ops_case *worst_in;
    size_t worst_at;
};

static void add_ratios(const struct ops_table *r, int backend, struct ratios *all) {
    for (int i = 0; i < r->what.n_sizes; i++) {
        double x = ops_ratio(r, backend, i);
        if (x <= 0) continue;
        all->log_sum += log(x);
        if (all->n++ > 0 && x >= all->worst) continue;
        all->worst = x;
        all->worst_in = &r->what;
        all->worst_at = r->what.bytes[i];
    }
}

static void print_ratios(const struct ratios *r, bool name_op) {
    char mean[TEXT], worst[TEXT], at[MSI_UNITS_TEXT], text[3 * TEXT] = "";
    if (r->n > 0)
        snprintf(text, sizeof text, "%s at %s%s%s", ops_put(worst, r->worst, "x"),
                 msi_bytes_text((double)r->worst_at, at), name_op ? " of " : "",
                 name_op ? loop_op_names[r->worst_in->op] : "");
    printf("  %*s  %-*s", WIDTH, ops_put(mean, r->n > 0 ? exp(r->log_sum / r->n) : 0, "x"), name_op ? 38 : 22,
           text);
}

static void print_means_of(const struct ops_bench *b, int backend) {
    struct ratios all = {0};
    printf("\n%s against %s (more than 1: %s is faster)\n%-15s %-7s %5s %-9s %-5s  %*s  worst\n",
           b->backends[0].name, b->backends[backend].name, b->backends[0].name, "", "dtype", "ranks",
           "buffers", "place", WIDTH, "geo mean");
    for (int t = 0; t < b->n_results; t++) {
        const struct ops_case *what = &b->results[t].what;
        struct ratios one = {0};
        add_ratios(&b->results[t], backend, &one);
        add_ratios(&b->results[t], backend, &all);
        printf("%-15s %-7s %5d %-9s %-5s", loop_op_names[what->op], what->dtype->name, what->ranks,
               ops_buffer_names[what->buffers], what->in_place ? "in" : "out");
        print_ratios(&one, false);
        printf("\n");
    }
    printf("%-15s %-7s %5s %-9s %-5s", "all", "", "", "", "");
    print_ratios(&all, true);
    printf("\n");
}

void ops_print_summary(const struct ops_bench *b) {
    for (int backend = 1; b->n_results > 0 && backend < b->n_backends; backend++) print_means_of(b, backend);
    fflush(stdout);
}
