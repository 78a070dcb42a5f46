/*
 * slate.h - what a rank writes down about itself in memory that outlives it, for the launcher to read when it has died.
 *
 *  1. The launcher makes a memfd with one slot per rank of the host and names it in MUSTER_SLATE: "/proc/PID/fd/N:SLOT".
 *     Only a memfd whose size is sealed and whose slot begins with the magic is written to. None, or one that cannot be
 *     opened, is no error: then everything here does nothing.
 *  2. A slot has one rank's text; nobody reads it while all goes well, so writing it moves no cache line.
 *  3. Threads of the rank may write at once, and the last one wins: numbers are relaxed atomics, of which some may be one
 *     thread's and some another's; a text is written by whoever has claimed it, and who comes meanwhile goes without.
 *     A call is under way as long as no other was entered and it has not come back.
 *  4. Whoever reads it trusts nothing: a rank that went wild may have written anything anywhere.
 */
#ifndef MSI_BASE_SLATE_H
#define MSI_BASE_SLATE_H

#include <muster/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    MSI_SLATE_SLOT = 8192,
    MSI_SLATE_PLACES = 16,
    MSI_SLATE_NAME = 48,
    MSI_SLATE_FILE = 72,
    MSI_SLATE_MESSAGE = 1024,
    MSI_SLATE_REMEDY = 512,
};
#define MSI_SLATE_MAGIC    UINT64_C(0x31306574616c736d) /* mslate01; another layout has another number */
#define MSI_SLATE_VARIABLE "MUSTER_SLATE"
#define MSI_SLATE_MEMFD    "muster-slate"

/* How far the rank has come with the world that it joined last, or is joining. */
enum msi_slate_phase {
    MSI_SLATE_NOTHING,
    MSI_SLATE_JOINING,
    MSI_SLATE_JOINED,
    MSI_SLATE_REFUSED, /* it could not join */
    MSI_SLATE_LEFT,
    MSI_SLATE_PHASES,
};

/* Texts that calls have in common. They are written when they are met first, and calls refer to them. */
struct msi_slate_place {
    char operation[MSI_SLATE_NAME], file[MSI_SLATE_FILE], function[MSI_SLATE_NAME];
};

struct msi_slate {
    _Atomic uint64_t magic; /* the launcher writes it */
    _Atomic uint32_t phase, pid;
    _Atomic uint32_t rank, size; /* of that world; size 0: not known yet */
    unsigned char pad0[40];

    /* The call that is under way, or was last. */
    _Atomic uint64_t call; /* twice its number, from 1, and 1 more while it is under way; 0: there was none */
    _Atomic uint64_t sequence, count;
    _Atomic uint32_t ranks, dtype, line, place; /* dtype 0: none; place: index, MSI_SLATE_PLACES: none */
    unsigned char pad1[24];

    /* The last error. */
    _Atomic uint32_t status; /* 0: none; written last */
    _Atomic int32_t culprit;
    _Atomic uint64_t error_call; /* the number of the call that was under way, or last */
    _Atomic uint64_t error_sequence;
    unsigned char pad2[40];
    char error_operation[64], message[MSI_SLATE_MESSAGE], remedy[MSI_SLATE_REMEDY];

    struct msi_slate_place places[MSI_SLATE_PLACES];
};
_Static_assert(sizeof(struct msi_slate) <= MSI_SLATE_SLOT, "a slot holds a slate");
_Static_assert(offsetof(struct msi_slate, call) == 64 && offsetof(struct msi_slate, status) == 128 &&
                   offsetof(struct msi_slate, error_operation) == 192,
               "each part has lines of its own");

/* This process's slate; NULL: none. Stored (release) by msi_slate_open, loaded (acquire) by msi_slate_on. */
extern _Atomic(struct msi_slate *) msi_slate;

static inline struct msi_slate *msi_slate_on(void) {
    return atomic_load_explicit(&msi_slate, memory_order_acquire);
}

/* Opens the slate that the environment names, unless it is open. Only while a world is opened. */
void msi_slate_open(void);

void msi_slate_phase(enum msi_slate_phase phase);
void msi_slate_world(int rank, int size);

/* A call begins to do what may take long; returns its number. The site's strings are literals. There is a slate. */
uint64_t msi_slate_enter(const char *operation, const mst_site *site, uint64_t sequence);
/* What the call that was just entered is about. */
void msi_slate_about(int ranks, int dtype, uint64_t count);
/* It has come back. What failed in it on the way to success is forgotten. */
void msi_slate_leave(uint64_t number, mst_status status);

/* What msi_fail and msi_blame have recorded. */
void msi_slate_error(const mst_error_info *error);
void msi_slate_blame(int culprit);

#endif
