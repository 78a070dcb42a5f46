/*
 * fault.h - a link that misbehaves, for tests: it wraps another link and holds its transfers back, cuts them
 * into pieces or loses the peer. What it does follows from the seed and the calls made on it, except where
 * microseconds are asked for.
 *
 * While it holds something back, progress says that something moved: nobody shall go to sleep on a link that
 * will move without any event.
 */
#ifndef MSI_TRANSPORT_FAULT_H
#define MSI_TRANSPORT_FAULT_H

#include "transport/link.h"

/* Zero switches a fault off. */
struct msi_faults {
    uint64_t seed;
    size_t most_bytes;      /* one progress moves at most 1 to so many bytes each way */
    unsigned delay_calls;   /* a transfer waits for 0 to so many progress calls at the head of its queue */
    unsigned delay_us;      /* likewise for microseconds */
    unsigned stall_percent; /* how many calls in a hundred begin a stall: links overtake each other */
    unsigned stall_calls;   /* for 1 to so many calls the whole link stands still */
    uint64_t lose_after;    /* once so many bytes have moved, both ways, the link is lost for both ends */
};

/* Owns inner from now on, unless it fails. Nobody else may have posted to inner. */
mst_status msi_link_open_fault(struct msi_link *inner, const struct msi_faults *faults,
                               struct msi_link **link);

#endif
