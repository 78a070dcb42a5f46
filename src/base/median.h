/* median.h - the median of some measurements. */
#ifndef MSI_BASE_MEDIAN_H
#define MSI_BASE_MEDIAN_H

#include <stdlib.h>

static inline int msi_compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values, n > 0, and returns their median: the mean of the middle two if n is even. */
static inline double msi_median(double *values, long n) {
    qsort(values, (size_t)n, sizeof *values, msi_compare_doubles);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

#endif
