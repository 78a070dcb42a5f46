/*
 * ops.h - what the parts of "muster bench OPERATION" share.
 *
 *   ops.c           which tables there are, and who runs when
 *   options.c   the command line
 *   backends.c     the backends: their names, whether they can be used here, how they are started
 *   trial.c      one turn of one side: its command, and what its ranks found
 *   worker.c    what muster's own ranks run
 *   report.c    tables and the summary
 *   files.c     JSON and CSV
 *   plot.c          the picture
 *   floor.c         the least time that an operation can take
 *
 * A side is one backend. A table is one operation of one dtype with so many ranks and one kind of buffers. Its sides take turns:
 * each turn starts the side's ranks once, and they measure all sizes with the loop in bench/peers/loop.h. All of it runs on the
 * main thread.
 */
#ifndef MUSTER_TOOL_BENCH_OPS_OPS_H
#define MUSTER_TOOL_BENCH_OPS_OPS_H

#include "bench/limits.h"
#include "bench/peers.h"
#include "loop_data.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    OPS_ROUNDS_MOST = 100,
    OPS_SIZES_MOST = 40,
    OPS_RANKS_MOST = 1024,
    OPS_LIST_MOST = 16,
    OPS_SIDES_MOST = 8
};

/* What there is to know about an operation besides its name, loop_op_names[]. */
struct ops_fact {
    bool blocks;        /* the buffer is as many blocks as there are ranks */
    double bus, shrink; /* bus bandwidth is the algorithm's by bus - shrink / ranks */
};
extern const struct ops_fact ops_facts[LOOP_OPS];

enum ops_buffers { OPS_HOT, OPS_ROTATE, OPS_SYMMETRIC, OPS_BUFFERS };
extern const char *const ops_buffer_names[OPS_BUFFERS];

enum ops_kind {
    OPS_MUSTER,     /* muster's worker under muster run */
    OPS_MUSTER_MPI, /* muster's worker under an mpirun */
    OPS_DEVICE,     /* muster's worker with buffers on a device */
    OPS_MPI,        /* an MPI called directly */
    OPS_TORCH,      /* torch's gloo called directly */
};

struct ops_side {
    struct bench_peer peer;
    enum ops_kind kind;
    const char *engine; /* as mst_init's .backend; NULL: not through muster */
    bool openmpi;       /* whose mpirun starts it */
};

/* What a side took at one size, in microseconds, in each round. */
struct ops_cell {
    double us[OPS_ROUNDS_MOST], p99[OPS_ROUNDS_MOST];
    int n;
    size_t wrong; /* elements, over all ranks and rounds */
};

/* What is measured in one table. */
struct ops_case {
    enum loop_op op;
    const struct loop_dtype *dtype;
    int ranks, hosts;
    enum ops_buffers buffers;
    size_t bytes[OPS_SIZES_MOST], asked[OPS_SIZES_MOST]; /* what is measured in place of what was asked for */
    size_t unit;                                         /* of which sizes are multiples */
    int n_sizes;
};

struct ops_table {
    struct ops_case what;
    struct ops_cell cells[OPS_SIDES_MOST][OPS_SIZES_MOST];
    /* No further turns, because; both empty: all is well. */
    char why[OPS_SIDES_MOST][BENCH_WHY_MAX], unsupported[OPS_SIDES_MOST][BENCH_WHY_MAX];
    char wrong[OPS_SIDES_MOST][BENCH_WHY_MAX]; /* the first wrong element, for people */
};

/* A table that is over: medians over the rounds; us 0: not measured. */
struct ops_result {
    struct ops_case what;
    struct ops_figure {
        double us, p99;
        size_t wrong;
    } at[OPS_SIDES_MOST][OPS_SIZES_MOST];
};

struct ops_bench {
    struct ops_side sides[OPS_SIDES_MOST];
    int n_sides;
    bool ops[LOOP_OPS], buffers[OPS_BUFFERS];
    const struct loop_dtype *dtypes[LOOP_DTYPES];
    int n_dtypes, ranks[OPS_LIST_MOST], n_ranks, hosts, rounds;
    size_t min, max, step, cache; /* bytes; step is a factor */
    bool bind;
    double budget, limit; /* seconds of one measurement, and that one turn may take */
    FILE *json, *csv, *plot;
    const char *python;
    struct bench_limits *limits; /* NULL: shares are not wanted */
    char self[PATH_MAX];         /* the muster program */
    char dir[BENCH_DIR_MAX];
    struct ops_table table; /* the one under way */
    struct ops_result *results;
    int n_results;
    int turns, tries,
        turns_in_all;   /* turns begun, those before the first table, and how many follow at most */
    bool failed, wrong; /* one of muster's own sides failed; a result was wrong */
};

/* Reads the command line; OPT_PROCEED or the exit status. Files are opened, so that one that cannot be written is known at once. */
int ops_read_options(struct ops_bench *bench, int argc, char **argv);

/*
 * The side that a name stands for: one that is known, or a module of somebody's own that muster finds; false: none, and *near gets
 * the name that was perhaps meant, or NULL.
 */
bool ops_find_side(const char *name, struct ops_side *side, const char **near);
/* The names that there are, of those through muster or of the others, for people; returns out. */
enum { OPS_NAMES_MAX = 1200 };
const char *ops_side_names(bool through_muster, char *out, size_t size);
/* Makes the sides ready, or notes why one cannot be; false if the user wants to end. */
bool ops_prepare(struct ops_bench *bench);
/* The words that start the ranks of a side, up to those of loop.h. */
enum { OPS_ARGV_MOST = 40 };
struct ops_argv {
    const char *words[OPS_ARGV_MOST];
    int n;
    char ranks[16], hosts[16];
};
void ops_add_words(struct ops_argv *argv, const char *const *words);
void ops_add_launcher(const struct ops_bench *bench, const struct ops_side *side, const struct ops_case *what,
                      struct ops_argv *argv);
/* Can this side be measured here? */
bool ops_usable(const struct ops_bench *bench, int side);
/* The first that can be, to which the others are compared; -1: none. */
int ops_first(const struct ops_bench *bench);

/* One turn of a side: adds a sample to its cells, or says in why what became of it. False: the user wants to end. */
bool ops_turn(struct ops_bench *bench, int side);
/* A turn for nothing: can the side be used at all? */
bool ops_try(struct ops_bench *bench, int side);

/* The hidden command: --worker and the words of one of muster's ranks. */
int ops_worker(int argc, char **argv);

/* Median over the rounds of a cell that has any. */
struct ops_figure ops_figure_of(const struct ops_cell *cell);
/* Bandwidths as nccl-tests defines them, in GB/s; 0 where there is nothing to compute. */
double ops_algbw(const struct ops_case *what, int size, double us);
double ops_busbw(const struct ops_case *what, int size, double us);
/* How many times as long as the first side another takes; 0: one of them was not measured. */
double ops_ratio(const struct ops_bench *bench, const struct ops_result *result, int other, int size);

void ops_print_head(const struct ops_bench *bench);
void ops_print_result(const struct ops_bench *bench, const struct ops_result *result);
void ops_print_summary(const struct ops_bench *bench);
void ops_write_files(const struct ops_bench *bench, const struct ops_result *result);

/* Draws latency and bandwidth over size, a line for each side. */
void bench_plot(const struct ops_bench *bench, FILE *out);

/* Microseconds that the operation takes at least on a machine with these limits. */
double bench_floor(const struct bench_limits *limits, const struct ops_case *what, size_t bytes);

#endif
