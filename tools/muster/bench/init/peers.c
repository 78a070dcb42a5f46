/* peers.c - prepares the backends and builds their commands. See init.h. */
#include "bench/init/init.h"

#include <muster/version.h>
#include <stdio.h>

extern const char bench_mpi_init_c[], bench_torch_init_py[];

bool init_peers_prepare(struct init_bench *b, const char *python) {
    static const enum init_backend ours[] = {INIT_MUSTER, INIT_THREADS_HASH, INIT_THREADS_TCP};
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

void init_peer_command(const struct init_bench *b, const struct init_case *c, const char *timestamps,
                       struct bench_argv *argv) {
    const struct bench_peer *peer = &b->peers[c->backend];
    const char *self = b->self, *n = argv->ranks;
    snprintf(argv->ranks, sizeof argv->ranks, "%d", c->ranks);
    if (c->backend >= INIT_PEERS) {
        const char *store = c->backend == INIT_THREADS_TCP ? "tcp" : "hash";
        peers_add_args(argv,
                       (const char *[]){self, "bench", "init", "--thread-ranks", timestamps, n, store, NULL});
        return;
    }
    if (c->backend == INIT_MUSTER || c->backend == INIT_TORCH)
        peers_add_args(argv, (const char *[]){self, "run", NULL});
    else
        peers_add_args(argv, (const char *[]){peer->launcher, NULL});
    if (c->backend == INIT_OPENMPI) peers_add_args(argv, (const char *[]){"--oversubscribe", NULL});
    peers_add_args(argv, (const char *[]){"-n", n, NULL});
    if (c->backend == INIT_MUSTER)
        peers_add_args(argv, (const char *[]){self, "bench", "init", "--worker", NULL});
    else if (c->backend == INIT_TORCH)
        peers_add_args(argv, (const char *[]){peer->launcher, peer->program, NULL});
    else
        peers_add_args(argv, (const char *[]){peer->program, NULL});
    peers_add_args(argv, (const char *[]){timestamps, NULL});
}
