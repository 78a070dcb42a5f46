/* histogram.c - see histogram.h. */
#include "prof/summary/histogram.h"

#include <stdlib.h>

size_t msi_histogram_bucket(uint64_t ns) {
    const uint64_t most = (1ull << MSI_HISTOGRAM_TOP) - 1;
    if (ns > most) ns = most;
    if (ns >> MSI_HISTOGRAM_FINE == 0) return (size_t)ns;
    int shift = 63 - __builtin_clzll(ns) - MSI_HISTOGRAM_FINE;
    return ((size_t)shift << MSI_HISTOGRAM_FINE) + (size_t)(ns >> shift);
}

uint64_t msi_histogram_middle(size_t bucket) {
    if (bucket >> MSI_HISTOGRAM_FINE < 2) return bucket;
    unsigned shift = (unsigned)(bucket >> MSI_HISTOGRAM_FINE) - 1;
    uint64_t low = (uint64_t)(bucket - ((size_t)shift << MSI_HISTOGRAM_FINE)) << shift;
    return low + (1ull << shift) / 2;
}

static bool grow(struct msi_histogram *histogram) {
    if (histogram->cap == MSI_HISTOGRAM_EXACT) return false;
    size_t cap = histogram->cap ? histogram->cap * 2 : 8;
    uint64_t *exact = realloc(histogram->exact, cap * sizeof *exact);
    if (!exact) return false;
    histogram->exact = exact;
    histogram->cap = cap;
    return true;
}

bool msi_histogram_add(struct msi_histogram *histogram, uint64_t ns) {
    if (histogram->buckets) {
        histogram->buckets[msi_histogram_bucket(ns)]++;
    } else {
        if (histogram->count == histogram->cap && !grow(histogram)) return false;
        histogram->exact[histogram->count] = ns;
        histogram->sorted = false;
    }
    histogram->count++;
    return true;
}

bool msi_histogram_coarsen(struct msi_histogram *histogram) {
    if (histogram->buckets) return true;
    uint64_t *buckets = calloc(MSI_HISTOGRAM_BUCKETS, sizeof *buckets);
    if (!buckets) return false;
    for (uint64_t i = 0; i < histogram->count; i++) buckets[msi_histogram_bucket(histogram->exact[i])]++;
    free(histogram->exact);
    *histogram = (struct msi_histogram){.count = histogram->count, .buckets = buckets};
    return true;
}

static int by_size(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void msi_histogram_sort(struct msi_histogram *histogram) {
    if (histogram->exact && !histogram->sorted)
        qsort(histogram->exact, histogram->count, sizeof *histogram->exact, by_size);
    histogram->sorted = true;
}

static void weigh(struct msi_histogram_means *sums, uint64_t ns, uint64_t times) {
    sums->ns += (double)ns * (double)times;
    sums->per_ns += (double)times / (double)(ns ? ns : 1);
}

static void sum_buckets(const struct msi_histogram *histogram, uint64_t drop,
                        struct msi_histogram_means *sums) {
    uint64_t wanted = histogram->count - 2 * drop;
    for (size_t i = 0; i < MSI_HISTOGRAM_BUCKETS && wanted; i++) {
        uint64_t here = histogram->buckets[i], skip = here < drop ? here : drop;
        drop -= skip;
        here -= skip;
        if (here > wanted) here = wanted;
        wanted -= here;
        if (here) weigh(sums, msi_histogram_middle(i), here);
    }
}

struct msi_histogram_means msi_histogram_means(struct msi_histogram *histogram) {
    struct msi_histogram_means sums = {0, 0};
    uint64_t drop = msi_histogram_trimmed(histogram->count);
    if (!histogram->count) return sums;
    msi_histogram_sort(histogram);
    if (histogram->buckets) sum_buckets(histogram, drop, &sums);
    for (uint64_t i = drop; !histogram->buckets && i < histogram->count - drop; i++)
        weigh(&sums, histogram->exact[i], 1);
    double left = (double)(histogram->count - 2 * drop);
    return (struct msi_histogram_means){sums.ns / left, sums.per_ns / left};
}

void msi_histogram_free(struct msi_histogram *histogram) {
    free(histogram->exact);
    free(histogram->buckets);
    *histogram = (struct msi_histogram){0};
}
