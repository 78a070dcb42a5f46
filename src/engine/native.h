/*
 * native.h - what the two native engines, shared memory and network, have in common: how they reach other
 * ranks, and messages. The state of each begins with a struct msi_native.
 */
#ifndef MSI_ENGINE_NATIVE_H
#define MSI_ENGINE_NATIVE_H

#include "p2p/p2p.h"

struct msi_native {
    struct msi_p2p p2p; /* first, for msi_p2p_message_now */
    struct msi_peers peers;
};

static inline struct msi_native *msi_native(const struct msi_comm *comm) {
    return comm->state;
}

/* Called first by the open slots; again after they failed. */
void msi_native_init(struct msi_comm *comm);
void msi_native_close(struct msi_comm *comm);

/* Slots that both engines share. */
mst_status msi_native_begin(struct mst_work *work);
bool msi_native_has_left(const struct msi_comm *comm, int rank);

#endif
