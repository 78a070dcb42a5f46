/*
 * event_ring.h - rings of records, from the threads that make records to the thread that reads them.
 *
 *  1. Each thread has its own ring, created with its first record. After its end another thread takes the
 *     ring over. Only the owner writes; only the holder of the recorder's lock reads. Neither waits for the
 *     other.
 *  2. Threads get the numbers 0, 1, 2, … with their first records, so that each has its own row in the trace,
 *     even if two threads use one ring in turn. From MSI_PROF_THREADS on, a thread that takes over a ring
 *     takes over its number.
 *  3. A full ring is emptied by its owner (msi_recorder_add).
 */
#ifndef MSI_PROF_RECORD_EVENT_RING_H
#define MSI_PROF_RECORD_EVENT_RING_H

#include "prof/record/record.h"

#include <stdatomic.h>

enum { MSI_RING_RECORDS = 2048 };

struct msi_event_ring {
    /* Records written: stored (release) by msi_event_ring_push, loaded (acquire) by the reader. */
    _Alignas(64) _Atomic uint64_t head;
    uint64_t known_tail; /* the owner's last look at tail */
    /* Records read: stored (release) by the reader, loaded (acquire) by the owner. */
    _Alignas(64) _Atomic uint64_t tail;
    struct msi_event_ring *next; /* in the list of all rings; rings are never freed */
    int number;                  /* of the owner, or of the last one; only the owner reads it */
    _Atomic bool taken;          /* a thread owns it */
    _Alignas(64) struct msi_record records[MSI_RING_RECORDS];
};

/* The list of all rings; it only grows. */
struct msi_event_ring *msi_event_ring_all(void);

/* The calling thread's number; 0 without memory for a ring. */
int msi_event_ring_own_number(void);
/* The name of a thread at its first record; "": no such thread, or its name is not kept. */
struct msi_event_ring_name {
    char text[16];
};
struct msi_event_ring_name msi_event_ring_thread(int number);

/* Adds a record to the calling thread's ring. False: it is full, or there is no memory for a ring. */
bool msi_event_ring_push(const struct msi_record *record);

/* The oldest record, or NULL; msi_event_ring_pop drops it. The caller holds the recorder's lock. */
const struct msi_record *msi_event_ring_peek(struct msi_event_ring *ring);
void msi_event_ring_pop(struct msi_event_ring *ring);

#endif
