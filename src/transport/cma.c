/* cma.c - see cma.h. */
#include "transport/cma.h"

#include <errno.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Measurements per method before a class is decided. From class LONG on, one is enough. */
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

enum msi_cma_result msi_cma_result_of(const struct msi_cma_trials *trials, int class) {
    const int *n = trials->of[class].n, enough = class >= LONG ? 1 : ENOUGH;
    const double *best = trials->of[class].best;
    if (n[0] < enough || n[1] < enough) return MSI_CMA_UNDECIDED;
    return best[1] > best[0] ? MSI_CMA_FASTER : MSI_CMA_SLOWER;
}

enum msi_cma_result msi_cma_add_trial(struct msi_cma_trials *trials, int class, bool by_cma, size_t bytes,
                                      int64_t nanoseconds) {
    int *n = trials->of[class].n;
    double *best = trials->of[class].best, rate = (double)bytes / (double)(nanoseconds > 0 ? nanoseconds : 1);
    if (rate > best[by_cma]) best[by_cma] = rate;
    n[by_cma]++;
    return msi_cma_result_of(trials, class);
}
