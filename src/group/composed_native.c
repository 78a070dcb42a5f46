/*
 * composed_native.c - native as a backend. Used only with MUSTER_FORCE_FALLBACK: operations that native has
 * are composed of others, so that every composition can be run without another library. An inner communicator
 * executes what the compositions need; it reads the same descriptions.
 */
#include "base/error.h"
#include "engine/engines.h"
#include "engine/module/module.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 768, LONG_MS = 1800000 }; /* long: the outer operation has a deadline */

struct mst_backend_engine {
    struct msi_comm *comm; /* the inner one */
};

static mst_status open_engine(const mst_backend_host *host, mst_backend_engine **engine,
                              mst_backend_traits *traits) {
    const struct msi_comm *outer = ((const struct msi_module *)host->context)->comm;
    const struct msi_hosts *hosts = &outer->ranks.hosts;
    struct mst_backend_engine *made = calloc(1, sizeof *made);
    (void)traits;
    if (!made) return msi_fail_memory();
    char key[KEY_MAX];
    snprintf(key, sizeof key, "%s/inside", host->name);
    struct msi_comm_options options = {.engine = hosts->n == 1 ? &msi_shm_engine : &msi_net_engine,
                                       .key = key,
                                       .rank = outer->rank,
                                       .size = outer->size,
                                       .pids = outer->ranks.pids,
                                       .hosts = hosts->of,
                                       .n_hosts = hosts->n,
                                       .largest = hosts->largest,
                                       .local_ranks = outer->ranks.local,
                                       .config = outer->config};
    options.config.backend = NULL;
    mst_status st = msi_comm_new(&options, &outer->hooks, &made->comm);
    if (st != MST_OK) {
        free(made);
        return st;
    }
    *engine = made;
    return MST_OK;
}

static mst_status submit(mst_backend_engine *engine, mst_backend_op *op) {
    struct mst_work *work;
    mst_status st = msi_comm_alloc_op(engine->comm, LONG_MS, NULL, msi_kind_text(op->kind), &work);
    if (st != MST_OK) return st;
    struct msi_op *inner = &work->op;
    inner->desc = *op;
    inner->call = msi_op_call_of(op->kind);
    inner->reducer = msi_kind_reduces(op->kind) ? msi_reducer_get(op->dtype, op->op) : NULL;
    if (!msi_op_is_message(inner)) msi_comm_sign(work);
    op->request = work;
    return msi_comm_begin_here(work);
}

static mst_status progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    struct mst_work *work = op->request;
    struct msi_comm *comm = engine->comm;
    msi_comm_lock(comm); /* an engine looks at other communicators under their locks: wireup/memory.h */
    if (!msi_comm_advance(comm)) comm->engine->accept(comm);
    *done = work->done;
    msi_comm_unlock(comm);
    if (!work->done) return MST_OK;
    mst_status st = msi_comm_explain(work);
    if (op->kind == MST_KIND_RECV) op->sender = work->source;
    op->tag = work->op.desc.tag;
    msi_comm_lock(comm);
    msi_comm_release_op(work);
    return st;
}

static mst_status find(mst_backend_engine *engine, mst_backend_op *op, bool *found) {
    struct mst_work *work;
    mst_message message = {.sender = -1};
    mst_status st = msi_comm_alloc_op(engine->comm, LONG_MS, NULL, msi_kind_text(op->kind), &work);
    if (st != MST_OK) return st;
    work->op.desc = *op;
    work->op.probe = true;
    work->op.message = &message;
    st = msi_comm_probe_now(work);
    *found = st == MST_OK && message.sender >= 0;
    if (!*found) return st;
    op->sender = message.sender;
    op->tag = message.tag;
    op->count = message.bytes;
    return MST_OK;
}

static bool cancel(mst_backend_engine *engine, mst_backend_op *op) {
    (void)engine;
    (void)op;
    return false;
}

/* The inner communicator is freed by close. */
static void abort_engine(mst_backend_engine *engine) {
    (void)engine;
}

static void close_engine(mst_backend_engine *engine) {
    msi_comm_free(engine->comm);
    free(engine);
}

static bool probe(char *text, size_t size) {
    return msi_native_backend.probe(text, size);
}

static const mst_backend_capability *rows(void) {
    return msi_native_backend.rows();
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
    .find = find,
};
