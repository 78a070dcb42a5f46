/*
 * bench_coll.h - what the parts of "muster bench coll" share.
 *
 *   bench_coll.c          the command line, and who runs when
 *   bench_coll_turn.c     one turn of one side: its command, and what its ranks found
 *   bench_coll_worker.c   what muster's own ranks run
 *   bench_coll_report.c   tables, the summary and CSV
 *
 * A table is one operation with so many ranks and one kind of buffers. Its sides take turns: each turn starts the side's
 * ranks once, and they measure all sizes with the loop in bench/peers/coll_loop.h. All of it runs on the main thread.
 */
#ifndef MUSTER_TOOL_BENCH_COLL_H
#define MUSTER_TOOL_BENCH_COLL_H

#include "bench_peers.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { COLL_ROUNDS_MOST = 100, COLL_SIZES_MOST = 40, COLL_RANKS_MOST = 1024, COLL_LIST_MOST = 16 };

enum coll_side {
    COLL_MUSTER,
    COLL_ALLOC, /* muster again, with buffers from mst_alloc */
    COLL_PEERS,
    COLL_OPENMPI = COLL_PEERS,
    COLL_MPICH,
    COLL_TORCH,
    COLL_SIDES,
};

struct coll_op {
    const char *name; /* on the command line, and what workers are told */
    const char *title;
    bool blocks;        /* the buffer is as many blocks as there are ranks */
    double bus, shrink; /* bus bandwidth is the algorithm's by bus - shrink / ranks */
};
enum { COLL_OPS = 7 };
extern const struct coll_op coll_ops[COLL_OPS];

/* What one side took at one size, in microseconds, in each round. */
struct coll_cell {
    double us[COLL_ROUNDS_MOST];
    int n;
};

struct coll_table {
    const struct coll_op *op;
    int ranks;
    bool rotating;
    size_t bytes[COLL_SIZES_MOST];
    int n_sizes;
    struct coll_cell cells[COLL_SIDES][COLL_SIZES_MOST];
    /* No further turns, because; both empty: all is well. */
    char why[COLL_SIDES][BENCH_WHY_MAX], unsupported[COLL_SIDES][BENCH_WHY_MAX];
};

/* How a table went: best peer over muster, size by size. */
struct coll_score {
    const struct coll_op *op;
    int ranks;
    bool rotating;
    struct coll_ratios {
        double log_sum, worst;
        int n;
        size_t worst_at;
    } ours[COLL_PEERS];
};

struct coll_bench {
    struct bench_peer peers[COLL_SIDES];
    bool ops[COLL_OPS];
    int ranks[COLL_LIST_MOST], n_ranks, rounds;
    size_t min, max, step, cache; /* bytes; step is a factor */
    bool hot, rotating, tcp, bind, bandwidth;
    double budget, limit; /* seconds of one measurement, and that one turn may take */
    FILE *csv;
    char self[PATH_MAX]; /* the muster program */
    char dir[BENCH_DIR_MAX];
    struct coll_table table; /* the one under way */
    struct coll_score scores[COLL_LIST_MOST * 2 * COLL_OPS];
    int n_scores;
    int turns; /* so far */
};

/* Makes the wanted sides ready, or notes why one cannot be; false if the user wants to end. */
bool coll_prepare(struct coll_bench *bench, const char *python);

/* COLL_WRONG: a side's result was wrong; why[side] says where. COLL_STOPPED: the user wants to end. */
enum coll_verdict { COLL_FINE, COLL_WRONG, COLL_STOPPED };

/* One turn of a side: adds a sample to its cells, or says in why what became of it. */
enum coll_verdict coll_turn(struct coll_bench *bench, enum coll_side side);

/* Can this side be measured here, and was it asked for? */
bool coll_shown(const struct coll_bench *bench, int side);

/* The hidden command: --worker and the words of one of muster's ranks. */
int coll_worker(int argc, char **argv);

void coll_print_head(const struct coll_bench *bench);
/* The table that is complete: printed, added to the CSV file and to the scores. */
void coll_print_table(struct coll_bench *bench);
void coll_print_summary(const struct coll_bench *bench);

#endif
