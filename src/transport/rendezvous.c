/* rendezvous.c - large sends whose bytes do not go through a ring. See rendezvous.h. */
#include "transport/rendezvous.h"
#include "base/hash.h"
#include "os/clock.h"

#include <unistd.h>

void msi_rendezvous_set(struct msi_rendezvous *rendezvous, enum msi_cma_mode pulling) {
    rendezvous->pulling = pulling;
    /* Who measures nothing has made up its mind. */
    for (int class = 0; class < MSI_CMA_CLASSES; class ++)
        atomic_store_explicit(&rendezvous->own->verdict[class],
                              pulling == MSI_CMA_MODE_NEVER ? MSI_CMA_STAGED : MSI_CMA_UNDECIDED,
                              memory_order_relaxed);
}

/* Says, once, where the other side finds a mark in this process's memory: not before the process that uses the link does. */
static void introduce(struct msi_rendezvous *rendezvous) {
    struct msi_side *own = rendezvous->own;
    msi_random(&rendezvous->mark, sizeof rendezvous->mark);
    own->pid = (int32_t)getpid();
    own->address = (uintptr_t)&rendezvous->mark;
    own->mark = rendezvous->mark;
    atomic_store_explicit(&own->ready, 1, memory_order_release); /* to msi_rendezvous_try */
    rendezvous->introduced = true;
}

void msi_rendezvous_try(struct msi_rendezvous *rendezvous) {
    const struct msi_side *other = rendezvous->other;
    uint64_t mark = 0;
    if (!rendezvous->introduced) introduce(rendezvous);
    /* Acquires what introduce released: the fields of the other side. */
    if (!atomic_load_explicit(&other->ready, memory_order_acquire)) return;
    rendezvous->tried = true;
    if (!msi_cma_read(other->pid, other->address, &mark, sizeof mark) || mark != other->mark) return;
    atomic_store_explicit(&rendezvous->own->pulls, 1, memory_order_relaxed);
}

bool msi_rendezvous_wanted(struct msi_rendezvous *rendezvous, const struct msi_transfer *send) {
    int class = send->done == 0 ? msi_cma_class(send->len) : -1;
    if (class < 0 || rendezvous->pulling == MSI_CMA_MODE_NEVER) return false;
    const struct msi_side *other = rendezvous->other;
    if (!atomic_load_explicit(&other->pulls, memory_order_relaxed)) return false;
    if (rendezvous->pulling == MSI_CMA_MODE_ALWAYS) return true;
    uint32_t verdict = atomic_load_explicit(&other->verdict[class], memory_order_relaxed);
    return verdict == MSI_CMA_UNDECIDED ? rendezvous->turns[class]++ % 2 : verdict == MSI_CMA_PULLED;
}

void msi_rendezvous_begin(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive,
                          bool first_in_cell) {
    int class = msi_cma_class(receive->len);
    bool open = class >= 0 && msi_cma_verdict_of(&rendezvous->trials, class) == MSI_CMA_UNDECIDED;
    rendezvous->begun = open && first_in_cell ? msi_now() : 0;
}

void msi_rendezvous_end(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive, bool pulled) {
    if (rendezvous->begun == 0) return;
    int class = msi_cma_class(receive->len);
    uint32_t verdict =
        msi_cma_judge(&rendezvous->trials, class, pulled, receive->len, msi_now() - rendezvous->begun);
    atomic_store_explicit(&rendezvous->own->verdict[class], verdict, memory_order_relaxed);
}
