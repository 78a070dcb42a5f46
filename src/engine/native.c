/* native.c - see native.h. */
#include "engine/native.h"

void msi_native_init(struct msi_comm *comm) {
    struct msi_native *native = msi_native(comm);
    if (native->peers.comm) return;
    native->peers.comm = comm;
    msi_p2p_init(&native->p2p, &native->peers);
}

void msi_native_close(struct msi_comm *comm) {
    struct msi_native *native = msi_native(comm);
    if (!native->peers.comm) return;
    msi_peers_leave(&native->peers);
    msi_p2p_free(&native->p2p);
    msi_peers_close(&native->peers);
}

mst_status msi_native_begin(struct mst_work *work) {
    return msi_p2p_begin(&msi_native(work->comm)->p2p, work);
}

bool msi_native_has_left(const struct msi_comm *comm, int rank) {
    return msi_peers_has_left(&msi_native(comm)->peers, rank);
}
