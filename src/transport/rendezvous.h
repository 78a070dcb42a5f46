/*
 * rendezvous.h - large sends whose bytes do not go through a ring.
 *
 * The sender lends its buffer, by a cell that says where it is; the receiver pulls the bytes out of the sender's memory and
 * empties the cell, which gives the buffer back. A sender that closes its link has its buffer again: what was pulled
 * meanwhile may be anything.
 *
 * Whether a process may read the other one's memory it tries once, on a mark that the other side shows. For which sizes it pays
 * is measured by the receiver, who tells the sender; while that is being found out, the sender lends every other one. Of
 * what is lent no more is read than was asked for.
 */
#ifndef MSI_TRANSPORT_RENDEZVOUS_H
#define MSI_TRANSPORT_RENDEZVOUS_H

#include "transport/cma.h"
#include "transport/link.h"

#include <stdatomic.h>

/* What the sender of a large message puts into a cell. */
struct msi_rendezvous_offer {
    uint64_t from, bytes;
};

/* What a side says of itself, in memory that both have mapped. Starts as zeros. */
struct msi_side {
    _Atomic uint32_t closed;
    _Atomic uint32_t ready; /* pid, address and mark are there: who can pull the mark can pull anything */
    _Atomic uint32_t pulls; /* it can pull from the other side … */
    /* … and wants to, for messages of a class: enum msi_cma_verdict */
    _Atomic uint32_t verdict[MSI_CMA_CLASSES];
    int32_t pid;
    uint64_t address, mark;
    char pad[128 - 56];
};

_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2,
               "processes share these: 32 bits without a lock");
_Static_assert(sizeof(struct msi_side) == 128, "a side has its own lines");

/* What a side keeps for itself; own and other are given, all else starts as zeros. Stays in place. */
struct msi_rendezvous {
    struct msi_side *own, *other;
    enum msi_cma_mode pulling;
    unsigned turns[MSI_CMA_CLASSES]; /* sends of a class that were not decided yet */
    uint64_t mark;
    bool introduced, tried; /* to pull the other side's mark */
    struct msi_cma_trials trials;
    int64_t begun; /* when the first byte of the large receive came that is under way */
};

void msi_rendezvous_set(struct msi_rendezvous *rendezvous, enum msi_cma_mode pulling);

/* One step toward knowing whether this process can read the other one's memory; until it was tried. */
void msi_rendezvous_try(struct msi_rendezvous *rendezvous);

/* Shall the other side pull this send? */
bool msi_rendezvous_wanted(struct msi_rendezvous *rendezvous, const struct msi_transfer *send);

/* Around a large receive: how fast it is served counts from its first byte, if that comes first in its cell, to its last. */
void msi_rendezvous_begin(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive,
                          bool first_in_cell);
void msi_rendezvous_end(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive, bool pulled);

/* Is this receive measured? */
static inline bool msi_rendezvous_measures(const struct msi_rendezvous *rendezvous,
                                           const struct msi_transfer *receive) {
    return rendezvous->pulling == MSI_CMA_MODE_JUDGED && receive->len >= MSI_CMA_FROM;
}

#endif
