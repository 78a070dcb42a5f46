/*
 * engine_calls.c - each kind of operation as one MPI call. Operations that only move data use bytes. If a
 * count exceeds an int, equal blocks become one element of a large datatype; engine_large.c has the other
 * large operations.
 */
#include "engine.h"

#include <string.h>

/* Calls the blocking or the non-blocking form, with the same arguments. */
#define EITHER(f, blocking_form, form, ...)                                                                  \
    ((f)->blocking ? blocking_form(__VA_ARGS__) : ((f)->n = 1, form(__VA_ARGS__, &(f)->one)))

size_t msm_total(const size_t *counts, size_t count, int ranks) {
    size_t sum = 0;
    if (!counts) return count * (size_t)ranks;
    for (int r = 0; r < ranks; r++) sum += counts[r];
    return sum;
}

bool msm_is_large(const mst_backend_engine *engine, const mst_backend_op *op) {
    size_t in = msm_total(op->in_counts, op->count, engine->ranks);
    size_t out = msm_total(op->out_counts, op->count, engine->ranks);
    switch (op->kind) {
    case MST_KIND_BARRIER:
        return false;
    case MST_KIND_ALL_REDUCE:
    case MST_KIND_REDUCE:
        return op->count > msm_limit;
    case MST_KIND_REDUCE_SCATTER:
        return in > msm_limit;
    case MST_KIND_ALL_GATHER: /* count is known to this rank alone if the blocks differ */
        return out * op->element > msm_limit;
    case MST_KIND_BROADCAST:
    case MST_KIND_SEND:
    case MST_KIND_RECV:
        return op->count * op->element > msm_limit;
    default:
        return (in > out ? in : out) * op->element > msm_limit;
    }
}

/* The block of a rank in a buffer of equal blocks. */
static char *block(const void *base, int rank, size_t bytes) {
    return (char *)(uintptr_t)base + (size_t)rank * bytes;
}

static void copy_own(void *out, const void *in, size_t bytes) {
    if (out && in && out != in && bytes) memcpy(out, in, bytes);
}

static int broadcast(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    if (e->rank == op->root) copy_own(op->out, op->in, op->count * op->element);
    void *buf = e->rank == op->root && !op->out ? (void *)(uintptr_t)op->in : op->out;
    return EITHER(f, MPI_Bcast, MPI_Ibcast, buf, f->count, f->type, op->root, e->comm);
}

static int all_reduce(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    return EITHER(f, MPI_Allreduce, MPI_Iallreduce, msm_in(op->in, op->in == op->out), op->out, f->count,
                  f->type, f->how, e->comm);
}

static int reduce(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    bool root = e->rank == op->root;
    return EITHER(f, MPI_Reduce, MPI_Ireduce, msm_in(op->in, root && op->in == op->out),
                  root ? op->out : NULL, f->count, f->type, f->how, op->root, e->comm);
}

/* Fills in counts and displacements of all ranks, in units of so many bytes. */
static void fill(int *counts, int *starts, const size_t *given, size_t count, int ranks, size_t unit) {
    size_t at = 0;
    for (int r = 0; r < ranks; r++) {
        counts[r] = (int)(msm_count(given, count, r) * unit);
        starts[r] = (int)at;
        at += (size_t)counts[r];
    }
}

static int all_gather_uneven(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    if (!msm_request_ints(e, f)) return MPI_ERR_NO_MEM;
    int *counts = f->ints, *starts = counts + e->ranks;
    fill(counts, starts, op->out_counts, op->count, e->ranks, op->element);
    bool in_place = op->in == (const char *)op->out + starts[e->rank];
    return EITHER(f, MPI_Allgatherv, MPI_Iallgatherv, msm_in(op->in, in_place), counts[e->rank], MPI_BYTE,
                  op->out, counts, starts, MPI_BYTE, e->comm);
}

static int all_gather(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    if (op->out_counts) return all_gather_uneven(e, f);
    bool in_place = op->in == block(op->out, e->rank, op->count * op->element);
    return EITHER(f, MPI_Allgather, MPI_Iallgather, msm_in(op->in, in_place), f->count, f->type, op->out,
                  f->count, f->type, e->comm);
}

/*
 * In place, MPI writes the result to the start of the input. muster's result is this rank's block of the
 * input, and the rest must not change. So the result goes to a scratch buffer.
 */
static int reduce_scatter(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    const char *in = op->in, *out = op->out;
    size_t own = msm_count(op->in_counts, op->count, e->rank);
    size_t all = msm_total(op->in_counts, op->count, e->ranks) * op->element;
    bool overlaps = out && out >= in && out < in + all;
    if (overlaps && !msm_request_scratch(f, own * op->element)) return MPI_ERR_NO_MEM;
    void *to = overlaps ? f->scratch : op->out;
    if (!op->in_counts)
        return EITHER(f, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, in, to, f->count, f->type,
                      f->how, e->comm);
    if (!msm_request_ints(e, f)) return MPI_ERR_NO_MEM;
    fill(f->ints, f->ints + e->ranks, op->in_counts, op->count, e->ranks, 1);
    return EITHER(f, MPI_Reduce_scatter, MPI_Ireduce_scatter, in, to, f->ints, f->type, f->how, e->comm);
}

/*
 * Always MPI_Ialltoallw: a rank does not know whether the operation is large for another rank, large
 * operations need the w-form, and the form must be the same on all ranks.
 */
static int all_to_all_uneven(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    if (!msm_request_ints(e, f)) return MPI_ERR_NO_MEM;
    int *to = f->ints, *from = to + 2 * e->ranks;
    fill(to, to + e->ranks, op->in_counts, op->count, e->ranks, op->element);
    fill(from, from + e->ranks, op->out_counts, op->count, e->ranks, op->element);
    f->n = 1;
    return MPI_Ialltoallw(op->in, to, to + e->ranks, e->bytes, op->out, from, from + e->ranks, e->bytes,
                          e->comm, &f->one);
}

static int all_to_all(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    if (op->in_counts || op->out_counts) return all_to_all_uneven(e, f);
    return EITHER(f, MPI_Alltoall, MPI_Ialltoall, op->in, f->count, f->type, op->out, f->count, f->type,
                  e->comm);
}

static int gather(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    bool root = e->rank == op->root;
    bool in_place = root && op->in == block(op->out, e->rank, op->count * op->element);
    return EITHER(f, MPI_Gather, MPI_Igather, msm_in(op->in, in_place), f->count, f->type,
                  root ? op->out : NULL, f->count, f->type, op->root, e->comm);
}

static int scatter(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    bool root = e->rank == op->root;
    bool in_place = root && op->out == block(op->in, e->rank, op->count * op->element);
    return EITHER(f, MPI_Scatter, MPI_Iscatter, root ? op->in : NULL, f->count, f->type,
                  in_place ? MPI_IN_PLACE : op->out, f->count, f->type, op->root, e->comm);
}

static int message(mst_backend_engine *e, struct msm_request *f) {
    const mst_backend_op *op = f->op;
    bool internal = op->tag == MST_INTERNAL_TAG;
    MPI_Comm comm = internal ? e->comm : e->messages;
    int peer = msm_source(op), tag = internal ? 0 : msm_tag(op);
    f->n = 1;
    if (op->kind == MST_KIND_SEND) return MPI_Isend(op->in, f->count, f->type, peer, tag, comm, &f->one);
    return MPI_Irecv(op->out, f->count, f->type, peer, tag, comm, &f->one);
}

static int barrier(mst_backend_engine *e, struct msm_request *f) {
    return EITHER(f, MPI_Barrier, MPI_Ibarrier, e->comm);
}

static const msm_starter starters[MST_KIND_COUNT] = {
    [MST_KIND_BARRIER] = barrier,       [MST_KIND_BROADCAST] = broadcast,
    [MST_KIND_ALL_REDUCE] = all_reduce, [MST_KIND_REDUCE] = reduce,
    [MST_KIND_ALL_GATHER] = all_gather, [MST_KIND_REDUCE_SCATTER] = reduce_scatter,
    [MST_KIND_ALL_TO_ALL] = all_to_all, [MST_KIND_GATHER] = gather,
    [MST_KIND_SCATTER] = scatter,       [MST_KIND_SEND] = message,
    [MST_KIND_RECV] = message,
};

/* Sets the MPI count and datatype of a block of bytes. Returns an MPI error code. */
static int set_block(struct msm_request *f) {
    size_t bytes = f->op->count * f->op->element;
    f->count = f->large ? 1 : (int)bytes;
    f->type = MPI_BYTE;
    if (!f->large) return MPI_SUCCESS;
    if (!msm_request_types(f, 1)) return MPI_ERR_NO_MEM;
    int rc = msm_type_bytes_at(0, bytes, &f->types[0]);
    f->type = f->types[0];
    return rc;
}

int msm_start_request(mst_backend_engine *e, struct msm_request *f) {
    msm_starter start = f->large ? msm_large_starter(f->op) : NULL;
    f->count = (int)f->op->count;
    if (msm_reduces(f->op)) msm_reducer(f->op->dtype, f->op->op, &f->type, &f->how);
    if (start) return start(e, f);
    int rc = msm_reduces(f->op) ? MPI_SUCCESS : set_block(f);
    return rc == MPI_SUCCESS ? starters[f->op->kind](e, f) : rc;
}
