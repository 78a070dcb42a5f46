/*
 * mpi_coll.c - one rank of the MPI side of `muster bench coll`; coll_loop.h says what it does with which words. Without
 * any it prints which MPI this is.
 */
#define _GNU_SOURCE
#include "coll_loop.h"

#include <mpi.h>

static int exchange(const struct loop_call *c, int n) {
    int peer = c->rank ^ 1, status;

    if (peer >= c->size) return 0;
    if ((c->rank & 1) == 0) {
        status = MPI_Send(c->in, n, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
        if (status == 0) status = MPI_Recv(c->out, n, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return status;
    }
    status = MPI_Recv(c->out, n, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return status != 0 ? status : MPI_Send(c->in, n, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
}

static int call(const struct loop_call *c) {
    int n = (int)c->count, block = (int)c->block;

    switch (c->op) {
    case LOOP_ALL_REDUCE:
        return MPI_Allreduce(c->in, c->out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case LOOP_ALL_GATHER:
        return MPI_Allgather(c->in, block, MPI_FLOAT, c->out, block, MPI_FLOAT, MPI_COMM_WORLD);
    case LOOP_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(c->in, c->out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case LOOP_BROADCAST:
        return MPI_Bcast(c->out, n, MPI_FLOAT, c->root, MPI_COMM_WORLD);
    case LOOP_ALL_TO_ALL:
        return MPI_Alltoall(c->in, block, MPI_FLOAT, c->out, block, MPI_FLOAT, MPI_COMM_WORLD);
    case LOOP_SEND_RECV:
        return exchange(c, n);
    default:
        return MPI_Barrier(MPI_COMM_WORLD);
    }
}

static int barrier(void) {
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int longest(double *seconds) {
    return MPI_Allreduce(MPI_IN_PLACE, seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void *alloc(size_t bytes) {
    void *memory;
    return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

static int say_version(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    MPI_Get_library_version(text, &len);
    puts(text);
    return 0;
}

int main(int argc, char **argv) {
    struct loop_side side = {
        .call = call, .barrier = barrier, .longest = longest, .alloc = alloc, .release = free};
    struct loop_plan plan;

    if (argc < 7) return say_version();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &side.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &side.size);
    if (loop_read_plan(argv + 1, &plan) != 0 || loop_run(&side, &plan) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Finalize();
    return 0;
}
