/*
 * cma.c - large blocks that the readers copy from the publisher's buffer by CMA (transport/cma.h): one copy
 * instead of two through a cell. It depends on the machine, the operation and the size which of the two is
 * faster. So the ranks try both in operations that are selected by their numbers, and each publishes what was
 * faster for it. See shm_coll.h.
 */
#include "base/error.h"
#include "engine/shm/shm_coll.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 64 };
_Static_assert((int)MST_KIND_COUNT <= (int)MSI_CMA_KINDS, "msi_cma_side.results has a row for each kind");

/* What this rank knows about the others. Made for the first large operation. */
struct msi_shm_cma {
    uint64_t token;
    uint64_t tried, allowed; /* a bit per rank: may this rank read its memory? */
    struct msi_cma_trials trials[MST_KIND_COUNT];
};

static struct msi_cma_side *side(const struct msi_shm_coll *coll, int rank) {
    return &coll->region->areas[rank].cma;
}

/* Ranks that share processors also share their caches: only a scatter is slower through cells, since one rank
 * fills those of all. */
static enum msi_cma_mode mode(const struct msi_comm *comm, mst_kind kind) {
    bool measures = comm->config.cma == MSI_CMA_MODE_AUTO;
    if (measures && comm->ranks.oversubscribed && kind != MST_KIND_SCATTER) return MSI_CMA_MODE_NEVER;
    return msi_comm_cma_mode(comm);
}

/* The size class of an operation; -1 if it never uses CMA. */
static int class_of(const struct msi_shm_coll *coll) {
    const struct msi_comm *comm = coll->work->comm;
    if (coll->work->op.reducer || coll->uneven || msi_shm_is_barrier(coll)) return -1;
    if (comm->size > RANKS_MOST || mode(comm, coll->work->op.desc.kind) == MSI_CMA_MODE_NEVER) return -1;
    size_t bytes = msi_op_bytes(&coll->work->op);
    bool small = bytes * msi_shm_blocks(coll) <= MSI_SMALL_CELL; /* small.c may have published it */
    return small ? -1 : msi_cma_class(bytes);
}

/* Tries to read the memory of the ranks that were not tried yet. */
static void try_others(const struct msi_shm_coll *coll, struct msi_shm_cma *cma) {
    int size = coll->region->size;
    uint64_t all = UINT64_MAX >> (64 - size), own = UINT64_C(1) << coll->region->rank;
    if ((cma->tried | own) == all) return;
    for (int r = 0; r < size; r++) {
        uint64_t bit = UINT64_C(1) << r;
        if ((cma->tried | own) & bit) continue;
        enum msi_cma_access access = msi_cma_try(&side(coll, r)->token);
        if (access != MSI_CMA_NOT_READY) cma->tried |= bit;
        if (access == MSI_CMA_ALLOWED) cma->allowed |= bit;
    }
    /* Only the meaning of the flag itself is read. */
    if ((cma->allowed | own) == all)
        atomic_store_explicit(&side(coll, coll->region->rank)->can_read, 1, memory_order_relaxed);
}

/* Returns NULL without memory. */
static struct msi_shm_cma *prepare(const struct msi_shm_coll *coll) {
    struct msi_shm *shm = msi_shm(coll->work->comm);
    if (!shm->cma) {
        shm->cma = calloc(1, sizeof *shm->cma);
        if (!shm->cma) return NULL;
        msi_cma_publish(&side(coll, coll->region->rank)->token, &shm->cma->token);
    }
    try_others(coll, shm->cma);
    return shm->cma;
}

static uint32_t result_of(const struct msi_shm_coll *coll, int rank, int class) {
    const struct msi_cma_side *of = side(coll, rank);
    if (mode(coll->work->comm, coll->work->op.desc.kind) == MSI_CMA_MODE_ALWAYS) return MSI_CMA_FASTER;
    return atomic_load_explicit(&of->results[coll->work->op.desc.kind][class], memory_order_relaxed);
}

/* A bit that all ranks choose alike and that no period of a program's calls follows. Eight operations in turn
 * have the same one: the first after a change finds the caches as the other method has left them. */
static bool is_trial_by_cma(uint64_t seq) {
    return (seq >> 3) * 0x9E3779B97F4A7C15u >> 63;
}

bool msi_shm_cma_wanted(struct msi_shm_coll *coll) {
    int class = class_of(coll), faster = 0, me = coll->region->rank;
    bool undecided = false;
    coll->spent = coll->read_from = 0;
    coll->measured = false;
    if (class < 0 || !prepare(coll)) return false;
    for (int r = 0; r < coll->region->size; r++) {
        if ((coll->dst_rank >= 0 && r != coll->dst_rank) || r == coll->src_rank) continue;
        if (!atomic_load_explicit(&side(coll, r)->can_read, memory_order_relaxed)) {
            coll->measured = false;
            return false;
        }
        uint32_t result = result_of(coll, r, class);
        faster += result == MSI_CMA_FASTER ? 1 : -1;
        if (result != MSI_CMA_UNDECIDED) continue;
        undecided = true;
        if (r == me) coll->measured = true;
    }
    return undecided ? is_trial_by_cma(coll->seq) : faster > 0;
}

/*
 * What this rank's part of a measured operation takes, in nanoseconds. With one source or one reader that is
 * the time from the first read to the last one; a source that comes late makes it longer for both methods.
 */
static double cost(const struct msi_shm_coll *coll) {
    double rounds = coll->drained, others = coll->region->size - 1;
    switch (coll->work->op.desc.kind) {
    case MST_KIND_BROADCAST:
    case MST_KIND_GATHER:
        /* Others fill the next cells while this rank reads: from its first read to its last one. That lacks
         * the time of filling the first cells. */
        return (double)(msi_now() - coll->read_from) * (coll->by_cma ? 1 : 1 + 1 / rounds);
    case MST_KIND_SCATTER: /* the root fills the cells of all; by CMA they read at the same time */
        return (double)coll->spent * (coll->by_cma ? 1 : 1 + others);
    default: /* all fill and read as much, and wait for each other */
        return (double)(coll->spent_before + msi_now() - coll->read_from);
    }
}

void msi_shm_cma_record(const struct msi_shm_coll *coll) {
    struct msi_shm_cma *cma = msi_shm(coll->work->comm)->cma;
    mst_kind kind = coll->work->op.desc.kind;
    int class = class_of(coll), sources = coll->src_rank >= 0 ? 1 : coll->region->size - 1;
    if (coll->by_cma != sources && coll->by_cells != sources) return;
    bool publishes = msi_shm_publishes(coll, coll->region->rank);
    if (publishes && (coll->mode == MSI_SLOT_CMA) != (coll->by_cma > 0)) return; /* both methods */
    uint32_t result = msi_cma_add_trial(&cma->trials[kind], class, coll->by_cma > 0,
                                        msi_op_bytes(&coll->work->op) * (size_t)sources, (int64_t)cost(coll));
    /* Read by result_of of all ranks. */
    atomic_store_explicit(&side(coll, coll->region->rank)->results[kind][class], (uint8_t)result,
                          memory_order_relaxed);
}

enum msi_advance msi_shm_cma_read(struct msi_shm_coll *coll, int rank, size_t at, void *to, size_t len) {
    uint64_t from = msi_shm_slot(coll, rank)->from + at;
    int error = msi_cma_read_by(msi_shm_team(coll), side(coll, rank)->token.pid, from, to, len);
    if (!error) return MSI_MOVED;
    if (msi_shm_check_in_place(coll) == MSI_FAILED) return MSI_FAILED; /* its buffer may be gone since */
    bool refused = error == EPERM || error == ENOMEM;                  /* the rank may be alive */
    return msi_fault(coll->work, refused ? MST_ERR_SYSTEM : MST_ERR_PEER_LOST, rank, strerror(error));
}

void msi_shm_cma_free(struct msi_shm_cma *cma) {
    free(cma);
}
