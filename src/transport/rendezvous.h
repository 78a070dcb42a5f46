/*
 * rendezvous.h - large sends over shm links that bypass the ring.
 *
 * The sender puts the address of its buffer into a cell. The receiver reads the bytes from the sender's
 * memory and empties the cell, which completes the send. If the sender closes its link before that, it may
 * reuse the buffer, and the receiver discards what it has read.
 *
 * The receiver maps a buffer of mst_alloc (maps.h), which is one copy without a system call. If it cannot,
 * it refuses the offer, and the sender offers no more such buffers on this link. Mapping takes longer than
 * most messages: a block is offered if the link has carried a part of it lately, and may do so again. Other
 * buffers are read by CMA (cma.h), if that is possible and faster than the ring:
 *
 * Each side checks once whether it can read the peer's memory, with a random token at an address that the
 * peer publishes. The receiver measures for which sizes this is faster and publishes the result. Until then
 * the sender tries both in turns of MSI_COPY_TRIALS large sends, so that each is measured with what it leaves
 * in the caches. The receiver never reads more bytes than its receive has posted.
 */
#ifndef MSI_TRANSPORT_RENDEZVOUS_H
#define MSI_TRANSPORT_RENDEZVOUS_H

#include "transport/arena.h"
#include "transport/cma.h"
#include "transport/link.h"

#include <stdatomic.h>

enum {
    MSI_RENDEZVOUS_FROM = 16 << 10, /* bytes; smaller sends never use a rendezvous */
    MSI_SENT_SETS = 64,             /* as maps.c, so that the receiver still has what it has mapped */
};

/* The content of a rendezvous cell. */
struct msi_rendezvous_offer {
    uint64_t from, bytes;
    struct msi_arena_ref where; /* number 0: the buffer cannot be mapped */
};

/* The state that a side publishes in the shared memory. Starts as zeros. */
struct msi_rendezvous_side {
    _Atomic uint32_t closed;
    _Atomic uint32_t can_read;                 /* it can read the peer's memory */
    _Atomic uint32_t result[MSI_COPY_CLASSES]; /* enum msi_cma_result of each size class */
    struct msi_cma_token token;
    _Atomic uint64_t refused; /* number of the cell whose offer this side could not map; 0: none */
    char pad[128 - 72];
};

_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2,
               "processes share these: 32 bits without a lock");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these: 64 bits without a lock");
_Static_assert(sizeof(struct msi_rendezvous_side) == 128, "a side has its own cache lines");

/* Private state of a side. The creator sets own and other; the rest starts as zeros. Must not move. */
struct msi_rendezvous {
    struct msi_rendezvous_side *own, *other;
    enum msi_copy_mode mode, nt_stores;   /* MUSTER_CMA, MUSTER_NT_STORES */
    unsigned undecided[MSI_COPY_CLASSES]; /* sends of each class before its result was known */
    uint64_t token;
    bool published, tried; /* the own token; to read the peer's token */
    bool unmapped;         /* the peer has refused an offer */
    /* Numbers of blocks of mst_alloc, in sets by number. In a set the last one sent comes first. */
    uint64_t sent[MSI_SENT_SETS][2];
    struct msi_copy_trials trials;
    bool by_nt;    /* the current large receive copies from cells with non-temporal stores */
    int64_t begun; /* when its first byte came, if it is measured */
};

void msi_rendezvous_set(struct msi_rendezvous *rendezvous, enum msi_copy_mode cma,
                        enum msi_copy_mode nt_stores);

/* Publishes the token; once the peer has published its own, checks whether its memory is readable. */
void msi_rendezvous_try(struct msi_rendezvous *rendezvous);

/* Should this send use a rendezvous? Sets *offer then. */
bool msi_rendezvous_wanted(struct msi_rendezvous *rendezvous, const struct msi_transfer *send,
                           struct msi_rendezvous_offer *offer);

/* A large receive begins with the first byte of a send, unless that is not the first one of its cell. Sets
 * by_nt. */
void msi_rendezvous_begin(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive,
                          bool first_in_cell);
/* Its last byte has come. */
void msi_rendezvous_end(struct msi_rendezvous *rendezvous, const struct msi_transfer *receive, bool by_cma);

#endif
