/*
 * copies.c - how large blocks are copied: through cells, with non-temporal stores or without, or by CMA from
 * the publisher's buffer. It depends on the machine, the operation and the size which is fastest. So the
 * ranks take turns with the methods in the first operations of each size, and each rank publishes whether it
 * wants CMA. Non-temporal stores are the reader's own choice. See shm_coll.h and transport/copy_trials.h.
 */
#include "base/error.h"
#include "base/nt_copy.h"
#include "engine/shm/shm_coll.h"
#include "os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 64 };
_Static_assert((int)MST_KIND_COUNT <= (int)MSI_CMA_KINDS, "msi_cma_side.results has a row for each kind");

/* Where this rank reads from: through cells or by CMA; from mapped memory. */
enum source_kind { STAGED, DIRECT, SOURCE_KINDS };

/* Of one kind of operation. */
struct kind_trials {
    struct msi_copy_trials of[SOURCE_KINDS];
    bool used[SOURCE_KINDS][MSI_COPY_CLASSES];
    enum source_kind last[MSI_COPY_CLASSES];
    unsigned turns[MSI_COPY_CLASSES];     /* operations before all ranks had decided */
    unsigned own_turns[MSI_COPY_CLASSES]; /* trials of this rank after that, without CMA */
};

/* What this rank knows about the others. Made for the first large operation. */
struct msi_shm_copies {
    uint64_t token;
    uint64_t tried, allowed; /* a bit per rank: may this rank read its memory? */
    struct kind_trials kinds[MST_KIND_COUNT];
};

static struct msi_cma_side *side(const struct msi_shm_coll *coll, int rank) {
    return &coll->region->areas[rank].cma;
}

static struct kind_trials *trials_of(const struct msi_shm_coll *coll) {
    return &msi_shm(coll->work->comm)->copies->kinds[coll->work->op.desc.kind];
}

/* Ranks that share processors also share their caches: only a scatter is slower through cells, since one rank
 * fills those of all. */
static enum msi_copy_mode cma_mode(const struct msi_shm_coll *coll) {
    const struct msi_comm *comm = coll->work->comm;
    bool measures = comm->config.cma == MSI_COPY_AUTO;
    if (measures && comm->ranks.oversubscribed && coll->work->op.desc.kind != MST_KIND_SCATTER)
        return MSI_COPY_NEVER;
    return msi_comm_cma_mode(comm);
}

/* The size class of an operation; -1 if cells are the only method. */
static int class_of(const struct msi_shm_coll *coll) {
    if (coll->work->op.reducer || coll->uneven || msi_shm_is_barrier(coll)) return -1;
    if (coll->region->size > RANKS_MOST) return -1;
    size_t bytes = msi_op_bytes(&coll->work->op);
    bool small = bytes * msi_shm_blocks(coll) <= MSI_SMALL_CELL; /* small.c may have published it */
    return small ? -1 : msi_copy_class(bytes);
}

/* Tries to read the memory of the ranks that were not tried yet. */
static void try_others(const struct msi_shm_coll *coll, struct msi_shm_copies *copies) {
    int size = coll->region->size;
    uint64_t all = UINT64_MAX >> (64 - size), own = UINT64_C(1) << coll->region->rank;
    if ((copies->tried | own) == all) return;
    for (int r = 0; r < size; r++) {
        uint64_t bit = UINT64_C(1) << r;
        if ((copies->tried | own) & bit) continue;
        enum msi_cma_access access = msi_cma_try(&side(coll, r)->token);
        if (access != MSI_CMA_NOT_READY) copies->tried |= bit;
        if (access == MSI_CMA_ALLOWED) copies->allowed |= bit;
    }
    /* Only the meaning of the flag itself is read. */
    if ((copies->allowed | own) == all)
        atomic_store_explicit(&side(coll, coll->region->rank)->can_read, 1, memory_order_relaxed);
}

/* Returns NULL without memory. */
static struct msi_shm_copies *prepare(const struct msi_shm_coll *coll) {
    struct msi_shm *shm = msi_shm(coll->work->comm);
    if (!shm->copies) shm->copies = calloc(1, sizeof *shm->copies);
    if (!shm->copies || cma_mode(coll) == MSI_COPY_NEVER) return shm->copies;
    struct msi_cma_side *own = side(coll, coll->region->rank);
    if (!shm->copies->token) msi_cma_publish(&own->token, &shm->copies->token);
    try_others(coll, shm->copies);
    return shm->copies;
}

/* Does a rank read blocks of others? */
static bool is_reader(const struct msi_shm_coll *coll, int rank) {
    return (coll->dst_rank < 0 || coll->dst_rank == rank) && rank != coll->src_rank;
}

/* The methods that the readers of this operation can use. */
static unsigned methods_of(const struct msi_shm_coll *coll) {
    size_t blocks = coll->src_rank >= 0 ? 1 : (size_t)coll->region->size,
           bytes = msi_op_bytes(&coll->work->op) * blocks;
    unsigned methods = MSI_METHOD(MSI_BY_CELLS);
    if (MSI_HAS_NT_COPY && bytes >= MSI_COPY_NT_FROM && coll->work->comm->config.nt_stores == MSI_COPY_AUTO)
        methods |= MSI_METHOD(MSI_BY_NT);
    if (cma_mode(coll) == MSI_COPY_NEVER) return methods;
    for (int r = 0; r < coll->region->size; r++)
        if (is_reader(coll, r) && !atomic_load_explicit(&side(coll, r)->can_read, memory_order_relaxed))
            return methods;
    return methods | MSI_METHOD(MSI_BY_CMA);
}

/* What the readers have published. */
struct votes {
    int for_cma; /* less those against it */
    bool open;   /* not all have decided */
};

static struct votes count_votes(const struct msi_shm_coll *coll) {
    struct votes votes = {0, false};
    for (int r = 0; r < coll->region->size; r++) {
        if (!is_reader(coll, r)) continue;
        uint32_t result = atomic_load_explicit(
            &side(coll, r)->results[coll->work->op.desc.kind][coll->copy_class], memory_order_relaxed);
        votes.for_cma += result == MSI_CMA_FASTER ? 1 : -1;
        votes.open |= result == MSI_CMA_UNDECIDED;
    }
    return votes;
}

/* Has this rank trials of these methods to make? A program may use both kinds of sources in turn. */
static bool has_trials(const struct msi_shm_coll *coll, unsigned methods, bool only_cma) {
    const struct kind_trials *kind = trials_of(coll);
    int class = coll->copy_class;
    bool staged = kind->used[STAGED][class], direct = kind->used[DIRECT][class];
    if (!staged && !direct) return true;
    if (staged && !only_cma && !msi_copy_decided(&kind->of[STAGED], class, methods)) return true;
    return direct && !msi_copy_decided(&kind->of[DIRECT], class, methods & ~MSI_METHOD(MSI_BY_CMA));
}

/* Will this rank read from mapped memory? The others probably do as it does, or as they did. */
static enum source_kind expected_source(const struct msi_shm_coll *coll) {
    if (!msi_shm_publishes(coll, coll->region->rank)) return trials_of(coll)->last[coll->copy_class];
    return coll->in_where.number ? DIRECT : STAGED;
}

static bool nt_is_fastest(const struct msi_shm_coll *coll) {
    unsigned methods = coll->methods & ~MSI_METHOD(MSI_BY_CMA);
    const struct msi_copy_trials *trials = &trials_of(coll)->of[expected_source(coll)];
    return msi_copy_fastest(trials, coll->copy_class, methods) == MSI_BY_NT;
}

bool msi_shm_plan_copies(struct msi_shm_coll *coll) {
    enum msi_copy_mode nt = coll->work->comm->config.nt_stores;
    int class = coll->copy_class = class_of(coll);
    coll->spent = coll->read_from = 0;
    coll->measured = coll->nt_stores = false;
    if (class >= 0 && !prepare(coll)) class = coll->copy_class = -1;
    if (class < 0) return false;
    struct kind_trials *kind = trials_of(coll);
    struct votes votes = count_votes(coll);
    unsigned methods = coll->methods = methods_of(coll);
    bool can = methods & MSI_METHOD(MSI_BY_CMA), chosen = !votes.open && can && votes.for_cma > 0;
    if (!votes.open) methods &= ~MSI_METHOD(MSI_BY_CMA);
    bool trial = has_trials(coll, methods, chosen) && is_reader(coll, coll->region->rank);
    unsigned *turn = votes.open ? &kind->turns[class] : &kind->own_turns[class];
    enum msi_copy_method method = msi_copy_in_turn(class, methods, *turn);
    if (trial || votes.open) ++*turn;
    coll->measured = trial;
    coll->nt_stores = trial ? method == MSI_BY_NT : nt_is_fastest(coll);
    if (nt == MSI_COPY_ALWAYS) coll->nt_stores = true;
    if (cma_mode(coll) == MSI_COPY_ALWAYS) return can;
    return votes.open ? method == MSI_BY_CMA : chosen;
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

/* The method by which this rank has read from all sources. Returns false if it was not one. */
static bool was_by(const struct msi_shm_coll *coll, enum msi_copy_method *method) {
    int sources = coll->src_rank >= 0 ? 1 : coll->region->size - 1;
    bool publishes = msi_shm_publishes(coll, coll->region->rank);
    if (coll->by_cma != sources && coll->by_cells != sources && coll->by_direct != sources) return false;
    if (publishes && (coll->mode == MSI_SLOT_CMA) != (coll->by_cma > 0)) return false;
    *method = coll->by_cma ? MSI_BY_CMA : coll->nt_stores ? MSI_BY_NT : MSI_BY_CELLS;
    return true;
}

void msi_shm_end_copies(const struct msi_shm_coll *coll) {
    int class = coll->copy_class, sources = coll->src_rank >= 0 ? 1 : coll->region->size - 1;
    enum msi_copy_method method;
    if (class < 0 || !is_reader(coll, coll->region->rank)) return;
    struct kind_trials *kind = trials_of(coll);
    enum source_kind source = coll->by_direct ? DIRECT : STAGED;
    kind->last[class] = source;
    kind->used[source][class] = true;
    if (!coll->measured || !was_by(coll, &method)) return;
    msi_copy_add(&kind->of[source], class, method, msi_op_bytes(&coll->work->op) * (size_t)sources,
                 (int64_t)cost(coll));
    if (source == DIRECT || !msi_copy_decided(&kind->of[STAGED], class, coll->methods)) return;
    bool cma = msi_copy_fastest(&kind->of[STAGED], class, coll->methods) == MSI_BY_CMA;
    /* Read by count_votes of all ranks. */
    atomic_store_explicit(&side(coll, coll->region->rank)->results[coll->work->op.desc.kind][class],
                          cma ? MSI_CMA_FASTER : MSI_CMA_SLOWER, memory_order_relaxed);
}

enum msi_advance msi_shm_cma_read(struct msi_shm_coll *coll, int rank, size_t at, void *to, size_t len) {
    uint64_t from = msi_shm_slot(coll, rank)->from + at;
    int error = msi_cma_read_by(msi_shm_team(coll), side(coll, rank)->token.pid, from, to, len);
    if (!error) return MSI_MOVED;
    if (msi_shm_check_in_place(coll) == MSI_FAILED) return MSI_FAILED; /* its buffer may be gone since */
    bool refused = error == EPERM || error == ENOMEM;                  /* the rank may be alive */
    return msi_fault(coll->work, refused ? MST_ERR_SYSTEM : MST_ERR_PEER_LOST, rank, strerror(error));
}

void msi_shm_free_copies(struct msi_shm_copies *copies) {
    free(copies);
}
