/* check.c - with MUSTER_CHECK, ranks exchange what they are about to call before each collective. See
 * module.h. */
#include "base/error.h"
#include "engine/module/module.h"

mst_status msi_module_begin_check(struct msi_module *m, struct mst_work *work) {
    struct msi_composer *c = &m->composer;
    msi_module_take_number(m, work);
    m->header = (struct msi_check_header){work->seq, work->op.hash, work->op.signature};
    mst_backend_op job = {.kind = MST_KIND_ALL_GATHER,
                          .dtype = MST_U8,
                          .element = 1,
                          .root = -1,
                          .peer = -1,
                          .sender = -1,
                          .count = sizeof m->header,
                          .in = &m->header,
                          .out = m->headers};
    bool stage = c->stage;
    c->stage = true; /* headers are in memory of the host, whatever the engine's memory is */
    mst_status st = msi_compose(c, &job, false);
    c->stage = stage;
    return st;
}

mst_status msi_module_compare(struct msi_module *m, const struct mst_work *work) {
    struct msi_comm *comm = m->comm;
    char who[200], ours[200], theirs[200];
    for (int r = 0; r < comm->size; r++) {
        const struct msi_check_header *h = &m->headers[r];
        if (h->seq == m->header.seq && h->hash == m->header.hash) continue;
        msi_fail(MST_ERR_MISMATCH, "all ranks of a group must make the same calls in the same order",
                 "operation %llu of the group is %s on this rank, but %s called %s",
                 (unsigned long long)work->seq,
                 msi_call_signature_show(&work->op.signature, ours, sizeof ours),
                 msi_comm_show(comm, r, who, sizeof who),
                 msi_call_signature_show(&h->signature, theirs, sizeof theirs));
        return msi_blame(MST_ERR_MISMATCH, msi_comm_global(comm, r));
    }
    return MST_OK;
}
