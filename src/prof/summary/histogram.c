/* histogram.c - the durations of many calls. See histogram.h. */
#include "prof/summary/histogram.h"

#include <stdlib.h>

size_t msi_spread_bucket(uint64_t ns) {
    const uint64_t most = (1ull << MSI_SPREAD_TOP) - 1;
    if (ns > most) ns = most;
    if (ns >> MSI_SPREAD_FINE == 0) return (size_t)ns;
    int shift = 63 - __builtin_clzll(ns) - MSI_SPREAD_FINE;
    return ((size_t)shift << MSI_SPREAD_FINE) + (size_t)(ns >> shift);
}

uint64_t msi_spread_middle(size_t bucket) {
    if (bucket >> MSI_SPREAD_FINE < 2) return bucket;
    unsigned shift = (unsigned)(bucket >> MSI_SPREAD_FINE) - 1;
    uint64_t low = (uint64_t)(bucket - ((size_t)shift << MSI_SPREAD_FINE)) << shift;
    return low + (1ull << shift) / 2;
}

static bool grow(struct msi_spread *spread) {
    if (spread->cap == MSI_SPREAD_EXACT) return false;
    size_t cap = spread->cap ? spread->cap * 2 : 8;
    uint64_t *exact = realloc(spread->exact, cap * sizeof *exact);
    if (!exact) return false;
    spread->exact = exact;
    spread->cap = cap;
    return true;
}

bool msi_spread_add(struct msi_spread *spread, uint64_t ns) {
    if (spread->buckets) {
        spread->buckets[msi_spread_bucket(ns)]++;
    } else {
        if (spread->count == spread->cap && !grow(spread)) return false;
        spread->exact[spread->count] = ns;
        spread->sorted = false;
    }
    spread->count++;
    return true;
}

bool msi_spread_coarsen(struct msi_spread *spread) {
    if (spread->buckets) return true;
    uint64_t *buckets = calloc(MSI_SPREAD_BUCKETS, sizeof *buckets);
    if (!buckets) return false;
    for (uint64_t i = 0; i < spread->count; i++) buckets[msi_spread_bucket(spread->exact[i])]++;
    free(spread->exact);
    *spread = (struct msi_spread){.count = spread->count, .buckets = buckets};
    return true;
}

static int by_size(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void msi_spread_sort(struct msi_spread *spread) {
    if (spread->exact && !spread->sorted) qsort(spread->exact, spread->count, sizeof *spread->exact, by_size);
    spread->sorted = true;
}

static void weigh(struct msi_spread_means *sums, uint64_t ns, uint64_t times) {
    sums->ns += (double)ns * (double)times;
    sums->per_ns += (double)times / (double)(ns ? ns : 1);
}

static void sum_exact(const struct msi_spread *spread, uint64_t drop, struct msi_spread_means *sums) {
    for (uint64_t i = drop; i < spread->count - drop; i++) weigh(sums, spread->exact[i], 1);
}

static void sum_buckets(const struct msi_spread *spread, uint64_t drop, struct msi_spread_means *sums) {
    uint64_t wanted = spread->count - 2 * drop;
    for (size_t i = 0; i < MSI_SPREAD_BUCKETS && wanted; i++) {
        uint64_t here = spread->buckets[i], skip = here < drop ? here : drop;
        drop -= skip;
        here -= skip;
        if (here > wanted) here = wanted;
        wanted -= here;
        if (here) weigh(sums, msi_spread_middle(i), here);
    }
}

struct msi_spread_means msi_spread_means(struct msi_spread *spread) {
    struct msi_spread_means sums = {0, 0};
    uint64_t drop = msi_spread_trimmed(spread->count);
    if (!spread->count) return sums;
    msi_spread_sort(spread);
    if (spread->buckets)
        sum_buckets(spread, drop, &sums);
    else
        sum_exact(spread, drop, &sums);
    double left = (double)(spread->count - 2 * drop);
    return (struct msi_spread_means){sums.ns / left, sums.per_ns / left};
}

void msi_spread_free(struct msi_spread *spread) {
    free(spread->exact);
    free(spread->buckets);
    *spread = (struct msi_spread){0};
}
