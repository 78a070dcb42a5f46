/*
 * native.h - what the two native engines, shared memory and network, have in common: how they reach other
 * ranks, and messages. The state of each begins with a struct msi_native.
 */
#ifndef MSI_ENGINE_NATIVE_H
#define MSI_ENGINE_NATIVE_H

#include "p2p/p2p.h"

/*
 * Collectives that are over for the program, but whose number this rank still has to take before its next
 * operation: barriers that it has left, which the other ranks need, and calls that it has rejected.
 */
struct msi_pending {
    struct msi_pending_call {
        uint8_t flags; /* MSI_SIGNED_REJECTED: a rejected call, else a barrier */
        uint32_t hash;
        struct msi_call_signature signature;
    } * calls;
    int n, room;
};

struct msi_native {
    struct msi_p2p p2p; /* first, for msi_p2p_message_now */
    struct msi_peers peers;
    struct msi_pending pending;
};

static inline struct msi_native *msi_native(const struct msi_comm *comm) {
    return comm->state;
}

/* Called first by the open slots; again after they failed. */
void msi_native_init(struct msi_comm *comm);
void msi_native_close(struct msi_comm *comm);

/* For the open slots: a barrier that the program leaves before the engine is open is pending then. Returns
 * the status. */
mst_status msi_native_opened(struct msi_comm *comm, const struct mst_work *first, mst_status status);

/* Appends a collective to the pending ones. Without memory it ends the communicator. */
void msi_pending_add(struct msi_comm *comm, const struct msi_op *op);
/* Removes the first one. */
void msi_pending_remove(struct msi_pending *pending);

/* Slots that both engines share. */
mst_status msi_native_begin(struct mst_work *work);
int msi_native_cause_of(const struct msi_comm *comm, int rank, bool waits);
uint64_t msi_native_news(const struct msi_comm *comm);
bool msi_native_has_left(const struct msi_comm *comm, int rank);

#endif
