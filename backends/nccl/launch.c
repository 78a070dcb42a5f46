/*
 * launch.c - the NCCL calls of each operation. Operations that only move data use bytes, which covers all
 * dtypes.
 *
 *   all_gather of uneven blocks or lists        a broadcast from each rank, in one group
 *   reduce_scatter of uneven blocks or lists    a reduce to each rank, in one group
 *   all_to_all, gather, scatter                 sends and receives in one group, and a copy of the own block
 *   barrier                                     an all_reduce of one number in the engine's device memory
 */
#include "engine.h"

bool mnc_is_blocking(const mst_backend_op *op) {
    return op->kind <= MST_KIND_REDUCE_SCATTER;
}

/* The block of one rank. */
struct block {
    char *at;
    size_t bytes;
};

/* Finds block r of in or out: a list, or consecutive blocks of equal or different lengths. */
static struct block find_block(const mst_backend_op *op, const void *base, const void *const *list,
                               const size_t *counts, int r) {
    struct block block = {(char *)(uintptr_t)base, (counts ? counts[r] : op->count) * op->element};
    if (list) {
        block.at = (char *)(uintptr_t)list[r];
    } else if (counts) {
        for (int i = 0; i < r; i++) block.at += counts[i] * op->element;
    } else {
        block.at += (size_t)r * block.bytes;
    }
    return block;
}

static struct block in_block(const mst_backend_op *op, int r) {
    return find_block(op, op->in, op->in_list, op->in_counts, r);
}

static struct block out_block(const mst_backend_op *op, int r) {
    return find_block(op, op->out, (const void *const *)op->out_list, op->out_counts, r);
}

static mnc_result copy_own(struct block to, struct block from, mnc_stream stream) {
    if (to.at == from.at || !to.bytes) return MNC_SUCCESS;
    mnc_error error = mnc_cuda.MemcpyAsync(to.at, from.at, to.bytes, MNC_COPY_DEFAULT, stream);
    return error == MNC_CUDA_OK ? MNC_SUCCESS : MNC_CUDA_ERROR;
}

static mnc_result transfer(struct block block, bool send, int peer, mnc_comm comm, mnc_stream stream) {
    if (!block.bytes) return MNC_SUCCESS;
    return send ? mnc_nccl.Send(block.at, block.bytes, MNC_UINT8, peer, comm, stream)
                : mnc_nccl.Recv(block.at, block.bytes, MNC_UINT8, peer, comm, stream);
}

/* Ends the group also after an error. */
static mnc_result end_group(mnc_result result) {
    mnc_result ended = mnc_nccl.GroupEnd();
    return mnc_begun(result) ? ended : result;
}

static mnc_result all_to_all(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm,
                             mnc_stream stream) {
    int me = engine->host->rank, n = engine->host->ranks;
    mnc_result result = copy_own(out_block(op, me), in_block(op, me), stream);
    if (result != MNC_SUCCESS) return result;
    mnc_nccl.GroupStart();
    for (int i = 1; i < n && mnc_begun(result); i++) {
        int to = (me + i) % n, from = (me - i + n) % n;
        result = transfer(in_block(op, to), true, to, comm, stream);
        if (mnc_begun(result)) result = transfer(out_block(op, from), false, from, comm, stream);
    }
    return end_group(result);
}

/* The root exchanges one block with each rank. */
static mnc_result gather_or_scatter(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm,
                                    mnc_stream stream) {
    int me = engine->host->rank, n = engine->host->ranks;
    bool gathers = op->kind == MST_KIND_GATHER, root = me == op->root;
    struct block mine = {gathers ? (char *)(uintptr_t)op->in : op->out, op->count * op->element};
    mnc_result result = MNC_SUCCESS;
    if (root && gathers) result = copy_own(out_block(op, me), mine, stream);
    if (root && !gathers) result = copy_own(mine, in_block(op, me), stream);
    if (result != MNC_SUCCESS) return result;
    mnc_nccl.GroupStart();
    if (!root) result = transfer(mine, gathers, op->root, comm, stream);
    for (int r = 0; r < n && root && mnc_begun(result); r++)
        if (r != me)
            result = transfer(gathers ? out_block(op, r) : in_block(op, r), !gathers, r, comm, stream);
    return end_group(result);
}

static mnc_result all_gather(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm,
                             mnc_stream stream) {
    if (!op->out_list && !op->out_counts)
        return op->count
                   ? mnc_nccl.AllGather(op->in, op->out, op->count * op->element, MNC_UINT8, comm, stream)
                   : MNC_SUCCESS;
    mnc_result result = MNC_SUCCESS;
    mnc_nccl.GroupStart();
    for (int r = 0; r < engine->host->ranks && mnc_begun(result); r++) {
        struct block block = out_block(op, r);
        const void *from = r == engine->host->rank ? op->in : block.at;
        if (block.bytes) result = mnc_nccl.Broadcast(from, block.at, block.bytes, MNC_UINT8, r, comm, stream);
    }
    return end_group(result);
}

static mnc_result find_op(mst_backend_engine *engine, const mst_backend_op *op, unsigned *number) {
    static const unsigned char numbers[MST_OP_COUNT] = {[MST_SUM] = MNC_SUM,
                                                        [MST_PRODUCT] = MNC_PROD,
                                                        [MST_MIN] = MNC_MIN,
                                                        [MST_MAX] = MNC_MAX,
                                                        [MST_AVG] = MNC_AVG};
    *number = numbers[op->op];
    return op->op == MST_PREMUL_SUM ? mnc_premul(engine, op->dtype, op->factor, number) : MNC_SUCCESS;
}

static mnc_result reduce_scatter(mst_backend_engine *engine, const mst_backend_op *op, unsigned number,
                                 mnc_comm comm, mnc_stream stream) {
    unsigned dtype = mnc_dtype(op->dtype);
    if (!op->in_list && !op->in_counts)
        return op->count ? mnc_nccl.ReduceScatter(op->in, op->out, op->count, dtype, number, comm, stream)
                         : MNC_SUCCESS;
    mnc_result result = MNC_SUCCESS;
    mnc_nccl.GroupStart();
    for (int r = 0; r < engine->host->ranks && mnc_begun(result); r++) {
        struct block block = in_block(op, r);
        void *out = r == engine->host->rank ? op->out : block.at; /* only the root writes it */
        if (block.bytes)
            result =
                mnc_nccl.Reduce(block.at, out, block.bytes / op->element, dtype, number, r, comm, stream);
    }
    return end_group(result);
}

static mnc_result reduction(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm,
                            mnc_stream stream) {
    unsigned number, dtype = mnc_dtype(op->dtype);
    mnc_result result = find_op(engine, op, &number);
    if (result != MNC_SUCCESS) return result;
    if (op->kind == MST_KIND_REDUCE_SCATTER) return reduce_scatter(engine, op, number, comm, stream);
    if (!op->count) return MNC_SUCCESS;
    if (op->kind == MST_KIND_ALL_REDUCE)
        return mnc_nccl.AllReduce(op->in, op->out, op->count, dtype, number, comm, stream);
    void *out = op->out ? op->out : (void *)(uintptr_t)op->in;
    return mnc_nccl.Reduce(op->in, out, op->count, dtype, number, op->root, comm, stream);
}

/* An empty message is sent as one byte, so that its receive does not complete before the send. */
static mnc_result message(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm,
                          mnc_stream stream) {
    size_t bytes = op->count * op->element;
    if (op->kind == MST_KIND_SEND)
        return mnc_nccl.Send(bytes ? op->in : engine->small, bytes ? bytes : 1, MNC_UINT8, 1, comm, stream);
    return mnc_nccl.Recv(bytes ? op->out : engine->small + MNC_SMALL_BYTES / 2, bytes ? bytes : 1, MNC_UINT8,
                         0, comm, stream);
}

mnc_result mnc_launch(mst_backend_engine *engine, const mst_backend_op *op, mnc_comm comm,
                      mnc_stream stream) {
    switch (op->kind) {
    case MST_KIND_BARRIER:
        return mnc_nccl.AllReduce(engine->small, engine->small, 1, MNC_INT32, MNC_SUM, comm, stream);
    case MST_KIND_BROADCAST:
        return op->count ? mnc_nccl.Broadcast(op->in, op->out, op->count * op->element, MNC_UINT8, op->root,
                                              comm, stream)
                         : MNC_SUCCESS;
    case MST_KIND_ALL_REDUCE:
    case MST_KIND_REDUCE:
    case MST_KIND_REDUCE_SCATTER:
        return reduction(engine, op, comm, stream);
    case MST_KIND_ALL_GATHER:
        return all_gather(engine, op, comm, stream);
    case MST_KIND_ALL_TO_ALL:
        return all_to_all(engine, op, comm, stream);
    case MST_KIND_GATHER:
    case MST_KIND_SCATTER:
        return gather_or_scatter(engine, op, comm, stream);
    default:
        return message(engine, op, comm, stream);
    }
}
