/*
 * shm_coll.h - collectives among the ranks of one host, through the region that they share.
 *
 * Nearly every collective is an exchange: some ranks publish their input, all of it or a part for each
 * reader, and some ranks read what was published and copy or reduce it.
 *
 *                    src rank     layout   dst rank  action
 *   broadcast        root         whole    all       copy
 *   scatter          root         parts    all       copy
 *   gather           all          whole    root      copy
 *   all_gather       all          whole    all       copy
 *   all_to_all       all          parts    all       copy
 *   reduce           all          whole    root      reduce
 *   all_reduce       all          whole    all       reduce     small ones; large ones: all_reduce.c
 *   reduce_scatter   all          parts    all       reduce
 *   scan, exscan     all          whole    all       reduce     ranks before; large ones: all_reduce.c
 *   barrier          all          nothing  all       -
 *
 * Published data is in the slot itself, in a small cell, in big cells that are filled and drained round by
 * round, or stays in place: memory that the other ranks can map, or large blocks that they read by CMA.
 * Reductions are always in rank order, by the rank that needs the result or once for all: every rank gets the
 * same bits.
 *
 * An operation is advanced until it is done and never blocks. Bytes moved per rank, n ranks, p bytes
 * published: p in and the p of every source rank out; one transfer of a cache line per source rank for what
 * fits into a slot.
 */
#ifndef MSI_ENGINE_SHM_SHM_COLL_H
#define MSI_ENGINE_SHM_SHM_COLL_H

#include "comm/comm_internal.h"
#include "engine/native.h"
#include "transport/maps.h"

/* The state of the engine. */
struct msi_shm {
    struct msi_native native;
    struct msi_maps *maps;         /* of other ranks' memory */
    struct msi_shm_copies *copies; /* NULL before the first large operation */
    bool waits;                    /* this rank has told that it waits */
    const void *sources[];         /* by rank: used by small.c while it has the lock */
};

static inline struct msi_shm *msi_shm(const struct msi_comm *comm) {
    return comm->state;
}

/* Which ranks publish and which read. All, if not the root alone. */
struct msi_shm_shape {
    bool parts; /* a part for each reader is published, else the whole */
    bool src_is_root, dst_is_root;
};
extern const struct msi_shm_shape msi_shm_shapes[MST_KIND_COUNT];
/* Is it a reduction whose work the ranks divide (all_reduce.c)? */
bool msi_shm_is_large_reduction(const struct msi_op *op, int ranks);

enum msi_shm_phase { MSI_ANNOUNCE, MSI_MEET, MSI_MOVE, MSI_SETTLE };

/* The state of one collective. */
struct msi_shm_coll {
    enum msi_advance (*advance)(struct msi_shm_coll *coll);
    bool (*waits_for)(const struct msi_shm_coll *coll, int rank); /* does it still need data of that rank? */
    struct mst_work *work;
    struct msi_shm_region *region;

    /* Derived from the operation. */
    bool parts;   /* a part for each reader is published, else the whole */
    int src_rank; /* the rank that publishes; -1: all */
    int dst_rank; /* the rank that reads; -1: all */
    /* By msi_shm_set_blocks; the fast path does without. */
    bool uneven;          /* the blocks differ in length */
    struct msi_blocks in; /* whole: one block; parts: a block for each reader */
    struct msi_blocks
        out; /* copy: a block for each source rank, where there are several; reduce: one block */

    /* The locations of in, and for a large all_reduce of out, if other ranks may use them in place until the
     * operation is over. */
    struct msi_arena_ref in_where, out_where;

    uint64_t seq;
    enum msi_shm_phase phase;
    enum msi_slot_mode mode; /* of what this rank publishes */
    size_t chunk;            /* bytes of a block that one round moves */
    uint32_t rounds, filled; /* of what this rank publishes */
    uint32_t drained, to_drain;
    size_t own_copied;    /* bytes of this rank's block for itself; SIZE_MAX: all */
    int peer;             /* how many of the source ranks this round has seen */
    int by_cells;         /* how many of them use big cells */
    int by_cma;           /* how many of them let this rank read their buffers by CMA */
    int by_direct;        /* how many of them have mapped memory */
    int copy_class;       /* of large blocks; -1: cells are the only method */
    unsigned methods;     /* by which they can be copied */
    bool nt_stores;       /* this rank copies what it reads with non-temporal stores */
    bool measured;        /* adds the time of this rank's copies to spent */
    int64_t spent;        /* nanoseconds */
    int64_t read_from;    /* when the first copy of another rank's block began */
    int64_t spent_before; /* spent at that time */
    bool must_tell;       /* a source rank waits until this rank says how far it has read */

    /* An entry per rank. */
    const void **sources;
    void **targets;
    size_t *in_starts, *out_starts;
};

/* The state of an operation; the arrays of a collective follow it. */
struct msi_shm_op {
    struct msi_p2p_request message; /* first: p2p/ expects it there */
    struct msi_shm_coll coll;
};

static inline struct msi_shm_coll *msi_shm_coll_of(const struct mst_work *work) {
    return &((struct msi_shm_op *)work->state)->coll;
}

/* Sets uneven, in and out. */
void msi_shm_set_blocks(struct msi_shm_coll *coll);

/* Begins an exchange, as the region's next operation. */
void msi_shm_exchange(struct msi_shm_coll *coll);
/* Begins a large all_reduce, reduce (with a destination rank), scan or exscan. */
void msi_shm_all_reduce(struct msi_shm_coll *coll);

/* The slots suits_now, begin_now and finish_now of comm/engine.h. */
bool msi_shm_suits_now(const struct msi_comm *comm, const struct msi_op *op);
bool msi_shm_begin_now(struct msi_comm *comm, const struct msi_op *op);
bool msi_shm_finish_now(struct msi_comm *comm, const struct msi_op *op);
/* Continues the region's last operation, which msi_shm_begin_now has begun, as an exchange. */
void msi_shm_resume(struct msi_shm_coll *coll);

/* Does rank 0 wake the others when the operation is over? Not if it waits then for what they do when they are
 * awake. */
enum { MSI_SHM_LED_FROM = 32 };
static inline bool msi_shm_is_led(const struct msi_comm *comm, const struct msi_op *op) {
    const struct msi_shm_shape *shape = &msi_shm_shapes[op->desc.kind];
    return comm->size >= MSI_SHM_LED_FROM && !shape->src_is_root && !shape->dst_is_root &&
           msi_op_bytes(op) <= MSI_SLOT_PAYLOAD && msi_shm_suits_now(comm, op);
}
/* This rank has finished operation seq. */
static inline void msi_shm_end(const struct msi_comm *comm, const struct msi_op *op, uint64_t seq) {
    const struct msi_shm_region *region = msi_native(comm)->peers.region;
    msi_shm_region_finish(region, seq);
    if (comm->rank == 0 && msi_shm_is_led(comm, op)) msi_shm_region_wake_finish(region);
}

/* Ranks that have not begun the operation: writes at most max and returns how many there are. */
int msi_shm_missing(const struct msi_shm_region *region, uint64_t seq, int *ranks, int max);

/* The rest is for this folder. */
static inline struct msi_slot *msi_shm_slot(const struct msi_shm_coll *coll, int rank) {
    return &coll->region->areas[rank].slots[coll->seq % MSI_SLOTS];
}
static inline bool msi_shm_is_barrier(const struct msi_shm_coll *coll) {
    return coll->work->op.desc.kind == MST_KIND_BARRIER;
}
static inline bool msi_shm_is_scan(const struct msi_shm_coll *coll) {
    return coll->work->op.desc.kind >= MST_KIND_SCAN;
}
/* How many ranks' inputs this rank reduces, from rank 0 on. */
static inline int msi_shm_sources(const struct msi_op *op, const struct msi_shm_region *region) {
    return op->desc.kind < MST_KIND_SCAN ? region->size : region->rank + (op->desc.kind == MST_KIND_SCAN);
}
/* Reduces count elements of the sources, one array per rank; copy may be NULL. */
static inline void msi_shm_reduce_op(const struct msi_op *op, const struct msi_shm_region *region,
                                     const void *const *sources, void *out, void *copy, size_t count) {
    struct msi_reduce_scale scale = msi_op_scale(op, region->size);
    int n = msi_shm_sources(op, region);
    if (n)
        op->reducer->reduce_local(out, copy, sources, n, count, &scale);
    else
        msi_reduce_identity(op->desc.dtype, op->desc.op, out, count);
}
static inline void msi_shm_reduce(const struct msi_shm_coll *coll, const void *const *sources, void *out,
                                  void *copy, size_t count) {
    msi_shm_reduce_op(&coll->work->op, coll->region, sources, out, copy, count);
}
/* Does a rank have a block that others read? The root of a gather or a reduction keeps its own. */
static inline bool msi_shm_publishes(const struct msi_shm_coll *coll, int rank) {
    return (coll->src_rank < 0 || coll->src_rank == rank) && coll->dst_rank != rank;
}
static inline bool msi_shm_reads(const struct msi_shm_coll *coll) {
    return coll->dst_rank < 0 || coll->dst_rank == coll->region->rank;
}
/* Bytes of the longest block that this rank publishes. */
size_t msi_shm_longest(const struct msi_shm_coll *coll);
/* Sets mode and chunk, and in_where for MSI_SLOT_DIRECT. */
void msi_shm_choose_mode(struct msi_shm_coll *coll);

/* copies.c. Decides how large blocks are copied: sets nt_stores, measured, methods and copy_class. Returns
 * whether the publishers let the others read their buffers by CMA. All ranks call it. */
bool msi_shm_plan_copies(struct msi_shm_coll *coll);
/* Reads len bytes at an offset of the input of a rank in MSI_SLOT_CMA. */
enum msi_advance msi_shm_cma_read(struct msi_shm_coll *coll, int rank, size_t at, void *to, size_t len);
/* Bytes that are read in one round, unless several threads read. Half of a small L2 cache. */
enum { MSI_SHM_CMA_CHUNK = 512 << 10 };
/* Called when the operation is over: records how long this rank copied, if that was measured. */
void msi_shm_end_copies(const struct msi_shm_coll *coll);
void msi_shm_free_copies(struct msi_shm_copies *copies);

/* The address of another rank's memory; NULL if it cannot be mapped. */
static inline void *msi_shm_map(const struct msi_shm_coll *coll, int rank, const struct msi_arena_ref *where,
                                size_t skip, size_t len) {
    return msi_maps_find(msi_shm(coll->work->comm)->maps, rank, where, skip, len);
}
/*
 * The threads that move the data of a large operation: each takes parts of it, with arrays of its own.
 * User-defined operations are not called by several threads at a time.
 */
enum { MSI_SHM_TEAM_RANKS = 64, MSI_SHM_TEAM_FROM = 512 << 10 };
static inline struct msi_team *msi_shm_team(const struct msi_shm_coll *coll) {
    size_t most = coll->in.each > coll->out.each ? coll->in.each : coll->out.each;
    bool alone = coll->region->size > MSI_SHM_TEAM_RANKS || coll->work->op.user ||
                 (!coll->uneven && most < MSI_SHM_TEAM_FROM);
    return alone ? NULL : coll->work->comm->config.team;
}
/* Can other ranks read this rank's input in place, and is that faster? Sets *where then. */
bool msi_shm_shares_input(const struct msi_op *op, const struct msi_shm_region *region,
                          struct msi_arena_ref *where);
/* How many blocks a cell has: a rank publishes none for itself. */
static inline size_t msi_shm_blocks(const struct msi_shm_coll *coll) {
    return coll->parts && coll->region->size > 1 ? (size_t)coll->region->size - 1 : 1;
}
/* Which of the blocks of a source rank is for a reader. */
static inline size_t msi_shm_part(const struct msi_shm_coll *coll, int src_rank, int reader) {
    return coll->parts ? (size_t)(reader - (reader > src_rank)) : 0;
}
/* Have all other ranks said that they have read everything (must_tell)? */
bool msi_shm_all_have_read(const struct msi_shm_coll *coll);
/* Have all readers read what this rank last put into its big cells? */
bool msi_shm_big_free(const struct msi_shm_region *region);
/*
 * Fails if a rank whose memory is used in place has failed: its program may have changed that memory, so the
 * data that was read may be wrong. Must be called after reading.
 */
enum msi_advance msi_shm_check_in_place(struct msi_shm_coll *coll);
/* Announces the next operation, in a slot whose payload is complete. */
static inline void msi_shm_announce_call(struct msi_shm_region *region, enum msi_slot_mode mode,
                                         const struct msi_call_signature *signature, uint32_t hash) {
    uint64_t seq = ++region->seq;
    struct msi_area *own = msi_shm_region_own(region);
    struct msi_slot *slot = &own->slots[seq % MSI_SLOTS];
    own->calls[seq % MSI_SLOTS] = *signature;
    slot->mode = mode;
    slot->history = region->history;
    msi_shm_region_announce(region, &slot->flag, seq << 32 | hash);
    region->signatures[seq % MSI_SLOTS] = hash;
    region->history = msi_history(region->history, hash);
    /* The other ranks have read the next slot: fetches it for writing, while this rank waits for them. */
    __builtin_prefetch(&own->slots[(seq + 1) % MSI_SLOTS], 1);
}
static inline void msi_shm_announce(const struct msi_shm_coll *coll, enum msi_slot_mode mode) {
    const struct msi_op *op = &coll->work->op;
    msi_shm_announce_call(coll->region, mode, &op->signature, op->hash);
}
/* Called when all ranks have announced the operation. */
static inline void msi_shm_all_came(const struct msi_shm_coll *coll) {
    coll->region->synced = coll->region->verified = coll->seq;
}
/* Fails because the rank has announced another call, or other calls before. */
enum msi_advance msi_shm_differs(struct msi_shm_coll *coll, int rank);
/* Has the rank announced that operation with the same hash, and the same calls before? MSI_MOVED,
 * MSI_BLOCKED; MSI_FAILED: another call. */
static inline enum msi_advance msi_shm_has_announced(const struct msi_shm_region *region, uint64_t seq,
                                                     uint32_t hash, int rank) {
    const struct msi_slot *slot = &region->areas[rank].slots[seq % MSI_SLOTS];
    /* From msi_shm_announce_call. */
    uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire);
    if ((uint32_t)(flag >> 32) != (uint32_t)seq) return MSI_BLOCKED;
    bool same =
        (uint32_t)flag == hash && slot->history == msi_shm_region_own(region)->slots[seq % MSI_SLOTS].history;
    return same ? MSI_MOVED : MSI_FAILED;
}
/* The same for the operation under way. MSI_MOVED, MSI_BLOCKED or MSI_FAILED, with work->fault. */
static inline enum msi_advance msi_shm_see(struct msi_shm_coll *coll, int rank) {
    enum msi_advance seen = msi_shm_has_announced(coll->region, coll->seq, coll->work->op.hash, rank);
    return seen == MSI_FAILED ? msi_shm_differs(coll, rank) : seen;
}

#endif
