/*
 * cma.h - reading another process's memory without its help (process_vm_readv), and finding out for which sizes that is
 * faster than copying through shared cells: it is one copy instead of two, but the kernel makes it, page by page. Machines
 * differ, so both are tried a few times for each class of sizes.
 */
#ifndef MSI_TRANSPORT_CMA_H
#define MSI_TRANSPORT_CMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MSI_CMA_FROM = 64 << 10, /* bytes; smaller messages are never pulled */
    MSI_CMA_CLASSES = 6,     /* each four times the one before */
};

/* The class of a size; -1 if it is too small. */
int msi_cma_class(size_t bytes);

/* Copies bytes of a process's memory; false, with errno set, if one of them cannot be read. */
bool msi_cma_read(int pid, uint64_t from, void *to, size_t bytes);

enum msi_cma_verdict { MSI_CMA_UNDECIDED, MSI_CMA_STAGED, MSI_CMA_PULLED };

/* What was measured so far. Starts as zeros. */
struct msi_cma_trials {
    struct {
        int n[2];       /* by whether it was pulled */
        double best[2]; /* bytes per nanosecond */
    } of[MSI_CMA_CLASSES];
};

/* What the trials of a class say so far. */
enum msi_cma_verdict msi_cma_verdict_of(const struct msi_cma_trials *trials, int class);

/* Takes one more measurement; returns what the class's trials say now. */
enum msi_cma_verdict msi_cma_judge(struct msi_cma_trials *trials, int class, bool pulled, size_t bytes,
                                   int64_t nanoseconds);

#endif
