/*
 * init.h - shared by the parts of "muster bench init".
 *
 *   init.c    the command line, the backends and the order of the runs
 *   worker.c  the program of muster's own ranks
 *   report.c  tables, CSV and JSON
 *
 * Every rank appends a line "START END" to a file of timestamps: CLOCK_MONOTONIC in nanoseconds at the start
 * of main (torch: after all ranks imported torch; threads: at the start of the thread) and at the end of the
 * first barrier. All of this runs on the main thread.
 */
#ifndef MUSTER_TOOL_BENCH_INIT_INIT_H
#define MUSTER_TOOL_BENCH_INIT_INIT_H

#include "bench/bench.h"
#include "bench/peers.h"

enum { INIT_RUNS_MOST = 100 };

/* What is measured. Backends below INIT_PEERS start processes and are compared with each other. */
enum init_backend {
    INIT_MUSTER,
    INIT_OPENMPI,
    INIT_MPICH,
    INIT_TORCH,
    INIT_PEERS,
    INIT_THREADS_HASH = INIT_PEERS,
    INIT_THREADS_TCP,
    INIT_BACKENDS,
};

enum init_metric {
    INIT_BARRIER, /* from the start of the last rank to the end of the first barrier */
    INIT_WALL,    /* the whole command */
    INIT_METRICS,
};

/* One backend at one size. Samples are seconds. */
struct init_case {
    enum init_backend backend;
    int ranks, runs;
    double samples[INIT_METRICS][INIT_RUNS_MOST];
    double spent;            /* seconds in total, with failed runs */
    enum launch_end outcome; /* of the last run */
    char why[BENCH_WHY_MAX]; /* with LAUNCH_FAILED */
};

struct init_options {
    const char *ranks, *peers, *python, *csv;
    long runs, threads;
    double limit;    /* seconds of one command at most */
    double patience; /* no further runs of a case that has taken so many seconds */
    bool all, json;
};

struct init_bench {
    struct init_options o;
    struct bench_place place;
    struct bench_numbers sizes;
    struct bench_peer peers[INIT_BACKENDS];
    bool wanted[INIT_BACKENDS];
    int torch_most; /* ranks */
    struct init_case cases[BENCH_NUMBERS_MOST * INIT_PEERS + INIT_BACKENDS];
    int n_cases;
};

/* The internal commands --worker TIMESTAMPS and --thread-ranks TIMESTAMPS N hash|tcp. */
int init_worker(int argc, char **argv);

void init_print_tables(const struct init_bench *bench);
void init_print_json(const struct init_bench *bench);
void init_write_csv(const struct init_bench *bench, FILE *file);

#endif
