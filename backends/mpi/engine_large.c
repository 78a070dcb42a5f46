/*
 * engine_large.c - operations whose counts exceed an int, the limit of MPI 3.
 *
 * Reductions and broadcasts are cut into pieces. With unequal blocks, an all_gather is a broadcast of each
 * block, and a reduce_scatter is a reduction to each rank. An all_to_all has a datatype for each block,
 * because displacements are ints too. All requests of an operation start at once, so that the order of
 * collectives is the same on all ranks.
 */
#include "engine.h"

#include <string.h>

static char *at(const void *base, size_t offset) {
    return (char *)(uintptr_t)base + offset;
}

/* Elements or bytes of a piece. Less than INT_MAX, because MPI multiplies counts. */
static size_t piece_max(void) {
    const size_t some = (size_t)1 << 30;
    return msm_limit < some ? msm_limit : some;
}

static size_t pieces_of(size_t count) {
    return (count + piece_max() - 1) / piece_max();
}

/* The count of the next piece. */
static int piece(size_t count, size_t done) {
    return (int)(count - done < piece_max() ? count - done : piece_max());
}

/* Starts the broadcast of so many bytes, in pieces: MPICH 4.0 fails with one large datatype. */
static int broadcast_from(mst_backend_engine *e, struct msm_request *f, int root, void *buf, size_t bytes) {
    int rc = MPI_SUCCESS;
    for (size_t done = 0; done < bytes && rc == MPI_SUCCESS; done += piece_max(), f->n++)
        rc = MPI_Ibcast(at(buf, done), piece(bytes, done), MPI_BYTE, root, e->comm, &f->requests[f->n]);
    return rc;
}

static int broadcast(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    size_t bytes = op->count * op->element;
    if (!msm_request_array(f, pieces_of(bytes))) return MPI_ERR_NO_MEM;
    if (e->rank == op->root && op->out && op->out != op->in) memcpy(op->out, op->in, bytes);
    return broadcast_from(e, f, op->root, op->out ? op->out : at(op->in, 0), bytes);
}

static int all_reduce(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    bool in_place = op->in == op->out;
    int rc = MPI_SUCCESS;
    if (!msm_request_array(f, pieces_of(op->count))) return MPI_ERR_NO_MEM;
    for (size_t done = 0; done < op->count && rc == MPI_SUCCESS; done += piece_max(), f->n++) {
        size_t offset = done * op->element;
        rc = MPI_Iallreduce(msm_in(at(op->in, offset), in_place), at(op->out, offset), piece(op->count, done),
                            f->type, f->how, e->comm, &f->requests[f->n]);
    }
    return rc;
}

/* Starts the reduction of count elements to one rank. */
static int reduce_to(mst_backend_engine *e, struct msm_request *f, int root, const void *in, void *out,
                     size_t count) {
    mst_backend_op *op = f->op;
    bool is_root = e->rank == root, in_place = is_root && in == out;
    int rc = MPI_SUCCESS;
    for (size_t done = 0; done < count && rc == MPI_SUCCESS; done += piece_max(), f->n++) {
        size_t offset = done * op->element;
        rc = MPI_Ireduce(msm_in(at(in, offset), in_place), is_root ? at(out, offset) : NULL,
                         piece(count, done), f->type, f->how, root, e->comm, &f->requests[f->n]);
    }
    return rc;
}

static int reduce(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    if (!msm_request_array(f, pieces_of(op->count))) return MPI_ERR_NO_MEM;
    return reduce_to(e, f, op->root, op->in, op->out, op->count);
}

static int reduce_scatter(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    size_t n = 0, start = 0;
    int rc = MPI_SUCCESS;
    for (int r = 0; r < e->ranks; r++) n += pieces_of(msm_count(op->in_counts, op->count, r));
    if (!msm_request_array(f, n)) return MPI_ERR_NO_MEM;
    for (int r = 0; r < e->ranks && rc == MPI_SUCCESS; r++) {
        size_t count = msm_count(op->in_counts, op->count, r);
        rc = reduce_to(e, f, r, at(op->in, start * op->element), op->out, count);
        start += count;
    }
    return rc;
}

static int all_gather_uneven(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    size_t n = 0, start = 0;
    int rc = MPI_SUCCESS;
    for (int r = 0; r < e->ranks; r++) n += pieces_of(op->out_counts[r] * op->element);
    if (!msm_request_array(f, n)) return MPI_ERR_NO_MEM;
    for (int r = 0; r < e->ranks && rc == MPI_SUCCESS; r++) {
        size_t bytes = op->out_counts[r] * op->element;
        char *to = at(op->out, start);
        if (r == e->rank && op->in != to && bytes) memcpy(to, op->in, bytes);
        rc = broadcast_from(e, f, r, to, bytes);
        start += bytes;
    }
    return rc;
}

/* Creates a datatype for each block, with the offset of the block in it. */
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

static int all_to_all_uneven(mst_backend_engine *e, struct msm_request *f) {
    mst_backend_op *op = f->op;
    size_t ranks = (size_t)e->ranks;
    if (!msm_request_ints(e, f) || !msm_request_types(f, 2 * ranks)) return MPI_ERR_NO_MEM;
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

msm_starter msm_large_starter(const mst_backend_op *op) {
    switch (op->kind) {
    case MST_KIND_BROADCAST:
        return broadcast;
    case MST_KIND_ALL_REDUCE:
        return all_reduce;
    case MST_KIND_REDUCE:
        return reduce;
    case MST_KIND_REDUCE_SCATTER:
        return reduce_scatter;
    case MST_KIND_ALL_GATHER:
        return op->out_counts ? all_gather_uneven : NULL;
    case MST_KIND_ALL_TO_ALL:
        return op->in_counts || op->out_counts ? all_to_all_uneven : NULL;
    default:
        return NULL;
    }
}
