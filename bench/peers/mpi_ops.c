/*
 * mpi_ops.c - one rank of an MPI that `muster bench` measures directly. Compiles without muster. loop.h
 * describes its arguments. Without arguments it prints the version of the MPI.
 */
#define _GNU_SOURCE
#include "loop.h"

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>

static MPI_Datatype type;

/* MPI_DATATYPE_NULL: MPI has no such type. */
static MPI_Datatype type_of(const char *dtype) {
    const struct {
        const char *name;
        MPI_Datatype type;
    } known[] = {
        {"c64", MPI_C_FLOAT_COMPLEX}, {"c128", MPI_C_DOUBLE_COMPLEX},
        {"f32", MPI_FLOAT},           {"f64", MPI_DOUBLE},
        {"i8", MPI_INT8_T},           {"u8", MPI_UINT8_T},
        {"i16", MPI_INT16_T},         {"u16", MPI_UINT16_T},
        {"i32", MPI_INT32_T},         {"u32", MPI_UINT32_T},
        {"i64", MPI_INT64_T},         {"u64", MPI_UINT64_T},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, dtype) == 0) return known[i].type;
    return MPI_DATATYPE_NULL;
}

static int exchange(const struct loop_call *c, int n) {
    int peer = c->rank ^ 1, status;
    if (peer >= c->size) return 0;
    if ((c->rank & 1) == 0) {
        status = MPI_Send(c->in, n, type, peer, 0, MPI_COMM_WORLD);
        if (status == 0) status = MPI_Recv(c->out, n, type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return status;
    }
    status = MPI_Recv(c->out, n, type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return status != 0 ? status : MPI_Send(c->in, n, type, peer, 0, MPI_COMM_WORLD);
}

static int call(const struct loop_call *c) {
    int n = (int)c->count, block = (int)c->block;
    bool is_root = c->rank == c->root;
    const void *in = c->in_place ? MPI_IN_PLACE : c->in, *root_in = is_root ? in : c->in;
    if (c->count > INT_MAX) return MPI_ERR_COUNT;

    switch (c->op) {
    case LOOP_ALL_REDUCE:
        return MPI_Allreduce(in, c->out, n, type, MPI_SUM, MPI_COMM_WORLD);
    case LOOP_ALL_GATHER:
        return MPI_Allgather(in, block, type, c->out, block, type, MPI_COMM_WORLD);
    case LOOP_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(in, c->out, block, type, MPI_SUM, MPI_COMM_WORLD);
    case LOOP_BROADCAST:
        return MPI_Bcast(c->out, n, type, c->root, MPI_COMM_WORLD);
    case LOOP_REDUCE:
        return MPI_Reduce(root_in, c->out, n, type, MPI_SUM, c->root, MPI_COMM_WORLD);
    case LOOP_GATHER:
        return MPI_Gather(root_in, block, type, c->out, block, type, c->root, MPI_COMM_WORLD);
    case LOOP_SCATTER:
        return MPI_Scatter(c->in, block, type, c->in_place && is_root ? MPI_IN_PLACE : c->out, block, type,
                           c->root, MPI_COMM_WORLD);
    case LOOP_ALL_TO_ALL:
        return MPI_Alltoall(in, block, type, c->out, block, type, MPI_COMM_WORLD);
    case LOOP_SEND_RECV:
        return exchange(c, n);
    default:
        return MPI_Barrier(MPI_COMM_WORLD);
    }
}

static int barrier(void) {
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int max_over_ranks(double *seconds) {
    return MPI_Allreduce(MPI_IN_PLACE, seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void *alloc(size_t bytes) {
    void *memory;
    return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

static int print_version(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    MPI_Get_library_version(text, &len);
    puts(text);
    return 0;
}

static int measure(const struct loop_backend *backend, char **args) {
    struct loop_plan plan;
    char line[64];
    if (loop_read_plan(args, &plan) != 0) return LOOP_MISTAKE;
    type = type_of(plan.dtype->name);
    if (type != MPI_DATATYPE_NULL) return loop_run(backend, &plan);
    snprintf(line, sizeof line, "unsupported MPI has no %s", plan.dtype->name);
    if (backend->rank == 0) loop_append(&plan, line);
    return LOOP_UNSUPPORTED;
}

int main(int argc, char **argv) {
    struct loop_backend backend = {.result_first = 1,
                                   .call = call,
                                   .barrier = barrier,
                                   .max_over_ranks = max_over_ranks,
                                   .alloc = alloc,
                                   .release = free,
                                   .copy = memcpy};
    if (argc <= LOOP_ARGS) return print_version();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &backend.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &backend.size);
    int status = measure(&backend, argv + 1);
    if (status != 0 && status != LOOP_UNSUPPORTED) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Finalize();
    return 0;
}
