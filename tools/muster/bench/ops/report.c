/* report.c - what "muster bench OPERATION" found: tables and the summary; see ops.h. */
#include "base/median.h"
#include "bench/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 32, WIDTH = 9, NAME_WIDTH = 11, NAMED_MOST = 3 };

static double median(const double *values, int n) {
    double sorted[OPS_ROUNDS_MOST];

    memcpy(sorted, values, (size_t)n * sizeof sorted[0]);
    return msi_median(sorted, n);
}

struct ops_figure ops_figure_of(const struct ops_cell *cell) {
    struct ops_figure figure = {.wrong = cell->wrong};

    if (cell->n == 0) return figure;
    figure.us = median(cell->us, cell->n);
    figure.p99 = median(cell->p99, cell->n);
    return figure;
}

double ops_algbw(const struct ops_case *what, int i, double us) {
    return us > 0 ? (double)what->bytes[i] / us / 1e3 : 0;
}

double ops_busbw(const struct ops_case *what, int i, double us) {
    const struct ops_fact *fact = &ops_facts[what->op];
    return ops_algbw(what, i, us) * (fact->bus - fact->shrink / what->ranks);
}

double ops_ratio(const struct ops_bench *b, const struct ops_result *r, int other, int i) {
    int first = ops_first(b);

    if (first < 0 || r->at[first][i].us <= 0) return 0;
    return r->at[other][i].us / r->at[first][i].us;
}

/* Three digits that count. */
static const char *put(char out[TEXT], double x) {
    snprintf(out, TEXT, "%.*f", x < 0.1 ? 4 : x < 1 ? 3 : x < 10 ? 2 : x < 100 ? 1 : 0, x);
    return x > 0 ? out : "-";
}

/* A factor, such as 2.31x or 0.043x. */
static const char *put_ratio(char out[TEXT], double x) {
    snprintf(out, TEXT, "%.*fx", x < 1 ? 3 : x < 10 ? 2 : x < 100 ? 1 : 0, x);
    return x > 0 ? out : "-";
}

static const char *put_bytes(char out[TEXT], size_t bytes) {
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
        snprintf(out, TEXT, "%zu MiB", bytes >> 20);
    else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0)
        snprintf(out, TEXT, "%zu KiB", bytes >> 10);
    else
        snprintf(out, TEXT, "%zu B", bytes);
    return out;
}

void ops_print_head(const struct ops_bench *b) {
    char machine[300], cache[TEXT];
    double load = 0;

    peers_write_machine(machine, sizeof machine);
    if (getloadavg(&load, 1) != 1) load = 0;
    printf("operations on %s; load %.2f when this began\n", machine, load);
    for (int side = 0; side < b->n_sides; side++) {
        const struct bench_peer *peer = &b->sides[side].peer;
        if (ops_usable(b, side))
            printf("%s: %s %s%s\n", peer->name, peer->label, peer->version,
                   b->sides[side].engine == NULL ? ", called directly" : "");
        else
            printf("%s is skipped: %s\n", peer->name, peer->why_not);
    }
    printf("median of %d round%s, everyone in turn, %g s for each size%s\n", b->rounds,
           b->rounds == 1 ? "" : "s", b->budget,
           b->bind ? "; each rank of one thread bound to a processor" : "");
    printf(
        "us: microseconds, the median; p99: of single calls, 99 of 100 take no longer; algbw, busbw: GB/s\n");
    if (b->limits != NULL)
        printf("floor: the least time by 'muster bench limits'; of it: how near a backend comes\n");
    if (b->buffers[OPS_ROTATE])
        printf("rotate: up to 256 sets of buffers, together twice the last-level cache (%s) or more where "
               "they can be\n",
               put_bytes(cache, b->cache));
    fflush(stdout);
}

/* The next side from this one on that has a figure in a table; n_sides behind the last. */
static int next_shown(const struct ops_bench *b, const struct ops_result *r, int side) {
    for (; side < b->n_sides; side++)
        for (int i = 0; i < r->what.n_sizes; i++)
            if (r->at[side][i].us > 0) return side;
    return side;
}

/* Is there a second backend? */
static bool compares(const struct ops_bench *b) {
    int n = 0;
    for (int side = 0; side < b->n_sides; side++) n += ops_usable(b, side);
    return n > 1;
}

/* Not all sizes can be had: says which became which, or for the rest how many did. */
static void print_rounded(const struct ops_case *what) {
    int n = 0;

    for (int i = 0; i < what->n_sizes; i++) {
        if (what->bytes[i] == what->asked[i] || n++ >= NAMED_MOST) continue;
        if (n == 1) printf("sizes are multiples of %zu bytes: ", what->unit);
        printf("%s%zu became %zu", n > 1 ? ", " : "", what->asked[i], what->bytes[i]);
    }
    if (n > NAMED_MOST) printf(", and %d more were rounded", n - NAMED_MOST);
    if (n > 0) printf("\n");
}

static void print_titles(const struct ops_bench *b, const struct ops_case *what) {
    printf("\n%s, ", loop_op_names[what->op]);
    if (what->op != LOOP_BARRIER)
        printf("%s, %s buffers, ", what->dtype->name, ops_buffer_names[what->buffers]);
    printf("%d rank%s, ", what->ranks, what->ranks == 1 ? "" : "s");
    printf(what->hosts > 1 ? "%d pretended hosts\n" : "one host\n", what->hosts);
    print_rounded(what);
    if (compares(b))
        printf("x: how many times as fast %s is; more than 1: %s is faster\n",
               b->sides[ops_first(b)].peer.name, b->sides[ops_first(b)].peer.name);
    printf("%11s  %-*s %*s %*s %*s %*s", "bytes", NAME_WIDTH, "backend", WIDTH, "us", WIDTH, "p99", WIDTH,
           "algbw", WIDTH, "busbw");
    if (compares(b)) printf(" %*s", WIDTH, "x");
    if (b->limits != NULL) printf(" %*s %*s", WIDTH, "floor", WIDTH, "of it");
    printf("\n");
}

/* What one backend did at one size, which the first line of each names. */
static void print_figure(const struct ops_bench *b, const struct ops_result *r, int side, int i) {
    const struct ops_figure *f = &r->at[side][i];
    char bytes[TEXT] = "", text[TEXT];

    if (side == next_shown(b, r, 0)) snprintf(bytes, sizeof bytes, "%zu", r->what.bytes[i]);
    printf("%11s  %-*s %*s", bytes, NAME_WIDTH, b->sides[side].peer.name, WIDTH, put(text, f->us));
    printf(" %*s", WIDTH, put(text, f->p99));
    printf(" %*s", WIDTH, put(text, ops_algbw(&r->what, i, f->us)));
    printf(" %*s", WIDTH, put(text, ops_busbw(&r->what, i, f->us)));
    if (compares(b))
        printf(" %*s", WIDTH, side == ops_first(b) ? "" : put_ratio(text, ops_ratio(b, r, side, i)));
    if (b->limits != NULL) {
        double floor = bench_floor(b->limits, &r->what, r->what.bytes[i]);
        printf(" %*s", WIDTH, side == next_shown(b, r, 0) ? put(text, floor) : "");
        snprintf(text, sizeof text, "%.*f%%", floor < f->us / 10 ? 1 : 0,
                 f->us > 0 ? 100 * floor / f->us : 0);
        printf(" %*s", WIDTH, f->us > 0 ? text : "-");
    }
    printf("\n");
}

/* What else is to be said about the table under way. */
static void print_notes(const struct ops_bench *b, const struct ops_result *r) {
    const struct ops_table *t = &b->table;

    for (int side = 0; side < b->n_sides; side++) {
        const char *name = b->sides[side].peer.name;
        size_t wrong = 0;
        for (int i = 0; i < r->what.n_sizes; i++) wrong += r->at[side][i].wrong;
        if (wrong > 0) printf("%s: WRONG: %zu elements; the first: %s\n", name, wrong, t->wrong[side]);
        if (t->unsupported[side][0] != '\0')
            printf("%s: not supported: %s\n", name, t->unsupported[side]);
        else if (t->why[side][0] != '\0')
            printf("%s: failed: %s\n", name, t->why[side]);
    }
}

void ops_print_result(const struct ops_bench *b, const struct ops_result *r) {
    print_titles(b, &r->what);
    for (int i = 0; i < r->what.n_sizes; i++)
        for (int side = next_shown(b, r, 0); side < b->n_sides; side = next_shown(b, r, side + 1))
            print_figure(b, r, side, i);
    print_notes(b, r);
    fflush(stdout);
}

/* Ratios of one backend, gathered over sizes and tables. */
struct ratios {
    double log_sum, worst;
    int n;
    const struct ops_case *worst_in;
    size_t worst_at;
};

static void gather(const struct ops_bench *b, const struct ops_result *r, int side, struct ratios *all) {
    for (int i = 0; i < r->what.n_sizes; i++) {
        double x = ops_ratio(b, r, side, i);
        if (x <= 0) continue;
        all->log_sum += log(x);
        if (all->n++ > 0 && x >= all->worst) continue;
        all->worst = x;
        all->worst_in = &r->what;
        all->worst_at = r->what.bytes[i];
    }
}

static void print_ratios(const struct ratios *r, bool name_op) {
    char mean[TEXT], worst[TEXT], at[TEXT], text[3 * TEXT] = "";

    if (r->n > 0)
        snprintf(text, sizeof text, "%s at %s%s%s", put_ratio(worst, r->worst), put_bytes(at, r->worst_at),
                 name_op ? " of " : "", name_op ? loop_op_names[r->worst_in->op] : "");
    printf("  %*s  %-*s", WIDTH, put_ratio(mean, r->n > 0 ? exp(r->log_sum / r->n) : 0), name_op ? 38 : 22,
           text);
}

static void print_means_of(const struct ops_bench *b, int side) {
    struct ratios all = {0};

    printf("\n%s against %s (more than 1: %s is faster)\n%-15s %-7s %5s %-9s  %*s  worst\n",
           b->sides[ops_first(b)].peer.name, b->sides[side].peer.name, b->sides[ops_first(b)].peer.name, "",
           "dtype", "ranks", "buffers", WIDTH, "geo mean");
    for (int t = 0; t < b->n_results; t++) {
        const struct ops_case *what = &b->results[t].what;
        struct ratios one = {0};
        gather(b, &b->results[t], side, &one);
        gather(b, &b->results[t], side, &all);
        printf("%-15s %-7s %5d %-9s", loop_op_names[what->op], what->dtype->name, what->ranks,
               ops_buffer_names[what->buffers]);
        print_ratios(&one, false);
        printf("\n");
    }
    printf("%-15s %-7s %5s %-9s", "all", "", "", "");
    print_ratios(&all, true);
    printf("\n");
}

void ops_print_summary(const struct ops_bench *b) {
    int first = ops_first(b);

    for (int side = first + 1; first >= 0 && b->n_results > 0 && side < b->n_sides; side++)
        if (ops_usable(b, side)) print_means_of(b, side);
    fflush(stdout);
}
