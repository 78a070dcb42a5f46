/* report.c - prints the results of "muster bench init" as tables, CSV and JSON. See init.h. */
#include "base/median.h"
#include "bench/init/init.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMN = 25, CELL_MAX = 160 };

static const char *const outcome_names[] = {
    [LAUNCH_DONE] = "fine", [LAUNCH_FAILED] = "failed", [LAUNCH_TIME_UP] = "too slow"};

static const char *const metric_names[INIT_METRICS] = {"first_barrier", "wall"};
static const char *const titles[INIT_METRICS] = {
    "From main of the last rank to the end of the first barrier, in milliseconds",
    "The whole command, from the start of the launcher to its exit, in milliseconds"};

struct summary {
    double median, min, max; /* milliseconds */
};

static struct summary summarise(const struct init_case *c, int m) {
    double sorted[INIT_RUNS_MOST] = {0};
    int n = c->runs;
    memcpy(sorted, c->samples[m], (size_t)n * sizeof sorted[0]);
    double median = msi_median(sorted, n);
    return (struct summary){median * 1e3, sorted[0] * 1e3, sorted[n - 1] * 1e3};
}

static const struct init_case *find_case(const struct init_bench *b, int backend, int ranks) {
    for (int i = 0; i < b->n_cases; i++)
        if ((int)b->cases[i].backend == backend && b->cases[i].ranks == ranks) return &b->cases[i];
    return NULL;
}

/* For about three significant digits. */
static int decimals(double ms) {
    return ms < 10 ? 2 : ms < 100 ? 1 : 0;
}

/* The text of a case in a table; returns cell. */
static const char *write_cell(const struct init_bench *b, const struct init_case *c, int m,
                              char cell[CELL_MAX]) {
    char runs[24] = "";
    snprintf(cell, CELL_MAX, "%s", !c ? "-" : "failed");
    if (c && c->outcome == LAUNCH_TIME_UP) snprintf(cell, CELL_MAX, "> %g s", b->o.limit);
    if (!c || c->outcome != LAUNCH_DONE) return cell;
    struct summary s = summarise(c, m);
    if (c->runs < b->o.runs) snprintf(runs, sizeof runs, ", n=%d", c->runs);
    if (c->runs == 1)
        snprintf(cell, CELL_MAX, "%.*f (n=1)", decimals(s.median), s.median);
    else
        snprintf(cell, CELL_MAX, "%.*f (%.*f-%.*f%s)", decimals(s.median), s.median, decimals(s.min), s.min,
                 decimals(s.max), s.max, runs);
    return cell;
}

/* Prints the time of the fastest peer divided by that of muster, and the peer. */
static void print_ratio(const struct init_bench *b, int ranks, int m) {
    double medians[INIT_PEERS] = {0}; /* 0: not measured */
    int fastest = INIT_MUSTER;
    for (int backend = 0; backend < INIT_PEERS; backend++) {
        const struct init_case *c = find_case(b, backend, ranks);
        if (c && c->outcome == LAUNCH_DONE) medians[backend] = summarise(c, m).median;
        if (medians[backend] > 0 && (fastest == INIT_MUSTER || medians[backend] < medians[fastest]))
            fastest = backend;
    }
    double ratio = medians[INIT_MUSTER] > 0 ? medians[fastest] / medians[INIT_MUSTER] : 0;
    if (fastest == INIT_MUSTER || ratio <= 0)
        printf("-\n");
    else
        printf("%.*fx (%s)\n", ratio < 10 ? 1 : 0, ratio, b->peers[fastest].label);
}

static bool shown(const struct init_bench *b, int backend) {
    return b->wanted[backend] && b->peers[backend].why_not[0] == '\0';
}

static void print_table(const struct init_bench *b, int m) {
    char cell[CELL_MAX];
    printf("\n%s\n%-10s", titles[m], "processes");
    for (int backend = 0; backend < INIT_PEERS; backend++)
        if (shown(b, backend)) printf("%-*s", COLUMN, b->peers[backend].label);
    printf("best peer / muster\n");
    for (int i = 0; i < b->sizes.n; i++) {
        printf("%-10d", b->sizes.at[i]);
        for (int backend = 0; backend < INIT_PEERS; backend++) {
            const struct init_case *c = find_case(b, backend, b->sizes.at[i]);
            if (shown(b, backend)) printf("%-*s", COLUMN, write_cell(b, c, m, cell));
        }
        print_ratio(b, b->sizes.at[i], m);
    }
}

static void print_threads(const struct init_bench *b) {
    char barrier[CELL_MAX], wall[CELL_MAX];
    if (b->o.threads == 0) return;
    printf("\n%ld thread-ranks of muster in one process, in milliseconds\n%-20s%-*s%s\n", b->o.threads, "",
           COLUMN, "last start to barrier", "whole process");
    for (int backend = INIT_PEERS; backend < INIT_BACKENDS; backend++) {
        const struct init_case *c = find_case(b, backend, (int)b->o.threads);
        printf("%-20s%-*s%s\n", b->peers[backend].label, COLUMN, write_cell(b, c, INIT_BARRIER, barrier),
               write_cell(b, c, INIT_WALL, wall));
    }
}

static void print_notes(const struct init_bench *b) {
    printf("\n");
    for (int backend = 0; backend < INIT_PEERS; backend++)
        if (b->wanted[backend] && !shown(b, backend))
            printf("%s is skipped: %s\n", b->peers[backend].label, b->peers[backend].why_not);
    for (int i = 0; i < b->n_cases; i++)
        if (b->cases[i].outcome == LAUNCH_FAILED)
            printf("%s with %d ranks failed: %s\n", b->peers[b->cases[i].backend].label, b->cases[i].ranks,
                   b->cases[i].why);
    printf("Every rank initialises, passes one barrier and finalises.\n");
    if (shown(b, INIT_TORCH))
        printf("torch: the first table excludes Python's start and imports; measured with up to %d "
               "processes.\n",
               b->torch_most);
}

void init_print_tables(const struct init_bench *b) {
    char machine[BENCH_MACHINE_TEXT];
    printf("start-up on %s\n", bench_machine(machine));
    for (int backend = 0; backend < INIT_PEERS; backend++)
        if (shown(b, backend)) printf("%s %s; ", b->peers[backend].label, b->peers[backend].version);
    printf("median (min-max) of %ld run%s, all backends in each round; n=: fewer runs\n", b->o.runs,
           b->o.runs == 1 ? "" : "s");
    for (int m = 0; m < INIT_METRICS; m++) print_table(b, m);
    print_threads(b);
    print_notes(b);
}

void init_write_csv(const struct init_bench *b, FILE *file) {
    fprintf(file, "backend,version,ranks,metric,median_ms,min_ms,max_ms,runs,outcome\n");
    for (int i = 0; i < b->n_cases; i++)
        for (int m = 0; m < INIT_METRICS; m++) {
            const struct init_case *c = &b->cases[i];
            const struct bench_peer *peer = &b->peers[c->backend];
            fprintf(file, "%s,%s,%d,%s,", peer->name, peer->version, c->ranks, metric_names[m]);
            if (c->runs > 0) {
                struct summary s = summarise(c, m);
                fprintf(file, "%.3f,%.3f,%.3f", s.median, s.min, s.max);
            } else {
                fprintf(file, ",,");
            }
            fprintf(file, ",%d,%s\n", c->runs, outcome_names[c->outcome]);
        }
}

static void put_case(const struct init_bench *b, const struct init_case *c, struct msi_json_out *out) {
    msi_json_put_object(out);
    msi_json_member_string(out, "backend", b->peers[c->backend].name);
    msi_json_member_int(out, "ranks", c->ranks);
    msi_json_member_string(out, "outcome", outcome_names[c->outcome]);
    if (c->outcome == LAUNCH_FAILED) msi_json_member_string(out, "because", c->why);
    for (int m = 0; m < INIT_METRICS; m++) {
        char name[32];
        snprintf(name, sizeof name, "%s_seconds", metric_names[m]);
        msi_json_member_array(out, name);
        for (int i = 0; i < c->runs; i++) msi_json_put_double(out, c->samples[m][i], 9);
        msi_json_put_array_end(out);
    }
    msi_json_put_object_end(out);
}

void init_print_json(const struct init_bench *b) {
    struct msi_buf json = {0};
    struct msi_json_out out = msi_json_to(&json);
    char machine[BENCH_MACHINE_TEXT];
    msi_json_put_object(&out);
    msi_json_member_string(&out, "machine", bench_machine(machine));
    msi_json_member_object(&out, "peers");
    for (int backend = 0; backend < INIT_PEERS; backend++) {
        const struct bench_peer *peer = &b->peers[backend];
        if (!b->wanted[backend]) continue;
        msi_json_member_object(&out, peer->name);
        msi_json_member_string(&out, shown(b, backend) ? "version" : "skipped",
                               shown(b, backend) ? peer->version : peer->why_not);
        msi_json_put_object_end(&out);
    }
    msi_json_put_object_end(&out);
    msi_json_member_array(&out, "cases");
    for (int i = 0; i < b->n_cases; i++) put_case(b, &b->cases[i], &out);
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    bench_write_line(&json, stdout);
}
