/*
 * flight.h - the flight recorder: a ring of the last operations of this process, which is always on.
 *
 *  1. It is in the shared slot of the rank state, if there is one, so that the launcher can read it after the
 *     rank was killed or while it hangs; otherwise it is in private memory.
 *  2. Any thread writes. Each operation has one entry, which one thread at a time updates. The ring
 *     overwrites the oldest entry, but skips operations that have not finished: an operation that hangs
 *     stays. If nearly all entries are unfinished, new operations are not recorded. Threads do not wait for
 *     each other: if two begin at the same moment they may share an entry, and the one whose number was
 *     overwritten notices. Readers trust nothing.
 *  3. A writer clears number_state, writes the fields, and stores number_state last (release).
 *     msi_flight_read (view.h) loads it (acquire) before the fields and again after them.
 *  4. Texts are stored once per call site and never overwritten. A call site without space has no texts.
 *  5. A group has an entry from its creation. After its end the entry stays until another group needs it. The
 *     new group has another generation, by which operations of the old group are told apart.
 */
#ifndef MSI_PROF_FLIGHT_FLIGHT_H
#define MSI_PROF_FLIGHT_FLIGHT_H

#include "base/fence.h"
#include "base/rank_state.h"
#include "os/tick.h"

enum {
    MSI_FLIGHT_ENTRIES = 256,
    MSI_FLIGHT_SITES = 128,                         /* call sites */
    MSI_FLIGHT_SITE_ENTRIES = MSI_FLIGHT_SITES + 1, /* the last one stands for call sites without space */
    MSI_FLIGHT_GROUPS = 64,                         /* the last one stands for groups without space */
    MSI_FLIGHT_NAME = 40,
    MSI_FLIGHT_FILE = 44,
    MSI_FLIGHT_GROUP = 48,
    MSI_FLIGHT_MEMBERS = 512, /* members with a rank from here on are not recorded */
    MSI_FLIGHT_WORDS = MSI_FLIGHT_MEMBERS / 64,
};

#define MSI_FLIGHT_NO_NUMBER UINT64_MAX /* of a message that is not issued, or not matched, yet */

enum msi_flight_type { MSI_FLIGHT_COLLECTIVE, MSI_FLIGHT_SEND, MSI_FLIGHT_RECV };
enum msi_flight_state { MSI_FLIGHT_QUEUED = 1, MSI_FLIGHT_STARTED, MSI_FLIGHT_DONE, MSI_FLIGHT_FAILED };

struct msi_flight_site {
    char operation[MSI_FLIGHT_NAME], file[MSI_FLIGHT_FILE], function[MSI_FLIGHT_NAME];
    _Atomic uint32_t line; /* written last; 0: the entry is free */
};
_Static_assert(sizeof(struct msi_flight_site) == 128, "two cache lines");

struct msi_flight_group_entry {
    char name[MSI_FLIGHT_GROUP]; /* "": the program gave it none */
    _Atomic uint64_t id;         /* the same on all its ranks, different for other groups (a hash) */
    _Atomic uint32_t size;       /* 0: the entry is free, or is being written */
    _Atomic uint32_t generation; /* from 1, in 16 bits; bit 16: the group is destroyed */
    _Atomic uint64_t members[MSI_FLIGHT_WORDS]; /* a bit for each rank */
};
_Static_assert(sizeof(struct msi_flight_group_entry) == 128, "two cache lines");

struct msi_flight_entry {
    _Atomic uint64_t number_state; /* number of the operation, from 1; in the low 3 bits its state */
    _Atomic uint64_t seq, count;
    _Atomic uint64_t begin, end; /* ticks; end 0: not known, as only failures read the clock for this */
    _Atomic uint64_t site_group; /* call site; from bit 32 the group's entry, from bit 48 its generation */
    _Atomic uint64_t dtype_peer; /* dtype; from bit 32 the peer's global rank + 1, 0: none, or any source */
    _Atomic uint64_t tag_type;   /* tag, -1: any; from bit 32 enum msi_flight_type */
};
_Static_assert(sizeof(struct msi_flight_entry) == 64, "one cache line");

struct msi_flight {
    _Atomic uint64_t magic;                  /* MSI_FLIGHT_MAGIC once it is in use */
    _Atomic uint64_t first_tick, first_time; /* both clocks at the beginning, for msi_tick_ns */
    _Atomic uint64_t unix_time;              /* the wall clock at the beginning, in nanoseconds */
    unsigned char pad[32];
    _Atomic uint64_t next; /* number of the last operation */
    unsigned char pad1[56];
    struct msi_flight_site sites[MSI_FLIGHT_SITE_ENTRIES];
    struct msi_flight_group_entry groups[MSI_FLIGHT_GROUPS];
    struct msi_flight_entry entries[MSI_FLIGHT_ENTRIES];
};
_Static_assert(sizeof(struct msi_flight) <= MSI_RANK_STATE_FLIGHT, "it fits beside the rank state");

#define MSI_FLIGHT_MAGIC UINT64_C(0x3330746867696c66) /* flight03; change it with the layout */

/* An operation in the ring. */
struct msi_flight_entry_ref {
    struct msi_flight_entry *entry;
    uint64_t number;
};

/* A call to be recorded. The strings of site and operation are literals. */
struct msi_flight_call {
    const char *operation;
    const mst_site *site;
    uint32_t group; /* from msi_flight_group_add */
    uint64_t seq, count;
    int dtype;
    enum msi_flight_type type;
    int peer, tag; /* of a message: global rank; -1: any */
};

/* Begins to record; call it after the rank state was opened. Later calls do nothing. */
void msi_flight_open(void);
/*
 * This process's recorder or NULL. Stored (release) by msi_flight_open, loaded (acquire) by msi_flight_get.
 */
__attribute__((visibility("hidden"))) extern _Atomic(struct msi_flight *) msi_flight;

static inline struct msi_flight *msi_flight_get(void) {
    return atomic_load_explicit(&msi_flight, memory_order_acquire);
}

/*
 * Adds a group. world and id are the same on all ranks; id is unique in the world. ranks NULL: 0, 1, 2, …
 * Returns the group's entry and generation, for msi_flight_call.
 */
uint32_t msi_flight_group_add(const char *world, const char *id, const char *name, const int *ranks,
                              int size);
/* Marks the group as destroyed. */
void msi_flight_group_remove(uint32_t group);

/* Key of the call site in each entry; 0: free. Stored (release) after its texts, loaded (acquire) below. */
__attribute__((visibility("hidden"))) extern _Atomic uint64_t msi_flight_keys[MSI_FLIGHT_SITES];

/*
 * Made of addresses and the line. The product changes bits in which addresses of one program do not differ:
 * a line that is only shifted can cancel the distance of two operation names. Never 0.
 */
static inline uint64_t msi_flight_key(const char *operation, const mst_site *site) {
    uint64_t line = (uint32_t)site->line * UINT64_C(0xD6E8FEB86659FD93);
    return (msi_rank_state_key(operation, site) ^ line) | UINT64_C(1) << 63;
}

static inline unsigned msi_flight_slot(uint64_t key) {
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 57); /* of 128 */
}

/* Finds or adds a call site that is not in its first slot; MSI_FLIGHT_SITES: there is no space. */
unsigned msi_flight_find_site(uint64_t key, const char *operation, const mst_site *site);

static inline bool msi_flight_is_open(uint64_t number_state) {
    return (number_state & 7) == MSI_FLIGHT_QUEUED || (number_state & 7) == MSI_FLIGHT_STARTED;
}
/* The next entry without an unfinished operation, and its number; if there is none nearby, an unused one. */
struct msi_flight_entry *msi_flight_find_entry(struct msi_flight *f, uint64_t *number);

/* Inline, since every instruction counts in small collectives. Requires a recorder. */
static inline struct msi_flight_entry_ref msi_flight_begin(const struct msi_flight_call *call,
                                                           uint64_t tick) {
    struct msi_flight *f = msi_flight_get();
    uint64_t key = msi_flight_key(call->operation, call->site);
    uint64_t site = msi_flight_slot(key);
    if (__builtin_expect(atomic_load_explicit(&msi_flight_keys[site], memory_order_acquire) != key, 0))
        site = msi_flight_find_site(key, call->operation, call->site);
    uint64_t number = atomic_load_explicit(&f->next, memory_order_relaxed) + 1;
    struct msi_flight_entry *e = &f->entries[number % MSI_FLIGHT_ENTRIES];
    if (__builtin_expect(msi_flight_is_open(atomic_load_explicit(&e->number_state, memory_order_relaxed)), 0))
        e = msi_flight_find_entry(f, &number);
    atomic_store_explicit(&f->next, number, memory_order_relaxed);
    atomic_store_explicit(&e->number_state, 0, memory_order_relaxed); /* rule 3 */
    msi_fence_writes();
    atomic_store_explicit(&e->seq, call->seq, memory_order_relaxed);
    atomic_store_explicit(&e->count, call->count, memory_order_relaxed);
    atomic_store_explicit(&e->begin, tick, memory_order_relaxed);
    atomic_store_explicit(&e->end, 0, memory_order_relaxed);
    atomic_store_explicit(&e->site_group, site | (uint64_t)call->group << 32, memory_order_relaxed);
    atomic_store_explicit(&e->dtype_peer, (uint32_t)call->dtype | (uint64_t)(uint32_t)(call->peer + 1) << 32,
                          memory_order_relaxed);
    atomic_store_explicit(&e->tag_type, (uint32_t)call->tag | (uint64_t)call->type << 32,
                          memory_order_relaxed);
    atomic_store_explicit(&e->number_state, number << 3 | MSI_FLIGHT_QUEUED, memory_order_release);
    return (struct msi_flight_entry_ref){e, number};
}

/* Does the entry still hold the operation? */
static inline bool msi_flight_has(struct msi_flight_entry_ref ref) {
    return atomic_load_explicit(&ref.entry->number_state, memory_order_relaxed) >> 3 == ref.number;
}

/* Sets the number, or the peer and the tag of a message, which may be known only after it began. */
static inline void msi_flight_number(struct msi_flight_entry_ref ref, uint64_t number) {
    if (msi_flight_has(ref)) atomic_store_explicit(&ref.entry->seq, number, memory_order_relaxed);
}
static inline void msi_flight_match(struct msi_flight_entry_ref ref, int peer, int tag) {
    uint64_t dtype_peer = atomic_load_explicit(&ref.entry->dtype_peer, memory_order_relaxed);
    uint64_t tag_type = atomic_load_explicit(&ref.entry->tag_type, memory_order_relaxed);
    if (!msi_flight_has(ref)) return;
    atomic_store_explicit(&ref.entry->dtype_peer, (uint32_t)dtype_peer | (uint64_t)(uint32_t)(peer + 1) << 32,
                          memory_order_relaxed);
    atomic_store_explicit(&ref.entry->tag_type, (uint32_t)tag | tag_type >> 32 << 32, memory_order_relaxed);
}

static inline void msi_flight_started(struct msi_flight_entry_ref ref) {
    uint64_t queued = ref.number << 3 | MSI_FLIGHT_QUEUED;
    if (atomic_load_explicit(&ref.entry->number_state, memory_order_relaxed) == queued)
        atomic_store_explicit(&ref.entry->number_state, ref.number << 3 | MSI_FLIGHT_STARTED,
                              memory_order_release);
}

/* tick 0: not known; of a failure it is known. */
static inline void msi_flight_done(struct msi_flight_entry_ref ref, bool ok, uint64_t tick) {
    if (!msi_flight_has(ref)) return;
    if (tick) atomic_store_explicit(&ref.entry->end, tick, memory_order_relaxed);
    atomic_store_explicit(&ref.entry->number_state,
                          ref.number << 3 | (ok ? MSI_FLIGHT_DONE : MSI_FLIGHT_FAILED), memory_order_release);
}

#endif
