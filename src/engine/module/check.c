/* check.c - before each collective the ranks tell each other what they are about to call. See module.h. */
#include "base/error.h"
#include "engine/module/module.h"

mst_status msi_engine_begin_check(struct msi_engine *e, struct mst_work *op) {
    struct msi_composer *c = &e->composer;
    op->host.seq = ++e->seq;
    e->head = (struct msi_head){op->host.seq, op->host.signature, op->host.told};
    mst_backend_op job = {.kind = MST_KIND_ALL_GATHER,
                          .dtype = MST_U8,
                          .element = 1,
                          .root = -1,
                          .peer = -1,
                          .sender = -1,
                          .count = sizeof e->head,
                          .in = &e->head,
                          .out = e->heads};
    bool stage = c->stage;
    c->stage = true; /* heads are the host's, whatever the engine's memory is */
    mst_status st = msi_compose(c, &job, false);
    c->stage = stage;
    return st;
}

mst_status msi_engine_compare(struct msi_engine *e, const struct mst_work *op) {
    struct msi_comm *comm = e->comm;
    char who[200], ours[200], theirs[200];
    for (int r = 0; r < comm->size; r++) {
        const struct msi_head *h = &e->heads[r];
        if (h->seq == e->head.seq && h->signature == e->head.signature) continue;
        msi_fail(MST_ERR_MISMATCH, "all ranks of a group must make the same calls in the same order",
                 "as operation %llu of the group this rank called %s, but %s called %s",
                 (unsigned long long)op->host.seq, msi_call_signature_show(&op->host.told, ours, sizeof ours),
                 comm->hooks.show(comm->hooks.context, r, who, sizeof who),
                 msi_call_signature_show(&h->told, theirs, sizeof theirs));
        return msi_blame(MST_ERR_MISMATCH, comm->hooks.global(comm->hooks.context, r));
    }
    return MST_OK;
}
