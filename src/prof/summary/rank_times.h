/*
 * rank_times.h - the times of single ranks as a table, which the profile and "muster report" print. Pure.
 */
#ifndef MSI_PROF_SUMMARY_RANK_TIMES_H
#define MSI_PROF_SUMMARY_RANK_TIMES_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* comm_time.h defines the times. Transfer is comm_ns - waiting_ns. */
struct msi_rank_times {
    int rank;
    int64_t run_ns;        /* from the forming of the world to the end of the rank's last call */
    int64_t comm_ns;       /* communication time */
    int64_t waiting_ns;    /* of that: waiting for other ranks */
    int64_t waited_for_ns; /* time that other ranks waited for this one, the sum over them */
};

/* Their sum, at most INT64_MAX: profiles of other ranks may hold any numbers. */
static inline int64_t msi_add_ns(int64_t a, uint64_t b) {
    return b > (uint64_t)(INT64_MAX - a) ? INT64_MAX : a + (int64_t)b;
}

/* The share of the run time; 0 without a run time. */
static inline double msi_run_share(const struct msi_rank_times *times, int64_t ns) {
    return times->run_ns > 0 ? (double)ns / (double)times->run_ns : 0;
}

enum { MSI_RANKS_SHOWN = 16 };

/*
 * Adds a line for each rank; of more than MSI_RANKS_SHOWN ranks only those with the least, the median and the
 * most communication, and the one that others waited for most. waiting: also the columns of waiting and
 * transfer. False without memory.
 */
bool msi_add_rank_times(struct msi_buf *to, const struct msi_rank_times *ranks, int n, bool waiting);

/* Milliseconds with at most 9 characters below 10^10 ms: the fewer decimals, the larger it is. */
const char *msi_ms_text(double ns, char text[32]);

#endif
