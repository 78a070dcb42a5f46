/* op.c - the operations of a comm in the words of <muster/backend.h>. See module.h. */
#include "engine/module/module.h"

static const mst_kind kinds[MSI_KIND_COUNT] = {
    [MSI_KIND_BARRIER] = MST_KIND_BARRIER,       [MSI_KIND_BROADCAST] = MST_KIND_BROADCAST,
    [MSI_KIND_ALL_REDUCE] = MST_KIND_ALL_REDUCE, [MSI_KIND_REDUCE] = MST_KIND_REDUCE,
    [MSI_KIND_ALL_GATHER] = MST_KIND_ALL_GATHER, [MSI_KIND_REDUCE_SCATTER] = MST_KIND_REDUCE_SCATTER,
    [MSI_KIND_ALL_TO_ALL] = MST_KIND_ALL_TO_ALL, [MSI_KIND_GATHER] = MST_KIND_GATHER,
    [MSI_KIND_SCATTER] = MST_KIND_SCATTER,
};

/* Lengths in bytes as counts; they take the place of the starts, which only the region's exchanges read. */
static const size_t *counts(const struct msi_blocks *blocks, size_t *room, int n, size_t element) {
    if (!blocks->lens) return NULL;
    for (int r = 0; r < n; r++) room[r] = blocks->lens[r] / element;
    return room;
}

static void describe_message(struct mst_work *op, mst_backend_op *job) {
    const struct msi_message *m = &op->message;
    job->kind = m->send ? MST_KIND_SEND : MST_KIND_RECV;
    if (m->measured) job->memory = MST_MEMORY_HOST; /* byte strings are */
    job->dtype = m->dtype;
    job->element = mst_dtype_size(m->dtype);
    job->count = m->bytes / job->element;
    job->peer = m->peer;
    job->tag = m->tag;
    job->in = m->send ? m->buf : NULL;
    job->out = m->send ? NULL : m->buf;
}

void msi_engine_describe(struct mst_work *op, mst_backend_op *job) {
    const struct msi_shm_coll *host = &op->host;
    int n = op->comm->size;
    *job = (mst_backend_op){.root = -1, .peer = -1, .memory = op->memory, .stream = op->stream, .sender = -1};
    if (!op->begin) {
        describe_message(op, job);
        return;
    }
    job->kind = kinds[msi_kind_family(host->told.kind)];
    job->dtype = host->told.dtype ? (mst_dtype)host->told.dtype : MST_U8;
    job->element = mst_dtype_size(job->dtype);
    job->op = (mst_op)host->told.op;
    job->factor = host->scale.factor;
    job->root = host->told.root;
    job->in_counts = counts(&host->in, op->in_starts, n, job->element);
    job->out_counts = counts(&host->out, op->out_starts, n, job->element);
    job->in_list = host->in.list ? (const void *const *)host->in.list : NULL;
    job->out_list = host->out.list ? (void *const *)host->out.list : NULL;
    job->in = host->in.list ? NULL : host->in.base;
    job->out = host->out.list ? NULL : host->out.base;
    if (job->kind == MST_KIND_BROADCAST && job->root != op->comm->rank) job->in = job->out;
    /* The block that is a single one tells the count, or each of them does. */
    const struct msi_blocks *one = host->parts ? &host->out : &host->in;
    job->count = host->nothing ? 0 : one->each / job->element;
}
