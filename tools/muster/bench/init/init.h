/*
 * init.h - what the parts of "muster bench init" share.
 *
 *   init.c         the command line, and who runs when
 *   peers.c   who is measured, and with which command
 *   worker.c  what muster's own ranks run
 *   report.c  the tables, CSV and JSON
 *
 * Every rank, whoever's it is, appends a line "START END" to a file, the marks: CLOCK_MONOTONIC in
 * nanoseconds when its main began (torch: when all ranks had imported torch; threads: when the thread began)
 * and when its first barrier was over. All of it runs on the main thread.
 */
#ifndef MUSTER_TOOL_BENCH_INIT_INIT_H
#define MUSTER_TOOL_BENCH_INIT_INIT_H

#include "bench/peers.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { INIT_RUNS_MOST = 100, INIT_SIZES_MOST = 16 };

/* Who is measured. Those below INIT_PEERS start processes and are compared with each other. */
enum init_who {
    INIT_MUSTER,
    INIT_OPENMPI,
    INIT_MPICH,
    INIT_TORCH,
    INIT_PEERS,
    INIT_THREADS_HASH = INIT_PEERS,
    INIT_THREADS_TCP,
    INIT_WHO_COUNT,
};

enum init_outcome { INIT_FINE, INIT_TOO_SLOW, INIT_FAILED };
extern const char *const init_outcome_names[];

/* One peer at one size. Samples are seconds. */
struct init_case {
    enum init_who who;
    int ranks, runs;
    double
        barrier[INIT_RUNS_MOST]; /* from the last rank's main to the end of the last rank's first barrier */
    double wall[INIT_RUNS_MOST]; /* of the whole command */
    double spent;                /* seconds, failed runs included */
    enum init_outcome outcome;
    char why[BENCH_WHY_MAX]; /* it failed */
};

struct init_bench {
    int runs;     /* of each case */
    double limit; /* seconds that one command may take */
    double patience;
    int sizes[INIT_SIZES_MOST], n_sizes;
    struct bench_peer peers[INIT_WHO_COUNT];
    struct init_case *cases;
    int n_cases;
    char self[PATH_MAX];     /* the muster program */
    char dir[BENCH_DIR_MAX]; /* a temporary directory of our own */
};

/* Makes the wanted peers ready, or notes why one cannot be; false if the user wants to end. */
bool init_peers_prepare(struct init_bench *bench, const char *python);

enum { INIT_ARGV_MAX = 12 };

/* Fills argv with the command that runs the case; number keeps its text. */
void init_peer_command(const struct init_bench *bench, const struct init_case *c, const char *marks,
                       char number[16], const char *argv[INIT_ARGV_MAX]);

/* The hidden commands: --worker MARKS, and --thread-ranks MARKS N hash|tcp. */
int init_worker(int argc, char **argv);

void init_print_tables(const struct init_bench *bench);
void init_print_json(const struct init_bench *bench);
void init_write_csv(const struct init_bench *bench, FILE *file);

#endif
