/*
 * init.h - shared by the parts of "muster bench init".
 *
 *   init.c    the command line and the order of the runs
 *   peers.c   the commands of the backends
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

#include <limits.h>

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

enum init_outcome { INIT_FINE, INIT_TOO_SLOW, INIT_FAILED };
extern const char *const init_outcome_names[];

/* One backend at one size. Samples are seconds. */
struct init_case {
    enum init_backend backend;
    int ranks, runs;
    double barrier[INIT_RUNS_MOST]; /* from the start of the last rank to the end of the first barrier */
    double wall[INIT_RUNS_MOST];    /* of the whole command */
    double spent;                   /* seconds in total, with failed runs */
    enum init_outcome outcome;
    char why[BENCH_WHY_MAX]; /* with INIT_FAILED */
};

struct init_bench {
    int runs;        /* of each case */
    double limit;    /* seconds of one command at most */
    double patience; /* no further runs of a case that has taken so many seconds */
    struct bench_numbers sizes;
    struct bench_peer peers[INIT_BACKENDS];
    struct init_case *cases;
    int n_cases;
    char self[PATH_MAX];     /* the muster program */
    char dir[BENCH_DIR_MAX]; /* temporary */
};

/* Prepares the wanted backends or sets their why_not. False: the user interrupts. */
bool init_peers_prepare(struct init_bench *bench, const char *python);

/* Sets the command that runs the case. */
void init_peer_command(const struct init_bench *bench, const struct init_case *c, const char *timestamps,
                       struct bench_argv *argv);

/* The internal commands --worker TIMESTAMPS and --thread-ranks TIMESTAMPS N hash|tcp. */
int init_worker(int argc, char **argv);

void init_print_tables(const struct init_bench *bench);
void init_print_json(const struct init_bench *bench);
void init_write_csv(const struct init_bench *bench, FILE *file);

#endif
