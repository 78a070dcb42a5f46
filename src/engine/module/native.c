/*
 * native.c - native as a table like any other's. Calls do not come this way: a comm without a table runs them itself, which is faster.
 * It is taken where kinds of operations shall be composed of others even though native has them, so that every composition can be
 * tried without any other library.
 */
#include "engine/module/native.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/module/module.h"
#include "p2p/p2p.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 768, LONG_MS = 1800000 }; /* long: the operation that this one is for has a deadline */

struct mst_backend_engine {
    const mst_backend_host *host;
    struct msi_comm *comm; /* the one that has a region or links */
};

static mst_status open_engine(const mst_backend_host *host, mst_backend_engine **engine,
                              mst_backend_traits *traits) {
    const struct msi_engine *outer = host->context;
    struct mst_backend_engine *made = calloc(1, sizeof *made);
    (void)traits;
    if (!made) return msi_fail_memory();
    made->host = host;
    char key[KEY_MAX];
    snprintf(key, sizeof key, "%s/inside", host->name);
    mst_status st = msi_comm_new_inside(outer->comm, key, &made->comm);
    if (st != MST_OK) {
        free(made);
        return st;
    }
    *engine = made;
    return MST_OK;
}

static const enum msi_kind kinds[MST_KIND_COUNT] = {
    [MST_KIND_BARRIER] = MSI_KIND_BARRIER,       [MST_KIND_BROADCAST] = MSI_KIND_BROADCAST,
    [MST_KIND_ALL_REDUCE] = MSI_KIND_ALL_REDUCE, [MST_KIND_REDUCE] = MSI_KIND_REDUCE,
    [MST_KIND_ALL_GATHER] = MSI_KIND_ALL_GATHER, [MST_KIND_REDUCE_SCATTER] = MSI_KIND_REDUCE_SCATTER,
    [MST_KIND_ALL_TO_ALL] = MSI_KIND_ALL_TO_ALL, [MST_KIND_GATHER] = MSI_KIND_GATHER,
    [MST_KIND_SCATTER] = MSI_KIND_SCATTER,
};

static struct msi_blocks blocks(const void *base, const void *list, const size_t *counts,
                                const mst_backend_op *op, size_t *lens, size_t *starts, int n) {
    struct msi_blocks made = {.base = (char *)(uintptr_t)base, .each = op->count * op->element};
    made.list = (char *const *)(uintptr_t)list;
    for (int r = 0; r < n && counts; r++) {
        lens[r] = counts[r] * op->element;
        starts[r] = msi_op_start(counts, 0, r) * op->element;
    }
    made.lens = counts ? lens : NULL;
    made.starts = counts ? starts : NULL;
    return made;
}

static uint32_t sign(const mst_backend_op *op) {
    static const uint64_t key[2] = {5, 6};
    bool counts = op->in_counts || op->out_counts;
    uint64_t same[] = {op->kind, op->dtype, op->op, (uint64_t)op->root, counts ? 0 : op->count};
    return (uint32_t)msi_hash(same, sizeof same, key);
}

static void fill_collective(struct mst_work *work, const mst_backend_op *op, int n) {
    struct msi_shm_coll *host = &work->host;
    bool reduces = msi_kind_reduces(op->kind);
    work->begin = msi_shm_exchange;
    host->element = op->element;
    host->told = (struct msi_call_signature){.kind = (uint8_t)kinds[op->kind],
                                             .dtype = (uint8_t)op->dtype,
                                             .op = (uint8_t)op->op,
                                             .root = op->root,
                                             .count = op->count};
    host->signature = sign(op);
    host->scale = (struct msi_reduce_scale){op->factor, n};
    host->nothing = op->kind == MST_KIND_BARRIER;
    host->parts = op->kind == MST_KIND_REDUCE_SCATTER || op->kind == MST_KIND_ALL_TO_ALL ||
                  op->kind == MST_KIND_SCATTER;
    host->uneven = op->in_counts || op->out_counts;
    host->told.flags = host->uneven && op->kind == MST_KIND_ALL_TO_ALL;
    if (op->kind == MST_KIND_BROADCAST || op->kind == MST_KIND_SCATTER) host->publisher = op->root;
    if (op->kind == MST_KIND_REDUCE || op->kind == MST_KIND_GATHER) host->reader = op->root;
    host->reducer = reduces ? msi_reducer_get(op->dtype, op->op) : NULL;
    host->in = blocks(op->in, op->in_list, op->in_counts, op, work->in_lens, work->in_starts, n);
    host->out = blocks(op->out, op->out_list, op->out_counts, op, work->out_lens, work->out_starts, n);
}

static void fill_message(struct mst_work *work, const mst_backend_op *op) {
    bool send = op->kind == MST_KIND_SEND;
    work->begin = NULL;
    work->message =
        (struct msi_message){.send = send,
                             .buf = send ? (void *)(uintptr_t)op->in : op->out,
                             .bytes = op->count * op->element,
                             .dtype = op->dtype,
                             .tag = op->tag < 0 ? INT_MAX : op->tag, /* programs count theirs from 0 up */
                             .peer = op->peer};
}

static mst_status submit(mst_backend_engine *engine, mst_backend_op *op) {
    struct mst_work *work;
    mst_status st = msi_comm_alloc_op(engine->comm, LONG_MS, NULL, msi_kind_text(op->kind), &work);
    if (st != MST_OK) return st;
    if (op->kind >= MST_KIND_SEND)
        fill_message(work, op);
    else
        fill_collective(work, op, engine->comm->size);
    op->request = work;
    return msi_comm_begin_here(work);
}

static mst_status progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    struct mst_work *work = op->request;
    if (!msi_comm_advance(engine->comm)) msi_p2p_answer(engine->comm);
    *done = work->done;
    if (!work->done) return MST_OK;
    mst_status st = work->failure.status == MST_OK ? MST_OK : msi_comm_repeat(&work->failure);
    if (op->kind == MST_KIND_RECV) op->sender = work->message.from;
    msi_comm_release_op(work);
    return st;
}

static bool cancel(mst_backend_engine *engine, mst_backend_op *op) {
    (void)engine;
    (void)op;
    return false;
}

/* Others wait for what this rank will not do any more; its comm goes with close. */
static void abort_engine(mst_backend_engine *engine) {
    (void)engine;
}

static void close_engine(mst_backend_engine *engine) {
    msi_comm_free(engine->comm);
    free(engine);
}

static bool probe(char *text, size_t size) {
    return msi_native.probe(text, size);
}

static const mst_backend_capability *rows(void) {
    return msi_native.rows();
}

const mst_backend msi_native_composed = {
    .version = MST_BACKEND_VERSION,
    .size = sizeof msi_native_composed,
    .name = "native",
    .title = "native, of which some is composed",
    .probe = probe,
    .rows = rows,
    .open = open_engine,
    .submit = submit,
    .progress = progress,
    .cancel = cancel,
    .abort = abort_engine,
    .close = close_engine,
};
