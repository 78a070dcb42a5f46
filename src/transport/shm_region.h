/*
 * shm_region.h - the shared memory of the ranks of a group on one host, and how they wait on it. The ranks
 * here are numbered from 0 within the host. If a group spans hosts, each host has a region, which serves only
 * to open links and to sleep; its slots and cells are unused.
 *
 *   head            which ranks sleep
 *   area of rank 0  slots: one per operation, used cyclically, with small payloads inside
 *                   calls: the signature of the operation in each slot, read only for error messages
 *                   filled, drained: the progress of this rank in a large operation
 *                   gave_up: the operation that it has given up, and why
 *                   finished: the last operation that is over for this rank
 *                   left: it has destroyed the group; waits: it waits for others itself; cause: the
 *                   rank because of which its last call, perhaps in another group, has failed, or for
 *                   which it waits
 *   area of rank 1  …
 *   links           for each pair of ranks: where their links are
 *   cells of rank 0 payloads that do not fit into a slot
 *   cells of rank 1 …
 *
 * Areas are dense: a rank that reads the flags of all ranks touches few pages. The pages of cells exist only
 * while they hold data, or may be used again soon (wireup/memory.h).
 *
 *  1. Each rank writes only its own area and cells, its offers in links and its bit in head, and reads all.
 *     It checks values that it reads before it uses them as an index or a length.
 *  2. Operations are numbered from 1. A rank announces operation s in its slot s % MSI_SLOTS by a flag that
 *     holds the number and a signature of the call. A reader of the slot compares the signature, and the
 *     history of all earlier signatures, with its own.
 *  3. Every store of flag, filled or drained is sequentially consistent, and so is a sleeper's store of its
 *     bit: either the sleeper sees the flag or the writer sees the bit. The loads acquire what was written
 *     before.
 *  4. Before a rank announces s, all ranks have begun s - MSI_SLOTS + 1, so that none still reads the slot.
 *  5. A rank frees its cells only when all ranks have finished the last operation for which it used them.
 */
#ifndef MSI_TRANSPORT_SHM_REGION_H
#define MSI_TRANSPORT_SHM_REGION_H

#include "base/list.h"
#include "transport/arena.h"
#include "transport/cma.h"
#include "transport/shm_mapping.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MSI_SLOTS = 8,
    MSI_SLOT_PAYLOAD = 48,       /* with the flag one cache line */
    MSI_SMALL_CELLS = MSI_SLOTS, /* a cell is free when its slot is (rule 4) */
    MSI_SMALL_CELL = 16 << 10,
    MSI_BIG_CELLS = 1 << 20, /* bytes; each operation divides them, or one half, as it needs */
    MSI_BIG_HALVES = 2,
    MSI_BIG_HALF = MSI_BIG_CELLS / MSI_BIG_HALVES,
    MSI_SHM_REGION_RANKS = 1024,
    MSI_SHM_REGION_PROCESSORS = 1024,
    MSI_SHM_REGION_CHANNELS = 2, /* maximum number of links between two ranks */
    MSI_LINE = 128,              /* two cache lines on x86-64, which fetches them in pairs */
};

/* Where the payload of an operation is: in the slot, in cells, or in the user's buffer, which the others map
 * (direct) or read by CMA. */
enum msi_slot_mode {
    MSI_SLOT_NOTHING,
    MSI_SLOT_INLINE,
    MSI_SLOT_SMALL,
    MSI_SLOT_BIG,
    MSI_SLOT_DIRECT,
    MSI_SLOT_CMA
};

/* The call of a rank and its source location, for the message about mismatched calls. */
struct msi_call_signature {
    uint8_t kind, dtype, op, flags; /* kind: see base/kind.h */
    int32_t root;
    uint64_t count;
    uint32_t line;
    char file[20]; /* the end of the file name; NUL-terminated if shorter */
};
_Static_assert(sizeof(struct msi_call_signature) == 40, "processes share its layout");

/* Flag and payload travel in one cache line: a second one would be fetched while it is being written. */
struct msi_slot {
    _Alignas(MSI_LINE) _Atomic uint64_t flag; /* number << 32 | hash of the signature */
    uint32_t mode;
    uint32_t history; /* hash of the signatures of all earlier operations */
    union {
        unsigned char bytes[MSI_SLOT_PAYLOAD];
        struct {
            struct msi_arena_ref in, out;
        } direct;      /* this rank's buffers, in arena memory */
        uint64_t from; /* the address of its buffer, for CMA */
    };
};
_Static_assert(sizeof(struct msi_slot) == MSI_LINE, "a slot is one line");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these words");

enum { MSI_GAVE_UP_ABORT = 0x7f, MSI_GAVE_UP_MESSAGE = 0x80 };
_Static_assert((int)MST_STATUS_COUNT <= (int)MSI_GAVE_UP_ABORT, "no status is MSI_GAVE_UP_ABORT");

/* What a rank tells another one about a link between them. */
struct msi_offer {
    _Atomic uint64_t where;    /* the segment that it offers: pid << 32 | descriptor + 1; 0: none */
    _Atomic uint64_t inode;    /* valid if where is not 0; the descriptor may have been reused */
    _Atomic uint64_t accepted; /* 1: it has opened the link that the other rank offers */
};
_Static_assert(sizeof(struct msi_offer) == 24, "processes share these");

enum { MSI_CMA_KINDS = 16 }; /* at least the number of kinds of operations */

/* What a rank tells the others about reading their buffers by CMA. */
struct msi_cma_side {
    struct msi_cma_token token;
    _Atomic uint32_t can_read;                                /* it can read the memory of all others */
    _Atomic uint8_t results[MSI_CMA_KINDS][MSI_COPY_CLASSES]; /* enum msi_cma_result */
};
_Static_assert(ATOMIC_CHAR_LOCK_FREE == 2, "processes share these");

struct msi_area {
    struct msi_slot slots[MSI_SLOTS];
    _Alignas(MSI_LINE) struct msi_call_signature calls[MSI_SLOTS];
    _Alignas(MSI_LINE) _Atomic uint64_t filled;  /* number << 24 | rounds whose cells are filled */
    _Alignas(MSI_LINE) _Atomic uint64_t drained; /* number << 24 | rounds that this rank has read */
    _Alignas(MSI_LINE) _Atomic uint64_t wake_fd; /* pid << 32 | descriptor + 1 of this rank's pipe; 0: none */
    _Atomic uint64_t here;                       /* 1: this rank has opened the region */
    /* While it sleeps: rank + 1 whose announcement it waits for, or MSI_AWAITS_FINISH; 0: any event. */
    _Atomic uint64_t awaits;
    /* number << 32 | culprit + 1 << 8 | MSI_GAVE_UP_MESSAGE, for a message | status; 0: none;
     * MSI_GAVE_UP_ABORT instead of a status: it has aborted the group */
    _Alignas(MSI_LINE) _Atomic uint64_t gave_up;
    _Atomic uint64_t left;                        /* 1: this rank has destroyed the group */
    _Atomic uint64_t waits;                       /* 1: this rank has been waiting for others for some time */
    _Atomic uint64_t cause;                       /* msi_cause_word */
    _Alignas(MSI_LINE) _Atomic uint64_t finished; /* this rank has finished all operations up to this one */
    _Alignas(MSI_LINE) struct msi_cma_side cma;
};

/* What a sleeping rank waits for: that rank 0 has finished an operation. */
enum { MSI_AWAITS_FINISH = MSI_SHM_REGION_RANKS + 1 };

struct msi_cells {
    _Alignas(4096) unsigned char small[MSI_SMALL_CELLS][MSI_SMALL_CELL];
    unsigned char big[MSI_BIG_CELLS];
};

/* MSI_CAUSE_RECOVERS: the rank waits in a vote about deaths (group/vote.h). */
enum { MSI_CAUSE_WAITS = 1, MSI_CAUSE_RECOVERS = 2, MSI_CAUSE_SHIFT = 2 };
/* rank -1: none. */
static inline uint64_t msi_cause_word(int rank, bool waits) {
    return (uint64_t)(rank + 1) << MSI_CAUSE_SHIFT | (waits ? MSI_CAUSE_WAITS : 0);
}

struct msi_shm_region_header {
    _Alignas(MSI_LINE) uint64_t magic;
    uint32_t size, padding[2];
    _Atomic uint64_t
        processors[MSI_SHM_REGION_PROCESSORS / 64]; /* one bit per processor that a rank may run on */
    _Alignas(MSI_LINE) _Atomic uint64_t asleep[MSI_SHM_REGION_RANKS / 64]; /* bit per rank */
};

/* The private state of one rank. */
struct msi_shm_region {
    struct msi_list node; /* in the list of its world: wireup/endpoint.h */
    struct msi_shm_mapping *mapping;
    struct msi_shm_region_header *head;
    struct msi_area *areas;   /* by rank */
    struct msi_offer *offers; /* see msi_shm_region_offer */
    struct msi_cells *cells;  /* by rank */
    int rank, size;
    uint64_t seq;                   /* the last operation that this rank has announced */
    uint64_t synced;                /* all ranks have begun this operation */
    uint64_t verified;              /* up to this operation, the calls of all ranks match */
    uint32_t signatures[MSI_SLOTS]; /* of this rank's last operations */
    uint32_t history;               /* hash of the signatures of all its operations */
    uint64_t cells_seq;             /* the last operation for which this rank has used its cells */
    bool small_held, big_held;      /* its cells have pages */
    struct msi_big_use {
        uint64_t seq; /* the last operation that used this half of this rank's big cells */
        int reader;   /* the rank that reads them, or -1 for all */
    } big_use[MSI_BIG_HALVES];
    int wake_fd; /* the pipe that wakes this rank; -1: not open */
};

enum { MSI_SHM_REGION_OFFER_MAX = 96 };

/* Makes the region of a group of size ranks, and the text with which others attach to it. */
mst_status msi_shm_region_make(int rank, int size, struct msi_shm_region **region,
                               char offer[MSI_SHM_REGION_OFFER_MAX]);
/*
 * Opens a region that another rank has made: through that rank, or if holder is not 0 through that process,
 * which has opened it. On failure errno is ENOENT if the process does not have it, or has ended.
 */
mst_status msi_shm_region_attach(const char *offer, int holder, int rank, int size,
                                 struct msi_shm_region **region);
/* Closes the descriptor, after all ranks have attached. */
void msi_shm_region_seal(struct msi_shm_region *region);
void msi_shm_region_close(struct msi_shm_region *region);

static inline struct msi_area *msi_shm_region_own(const struct msi_shm_region *region) {
    return &region->areas[region->rank];
}
static inline struct msi_cells *msi_shm_region_own_cells(const struct msi_shm_region *region) {
    return &region->cells[region->rank];
}
/* What a rank tells another one about their link of that channel. */
static inline struct msi_offer *msi_shm_region_offer(const struct msi_shm_region *region, int from,
                                                     int channel, int to) {
    size_t row =
        (size_t)to * MSI_SHM_REGION_CHANNELS + (size_t)channel; /* few pages for to, which polls it */
    return &region->offers[row * (size_t)region->size + (size_t)from];
}

/* Have all other ranks finished operation seq? */
bool msi_shm_region_is_finished(const struct msi_shm_region *region, uint64_t seq);
/* Frees the pages of this rank's cells, which no rank reads. The next use allocates them again. False: the
 * kernel cannot free them. */
bool msi_shm_region_empty_cells(struct msi_shm_region *region);
/* This rank's share of the bytes without cells. */
size_t msi_shm_region_share(const struct msi_shm_region *region);

/*
 * Slow path of msi_shm_region_wake_all. announcement: skips ranks that wait for another rank's announcement.
 */
void msi_shm_region_wake(const struct msi_shm_region *region, bool announcement);

/* The number of processors on which the ranks of the region may run. */
int msi_shm_region_processors(const struct msi_shm_region *region);

/* Wakes sleepers after a sequentially consistent store. */
static inline void msi_shm_region_wake_all(const struct msi_shm_region *region, bool announcement) {
    uint64_t asleep = 0;
    int words = (region->size + 63) / 64;
    for (int i = 0; i < words; i++)
        asleep |= atomic_load_explicit(&region->head->asleep[i], memory_order_seq_cst);
    if (asleep) msi_shm_region_wake(region, announcement);
}

/* Wakes one rank, if it sleeps, after a sequentially consistent store. */
void msi_shm_region_signal(const struct msi_shm_region *region, int rank);
static inline void msi_shm_region_wake_rank(const struct msi_shm_region *region, int rank) {
    uint64_t asleep = atomic_load_explicit(&region->head->asleep[rank / 64], memory_order_seq_cst);
    if (asleep >> rank % 64 & 1) msi_shm_region_signal(region, rank);
}

/* Publishes earlier writes by raising a word of this rank's area; wakes sleepers. */
static inline void msi_shm_region_post(const struct msi_shm_region *region, _Atomic uint64_t *word,
                                       uint64_t value) {
    /* Rule 3. Pairs with the acquire loads in msi_shm_region_begun and msi_shm_region_reached. */
    atomic_store_explicit(word, value, memory_order_seq_cst);
    msi_shm_region_wake_all(region, false);
}

/* The same for the start of an operation or of a rank; does not wake ranks that wait for another rank's. */
static inline void msi_shm_region_announce(const struct msi_shm_region *region, _Atomic uint64_t *word,
                                           uint64_t value) {
    atomic_store_explicit(word, value, memory_order_seq_cst); /* rule 3, as above */
    msi_shm_region_wake_all(region, true);
}

/* Announces that this rank has opened the region. */
static inline void msi_shm_region_arrive(const struct msi_shm_region *region) {
    msi_shm_region_announce(region, &msi_shm_region_own(region)->here, 1); /* read by msi_shm_region_here */
}
static inline bool msi_shm_region_here(const struct msi_shm_region *region, int rank) {
    return atomic_load_explicit(&region->areas[rank].here, memory_order_acquire) != 0;
}

/* Has the rank begun operation seq (or a later one, within the slots)? */
static inline bool msi_shm_region_begun(const struct msi_shm_region *region, int rank, uint64_t seq) {
    const struct msi_slot *slot = &region->areas[rank].slots[seq % MSI_SLOTS];
    uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire);
    return (int32_t)((uint32_t)(flag >> 32) - (uint32_t)seq) >= 0;
}

/* This rank, which is rank 0, has finished an operation: wakes the ranks with MSI_AWAITS_FINISH. */
void msi_shm_region_wake_finish(const struct msi_shm_region *region);
/* This rank has finished operation seq. Wakes nobody; msi_shm_region_is_finished reads it. */
static inline void msi_shm_region_finish(const struct msi_shm_region *region, uint64_t seq) {
    atomic_store_explicit(&msi_shm_region_own(region)->finished, seq, memory_order_release);
}

/* Has a counter reached value? Pairs with msi_shm_region_post. */
static inline bool msi_shm_region_reached(const _Atomic uint64_t *word, uint64_t value) {
    return atomic_load_explicit(word, memory_order_acquire) >= value;
}

/* The value of filled and drained after some rounds of an operation; MSI_ALL_ROUNDS: after all. */
static inline uint64_t msi_rounds_done(uint64_t seq, uint64_t rounds) {
    return seq << 24 | rounds;
}
enum { MSI_ALL_ROUNDS = 0xffffff };

/* May this rank announce operation seq (rule 4)? Checks the other ranks if necessary. */
bool msi_shm_region_may_announce(struct msi_shm_region *region, uint64_t seq);

/*
 * Finds a rank with a mismatched call before operation seq. Use it if histories differ. Returns the rank, and
 * the operation in *differing, or -1 if the slots no longer show it.
 */
int msi_shm_region_verify(struct msi_shm_region *region, uint64_t seq, uint64_t *differing);

/*
 * To sleep: call asleep, check once more, poll the descriptor, call awake. awaits is 0, or is written into
 * msi_area.awaits by a rank that waits only for announcements of other ranks: then the announcements of the
 * others do not wake it, or with MSI_AWAITS_FINISH none does.
 */
mst_status msi_shm_region_asleep(struct msi_shm_region *region, int awaits, int *descriptor);
void msi_shm_region_awake(struct msi_shm_region *region);

#endif
