/*
 * shm_region.h - the memory that the ranks of a group on one host share, and how they wait on it. They are numbered from 0 up
 * there; where a group spans hosts, each host's ranks have a region of their own, and use no slots and cells but only what
 * is needed to open links and to sleep.
 *
 *   head            who sleeps
 *   area of rank 0  slots: one per operation, in turn, with small payloads inside
 *                   filled, drained: how far this rank is within a large operation
 *                   gave_up: the operation that it has given up, and why
 *                   left: that it has destroyed the group
 *                   cells: payloads that do not fit into a slot
 *   area of rank 1  …
 *
 *  1. Each rank writes only its own area (and its bit in head); all read all of it. What is read is checked like any
 *     other input before it is used as an index or a length.
 *  2. Operations are numbered from 1. Operation s of a rank is announced in its slot s % MSI_SLOTS by a flag that holds the
 *     number and a signature of the call; whoever reads the slot sees at once whether both called the same thing, and by
 *     the history beside it whether they always did.
 *  3. Every store of a flag, filled or drained is sequentially consistent, and so is a sleeper's store of its bit: either
 *     the sleeper sees the flag or the writer sees the bit. Loads of them acquire what was written before.
 *  4. A rank that is about to announce s knows that all have begun s - MSI_SLOTS + 1, so that nobody still reads the slot.
 */
#ifndef MSI_TRANSPORT_SHM_REGION_H
#define MSI_TRANSPORT_SHM_REGION_H

#include "base/list.h"
#include "os/segment.h"
#include "transport/arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MSI_SLOTS = 8,
    MSI_SLOT_PAYLOAD = 72,
    MSI_SMALL_CELLS = MSI_SLOTS, /* free when the slot is (rule 4) */
    MSI_SMALL_CELL = 16 << 10,
    MSI_BIG_CELLS = 1 << 20, /* bytes; each operation divides them as it likes */
    MSI_SHM_REGION_RANKS = 1024,
    MSI_SHM_REGION_PROCESSORS = 1024,
    MSI_SHM_REGION_CHANNELS = 2, /* links between the same two ranks, at most */
    MSI_LINE = 128,              /* two cache lines on x86-64, which fetches them in pairs */
};

/* Where the payload of an operation is. */
enum msi_slot_mode { MSI_SLOT_NOTHING, MSI_SLOT_INLINE, MSI_SLOT_SMALL, MSI_SLOT_BIG, MSI_SLOT_DIRECT };

/* What a rank called and where, for the message when ranks disagree. */
struct msi_call_signature {
    uint8_t kind, dtype, op, flags; /* kind: see base/kind.h */
    int32_t root;
    uint64_t count;
    uint32_t line;
    char file[20]; /* the end of its name, without a NUL if it is as long as this */
};
_Static_assert(sizeof(struct msi_call_signature) == 40, "processes share its layout");

struct msi_slot {
    _Alignas(MSI_LINE) _Atomic uint64_t flag; /* number << 32 | signature */
    uint32_t mode;
    uint32_t history; /* made of the signatures of all operations before it */
    struct msi_call_signature signature;
    union {
        unsigned char bytes[MSI_SLOT_PAYLOAD];
        struct {
            struct msi_where in, out;
        } direct; /* where this rank's buffers lie, in memory that all can map */
    };
};
_Static_assert(sizeof(struct msi_slot) == MSI_LINE, "a slot is one line");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share these words");

enum { MSI_GAVE_UP_MESSAGE = 0x80 };
_Static_assert((int)MST_STATUS_COUNT <= (int)MSI_GAVE_UP_MESSAGE, "a status leaves the bit free");

struct msi_area {
    struct msi_slot slots[MSI_SLOTS];
    _Alignas(MSI_LINE) _Atomic uint64_t filled;  /* number << 24 | rounds of it whose cells are filled */
    _Alignas(MSI_LINE) _Atomic uint64_t drained; /* number << 24 | rounds of it that this rank has read */
    _Alignas(MSI_LINE) _Atomic uint64_t
        wake_fd;           /* pid << 32 | descriptor + 1 of a pipe that wakes this rank; 0: none */
    _Atomic uint64_t here; /* 1: it has opened the region */
    _Atomic uint64_t
        awaits; /* while it sleeps: rank + 1 whose announcement it lacks; 0: anything may concern it */
    /* pid << 32 | descriptor + 1 of a link to that rank */
    _Alignas(MSI_LINE) _Atomic uint64_t offers[MSI_SHM_REGION_CHANNELS][MSI_SHM_REGION_RANKS];
    /* 1: has opened the link that that rank offers */
    _Atomic uint64_t accepted[MSI_SHM_REGION_CHANNELS][MSI_SHM_REGION_RANKS];
    /* number << 32 | culprit + 1 << 8 | MSI_GAVE_UP_MESSAGE, if it was one | status; 0: it has not */
    _Alignas(MSI_LINE) _Atomic uint64_t gave_up;
    _Atomic uint64_t left; /* 1: it has destroyed the group */
    _Alignas(4096) unsigned char small[MSI_SMALL_CELLS][MSI_SMALL_CELL];
    unsigned char big[MSI_BIG_CELLS];
};

struct msi_shm_region_header {
    _Alignas(4096) uint64_t magic;
    uint32_t size, padding;
    _Atomic uint32_t users; /* ranks that have it open and share one mapping with the process that made it */
    _Atomic uint64_t processors[MSI_SHM_REGION_PROCESSORS / 64]; /* bit for each that a rank may run on */
    _Alignas(MSI_LINE) _Atomic uint64_t asleep[MSI_SHM_REGION_RANKS / 64]; /* bit per rank */
};

/* One rank's view. */
struct msi_shm_region {
    struct msi_segment segment;
    struct msi_shm_region_header *head;
    struct msi_area *areas; /* by rank */
    int rank, size;
    bool shares_mapping; /* with the maker, in the same process */
    struct msi_list
        made;          /* among the regions that this process has made and that others may still look for */
    uint64_t seq;      /* the last operation that this rank has announced */
    uint64_t synced;   /* all ranks have begun this one */
    uint64_t verified; /* up to this one all were seen to have called the same */
    uint32_t signatures[MSI_SLOTS]; /* of this rank's last operations … */
    uint32_t history;               /* … and made of those of all */
    uint64_t big_seq;               /* the last one whose big cells this rank filled */
    int big_reader;                 /* who read them: a rank, or -1 for all */
    int wake_fd[2];                 /* the pipe that wakes this rank; -1 before it is needed */
    int *wake_fds;                  /* by rank: descriptors to wake others with; -1 before they are needed */
};

enum { MSI_SHM_REGION_OFFER_MAX = 96 };

/* Makes the region of a group of so many ranks, and the text by which others find it. */
mst_status msi_shm_region_make(int rank, int size, struct msi_shm_region **region,
                               char offer[MSI_SHM_REGION_OFFER_MAX]);
/* Opens one that another rank has made. */
mst_status msi_shm_region_attach(const char *offer, int rank, int size, struct msi_shm_region **region);
/* The maker's descriptor is not needed any more: all have it open. */
void msi_shm_region_seal(struct msi_shm_region *region);
void msi_shm_region_close(struct msi_shm_region *region);

static inline struct msi_area *msi_shm_region_own(const struct msi_shm_region *region) {
    return &region->areas[region->rank];
}

/* Rings those who sleep, or only those whom an announcement of this rank may concern; slow path of what follows. */
void msi_shm_region_wake(const struct msi_shm_region *region, bool announcement);

/* On how many processors the ranks that have opened it may run, together. */
int msi_shm_region_processors(const struct msi_shm_region *region);

/* Wakes sleepers after something became visible by a sequentially consistent store. */
static inline void msi_shm_region_wake_all(const struct msi_shm_region *region, bool announcement) {
    uint64_t asleep = 0;
    int words = (region->size + 63) / 64;
    for (int i = 0; i < words; i++)
        asleep |= atomic_load_explicit(&region->head->asleep[i], memory_order_seq_cst);
    if (asleep) msi_shm_region_wake(region, announcement);
}

/* Wakes one rank, if it sleeps, after such a store. */
void msi_shm_region_ring(const struct msi_shm_region *region, int rank);
static inline void msi_shm_region_wake_rank(const struct msi_shm_region *region, int rank) {
    uint64_t asleep = atomic_load_explicit(&region->head->asleep[rank / 64], memory_order_seq_cst);
    if (asleep >> rank % 64 & 1) msi_shm_region_ring(region, rank);
}

/* Makes what was written before visible, by raising a word of the own area; wakes sleepers. */
static inline void msi_shm_region_post(const struct msi_shm_region *region, _Atomic uint64_t *word,
                                       uint64_t value) {
    /* Rule 3. Pairs with the acquire loads in msi_shm_region_begun and msi_shm_region_reached. */
    atomic_store_explicit(word, value, memory_order_seq_cst);
    msi_shm_region_wake_all(region, false);
}

/* The same for an operation that begins, or a rank that comes: does not wake who waits for another rank's. */
static inline void msi_shm_region_announce(const struct msi_shm_region *region, _Atomic uint64_t *word,
                                           uint64_t value) {
    atomic_store_explicit(word, value, memory_order_seq_cst); /* rule 3, as above */
    msi_shm_region_wake_all(region, true);
}

/* Says that this rank has opened the region, and so may its maker close its descriptor as far as this rank goes. */
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

/* Is a counter at least so far? Pairs with msi_shm_region_post. */
static inline bool msi_shm_region_reached(const _Atomic uint64_t *word, uint64_t value) {
    return atomic_load_explicit(word, memory_order_acquire) >= value;
}

/* The value of filled and drained after some rounds of an operation, and after all. */
static inline uint64_t msi_rounds_done(uint64_t seq, uint64_t rounds) {
    return seq << 24 | rounds;
}
enum { MSI_ALL_ROUNDS = 0xffffff };

/*
 * May this rank announce operation seq (rule 4)? Looks around if it does not know yet.
 */
bool msi_shm_region_may_announce(struct msi_shm_region *region, uint64_t seq);

/*
 * A rank that called something else as one of the operations before seq, which it has begun; -1 for none that is still to
 * be seen. To be asked where histories differ. *differing is the operation.
 */
int msi_shm_region_verify(struct msi_shm_region *region, uint64_t seq, uint64_t *differing);

/*
 * Sleeping: says so, and then the caller looks once more before it polls the descriptor; awake takes it back. Who has announced
 * all it had to, and only lacks the announcement of others, names one of them as awaits: no other wakes it. Else that is -1.
 */
mst_status msi_shm_region_asleep(struct msi_shm_region *region, int awaits, int *descriptor);
void msi_shm_region_awake(struct msi_shm_region *region);

#endif
