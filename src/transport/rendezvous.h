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
struct msi_loan {
    uint64_t from, bytes;
};

/* What a side says of itself, in memory that both have mapped. Starts as zeros. */
struct msi_side {
    _Atomic uint32_t closed;
    _Atomic uint32_t ready; /* pid, address and mark are there: who can pull the mark can pull anything */
    _Atomic uint32_t pulls; /* it can pull from the other side … */
    /* … and wants to, for messages of a class: enum msi_pull_verdict */
    _Atomic uint32_t verdict[MSI_PULL_CLASSES];
    int32_t pid;
    uint64_t address, mark;
    char pad[128 - 56];
};

_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2,
               "processes share these: 32 bits without a lock");
_Static_assert(sizeof(struct msi_side) == 128, "a side has its own lines");

/* What a side keeps for itself; own and other are given, all else starts as zeros. Stays in place. */
struct msi_lending {
    struct msi_side *own, *other;
    enum msi_pulling pulling;
    unsigned turns[MSI_PULL_CLASSES]; /* sends of a class that were not decided yet */
    uint64_t mark;
    bool introduced, tried; /* to pull the other side's mark */
    struct msi_pull_trials trials;
    int64_t begun; /* when the first byte of the large receive came that is under way */
};

void msi_lending_set(struct msi_lending *lending, enum msi_pulling pulling);

/* One step toward knowing whether this process can read the other one's memory; until it was tried. */
void msi_lending_try(struct msi_lending *lending);

/* Shall the other side pull this send? */
bool msi_lending_wanted(struct msi_lending *lending, const struct msi_transfer *send);

/* Around a large receive: how fast it is served counts from its first byte, if that comes first in its cell, to its last. */
void msi_lending_begin(struct msi_lending *lending, const struct msi_transfer *receive, bool first_in_cell);
void msi_lending_end(struct msi_lending *lending, const struct msi_transfer *receive, bool pulled);

/* Is this receive measured? */
static inline bool msi_lending_measures(const struct msi_lending *lending,
                                        const struct msi_transfer *receive) {
    return lending->pulling == MSI_PULLING_JUDGED && receive->len >= MSI_PULL_FROM;
}

#endif
