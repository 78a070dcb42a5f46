/* rendezvous.c - see rendezvous.h. */
#include "transport/rendezvous.h"
#include "base/hash.h"
#include "os/clock.h"

#include <unistd.h>

void msi_rendezvous_set(struct msi_rendezvous *rendezvous, enum msi_cma_mode mode) {
    rendezvous->mode = mode;
    for (int class = 0; class < MSI_CMA_CLASSES; class ++)
        atomic_store_explicit(&rendezvous->own->result[class],
                              mode == MSI_CMA_MODE_NEVER ? MSI_CMA_SLOWER : MSI_CMA_UNDECIDED,
                              memory_order_relaxed);
}

/*
 * Called on first use, not on open: the process that uses the link may be a fork of the one that opened it.
 */
static void publish_token(struct msi_rendezvous *rendezvous) {
    struct msi_rendezvous_side *own = rendezvous->own;
    msi_random(&rendezvous->token, sizeof rendezvous->token);
    own->pid = (int32_t)getpid();
    own->address = (uintptr_t)&rendezvous->token;
    own->token = rendezvous->token;
    atomic_store_explicit(&own->ready, 1, memory_order_release); /* to msi_rendezvous_try */
    rendezvous->published = true;
}

void msi_rendezvous_try(struct msi_rendezvous *rendezvous) {
    const struct msi_rendezvous_side *other = rendezvous->other;
    uint64_t token = 0;
    if (!rendezvous->published) publish_token(rendezvous);
    /* Acquires what publish_token released: the fields of the peer. */
    if (!atomic_load_explicit(&other->ready, memory_order_acquire)) return;
    rendezvous->tried = true;
    if (!msi_cma_read(other->pid, other->address, &token, sizeof token) || token != other->token) return;
    atomic_store_explicit(&rendezvous->own->can_read, 1, memory_order_relaxed);
}

bool msi_rendezvous_wanted(struct msi_rendezvous *rendezvous, const struct msi_transfer *send) {
    int class = send->done == 0 ? msi_cma_class(send->len) : -1;
    if (class < 0 || rendezvous->mode == MSI_CMA_MODE_NEVER) return false;
    const struct msi_rendezvous_side *other = rendezvous->other;
    if (!atomic_load_explicit(&other->can_read, memory_order_relaxed)) return false;
    if (rendezvous->mode == MSI_CMA_MODE_ALWAYS) return true;
    uint32_t result = atomic_load_explicit(&other->result[class], memory_order_relaxed);
    return result == MSI_CMA_UNDECIDED ? rendezvous->undecided[class]++ % 2 : result == MSI_CMA_FASTER;
}

void msi_rendezvous_begin(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive,
                          bool first_in_cell) {
    int class = msi_cma_class(receive->len);
    bool open = class >= 0 && msi_cma_result_of(&rendezvous->trials, class) == MSI_CMA_UNDECIDED;
    rendezvous->begun = open && first_in_cell ? msi_now() : 0;
}

void msi_rendezvous_end(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive, bool by_cma) {
    if (rendezvous->begun == 0) return;
    int class = msi_cma_class(receive->len);
    uint32_t result =
        msi_cma_add_trial(&rendezvous->trials, class, by_cma, receive->len, msi_now() - rendezvous->begun);
    atomic_store_explicit(&rendezvous->own->result[class], result, memory_order_relaxed);
}
