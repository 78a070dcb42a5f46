/*
 * peers.h - muster and the other libraries, as benchmarks start them. The programs of the others in
 * bench/peers/ are embedded in the tool, and written and compiled in a temporary directory, so that neither
 * building nor installing muster needs them.
 */
#ifndef MUSTER_TOOL_BENCH_PEERS_H
#define MUSTER_TOOL_BENCH_PEERS_H

#include "bench/launch.h"

#include <limits.h>
#include <stddef.h>

enum { BENCH_WHY_MAX = LAUNCH_WHY_MAX };

enum bench_kind {
    BENCH_MUSTER,     /* muster's worker under muster run */
    BENCH_DEVICE,     /* likewise, with buffers on a GPU */
    BENCH_MUSTER_MPI, /* muster's worker under mpirun */
    BENCH_MPI,        /* an MPI called directly */
    BENCH_TORCH,      /* torch's gloo called directly */
};

struct bench_peer {
    const char *name;   /* on the command line and in CSV and JSON */
    const char *label;  /* in tables */
    const char *engine; /* the .backend of mst_init; NULL: not through muster */
    enum bench_kind kind;
    bool openmpi;                /* the mpirun of Open MPI starts it, not that of MPICH */
    const char *const *settings; /* arguments of mpirun that tune it for one host; NULL: as installed */
    char version[64];
    char why_not[BENCH_WHY_MAX]; /* why it cannot be measured, or "" */
    char launcher[PATH_MAX], program[PATH_MAX];
};

struct bench_place {
    char self[PATH_MAX]; /* the muster program */
    char dir[64];        /* temporary */
    const char *python;
};

/*
 * Calls launch_open, creates the temporary directory and removes those of benchmarks that were killed. Sets
 * the variables that the launchers of the peers need. False with the reason on stderr.
 */
bool peers_open(struct bench_place *place, const char *python);
/* Removes the directory and calls launch_close. */
void peers_close(const struct bench_place *place);

/* A source file. The list of a program ends with name NULL; its first entry is run or compiled. */
struct bench_source {
    const char *name, *text;
};

/*
 * Prepares a peer or sets why_not. False: the user interrupts. A program prints the version of its library if
 * it runs without arguments. mpirun and mpicc are searched as mpirun.NAME and mpicc.NAME first.
 */
bool peers_prepare(struct bench_peer *peer, const struct bench_place *place, const struct bench_source *mpi,
                   const struct bench_source *torch);

/* A command; ranks and hosts are storage for two of its arguments. */
enum { BENCH_ARGV_MOST = 40 };
struct bench_argv {
    const char *args[BENCH_ARGV_MOST];
    int n;
    char ranks[16], hosts[16];
};
#define peers_add(argv, ...) peers_add_args(argv, (const char *[]){__VA_ARGS__, NULL})
void peers_add_args(struct bench_argv *argv, const char *const *args);

/*
 * Adds the launcher of a peer, with ranks on simulated hosts, and the program of a library that is called
 * directly.
 */
void peers_add_launcher(struct bench_argv *argv, const struct bench_place *place,
                        const struct bench_peer *peer, int ranks, int hosts);

#endif
