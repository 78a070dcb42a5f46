/*
 * fault.h - fault injection for tests: wraps another link and delays its transfers, cuts them into pieces or
 * drops the connection. The behaviour depends only on the seed and the sequence of calls, unless delay_us is
 * set.
 *
 * While it delays a transfer, progress returns true, so that no caller sleeps on a link that moves without an
 * event.
 */
#ifndef MSI_TRANSPORT_FAULT_H
#define MSI_TRANSPORT_FAULT_H

#include "transport/link.h"

/* 0 disables a fault. */
struct msi_faults {
    uint64_t seed;
    size_t most_bytes;      /* one progress moves a random 1 … most_bytes in each direction */
    unsigned delay_calls;   /* a transfer waits for a random 0 … delay_calls calls of progress */
    unsigned delay_us;      /* a transfer waits for a random 0 … delay_us microseconds */
    unsigned stall_percent; /* percentage of calls that begin a stall, which reorders links */
    unsigned stall_calls;   /* a stall lasts a random 1 … stall_calls calls */
    uint64_t lose_after;    /* after so many bytes in both directions the link fails at both ends */
};

/* Takes ownership of inner on success. inner must have no posted transfers. */
mst_status msi_link_open_fault(struct msi_link *inner, const struct msi_faults *faults,
                               struct msi_link **link);

#endif
