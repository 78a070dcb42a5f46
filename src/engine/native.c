/* native.c - see native.h. */
#include "engine/native.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

void msi_native_init(struct msi_comm *comm) {
    struct msi_native *native = msi_native(comm);
    if (native->peers.comm) return;
    native->peers.comm = comm;
    msi_p2p_init(&native->p2p, &native->peers);
}

mst_status msi_native_opened(struct msi_comm *comm, const struct mst_work *first, mst_status status) {
    bool left = status == MST_ERR_TIMEOUT || status == MST_ERR_CANCELLED;
    if (left && first->op.desc.kind == MST_KIND_BARRIER) msi_pending_add(comm, &first->op);
    return status;
}

void msi_native_close(struct msi_comm *comm) {
    struct msi_native *native = msi_native(comm);
    free(native->pending.calls);
    if (!native->peers.comm) return;
    msi_peers_leave(&native->peers);
    msi_p2p_free(&native->p2p);
    msi_peers_close(&native->peers);
}

/* Is there room for one more? */
static bool make_room(struct msi_pending *pending) {
    int room = pending->room ? 2 * pending->room : 8;
    if (pending->n < pending->room) return true;
    struct msi_pending_call *grown = realloc(pending->calls, (size_t)room * sizeof *grown);
    if (!grown) return false;
    pending->calls = grown;
    pending->room = room;
    return true;
}

void msi_pending_add(struct msi_comm *comm, const struct msi_op *op) {
    struct msi_pending *pending = &msi_native(comm)->pending;
    if (make_room(pending))
        pending->calls[pending->n++] = (struct msi_pending_call){op->flags, op->hash, op->signature};
    else if (comm->failure.status == MST_OK)
        msi_comm_keep(comm, &comm->failure, msi_fail_memory(), -1);
}

void msi_pending_remove(struct msi_pending *pending) {
    pending->n--;
    memmove(pending->calls, pending->calls + 1, (size_t)pending->n * sizeof *pending->calls);
}

mst_status msi_native_begin(struct mst_work *work) {
    return msi_p2p_begin(&msi_native(work->comm)->p2p, work);
}

int msi_native_cause_of(const struct msi_comm *comm, int rank, bool waits) {
    return msi_peers_cause_of(&msi_native(comm)->peers, rank, waits);
}

uint64_t msi_native_news(const struct msi_comm *comm) {
    return msi_peers_news(&msi_native(comm)->peers);
}

bool msi_native_has_left(const struct msi_comm *comm, int rank) {
    return msi_peers_has_left(&msi_native(comm)->peers, rank);
}
