/* peers.c - who is measured, and with which command; see init.h. */
#include "bench/init/init.h"

#include <muster/version.h>
#include <stdio.h>

extern const char bench_mpi_init_c[], bench_torch_init_py[];

bool init_peers_prepare(struct init_bench *b, const char *python) {
    static const enum init_who ours[] = {INIT_MUSTER, INIT_THREADS_HASH, INIT_THREADS_TCP};
    static const struct bench_source mpi[] = {{"mpi_init.c", bench_mpi_init_c}, {NULL, NULL}};
    static const struct bench_source torch[] = {{"torch_init.py", bench_torch_init_py}, {NULL, NULL}};
    struct bench_peer *peers = b->peers;

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        snprintf(peers[ours[i]].version, sizeof peers[0].version, "%s", mst_version());
    peers_set_environment(b->dir);
    if (peers[INIT_OPENMPI].wanted &&
        !peers_prepare_mpi(&peers[INIT_OPENMPI], b->dir, mpi, "openmpi-bin libopenmpi-dev"))
        return false;
    if (peers[INIT_MPICH].wanted && !peers_prepare_mpi(&peers[INIT_MPICH], b->dir, mpi, "mpich libmpich-dev"))
        return false;
    return !peers[INIT_TORCH].wanted || peers_prepare_torch(&peers[INIT_TORCH], b->dir, torch, python);
}

static void fill(const char *argv[INIT_ARGV_MAX], const char *const *words) {
    int n = 0;

    for (; words[n] != NULL; n++) argv[n] = words[n];
    argv[n] = NULL;
}

void init_peer_command(const struct init_bench *b, const struct init_case *c, const char *marks,
                       char number[16], const char *argv[INIT_ARGV_MAX]) {
    const struct bench_peer *peer = &b->peers[c->who];

    snprintf(number, 16, "%d", c->ranks);
    switch (c->who) {
    case INIT_MUSTER:
        fill(argv, (const char *[]){b->self, "run", "-n", number, b->self, "bench", "init", "--worker", marks,
                                    NULL});
        break;
    case INIT_OPENMPI:
        fill(argv,
             (const char *[]){peer->launcher, "--oversubscribe", "-n", number, peer->program, marks, NULL});
        break;
    case INIT_MPICH:
        fill(argv, (const char *[]){peer->launcher, "-n", number, peer->program, marks, NULL});
        break;
    case INIT_TORCH:
        fill(argv,
             (const char *[]){b->self, "run", "-n", number, peer->launcher, peer->program, marks, NULL});
        break;
    default:
        fill(argv, (const char *[]){b->self, "bench", "init", "--thread-ranks", marks, number,
                                    c->who == INIT_THREADS_TCP ? "tcp" : "hash", NULL});
        break;
    }
}
