/*
 * cma.h - cross-memory attach: reads the memory of another process (process_vm_readv), and measures for which
 * sizes that is faster than copying through shared cells. It copies once instead of twice, but in the kernel,
 * page by page. Machines differ, so both methods are tried a few times for each size class.
 */
#ifndef MSI_TRANSPORT_CMA_H
#define MSI_TRANSPORT_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MSI_CMA_FROM = 64 << 10, /* bytes; smaller messages never use CMA */
    MSI_CMA_CLASSES = 6,     /* each covers sizes up to four times the previous one */
};

/* The size class of a message; -1 if it is too small for CMA. */
int msi_cma_class(size_t bytes);

/* Copies memory of another process. Returns false and sets errno if any byte is not readable. */
bool msi_cma_read(int pid, uint64_t from, void *to, size_t bytes);

enum msi_cma_result { MSI_CMA_UNDECIDED, MSI_CMA_SLOWER, MSI_CMA_FASTER };

/* The measurements so far. Starts as zeros. */
struct msi_cma_trials {
    struct {
        int n[2];       /* without and with CMA */
        double best[2]; /* bytes per nanosecond */
    } of[MSI_CMA_CLASSES];
};

/* Is CMA faster for a class, as far as measured? */
enum msi_cma_result msi_cma_result_of(const struct msi_cma_trials *trials, int class);

/* Adds a measurement; returns the result of its class. */
enum msi_cma_result msi_cma_add_trial(struct msi_cma_trials *trials, int class, bool by_cma, size_t bytes,
                                      int64_t nanoseconds);

#endif
