/*
 * rank_state.h - what a rank writes down about itself in memory that outlives it, for the launcher to read when it has died.
 *
 *  1. The launcher makes a memfd with one slot per rank of the host and names it in MUSTER_RANK_STATE: "/proc/PID/fd/N:SLOT".
 *     Only a memfd whose size is sealed and whose slot begins with the magic is written to. None, or one that cannot be
 *     opened, is no error: then everything here does nothing.
 *  2. A slot has one rank's text; nobody reads it while all goes well, so writing it moves no cache line.
 *  3. Threads of the rank may write at once, and the last one wins: numbers are relaxed atomics, of which some may be one
 *     thread's and some another's; a text is written by whoever has claimed it, and who comes meanwhile goes without.
 *     A call is under way as long as no other was entered and it has not come back.
 *  4. Whoever reads it trusts nothing: a rank that went wild may have written anything anywhere.
 */
#ifndef MSI_BASE_RANK_STATE_H
#define MSI_BASE_RANK_STATE_H

#include <muster/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    MSI_RANK_STATE_OWN = 8192,        /* of a slot, the rank's state; … */
    MSI_RANK_STATE_FLIGHT = 48 << 10, /* … the rest is the flight recorder's: prof/flight/flight.h */
    MSI_RANK_STATE_SLOT = MSI_RANK_STATE_OWN + MSI_RANK_STATE_FLIGHT,
    MSI_RANK_STATE_PLACES = 16,
    MSI_RANK_STATE_NAME = 48,
    MSI_RANK_STATE_FILE = 72,
    MSI_RANK_STATE_MESSAGE = 1024,
    MSI_RANK_STATE_REMEDY = 512,
};
#define MSI_RANK_STATE_MAGIC    UINT64_C(0x31306574616c736d) /* mstate01; another layout has another number */
#define MSI_RANK_STATE_VARIABLE "MUSTER_RANK_STATE"
#define MSI_RANK_STATE_MEMFD    "muster-state"

/* How far the rank has come with the world that it joined last, or is joining. */
enum msi_rank_phase {
    MSI_RANK_STATE_NOTHING,
    MSI_RANK_STATE_JOINING,
    MSI_RANK_STATE_JOINED,
    MSI_RANK_STATE_REFUSED, /* it could not join */
    MSI_RANK_STATE_LEFT,
    MSI_RANK_STATE_PHASES,
};

/* Texts that calls have in common. They are written when they are met first, and calls refer to them. */
struct msi_rank_state_slot {
    char operation[MSI_RANK_STATE_NAME], file[MSI_RANK_STATE_FILE], function[MSI_RANK_STATE_NAME];
};

struct msi_rank_state {
    _Atomic uint64_t magic; /* the launcher writes it */
    _Atomic uint32_t phase, pid;
    _Atomic uint32_t rank, size; /* of that world; size 0: not known yet */
    unsigned char pad0[40];

    /* The call that is under way, or was last. */
    _Atomic uint64_t call; /* grows by 2 with each; odd while it is under way; 0: there was none */
    _Atomic uint64_t sequence, count;
    _Atomic uint64_t about; /* ranks of its group, and above 32 bits the dtype; 0: none */
    _Atomic uint64_t where; /* line, and above 32 bits the place; MSI_RANK_STATE_PLACES: none */
    unsigned char pad1[24];

    /* The last error. */
    _Atomic uint32_t status; /* 0: none; written last */
    _Atomic int32_t culprit;
    _Atomic uint64_t error_call; /* what call was, with the lowest bit set */
    _Atomic uint64_t error_sequence;
    unsigned char pad2[40];
    char error_operation[64], message[MSI_RANK_STATE_MESSAGE], remedy[MSI_RANK_STATE_REMEDY];

    struct msi_rank_state_slot places[MSI_RANK_STATE_PLACES];
};
_Static_assert(sizeof(struct msi_rank_state) <= MSI_RANK_STATE_OWN, "a slot holds a state");
_Static_assert(offsetof(struct msi_rank_state, call) == 64 &&
                   offsetof(struct msi_rank_state, status) == 128 &&
                   offsetof(struct msi_rank_state, error_operation) == 192,
               "each part has lines of its own");

/* This process's state; NULL: none. Stored (release) by msi_rank_state_open, loaded (acquire) by msi_rank_state_on. */
__attribute__((visibility("hidden"))) extern _Atomic(struct msi_rank_state *) msi_rank_state;

static inline struct msi_rank_state *msi_rank_state_on(void) {
    return atomic_load_explicit(&msi_rank_state, memory_order_acquire);
}

/* Opens the state that the environment names, unless it is open. Only while a world is opened. */
void msi_rank_state_open(void);

void msi_rank_phase(enum msi_rank_phase phase);
void msi_rank_state_world(int rank, int size);

/* Whose texts each place has, for msi_rank_state_enter; 0: nobody's. */
__attribute__((visibility("hidden"))) extern _Atomic uint64_t msi_rank_state_keys[MSI_RANK_STATE_PLACES];

/* Of three addresses. */
static inline uint64_t msi_rank_state_key(const char *operation, const mst_site *site) {
    uint64_t file = (uintptr_t)site->file, function = (uintptr_t)site->function;
    return (uintptr_t)operation ^ (file << 21 | file >> 43) ^ (function << 42 | function >> 22);
}

static inline uint64_t msi_rank_state_about(int ranks, int dtype) {
    return (uint32_t)ranks | (uint64_t)(uint32_t)dtype << 32;
}

static inline uint64_t msi_rank_state_write_call(struct msi_rank_state *state, uint64_t where,
                                                 uint64_t sequence, uint64_t about, uint64_t count) {
    uint64_t entered = (atomic_load_explicit(&state->call, memory_order_relaxed) | 1) + 2;
    atomic_store_explicit(&state->where, where, memory_order_relaxed);
    atomic_store_explicit(&state->sequence, sequence, memory_order_relaxed);
    atomic_store_explicit(&state->about, about, memory_order_relaxed);
    atomic_store_explicit(&state->count, count, memory_order_relaxed);
    atomic_store_explicit(&state->call, entered, memory_order_relaxed);
    return entered;
}

/* msi_rank_state_enter, where the texts have no place yet. */
uint64_t msi_rank_state_enter_new(struct msi_rank_state *state, const char *operation, const mst_site *site,
                                  uint64_t sequence, uint64_t about, uint64_t count);

/* Addresses are multiples of 8 and near each other: a multiplication spreads them. */
static inline unsigned msi_rank_state_home(uint64_t key) {
    return (unsigned)(key * 0x9E3779B97F4A7C15u >> 60);
}
_Static_assert(MSI_RANK_STATE_PLACES == 16, "four bits number the places");

/* The place with the texts: their home or the one beside it; MSI_RANK_STATE_PLACES: none. */
static inline unsigned msi_rank_state_find(uint64_t key) {
    unsigned home = msi_rank_state_home(key), beside = home ^ 1;
    if (atomic_load_explicit(&msi_rank_state_keys[home], memory_order_relaxed) == key) return home;
    return atomic_load_explicit(&msi_rank_state_keys[beside], memory_order_relaxed) == key
               ? beside
               : MSI_RANK_STATE_PLACES;
}

/*
 * A call begins to do what may take long. The strings are literals: their texts are known by their addresses. Returns
 * what msi_rank_state_leave wants to know, never 0. In line, since small collectives feel every instruction.
 */
static inline uint64_t msi_rank_state_enter(struct msi_rank_state *state, const char *operation,
                                            const mst_site *site, uint64_t sequence, uint64_t about,
                                            uint64_t count) {
    uint64_t key = msi_rank_state_key(operation, site);
    unsigned place = msi_rank_state_find(key);
    if (__builtin_expect(place == MSI_RANK_STATE_PLACES, 0))
        return msi_rank_state_enter_new(state, operation, site, sequence, about, count);
    return msi_rank_state_write_call(state, (uint32_t)site->line | (uint64_t)place << 32, sequence, about,
                                     count);
}

/* It has come back. What failed in it on the way to success is forgotten. */
static inline void msi_rank_state_leave(struct msi_rank_state *state, uint64_t entered, mst_status status) {
    if (atomic_load_explicit(&state->call, memory_order_relaxed) == entered)
        atomic_store_explicit(&state->call, entered - 1, memory_order_relaxed);
    if (status == MST_OK && atomic_load_explicit(&state->error_call, memory_order_relaxed) == entered)
        atomic_store_explicit(&state->status, MST_OK, memory_order_relaxed);
}

/* What msi_fail and msi_blame have recorded. */
void msi_rank_state_error(const mst_error_info *error);
void msi_rank_state_blame(int culprit);

#endif
