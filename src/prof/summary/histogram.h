/*
 * histogram.h - the durations of many calls, for averages that leave out the extremes. Pure.
 *
 * Up to MSI_HISTOGRAM_EXACT are kept as they are. After msi_histogram_coarsen they are counted in a histogram
 * instead, from which a duration comes back wrong by at most 1/128 of itself (and beyond 2^48 ns, 78 hours,
 * as that).
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
    uint64_t *exact;   /* count of them; NULL: none yet, or coarse */
    uint64_t *buckets; /* MSI_HISTOGRAM_BUCKETS of them, count in all; NULL: exact */
    size_t cap;        /* of exact */
    bool sorted;       /* exact is in ascending order */
};

/*
 * Averages of what is left after round(0.1 n) were dropped from each end: of the durations, and of
 * 1/duration.
 */
struct msi_histogram_means {
    double ns, per_ns;
};

/* False without memory, or if it is exact and full; then nothing changed. */
bool msi_histogram_add(struct msi_histogram *histogram, uint64_t ns);
/* Into a histogram, if it is none; false without memory, and then nothing changed. */
bool msi_histogram_coarsen(struct msi_histogram *histogram);
/* Zero for an empty one. Sorts. */
struct msi_histogram_means msi_histogram_means(struct msi_histogram *histogram);
/* In ascending order, for an exact one. */
void msi_histogram_sort(struct msi_histogram *histogram);
void msi_histogram_free(struct msi_histogram *histogram);

/* Where a duration is counted, and what stands for all that are counted there. */
size_t msi_histogram_bucket(uint64_t ns);
uint64_t msi_histogram_middle(size_t bucket);

/* How many an average of n leaves out at each end: a tenth, halves rounded to even as DeepSpeed's. */
static inline uint64_t msi_histogram_trimmed(uint64_t n) {
    uint64_t tenth = n / 10, rest = n % 10;
    return tenth + (rest > 5 || (rest == 5 && tenth % 2));
}

#endif
