/* cma.c - reading another process's memory. See cma.h. */
#include "transport/cma.h"

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Measurements of each way; a long one says as much as several short ones. */
enum { ENOUGH = 3, LONG = 3 };

int msi_cma_class(size_t bytes) {
    int class = -1;
    for (size_t from = MSI_CMA_FROM; bytes >= from && class < MSI_CMA_CLASSES - 1; from *= 4) class ++;
    return class;
}

bool msi_cma_read(int pid, uint64_t from, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        struct iovec here = {(char *)to + done, bytes - done},
                     there = {(void *)(uintptr_t)(from + done), bytes - done};
        ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
        if (n == 0) errno = EFAULT;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

enum msi_cma_verdict msi_cma_verdict_of(const struct msi_cma_trials *trials, int class) {
    const int *n = trials->of[class].n, enough = class >= LONG ? 1 : ENOUGH;
    const double *best = trials->of[class].best;
    if (n[0] < enough || n[1] < enough) return MSI_CMA_UNDECIDED;
    return best[1] > best[0] ? MSI_CMA_PULLED : MSI_CMA_STAGED;
}

enum msi_cma_verdict msi_cma_judge(struct msi_cma_trials *trials, int class, bool pulled, size_t bytes,
                                   int64_t nanoseconds) {
    int *n = trials->of[class].n;
    double *best = trials->of[class].best, rate = (double)bytes / (double)(nanoseconds > 0 ? nanoseconds : 1);
    if (rate > best[pulled]) best[pulled] = rate;
    n[pulled]++;
    return msi_cma_verdict_of(trials, class);
}
