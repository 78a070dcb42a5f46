/*
 * rank_state.h - status page of a rank in shared memory that survives it; the launcher reads it after a
 * failure.
 *
 *  1. The launcher creates a memfd with one slot per rank of the host and names it in MUSTER_RANK_STATE as
 *     "/proc/PID/fd/N:SLOT". A rank writes only to a memfd of its own user whose size is sealed and whose
 *     slot begins with the magic. Without one, or if it cannot be opened, everything here does nothing.
 *  2. Nobody reads a slot while all goes well, so writing it moves no cache line.
 *  3. Threads of the rank may write at the same time; the last one wins. Numbers are relaxed atomics, and
 *     some may be of one thread and some of another. A text is written by the thread that has claimed it;
 *     another thread goes without. A call is under way until it returns or another one is entered.
 *  4. The reader trusts nothing: a rank with a memory error may have overwritten its slot.
 */
#ifndef MSI_BASE_RANK_STATE_H
#define MSI_BASE_RANK_STATE_H

#include <muster/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    MSI_RANK_STATE_OWN = 8192,        /* the part of a slot for struct msi_rank_state */
    MSI_RANK_STATE_FLIGHT = 48 << 10, /* the part for the flight recorder: prof/flight/flight.h */
    MSI_RANK_STATE_SLOT = MSI_RANK_STATE_OWN + MSI_RANK_STATE_FLIGHT,
    MSI_RANK_STATE_SITES = 16,
    MSI_RANK_STATE_NAME = 48,
    MSI_RANK_STATE_FILE = 72,
    MSI_RANK_STATE_MESSAGE = 1024,
    MSI_RANK_STATE_REMEDY = 512,
};
#define MSI_RANK_STATE_MAGIC    UINT64_C(0x313065746174736d) /* mstate01; change it with the layout */
#define MSI_RANK_STATE_VARIABLE "MUSTER_RANK_STATE"
#define MSI_RANK_STATE_MEMFD    "muster-state"

/* Phase of the world that the rank joined last, or is joining. */
enum msi_rank_phase {
    MSI_RANK_STATE_NOTHING,
    MSI_RANK_STATE_JOINING,
    MSI_RANK_STATE_JOINED,
    MSI_RANK_STATE_REFUSED, /* it could not join */
    MSI_RANK_STATE_LEFT,
    MSI_RANK_STATE_PHASES,
};

/* Texts of a call site, written at its first call; calls refer to them. */
struct msi_rank_state_site {
    char operation[MSI_RANK_STATE_NAME], file[MSI_RANK_STATE_FILE], function[MSI_RANK_STATE_NAME];
};

struct msi_rank_state {
    _Atomic uint64_t magic; /* the launcher writes it */
    _Atomic uint32_t phase, pid;
    _Atomic uint32_t rank, size; /* in that world; size 0: not known yet */
    unsigned char pad0[40];

    /* The current call, or the last one. */
    _Atomic uint64_t call; /* grows by 2 with each call; odd while it is under way; 0: there was none */
    _Atomic uint64_t sequence, count;
    _Atomic uint64_t size_dtype; /* size of its group; from bit 32 the dtype, 0: none */
    _Atomic uint64_t line_site;  /* line; from bit 32 the call site, MSI_RANK_STATE_SITES: none */
    unsigned char pad1[24];

    /* The last error. */
    _Atomic uint32_t status; /* 0: none; written last */
    _Atomic int32_t culprit;
    _Atomic uint64_t error_call; /* call at that time, with the lowest bit set */
    _Atomic uint64_t error_sequence;
    unsigned char pad2[40];
    char error_operation[64], message[MSI_RANK_STATE_MESSAGE], remedy[MSI_RANK_STATE_REMEDY];

    struct msi_rank_state_site sites[MSI_RANK_STATE_SITES];
};
_Static_assert(sizeof(struct msi_rank_state) <= MSI_RANK_STATE_OWN, "it fits into its part of the slot");
_Static_assert(offsetof(struct msi_rank_state, call) == 64 &&
                   offsetof(struct msi_rank_state, status) == 128 &&
                   offsetof(struct msi_rank_state, error_operation) == 192,
               "each section begins a cache line");

/*
 * This process's state or NULL. Stored (release) by msi_rank_state_open, loaded (acquire) by
 * msi_rank_state_on.
 */
__attribute__((visibility("hidden"))) extern _Atomic(struct msi_rank_state *) msi_rank_state;

static inline struct msi_rank_state *msi_rank_state_on(void) {
    return atomic_load_explicit(&msi_rank_state, memory_order_acquire);
}

/* Opens the state that the environment names, unless it is open. Call it only while a world is opened. */
void msi_rank_state_open(void);

void msi_rank_phase(enum msi_rank_phase phase);
void msi_rank_state_world(int rank, int size);

/* Key of the call site in each entry; 0: none. */
__attribute__((visibility("hidden"))) extern _Atomic uint64_t msi_rank_state_keys[MSI_RANK_STATE_SITES];

/* Made of three addresses. */
static inline uint64_t msi_rank_state_key(const char *operation, const mst_site *site) {
    uint64_t file = (uintptr_t)site->file, function = (uintptr_t)site->function;
    return (uintptr_t)operation ^ (file << 21 | file >> 43) ^ (function << 42 | function >> 22);
}

static inline uint64_t msi_rank_state_size_dtype(int size, int dtype) {
    return (uint32_t)size | (uint64_t)(uint32_t)dtype << 32;
}

/* The same for a call site that is not known yet. */
uint64_t msi_rank_state_enter_new(struct msi_rank_state *state, const char *operation, const mst_site *site,
                                  uint64_t sequence, uint64_t size_dtype, uint64_t count);

/* Addresses are multiples of 8 and close to each other: a multiplication spreads them. */
static inline unsigned msi_rank_state_slot_of(uint64_t key) {
    return (unsigned)(key * 0x9E3779B97F4A7C15u >> 60);
}
_Static_assert(MSI_RANK_STATE_SITES == 16, "msi_rank_state_slot_of returns four bits");

/* A call site is in its own slot or in the neighbouring one; MSI_RANK_STATE_SITES: in none. */
static inline unsigned msi_rank_state_find(uint64_t key) {
    unsigned slot = msi_rank_state_slot_of(key), beside = slot ^ 1;
    if (atomic_load_explicit(&msi_rank_state_keys[slot], memory_order_relaxed) == key) return slot;
    return atomic_load_explicit(&msi_rank_state_keys[beside], memory_order_relaxed) == key
               ? beside
               : MSI_RANK_STATE_SITES;
}

/* Writes a call whose line and site are known. */
static inline uint64_t msi_rank_state_write(struct msi_rank_state *state, uint64_t line_site,
                                            uint64_t sequence, uint64_t size_dtype, uint64_t count) {
    uint64_t entered = (atomic_load_explicit(&state->call, memory_order_relaxed) | 1) + 2;
    atomic_store_explicit(&state->line_site, line_site, memory_order_relaxed);
    atomic_store_explicit(&state->sequence, sequence, memory_order_relaxed);
    atomic_store_explicit(&state->size_dtype, size_dtype, memory_order_relaxed);
    atomic_store_explicit(&state->count, count, memory_order_relaxed);
    atomic_store_explicit(&state->call, entered, memory_order_relaxed);
    return entered;
}

/*
 * Enters a call that may block. The strings are literals, since their addresses identify them. Returns a
 * value for msi_rank_state_leave, never 0. Inline, since every instruction counts in small collectives.
 */
static inline uint64_t msi_rank_state_enter(struct msi_rank_state *state, const char *operation,
                                            const mst_site *site, uint64_t sequence, uint64_t size_dtype,
                                            uint64_t count) {
    unsigned at = msi_rank_state_find(msi_rank_state_key(operation, site));
    if (__builtin_expect(at == MSI_RANK_STATE_SITES, 0)) /* a tail call: nothing has to be saved for it */
        return msi_rank_state_enter_new(state, operation, site, sequence, size_dtype, count);
    return msi_rank_state_write(state, (uint32_t)site->line | (uint64_t)at << 32, sequence, size_dtype,
                                count);
}

/* The call returns. If it succeeded, an error inside it is removed. */
static inline void msi_rank_state_leave(struct msi_rank_state *state, uint64_t entered, mst_status status) {
    if (atomic_load_explicit(&state->call, memory_order_relaxed) == entered)
        atomic_store_explicit(&state->call, entered - 1, memory_order_relaxed);
    if (status == MST_OK && atomic_load_explicit(&state->error_call, memory_order_relaxed) == entered)
        atomic_store_explicit(&state->status, MST_OK, memory_order_relaxed);
}

/* Record what msi_fail and msi_blame have set. */
void msi_rank_state_error(const mst_error_info *error);
void msi_rank_state_blame(int culprit);

#endif
