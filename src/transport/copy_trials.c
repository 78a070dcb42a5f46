/* copy_trials.c - see copy_trials.h. */
#include "transport/copy_trials.h"

enum {
    LONG = 4, /* the first class of which few trials are made */
    TRIALS_OF_LONG = 2,
    IN_TURN = 8, /* trials that use the same method */
    IN_TURN_OF_LONG = 3,
};

/* The program reads the block after that, and NT stores leave it in no cache. */
static const double NT_GAIN = 1.2;

int msi_copy_class(size_t bytes) {
    int class = -1;
    for (size_t from = MSI_COPY_FROM; bytes >= from && class < MSI_COPY_CLASSES - 1; from *= 4) class ++;
    return class;
}

bool msi_copy_decided(const struct msi_copy_trials *trials, int class, unsigned methods) {
    int enough = class >= LONG ? TRIALS_OF_LONG : MSI_COPY_TRIALS;
    for (int m = 0; m < MSI_COPY_METHODS; m++)
        if (methods & MSI_METHOD(m) && trials->of[class].n[m] < enough) return false;
    return true;
}

enum msi_copy_method msi_copy_fastest(const struct msi_copy_trials *trials, int class, unsigned methods) {
    const double *best = trials->of[class].best;
    enum msi_copy_method fastest = MSI_BY_CELLS;
    if (!msi_copy_decided(trials, class, methods)) return fastest;
    if (methods & MSI_METHOD(MSI_BY_NT) && best[MSI_BY_NT] > NT_GAIN * best[MSI_BY_CELLS])
        fastest = MSI_BY_NT;
    if (methods & MSI_METHOD(MSI_BY_CMA) && best[MSI_BY_CMA] > best[fastest]) fastest = MSI_BY_CMA;
    return fastest;
}

enum msi_copy_method msi_copy_in_turn(int class, unsigned methods, unsigned turn) {
    unsigned n = (unsigned)__builtin_popcount(methods),
             number = turn / (class >= LONG ? IN_TURN_OF_LONG : IN_TURN) % n;
    for (int m = 0; m < MSI_COPY_METHODS; m++)
        if (methods & MSI_METHOD(m) && number-- == 0) return (enum msi_copy_method)m;
    return MSI_BY_CELLS;
}

void msi_copy_add(struct msi_copy_trials *trials, int class, enum msi_copy_method method, size_t bytes,
                  int64_t nanoseconds) {
    double rate = (double)bytes / (double)(nanoseconds > 0 ? nanoseconds : 1);
    if (rate > trials->of[class].best[method]) trials->of[class].best[method] = rate;
    trials->of[class].n[method]++;
}
