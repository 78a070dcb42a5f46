/*
 * ops.h - shared by the parts of "muster bench OPERATION".
 *
 *   ops.c       the tables and the order of the trials
 *   options.c   the command line
 *   backends.c  the backends: their names, and whether they are usable
 *   trial.c     one trial of one backend: its command, and the results of its ranks
 *   worker.c    the program of muster's own ranks
 *   report.c    tables that compare backends, and the summary;  one_table.c  the table of one backend
 *   files.c     JSON and CSV;  plot.c  SVG
 *
 * A table is one operation of one dtype with a number of ranks and one kind of buffers, in place or out of
 * place. In each round every backend runs one trial, which starts its ranks; they measure all sizes with the
 * loop in bench/peers/loop.h. Backends whose ranks have several threads run one trial with ranks that are
 * bound to processors and one without; the faster setting of a table counts.
 * All of this runs on the main thread.
 */
#ifndef MUSTER_TOOL_BENCH_OPS_OPS_H
#define MUSTER_TOOL_BENCH_OPS_OPS_H

#include "bench/limits.h"
#include "bench/peers.h"
#include "loop_data.h"

enum { OPS_ROUNDS_MOST = 100, OPS_SIZES_MOST = 40, OPS_RANKS_MOST = 1024, OPS_BACKENDS_MOST = 8 };

enum ops_buffers { OPS_HOT, OPS_ROTATE, OPS_SYMMETRIC, OPS_BUFFERS };
extern const char *const ops_buffer_names[OPS_BUFFERS];

/* The parameters of a table. */
struct ops_case {
    enum loop_op op;
    const struct loop_dtype *dtype;
    int ranks, hosts;
    enum ops_buffers buffers;
    bool in_place;
    size_t requested[OPS_SIZES_MOST], unit;
    size_t bytes[OPS_SIZES_MOST]; /* the requested sizes, rounded to multiples of unit */
    int n_sizes;
};

struct ops_table {
    struct ops_case what;
    struct ops_figure {
        double us, p99; /* medians of the rounds; 0: not measured */
        size_t wrong;   /* elements of all ranks and rounds */
    } at[OPS_BACKENDS_MOST][OPS_SIZES_MOST];
    /* Why there are no further trials of a backend, or "". */
    char why[OPS_BACKENDS_MOST][BENCH_WHY_MAX], unsupported[OPS_BACKENDS_MOST][BENCH_WHY_MAX];
    char wrong[OPS_BACKENDS_MOST][BENCH_WHY_MAX]; /* describes the first wrong element */
    bool bound[OPS_BACKENDS_MOST];                /* the ranks were bound to processors */
    double gain[OPS_BACKENDS_MOST]; /* by how much that is faster than the other setting; 0: not tried */
};

/* The times of a backend at one size, in microseconds, one per round. */
struct ops_samples {
    double us[OPS_ROUNDS_MOST], p99[OPS_ROUNDS_MOST];
    int n;
};

struct ops_options {
    const char *backends, *ranks, *bytes, *dtypes, *buffers, *place, *python, *json, *csv, *plot;
    long hosts, rounds;
    double budget, limit; /* seconds of one measurement, and of one trial at most */
    bool bind, limits;
};

struct ops_bench {
    struct ops_options o;
    struct bench_place place;
    struct bench_peer backends[OPS_BACKENDS_MOST]; /* the first is compared with the others */
    int n_backends;
    bool ops[LOOP_OPS], buffers[OPS_BUFFERS];
    const struct loop_dtype *dtypes[LOOP_DTYPES];
    int n_dtypes;
    struct bench_numbers ranks;
    size_t min, max, step, cache; /* bytes; step is the factor between sizes */
    FILE *json, *csv, *plot;
    struct bench_limits limits; /* with --limits */
    struct ops_table table;     /* the current one */
    /* Of the current table, with ranks that are not bound and with bound ranks. */
    struct ops_samples samples[OPS_BACKENDS_MOST][2][OPS_SIZES_MOST];
    struct ops_table *results; /* the finished ones */
    int n_results, n_printed;
    int trials, probes, n_trials; /* started ones; those before the first table; how many follow at most */
    bool failed, wrong;           /* a backend of muster failed; a result was wrong */
};

/* Reads the command line and opens the output files. Returns OPT_PROCEED or the exit status. */
int ops_read_options(struct ops_bench *bench, int argc, char **argv);

/* Finds a known backend or a loadable module of muster. False: *near gets a similar name, or NULL. */
bool ops_find_backend(const char *name, struct bench_peer *backend, const char **near);
/* The names of the backends through muster, or of the others. */
const char *ops_backend_names(bool through_muster);
/* Prepares the backends or sets their why_not. False: the user interrupts. */
bool ops_prepare(struct ops_bench *bench);

/* Empties the current table and its samples. */
void ops_begin_table(struct ops_bench *bench);
/* Is the backend tried with bound ranks and without, because its ranks have several threads? */
bool ops_tries_both(const struct bench_peer *backend);
/* One trial of a backend: adds samples or sets why. False: the user interrupts. */
bool ops_run_trial(struct ops_bench *bench, int backend, bool bound);
/* A short trial that tells whether the backend is usable. */
bool ops_probe(struct ops_bench *bench, int backend);

/* The internal command --worker of muster's own ranks. */
int ops_worker(int argc, char **argv);

/* Bandwidths as in nccl-tests, in GB/s; 0 if us is 0. */
double ops_algbw(const struct ops_case *what, int size, double us);
double ops_busbw(const struct ops_case *what, int size, double us);
/* The time of another backend divided by that of the first; 0: one of them was not measured. */
double ops_ratio(const struct ops_table *table, int other, int size);

/* Is the buffer divided into one block per rank? */
bool ops_has_blocks(enum loop_op op);
/* Is there one backend, whose table has the layout of nccl-tests? */
bool ops_is_alone(const struct ops_bench *bench);
/* Prints the table of one backend; NULL: it has no such form, or it was not measured. */
void ops_print_one(const struct ops_bench *bench, const struct ops_table *out, const struct ops_table *in);
/* Prints operation, dtype, buffers and ranks of a table in a line. place: also whether it is in place. */
void ops_print_case(const struct ops_case *what, bool place);
/* Prints lines about wrong results, failures, missing support and settings of a table. */
void ops_print_notes(const struct ops_bench *bench, const struct ops_table *table);
/* About three significant digits and the unit; "-" for 0. */
enum { OPS_TEXT = 32 };
const char *ops_put(char text[OPS_TEXT], double x, const char *unit);

void ops_print_head(const struct ops_bench *bench);
void ops_print_result(const struct ops_bench *bench, const struct ops_table *table);
void ops_print_summary(const struct ops_bench *bench);
void ops_write_files(const struct ops_bench *bench, const struct ops_table *table);

/* Draws latency and bandwidth over size, a line for each backend. */
void ops_plot(const struct ops_bench *bench, FILE *out);

/* The least time of the operation in microseconds on a machine with these limits. */
double bench_lower_bound(const struct bench_limits *limits, const struct ops_case *what, size_t bytes);

#endif
