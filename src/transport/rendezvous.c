/* rendezvous.c - see rendezvous.h. */
#include "transport/rendezvous.h"
#include "base/nt_copy.h"
#include "os/clock.h"

void msi_rendezvous_set(struct msi_rendezvous *rendezvous, enum msi_copy_mode cma,
                        enum msi_copy_mode nt_stores) {
    static const enum msi_cma_result known[] = {[MSI_COPY_NEVER] = MSI_CMA_SLOWER,
                                                [MSI_COPY_AUTO] = MSI_CMA_UNDECIDED,
                                                [MSI_COPY_ALWAYS] = MSI_CMA_FASTER};
    rendezvous->mode = cma;
    rendezvous->nt_stores = nt_stores;
    for (int class = 0; class < MSI_COPY_CLASSES; class ++)
        atomic_store_explicit(&rendezvous->own->result[class], known[cma], memory_order_relaxed);
}

void msi_rendezvous_try(struct msi_rendezvous *rendezvous) {
    if (!rendezvous->published) msi_cma_publish(&rendezvous->own->token, &rendezvous->token);
    rendezvous->published = true;
    enum msi_cma_access access = msi_cma_try(&rendezvous->other->token);
    rendezvous->tried = access != MSI_CMA_NOT_READY;
    if (access == MSI_CMA_ALLOWED) atomic_store_explicit(&rendezvous->own->can_read, 1, memory_order_relaxed);
}

static bool cma_wanted(struct msi_rendezvous *rendezvous, int class) {
    const struct msi_rendezvous_side *other = rendezvous->other;
    if (rendezvous->mode == MSI_COPY_NEVER) return false;
    if (!atomic_load_explicit(&other->can_read, memory_order_relaxed)) return false;
    if (rendezvous->mode == MSI_COPY_ALWAYS) return true;
    uint32_t result = atomic_load_explicit(&other->result[class], memory_order_relaxed);
    if (result != MSI_CMA_UNDECIDED) return result == MSI_CMA_FASTER;
    return rendezvous->undecided[class]++ / MSI_COPY_TRIALS % 2 == 0;
}

/* Has the link carried a part of this block lately? Notes that it does now. */
static bool was_sent(struct msi_rendezvous *rendezvous, uint64_t number) {
    uint64_t *set = rendezvous->sent[number % MSI_SENT_SETS];
    bool known = set[0] == number || set[1] == number;
    if (set[0] != number) {
        set[1] = set[0];
        set[0] = number;
    }
    return known;
}

bool msi_rendezvous_wanted(struct msi_rendezvous *rendezvous, const struct msi_transfer *send,
                           struct msi_rendezvous_offer *offer) {
    if (send->done || send->len < MSI_RENDEZVOUS_FROM) return false;
    struct msi_arena_ref where = {0};
    if (!rendezvous->unmapped) where = msi_arena_find(send->data, send->len);
    *offer = (struct msi_rendezvous_offer){.from = (uintptr_t)send->data, .bytes = send->len};
    if (where.number && was_sent(rendezvous, where.number)) offer->where = where;
    return offer->where.number || cma_wanted(rendezvous, msi_copy_class(send->len));
}

/* The methods that are measured for receives of that size. */
static unsigned methods_of(const struct msi_rendezvous *rendezvous, size_t bytes) {
    unsigned methods = MSI_METHOD(MSI_BY_CELLS);
    if (MSI_HAS_NT_COPY && bytes >= MSI_COPY_NT_FROM && rendezvous->nt_stores == MSI_COPY_AUTO)
        methods |= MSI_METHOD(MSI_BY_NT);
    if (rendezvous->mode == MSI_COPY_AUTO &&
        atomic_load_explicit(&rendezvous->own->can_read, memory_order_relaxed))
        methods |= MSI_METHOD(MSI_BY_CMA);
    return methods;
}

/* Through cells the other methods are tried one after the other: the sender decides about CMA. */
void msi_rendezvous_begin(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive,
                          bool first_in_cell) {
    const struct msi_copy_trials *trials = &rendezvous->trials;
    int class = msi_copy_class(receive->len);
    unsigned methods = methods_of(rendezvous, receive->len), cells = methods & ~MSI_METHOD(MSI_BY_CMA);
    bool open = !msi_copy_decided(trials, class, methods);
    rendezvous->begun = open && first_in_cell ? msi_now() : 0;
    rendezvous->by_nt = msi_copy_decided(trials, class, cells)
                            ? msi_copy_fastest(trials, class, cells) == MSI_BY_NT
                            : msi_copy_decided(trials, class, MSI_METHOD(MSI_BY_CELLS));
    if (rendezvous->nt_stores == MSI_COPY_ALWAYS) rendezvous->by_nt = true;
}

void msi_rendezvous_end(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive, bool by_cma) {
    if (rendezvous->begun == 0) return;
    int class = msi_copy_class(receive->len);
    unsigned methods = methods_of(rendezvous, receive->len);
    enum msi_copy_method method = by_cma ? MSI_BY_CMA : rendezvous->by_nt ? MSI_BY_NT : MSI_BY_CELLS;
    msi_copy_add(&rendezvous->trials, class, method, receive->len, msi_now() - rendezvous->begun);
    if (rendezvous->mode != MSI_COPY_AUTO || !msi_copy_decided(&rendezvous->trials, class, methods)) return;
    bool faster = msi_copy_fastest(&rendezvous->trials, class, methods) == MSI_BY_CMA;
    atomic_store_explicit(&rendezvous->own->result[class], faster ? MSI_CMA_FASTER : MSI_CMA_SLOWER,
                          memory_order_relaxed);
}
