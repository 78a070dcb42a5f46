/* page_inquiry.h - what page_verdict.c finds out and page_tell.c puts into words. */
#ifndef MUSTER_TOOL_PAGE_INQUIRY_H
#define MUSTER_TOOL_PAGE_INQUIRY_H

#include "page_flight.h"

enum { NOBODY = -1, MISSING = -2 };

struct inquiry {
    struct page_job *job;
    struct page_flights *f;
    int *at;        /* of each rank: its index in the list, or NOBODY */
    int *waits_for; /* of each recording: an index, NOBODY or MISSING */
    int *ends;      /* where its walk ends: an index; in circles the least index of it */
};

/* The verdict on the recording with this index; NOBODY: no rank is in a call. */
void page_tell(struct inquiry *inquiry, int culprit);

static inline bool page_is_message(const struct flight_op *op) {
    return op->peer != PAGE_NONE || op->class == PAGE_SEND || op->class == PAGE_RECV;
}

#endif
