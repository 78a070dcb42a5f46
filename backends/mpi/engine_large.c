/*
 * engine_large.c - operations whose counts are beyond an int, which is all that MPI 3 takes.
 *
 * Moved blocks become one element each, of a type that is as large. Reductions and broadcasts go in pieces. Where blocks differ in
 * length, an all_gather is a broadcast of each block, a reduce_scatter a reduction to each rank, and an all_to_all has a type
 * of its own for each block, as displacements are ints too. All requests of an operation are begun at once, so
 * that the order of collectives is the same on all ranks.
 */
#include "engine.h"

#include <string.h>

static char *at(const void *base, size_t offset) {
    return (char *)(uintptr_t)base + offset;
}

/* Elements or bytes of a piece: not all that an int can count, as MPI multiplies them. */
static size_t piece_max(void) {
    const size_t some = (size_t)1 << 30;
    return msm_limit < some ? msm_limit : some;
}

static size_t pieces_of(size_t count) {
    return (count + piece_max() - 1) / piece_max();
}

/* What is left, or one more piece of it. */
static int piece(size_t count, size_t done) {
    return (int)(count - done < piece_max() ? count - done : piece_max());
}

/* One type for all blocks. */
static int even_type(struct msm_flight *f, size_t bytes) {
    if (!msm_flight_types(f, 1)) return MPI_ERR_NO_MEM;
    return msm_type_bytes(bytes, &f->types[0]);
}

/* Begins the broadcast of so many bytes; there is room for its requests. Not as one type, which MPICH 4.0 fails at. */
static int broadcast_from(mst_backend_engine *e, struct msm_flight *f, int root, void *buf, size_t bytes) {
    int rc = MPI_SUCCESS;
    for (size_t done = 0; done < bytes && rc == MPI_SUCCESS; done += piece_max(), f->n++)
        rc = MPI_Ibcast(at(buf, done), piece(bytes, done), MPI_BYTE, root, e->comm, &f->requests[f->n]);
    return rc;
}

static int broadcast(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    size_t bytes = op->count * op->element;
    if (!msm_flight_requests(f, pieces_of(bytes))) return MPI_ERR_NO_MEM;
    if (e->rank == op->root && op->out && op->out != op->in) memcpy(op->out, op->in, bytes);
    return broadcast_from(e, f, op->root, op->out ? op->out : at(op->in, 0), bytes);
}

static int all_reduce(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    bool in_place = op->in == op->out;
    MPI_Datatype type;
    MPI_Op how;
    int rc = MPI_SUCCESS;
    if (!msm_reducer(op->dtype, op->op, &type, &how)) return MPI_ERR_OP;
    if (!msm_flight_requests(f, pieces_of(op->count))) return MPI_ERR_NO_MEM;
    for (size_t done = 0; done < op->count && rc == MPI_SUCCESS; done += piece_max(), f->n++) {
        size_t offset = done * op->element;
        rc = MPI_Iallreduce(msm_in(at(op->in, offset), in_place), at(op->out, offset), piece(op->count, done),
                            type, how, e->comm, &f->requests[f->n]);
    }
    return rc;
}

/* Begins the reduction of count elements to one rank; there is room for its requests. */
static int reduce_to(mst_backend_engine *e, struct msm_flight *f, int root, const void *in, void *out,
                     size_t count) {
    mst_backend_op *op = f->op;
    bool is_root = e->rank == root, in_place = is_root && in == out;
    MPI_Datatype type;
    MPI_Op how;
    int rc = MPI_SUCCESS;
    if (!msm_reducer(op->dtype, op->op, &type, &how)) return MPI_ERR_OP;
    for (size_t done = 0; done < count && rc == MPI_SUCCESS; done += piece_max(), f->n++) {
        size_t offset = done * op->element;
        rc = MPI_Ireduce(msm_in(at(in, offset), in_place), is_root ? at(out, offset) : NULL,
                         piece(count, done), type, how, root, e->comm, &f->requests[f->n]);
    }
    return rc;
}

static int reduce(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    if (!msm_flight_requests(f, pieces_of(op->count))) return MPI_ERR_NO_MEM;
    return reduce_to(e, f, op->root, op->in, op->out, op->count);
}

static int reduce_scatter(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    size_t n = 0, start = 0;
    int rc = MPI_SUCCESS;
    for (int r = 0; r < e->ranks; r++) n += pieces_of(msm_count(op->in_counts, op->count, r));
    if (!msm_flight_requests(f, n)) return MPI_ERR_NO_MEM;
    for (int r = 0; r < e->ranks && rc == MPI_SUCCESS; r++) {
        size_t count = msm_count(op->in_counts, op->count, r);
        rc = reduce_to(e, f, r, at(op->in, start * op->element), op->out, count);
        start += count;
    }
    return rc;
}

static int all_gather_uneven(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    size_t n = 0, start = 0;
    int rc = MPI_SUCCESS;
    for (int r = 0; r < e->ranks; r++) n += pieces_of(op->out_counts[r] * op->element);
    if (!msm_flight_requests(f, n)) return MPI_ERR_NO_MEM;
    for (int r = 0; r < e->ranks && rc == MPI_SUCCESS; r++) {
        size_t bytes = op->out_counts[r] * op->element;
        char *to = at(op->out, start);
        if (r == e->rank && op->in != to && bytes) memcpy(to, op->in, bytes);
        rc = broadcast_from(e, f, r, to, bytes);
        start += bytes;
    }
    return rc;
}

static int all_gather(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    if (op->out_counts) return all_gather_uneven(e, f);
    size_t bytes = op->count * op->element;
    int rc = even_type(f, bytes);
    if (rc != MPI_SUCCESS) return rc;
    bool in_place = op->in == at(op->out, (size_t)e->rank * bytes);
    f->n = 1;
    return MPI_Iallgather(msm_in(op->in, in_place), 1, f->types[0], op->out, 1, f->types[0], e->comm,
                          &f->one);
}

/* A type for each block, with its place in it. */
static int block_types(MPI_Datatype *types, const size_t *counts, size_t count, size_t element, int ranks) {
    size_t start = 0;
    int rc = MPI_SUCCESS;
    for (int r = 0; r < ranks && rc == MPI_SUCCESS; r++) {
        size_t bytes = msm_count(counts, count, r) * element;
        rc = msm_type_bytes_at(start, bytes, &types[r]);
        start += bytes;
    }
    return rc;
}

static int all_to_all_uneven(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    size_t ranks = (size_t)e->ranks;
    if (!msm_flight_ints(e, f) || !msm_flight_types(f, 2 * ranks)) return MPI_ERR_NO_MEM;
    int *ones = f->ints, *zeros = ones + ranks;
    for (size_t r = 0; r < ranks; r++) {
        ones[r] = 1;
        zeros[r] = 0;
    }
    MPI_Datatype *to = f->types, *from = to + ranks;
    int rc = block_types(to, op->in_counts, op->count, op->element, e->ranks);
    if (rc == MPI_SUCCESS) rc = block_types(from, op->out_counts, op->count, op->element, e->ranks);
    if (rc != MPI_SUCCESS) return rc;
    f->n = 1;
    return MPI_Ialltoallw(op->in, ones, zeros, to, op->out, ones, zeros, from, e->comm, &f->one);
}

static int all_to_all(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    if (op->in_counts || op->out_counts) return all_to_all_uneven(e, f);
    int rc = even_type(f, op->count * op->element);
    if (rc != MPI_SUCCESS) return rc;
    f->n = 1;
    return MPI_Ialltoall(msm_in(op->in, op->in == op->out), 1, f->types[0], op->out, 1, f->types[0], e->comm,
                         &f->one);
}

static int gather(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    size_t bytes = op->count * op->element;
    int rc = even_type(f, bytes);
    if (rc != MPI_SUCCESS) return rc;
    bool root = e->rank == op->root, in_place = root && op->in == at(op->out, (size_t)e->rank * bytes);
    f->n = 1;
    return MPI_Igather(msm_in(op->in, in_place), 1, f->types[0], root ? op->out : NULL, 1, f->types[0],
                       op->root, e->comm, &f->one);
}

static int scatter(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    size_t bytes = op->count * op->element;
    int rc = even_type(f, bytes);
    if (rc != MPI_SUCCESS) return rc;
    bool root = e->rank == op->root, in_place = root && op->out == at(op->in, (size_t)e->rank * bytes);
    f->n = 1;
    return MPI_Iscatter(root ? op->in : NULL, 1, f->types[0], in_place ? MPI_IN_PLACE : op->out, 1,
                        f->types[0], op->root, e->comm, &f->one);
}

static int message(mst_backend_engine *e, struct msm_flight *f) {
    mst_backend_op *op = f->op;
    int peer = op->peer < 0 ? MPI_ANY_SOURCE : op->peer;
    int rc = even_type(f, op->count * op->element);
    if (rc != MPI_SUCCESS) return rc;
    f->n = 1;
    if (op->kind == MST_KIND_SEND)
        return MPI_Isend(op->in, 1, f->types[0], peer, msm_tag(op), e->comm, &f->one);
    return MPI_Irecv(op->out, 1, f->types[0], peer, msm_tag(op), e->comm, &f->one);
}

/* By kind. */
static int (*const calls[MST_KIND_COUNT])(mst_backend_engine *, struct msm_flight *) = {
    [MST_KIND_BROADCAST] = broadcast,
    [MST_KIND_ALL_REDUCE] = all_reduce,
    [MST_KIND_REDUCE] = reduce,
    [MST_KIND_ALL_GATHER] = all_gather,
    [MST_KIND_REDUCE_SCATTER] = reduce_scatter,
    [MST_KIND_ALL_TO_ALL] = all_to_all,
    [MST_KIND_GATHER] = gather,
    [MST_KIND_SCATTER] = scatter,
    [MST_KIND_SEND] = message,
    [MST_KIND_RECV] = message,
};

int msm_begin_large(mst_backend_engine *e, struct msm_flight *f) {
    mst_kind kind = f->op->kind;
    return (unsigned)kind < MST_KIND_COUNT && calls[kind] ? calls[kind](e, f) : MPI_ERR_OTHER;
}
