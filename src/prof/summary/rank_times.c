/* rank_times.c - see rank_times.h. */
#include "prof/summary/rank_times.h"

#include <stdio.h>
#include <stdlib.h>

const char *msi_ms_text(double ns, char text[32]) {
    double ms = ns / 1e6;
    int decimals = ms > 0 && ms < 0.01 ? 4 : ms < 99999.995 ? 2 : ms < 9999999 ? 1 : 0;
    snprintf(text, 32, "%.*f", decimals, ms);
    return text;
}

/* "  76.03  94.9 %" */
static void add_time(struct msi_buf *to, const struct msi_rank_times *times, int64_t ns) {
    char text[32];
    msi_buf_add_format(to, " %10s %6.1f", msi_ms_text((double)ns, text), 100 * msi_run_share(times, ns));
}

static void add_rank(struct msi_buf *to, const struct msi_rank_times *times, bool waiting) {
    int64_t waited = times->waiting_ns < times->comm_ns ? times->waiting_ns : times->comm_ns;
    char text[32];
    msi_buf_add_format(to, "  %6d %11s", times->rank, msi_ms_text((double)times->run_ns, text));
    add_time(to, times, times->comm_ns);
    if (waiting) {
        add_time(to, times, waited);
        add_time(to, times, times->comm_ns - waited);
        msi_buf_add_format(to, " %14s", msi_ms_text((double)times->waited_for_ns, text));
    }
    msi_buf_add_format(to, "\n");
}

static int by_share(const void *a, const void *b) {
    const struct msi_rank_times *x = a, *y = b;
    double one = msi_run_share(x, x->comm_ns), other = msi_run_share(y, y->comm_ns);
    if (one < other || one > other) return one < other ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Of many ranks: least, median and most communication, and the one that others waited for most. */
static bool add_some(struct msi_buf *to, const struct msi_rank_times *ranks, int n, bool waiting) {
    struct msi_rank_times *sorted = malloc((size_t)n * sizeof *sorted), late = ranks[0];
    if (!sorted) return false;
    for (int i = 0; i < n; i++) {
        sorted[i] = ranks[i];
        if (ranks[i].waited_for_ns > late.waited_for_ns) late = ranks[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_share);
    const struct msi_rank_times *shown[] = {&sorted[0], &sorted[(n - 1) / 2], &sorted[n - 1]};
    bool add_late = waiting;
    msi_buf_add_format(to, "  (%d ranks; with the least, the median and the most communication%s)\n", n,
                       waiting ? ", and the latest rank" : "");
    for (int i = 0; i < 3; i++) {
        add_rank(to, shown[i], waiting);
        add_late &= shown[i]->rank != late.rank;
    }
    if (add_late) add_rank(to, &late, waiting);
    free(sorted);
    return true;
}

bool msi_add_rank_times(struct msi_buf *to, const struct msi_rank_times *ranks, int n, bool waiting) {
    bool ok = true;
    msi_buf_add_format(
        to, "Time per rank      run      communication%s\n    rank         ms         ms  %% run%s\n",
        waiting ? "           waiting          transfer  others waited" : "",
        waiting ? "         ms  % run         ms  % run     for it, ms" : "");
    if (n > MSI_RANKS_SHOWN) ok = add_some(to, ranks, n, waiting);
    for (int i = 0; n <= MSI_RANKS_SHOWN && i < n; i++) add_rank(to, &ranks[i], waiting);
    msi_buf_add_format(to,
                       "  run: from mst_init to the end of the last call; communication: blocked in calls "
                       "and mst_wait\n");
    if (waiting)
        msi_buf_add_format(to, "  waiting: until the last rank, or the sender, begins; transfer: the rest; "
                               "others waited: a sum\n");
    return ok;
}
