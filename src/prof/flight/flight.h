/*
 * flight.h - the flight recorder: the last operations of this process, always kept, for when something goes wrong.
 *
 *  1. It lies on the state, where there is one, so that the launcher reads it even of ranks that were killed or that hang
 *     somewhere else; else in memory of the process's own.
 *  2. Any thread writes; each operation has a line of its own and one thread at a time. Who comes round the ring writes over the
 *     oldest, but passes over what is not over yet: what hangs stays. Where nearly all is under way, the newest go unrecorded.
 *     Threads do not wait for each other: where two begin at the very same moment, one line may be of both, and the one whose number
 *     is not there any more notices. Readers trust nothing.
 *  3. A line's number is taken away, its fields are written, and the number comes last: stored (release) by msi_flight_begin and what
 *     follows it, loaded (acquire) by msi_flight_copy, which looks at it once more behind the fields.
 *  4. Texts are kept once per call site, and never written over; when there is no room left for one, it is missing.
 *  5. Groups have a line from their making to their end, and beyond, until another group needs it; it has another generation then, by
 *     which operations of the old one are told apart.
 */
#ifndef MSI_PROF_FLIGHT_FLIGHT_H
#define MSI_PROF_FLIGHT_FLIGHT_H

#include "base/fence.h"
#include "base/rank_state.h"
#include "os/tick.h"

enum {
    MSI_FLIGHT_ENTRIES = 256,
    MSI_FLIGHT_SLOTS = 128,                   /* call sites */
    MSI_FLIGHT_PLACES = MSI_FLIGHT_SLOTS + 1, /* the last one stands for those without room */
    MSI_FLIGHT_GROUPS = 64,                   /* likewise */
    MSI_FLIGHT_NAME = 40,
    MSI_FLIGHT_FILE = 44,
    MSI_FLIGHT_GROUP = 48,
    MSI_FLIGHT_MEMBERS = 512, /* of worlds with more ranks, it is not known who is in which group */
    MSI_FLIGHT_WORDS = MSI_FLIGHT_MEMBERS / 64,
};

#define MSI_FLIGHT_NO_NUMBER UINT64_MAX /* of a message that was not issued, or not met, yet */

enum msi_flight_way { MSI_FLIGHT_COLLECTIVE, MSI_FLIGHT_SEND, MSI_FLIGHT_RECV };
enum msi_flight_state { MSI_FLIGHT_QUEUED = 1, MSI_FLIGHT_STARTED, MSI_FLIGHT_DONE, MSI_FLIGHT_FAILED };

struct msi_flight_place {
    char operation[MSI_FLIGHT_NAME], file[MSI_FLIGHT_FILE], function[MSI_FLIGHT_NAME];
    _Atomic uint32_t line; /* written last; 0: there is none */
};
_Static_assert(sizeof(struct msi_flight_place) == 128, "two lines");

struct msi_flight_group {
    char name[MSI_FLIGHT_GROUP]; /* "": the program gave it none */
    _Atomic uint64_t id;         /* alike on all its ranks, and nearly surely no other group's */
    _Atomic uint32_t size;       /* 0: there is none, or it is being written */
    _Atomic uint32_t turn;       /* generation, from 1 up in 16 bits, and above them 1 if the group is gone */
    _Atomic uint64_t members[MSI_FLIGHT_WORDS]; /* a bit for each rank */
};
_Static_assert(sizeof(struct msi_flight_group) == 128, "two lines");

struct msi_flight_entry {
    _Atomic uint64_t what; /* number of the operation, from 1 up, and below it in 3 bits its state */
    _Atomic uint64_t seq, count;
    _Atomic uint64_t begin,
        end;                  /* ticks; end 0: not known, since the clock is not looked at for this alone */
    _Atomic uint64_t where;   /* place, above 32 bits the group's line, and above 48 its generation */
    _Atomic uint64_t about;   /* dtype, and above 32 bits the peer's global rank and 1; 0: none, or any */
    _Atomic uint64_t message; /* tag, and above 32 bits enum msi_flight_way */
};
_Static_assert(sizeof(struct msi_flight_entry) == 64, "one line");

struct msi_flight {
    _Atomic uint64_t magic;                  /* MSI_FLIGHT_MAGIC once it is in use */
    _Atomic uint64_t first_tick, first_time; /* a look at both clocks, for msi_tick_ns */
    _Atomic uint64_t unix_time;              /* what the calendar's clock said then, in nanoseconds */
    unsigned char pad[32];
    _Atomic uint64_t next; /* number of the last operation */
    unsigned char pad1[56];
    struct msi_flight_place places[MSI_FLIGHT_PLACES];
    struct msi_flight_group groups[MSI_FLIGHT_GROUPS];
    struct msi_flight_entry entries[MSI_FLIGHT_ENTRIES];
};
_Static_assert(sizeof(struct msi_flight) <= MSI_RANK_STATE_FLIGHT, "it fits beside the state");

#define MSI_FLIGHT_MAGIC UINT64_C(0x3330746867696c66) /* flight03; another layout has another number */

/* An operation in it. */
struct msi_flight_entry_ref {
    struct msi_flight_entry *entry; /* NULL: none */
    uint64_t number;
};

/* What an operation is about. The strings of site and operation are literals. */
struct msi_flight_about {
    const char *operation;
    const mst_site *site;
    uint32_t group; /* from msi_flight_group */
    uint64_t seq, count;
    int dtype;
    enum msi_flight_way way;
    int peer, tag; /* of a message: global rank, -1: any */
};

/* Begins to record, once the state, if there is one, is open. Twice is harmless. */
void msi_flight_open(void);
/* This process's; NULL: none. Stored (release) by msi_flight_open, loaded (acquire) by msi_flight_get. */
__attribute__((visibility("hidden"))) extern _Atomic(struct msi_flight *) msi_flight;

static inline struct msi_flight *msi_flight_get(void) {
    return atomic_load_explicit(&msi_flight, memory_order_acquire);
}

/* Copies a recorder that others go on writing to. Entries that change meanwhile are empty in the copy. */
void msi_flight_copy(const struct msi_flight *from, struct msi_flight *to);
/* The same of this process's own; false: there is none. */
bool msi_flight_copy_own(struct msi_flight *to);

/* Makes a line for a group. id is alike on all its ranks, and no other group's of the world, whose name is alike on all its ranks; ranks NULL: 0, 1, 2, … */
uint32_t msi_flight_group(const char *world, const char *id, const char *name, const int *ranks, int size);
/* The group is no more. */
void msi_flight_group_gone(uint32_t group);

/* Whose texts each place has, by addresses; 0: nobody's. Stored (release) when they are written, loaded (acquire) below. */
__attribute__((visibility("hidden"))) extern _Atomic uint64_t msi_flight_keys[MSI_FLIGHT_SLOTS];

/* Of addresses and a line: sites of one program differ in their low bits, which come to lie apart. Never 0. */
static inline uint64_t msi_flight_key(const char *operation, const mst_site *site) {
    return (msi_rank_state_key(operation, site) ^ (uint64_t)(uint32_t)site->line << 11) | UINT64_C(1) << 63;
}

static inline unsigned msi_flight_slot(uint64_t key) {
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 57); /* of 128 */
}

/* The place of a key that is not at home, or whose texts have none yet; MSI_FLIGHT_SLOTS: there is no room. */
unsigned msi_flight_find_place(uint64_t key, const char *operation, const mst_site *site);

/* Is an operation with this `what` under way? */
static inline bool msi_flight_is_open(uint64_t what) {
    return (what & 7) == MSI_FLIGHT_QUEUED || (what & 7) == MSI_FLIGHT_STARTED;
}
/* The next line without an operation that is under way, and its number; where there is none nearby, one that nobody reads. */
struct msi_flight_entry *msi_flight_find_entry(struct msi_flight *f, uint64_t *number);

/* In line, since small collectives feel every instruction. Only where there is a recorder. */
static inline struct msi_flight_entry_ref msi_flight_begin(const struct msi_flight_about *about,
                                                           uint64_t tick) {
    struct msi_flight *f = msi_flight_get();
    uint64_t key = msi_flight_key(about->operation, about->site);
    uint64_t place = msi_flight_slot(key);
    if (__builtin_expect(atomic_load_explicit(&msi_flight_keys[place], memory_order_acquire) != key, 0))
        place = msi_flight_find_place(key, about->operation, about->site);
    uint64_t number = atomic_load_explicit(&f->next, memory_order_relaxed) + 1;
    struct msi_flight_entry *entry = &f->entries[number % MSI_FLIGHT_ENTRIES];
    if (__builtin_expect(msi_flight_is_open(atomic_load_explicit(&entry->what, memory_order_relaxed)), 0))
        entry = msi_flight_find_entry(f, &number);
    atomic_store_explicit(&f->next, number, memory_order_relaxed);
    atomic_store_explicit(&entry->what, 0, memory_order_relaxed); /* what follows is nobody's for now */
    msi_fence_writes();
    atomic_store_explicit(&entry->seq, about->seq, memory_order_relaxed);
    atomic_store_explicit(&entry->count, about->count, memory_order_relaxed);
    atomic_store_explicit(&entry->begin, tick, memory_order_relaxed);
    atomic_store_explicit(&entry->end, 0, memory_order_relaxed);
    atomic_store_explicit(&entry->where, place | (uint64_t)about->group << 32, memory_order_relaxed);
    atomic_store_explicit(&entry->about, (uint32_t)about->dtype | (uint64_t)(uint32_t)(about->peer + 1) << 32,
                          memory_order_relaxed);
    atomic_store_explicit(&entry->message, (uint32_t)about->tag | (uint64_t)about->way << 32,
                          memory_order_relaxed);
    atomic_store_explicit(&entry->what, number << 3 | MSI_FLIGHT_QUEUED, memory_order_release);
    return (struct msi_flight_entry_ref){entry, number};
}

static inline void msi_flight_turn(struct msi_flight_entry_ref ref, enum msi_flight_state from,
                                   enum msi_flight_state state) {
    uint64_t expected = ref.number << 3 | from;
    if (atomic_load_explicit(&ref.entry->what, memory_order_relaxed) == expected)
        atomic_store_explicit(&ref.entry->what, ref.number << 3 | state, memory_order_release);
}

/* Is it still the operation's? */
static inline bool msi_flight_has(struct msi_flight_entry_ref ref) {
    return atomic_load_explicit(&ref.entry->what, memory_order_relaxed) >> 3 == ref.number;
}

/* Of a message, what is known only later. */
static inline void msi_flight_number(struct msi_flight_entry_ref ref, uint64_t number) {
    if (msi_flight_has(ref)) atomic_store_explicit(&ref.entry->seq, number, memory_order_relaxed);
}
static inline void msi_flight_peer(struct msi_flight_entry_ref ref, int peer) {
    uint64_t about = atomic_load_explicit(&ref.entry->about, memory_order_relaxed);
    if (msi_flight_has(ref))
        atomic_store_explicit(&ref.entry->about, (uint32_t)about | (uint64_t)(uint32_t)(peer + 1) << 32,
                              memory_order_relaxed);
}

static inline void msi_flight_started(struct msi_flight_entry_ref ref) {
    msi_flight_turn(ref, MSI_FLIGHT_QUEUED, MSI_FLIGHT_STARTED);
}

/* tick 0: nobody has looked at the clock; of what fails somebody has. */
static inline void msi_flight_done(struct msi_flight_entry_ref ref, bool well, uint64_t tick) {
    if (!msi_flight_has(ref)) return;
    if (tick) atomic_store_explicit(&ref.entry->end, tick, memory_order_relaxed);
    atomic_store_explicit(&ref.entry->what, ref.number << 3 | (well ? MSI_FLIGHT_DONE : MSI_FLIGHT_FAILED),
                          memory_order_release);
}

#endif
