/*
 * histogram.h - durations of many calls, for averages without the extremes. Pure.
 *
 * Up to MSI_HISTOGRAM_EXACT durations are kept exactly. msi_histogram_coarsen converts them to buckets, from
 * which a duration is known to 1/128 of itself; durations beyond 2^48 ns, 78 hours, count as that.
 */
#ifndef MSI_PROF_SUMMARY_HISTOGRAM_H
#define MSI_PROF_SUMMARY_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MSI_HISTOGRAM_EXACT = 65536,
    MSI_HISTOGRAM_FINE = 6, /* 2^6 buckets from each power of two to the next */
    MSI_HISTOGRAM_TOP = 48,
    MSI_HISTOGRAM_BUCKETS = (MSI_HISTOGRAM_TOP - MSI_HISTOGRAM_FINE + 1) << MSI_HISTOGRAM_FINE,
};

struct msi_histogram {
    uint64_t count;
    uint64_t *exact;   /* count durations; NULL: none yet, or coarse */
    uint64_t *buckets; /* MSI_HISTOGRAM_BUCKETS counters; NULL: exact */
    size_t cap;        /* of exact */
    bool sorted;       /* exact is in ascending order */
};

/* Averages of the durations, and of 1/duration, without round(0.1 n) at each end. */
struct msi_histogram_means {
    double ns, per_ns;
};

/* False without memory, or if it is exact and full; nothing has changed then. */
bool msi_histogram_add(struct msi_histogram *histogram, uint64_t ns);
/* Converts to buckets; false without memory, and nothing has changed then. */
bool msi_histogram_coarsen(struct msi_histogram *histogram);
/* Zero for an empty histogram. Sorts it. */
struct msi_histogram_means msi_histogram_means(struct msi_histogram *histogram);
/* Sorts exact durations. */
void msi_histogram_sort(struct msi_histogram *histogram);
void msi_histogram_free(struct msi_histogram *histogram);

/* The bucket of a duration, and the duration in the middle of a bucket. */
size_t msi_histogram_bucket(uint64_t ns);
uint64_t msi_histogram_middle(size_t bucket);

/* How many of n durations are left out at each end: a tenth, halves rounded to even as DeepSpeed does. */
static inline uint64_t msi_histogram_trimmed(uint64_t n) {
    uint64_t tenth = n / 10, rest = n % 10;
    return tenth + (rest > 5 || (rest == 5 && tenth % 2));
}

#endif
