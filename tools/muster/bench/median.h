/* median.h - the middle of some figures, which every benchmark reports. */
#ifndef MUSTER_TOOL_BENCH_MEDIAN_H
#define MUSTER_TOOL_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int bench_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values, n > 0, and gives the middle one. */
static inline double bench_median(double *values, long n) {
    qsort(values, (size_t)n, sizeof *values, bench_compare);
    return values[n / 2];
}

#endif
