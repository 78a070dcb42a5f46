/*
 * host.h - collectives among ranks of one host, straight through the region they share.
 *
 * Nearly all of them are one thing, an exchange: some ranks publish their input, all of it or a part for each reader, and
 * some ranks read what was published and copy or fold it.
 *
 *                    publishers   layout   readers   action
 *   broadcast        root         whole    all       copy
 *   scatter          root         parts    all       copy
 *   gather           all          whole    root      copy
 *   all_gather       all          whole    all       copy
 *   all_to_all       all          parts    all       copy
 *   reduce           all          whole    root      fold
 *   all_reduce       all          whole    all       fold       small ones; large ones: all_reduce.c
 *   reduce_scatter   all          parts    all       fold
 *   barrier          all          nothing  all       –
 *
 * What is published lies in the slot itself, in a small cell, in big cells that are filled and drained round by round, or
 * stays where it is if that is memory that the others can map. Folding is always in rank order, by the rank that needs the
 * result or once for all: every rank gets the same bits.
 *
 * An operation is advanced until it is done; it never blocks, so blocking and non-blocking calls are the same code. Bytes
 * moved per rank, n ranks, p bytes published: p in and the p of every publisher out; one hand-over of a line per publisher
 * for what fits into a slot.
 */
#ifndef MSI_ENGINE_SHM_SHM_COLL_H
#define MSI_ENGINE_SHM_SHM_COLL_H

#include "reduce/reduce.h"
#include "transport/shm_region.h"

enum msi_advance {
    MSI_BLOCKED, /* nothing to do before another rank does something */
    MSI_MOVED,
    MSI_DONE,
    MSI_FAILED, /* status and culprit say how */
};

/* One block for each rank, or a single one. */
struct msi_blocks {
    char *base;        /* block r begins r * each behind it … */
    size_t each;       /* … and has so many bytes, unless */
    char *const *list; /* not NULL: where block r is */
    const size_t *
        lens; /* not NULL: how many bytes it has; with base, blocks then lie one behind the other, see starts */
    const size_t *starts;
};

static inline char *msi_block(const struct msi_blocks *blocks, int rank) {
    if (blocks->list) return blocks->list[rank];
    return blocks->base + (blocks->starts ? blocks->starts[rank] : (size_t)rank * blocks->each);
}

static inline size_t msi_block_len(const struct msi_blocks *blocks, int rank) {
    return blocks->lens ? blocks->lens[rank] : blocks->each;
}

/* Have so many bytes of in and out any in common? */
static inline bool msi_blocks_overlap(const struct msi_blocks *in, const struct msi_blocks *out,
                                      size_t bytes) {
    return in->base < out->base + bytes && out->base < in->base + bytes;
}

enum msi_shm_phase { MSI_ANNOUNCE, MSI_MEET, MSI_MOVE, MSI_SETTLE };

struct msi_shm_coll {
    enum msi_advance (*advance)(struct msi_shm_coll *op);
    bool (*needs)(const struct msi_shm_coll *op, int rank); /* something of that rank, still? */
    struct msi_shm_region *region;

    /* What it is; set by whoever begins it. */
    struct msi_call_signature told;
    uint32_t signature;    /* of what all ranks must have called alike */
    bool parts;            /* a part for each reader is published, else the whole */
    bool nothing;          /* barrier */
    bool uneven;           /* the blocks differ in length, by in.lens or out.lens */
    int publisher;         /* -1: all */
    int reader;            /* -1: all */
    struct msi_blocks in;  /* whole: in.base and in.each; parts: a block for each reader */
    struct msi_blocks out; /* copy: a block for each publisher, where there are several; fold: one block */
    const struct msi_reducer *reducer; /* NULL: copy */
    struct msi_reduce_scale scale;
    size_t element;       /* bytes; what is folded is cut only between elements */
    const void **sources; /* room for a pointer per rank */
    void **targets;       /* likewise */
    /* Gives the address of another rank's memory; NULL if it cannot be mapped. */
    void *(*map)(void *context, int rank, const struct msi_arena_ref *where, size_t skip, size_t len);
    void *context;

    /* Where in (and for a large all_reduce out) lie, if the others may use them in place until the operation is over. */
    struct msi_arena_ref in_where, out_where;

    /* How far it is. */
    uint64_t seq;
    enum msi_shm_phase phase;
    enum msi_slot_mode mode; /* of what this rank publishes */
    size_t chunk;            /* bytes of a block that one round moves */
    uint32_t rounds, filled; /* of what this rank publishes */
    uint32_t drained, to_drain;
    int peer;       /* how many of the publishers this round has seen */
    bool must_tell; /* a publisher waits to hear how far this rank has read */
    mst_status status;
    int culprit;
    uint64_t differing; /* the operation in which ranks differ, where that is an earlier one */
    const char *what;   /* of a failure */
};

/* Begins an exchange as described, as the region's next operation. */
void msi_shm_exchange(struct msi_shm_coll *op);

/* Begins a large all_reduce, or with a reader a large reduce: in.base, out.base and in.each count. */
void msi_shm_all_reduce(struct msi_shm_coll *op);

/*
 * The same at once, for what is small: announces the exchange, if all that this rank publishes fits into a slot or a small cell
 * and the slot is free, without looking whether anybody else has come. False: nothing has happened.
 */
bool msi_shm_begin_now(struct msi_shm_coll *op);
/* Reads what is there of it. MSI_DONE, MSI_BLOCKED or MSI_FAILED; MSI_MOVED: it is more than can be read at once. */
enum msi_advance msi_shm_look_now(struct msi_shm_coll *op);
/* What was begun so goes on as one that msi_shm_exchange has begun. */
void msi_shm_resume(struct msi_shm_coll *op);

/* Ranks that have not begun the operation: writes at most max and returns how many there are. */
int msi_shm_missing(const struct msi_shm_region *region, uint64_t seq, int *ranks, int max);

/* For this room alone. */
static inline struct msi_slot *msi_shm_slot(const struct msi_shm_coll *op, int rank) {
    return &op->region->areas[rank].slots[op->seq % MSI_SLOTS];
}
/* Lets the others read this rank's input in place, if that can be and pays: in_where. */
bool msi_shm_lend(struct msi_shm_coll *op);
/* How many blocks a cell has: a rank publishes none for itself. */
static inline size_t msi_shm_blocks(const struct msi_shm_coll *op) {
    return op->parts && op->region->size > 1 ? (size_t)op->region->size - 1 : 1;
}
/* Which of its publisher's blocks is the reader's. */
static inline size_t msi_shm_part(const struct msi_shm_coll *op, int publisher, int reader) {
    return op->parts ? (size_t)(reader - (reader > publisher)) : 0;
}
/* Has everybody read what this rank last put into its big cells? */
bool msi_shm_big_free(const struct msi_shm_region *region);
enum msi_advance msi_shm_fail(struct msi_shm_coll *op, mst_status status, int culprit, const char *what);
/*
 * Fails if a rank whose memory is used in place has given up: then that is its program's again, and what was read there may
 * be anything. To be asked after reading.
 */
enum msi_advance msi_shm_still_lent(struct msi_shm_coll *op);
/* Announces the operation, in a slot whose payload is there. */
static inline void msi_shm_announce(const struct msi_shm_coll *op, struct msi_slot *slot,
                                    enum msi_slot_mode mode) {
    struct msi_shm_region *region = op->region;
    slot->mode = mode;
    slot->history = region->history;
    slot->told = op->told;
    msi_shm_region_announce(region, &slot->flag, op->seq << 32 | op->signature);
    region->seq = op->seq;
    region->signatures[op->seq % MSI_SLOTS] = op->signature;
    region->history = ((region->history ^ op->signature) * 0x9E3779B1u) ^ region->history >> 16;
}
/* All ranks were seen to have announced it. */
static inline void msi_shm_all_came(const struct msi_shm_coll *op) {
    op->region->synced = op->region->verified = op->seq;
}
/* Fails because the rank has announced another call, or others before. */
enum msi_advance msi_shm_differs(struct msi_shm_coll *op, int rank);
/* Has the rank announced the same call, and the same before? MSI_MOVED, MSI_BLOCKED or MSI_FAILED. */
static inline enum msi_advance msi_shm_see(struct msi_shm_coll *op, int rank) {
    const struct msi_slot *slot = msi_shm_slot(op, rank);
    uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire); /* from msi_shm_announce */
    if ((uint32_t)(flag >> 32) != (uint32_t)op->seq) return MSI_BLOCKED;
    bool same =
        (uint32_t)flag == op->signature && slot->history == msi_shm_slot(op, op->region->rank)->history;
    return same ? MSI_MOVED : msi_shm_differs(op, rank);
}

#endif
