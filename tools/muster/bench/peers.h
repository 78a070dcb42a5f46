/*
 * peers.h - the other libraries that benchmarks measure beside muster. Their programs are in bench/peers/, which
 * the build embeds; they are written out and compiled in a temporary directory, so that neither building nor
 * installing muster needs a peer. Runs between launch_open and launch_close.
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
    int most;          /* ranks */
    bool wanted;
    char version[64];
    char why_not[BENCH_WHY_MAX]; /* why it cannot be measured; empty if it can */
    char launcher[PATH_MAX], program[PATH_MAX];
};

/* A file to write out; the list of a program ends with name NULL, and its first entry is what is run or compiled. */
struct bench_source {
    const char *name, *text;
};

/*
 * A temporary directory of the benchmark's own, behind launch_open, so that no signal leaves it; those that killed benchmarks have left
 * are removed. False with errno.
 */
bool peers_open_dir(char dir[BENCH_DIR_MAX]);
void peers_remove_dir(const char *dir);

/* What the peers' launchers need to know from the environment. */
void peers_set_environment(const char *dir);

/*
 * Make one peer ready, or note in why_not why it cannot be; false if the user wants to end. The program says its
 * version when it is run alone. An MPI is sought as mpirun.NAME and mpicc.NAME, then as mpirun and mpicc.
 */
bool peers_prepare_mpi(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                       const char *package);
bool peers_prepare_torch(struct bench_peer *peer, const char *dir, const struct bench_source *sources,
                         const char *python);

/* Finds the mpirun of openmpi or mpich and its version, or notes why it is not there; false if the user wants to end. */
bool peers_find_mpirun(struct bench_peer *peer, const char *family, const char *dir);

/* Copies the next word of a comma-separated list; false at its end. */
bool peers_next_word(const char **list, char word[32]);

/* The processor, its cores and the system, for the head of a table. */
void peers_write_machine(char *out, size_t size);

#endif
