/*
 * ring.h - records on their way from the threads that make them to the one that reads them.
 *
 *  1. Each thread has a ring of its own, made with its first record and taken over by another thread when it has ended. Its owner
 *     alone writes, and whoever has the recorder's lock reads: neither waits for the other, and nothing else is shared.
 *  2. Threads are numbered 0, 1, 2, … by their first record, so that each has a lane of its own in the trace: one may be in its first
 *     call while another, whose ring it will have, is in its last. From the MSI_PROF_THREADS-th on, who takes over a ring takes over the
 *     number, too.
 *  3. A ring that is full is the owner's to empty: see msi_recorder_add.
 */
#ifndef MSI_PROF_RECORD_EVENT_RING_H
#define MSI_PROF_RECORD_EVENT_RING_H

#include "prof/record/record.h"

#include <stdatomic.h>

enum { MSI_RING_RECORDS = 2048 };

struct msi_event_ring {
    _Alignas(64) _Atomic uint64_t
        head;      /* written so far: stored (release) by msi_event_ring_push, loaded (acquire) by readers */
    uint64_t room; /* the owner's knowledge of tail */
    _Alignas(64) _Atomic uint64_t
        tail;                    /* read so far: stored (release) by readers, loaded (acquire) by the owner */
    struct msi_event_ring *next; /* of all there are; they are never freed */
    int number;                  /* of the thread that has it, which alone reads it, or had it last */
    _Atomic bool taken;          /* a thread has it */
    _Alignas(64) struct msi_record records[MSI_RING_RECORDS];
};

/* All rings; the list only grows. */
struct msi_event_ring *msi_event_ring_all(void);

/* The calling thread's number; 0 where there is no memory for a ring. */
int msi_event_ring_own_number(void);
/* The name of the thread of that number, as it was at its first record; "": there is none, or it is not kept. */
struct msi_event_ring_name {
    char text[16];
};
struct msi_event_ring_name msi_event_ring_thread(int number);

/* Adds a record to the calling thread's ring. False: it is full, or there is no memory for one. */
bool msi_event_ring_push(const struct msi_record *record);

/* The oldest record, or NULL; msi_event_ring_pop lets go of it. Only whoever has the recorder's lock. */
const struct msi_record *msi_event_ring_peek(struct msi_event_ring *ring);
void msi_event_ring_pop(struct msi_event_ring *ring);

#endif
