/* rendezvous.c - see rendezvous.h. */
#include "transport/rendezvous.h"
#include "os/clock.h"

void msi_rendezvous_set(struct msi_rendezvous *rendezvous, enum msi_cma_mode mode) {
    static const enum msi_cma_result known[] = {[MSI_CMA_MODE_NEVER] = MSI_CMA_SLOWER,
                                                [MSI_CMA_MODE_AUTO] = MSI_CMA_UNDECIDED,
                                                [MSI_CMA_MODE_ALWAYS] = MSI_CMA_FASTER};
    rendezvous->mode = mode;
    for (int class = 0; class < MSI_CMA_CLASSES; class ++)
        atomic_store_explicit(&rendezvous->own->result[class], known[mode], memory_order_relaxed);
}

void msi_rendezvous_try(struct msi_rendezvous *rendezvous) {
    if (!rendezvous->published) msi_cma_publish(&rendezvous->own->token, &rendezvous->token);
    rendezvous->published = true;
    enum msi_cma_access access = msi_cma_try(&rendezvous->other->token);
    rendezvous->tried = access != MSI_CMA_NOT_READY;
    if (access == MSI_CMA_ALLOWED) atomic_store_explicit(&rendezvous->own->can_read, 1, memory_order_relaxed);
}

bool msi_rendezvous_wanted(struct msi_rendezvous *rendezvous, const struct msi_transfer *send) {
    int class = msi_cma_class(send->len);
    if (send->done || send->len < MSI_RENDEZVOUS_FROM || rendezvous->mode == MSI_CMA_MODE_NEVER) return false;
    const struct msi_rendezvous_side *other = rendezvous->other;
    if (!atomic_load_explicit(&other->can_read, memory_order_relaxed)) return false;
    if (rendezvous->mode == MSI_CMA_MODE_ALWAYS) return true;
    uint32_t result = atomic_load_explicit(&other->result[class], memory_order_relaxed);
    if (result != MSI_CMA_UNDECIDED) return result == MSI_CMA_FASTER;
    return rendezvous->undecided[class]++ / MSI_CMA_TRIALS % 2 == 0;
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
