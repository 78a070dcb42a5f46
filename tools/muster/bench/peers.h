/*
 * peers.h - the other libraries that benchmarks measure. Their programs in bench/peers/ are embedded in the
 * tool, and written and compiled in a temporary directory, so that neither building nor installing muster
 * needs them. Used between launch_open and launch_close. Functions that run commands return false if the user
 * interrupts.
 */
#ifndef MUSTER_TOOL_BENCH_PEERS_H
#define MUSTER_TOOL_BENCH_PEERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { BENCH_WHY_MAX = 300, BENCH_DIR_MAX = 64 };

struct bench_peer {
    const char *name;  /* on the command line and in CSV and JSON */
    const char *label; /* in tables */
    int most;          /* ranks at most */
    bool wanted;
    char version[64];
    char why_not[BENCH_WHY_MAX]; /* why it cannot be measured, or "" */
    char launcher[PATH_MAX], program[PATH_MAX];
};

/* A source file. The list of a program ends with name NULL; its first entry is run or compiled. */
struct bench_source {
    const char *name, *text;
};

/* A command; ranks and hosts are storage for two of its arguments. */
enum { BENCH_ARGV_MOST = 40 };
struct bench_argv {
    const char *args[BENCH_ARGV_MOST];
    int n;
    char ranks[16], hosts[16];
};
/* Adds arguments up to a NULL. */
void peers_add_args(struct bench_argv *argv, const char *const *args);

/* Creates a temporary directory, and removes those of benchmarks that were killed. False with errno. */
bool peers_open_dir(char dir[BENCH_DIR_MAX]);
void peers_remove_dir(const char *dir);

/* Sets the variables that the launchers of the peers need. */
void peers_set_environment(const char *dir);

/*
 * Prepare a peer, or set why_not. The program prints its version if it runs without arguments. An MPI is
 * searched as mpirun.NAME and mpicc.NAME, then as mpirun and mpicc.
 */
bool peers_prepare_mpi(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                       const char *package);
bool peers_prepare_torch(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                         const char *python);

/* Finds the mpirun of openmpi or mpich and its version, or sets why_not. */
bool peers_find_mpirun(struct bench_peer *peer, const char *family, const char *dir);

#endif
