/*
 * copy_trials.h - which method copies a large block between two processes of a host fastest?
 *
 *   MSI_BY_CELLS   through shared cells: two copies, the second one from the cache
 *   MSI_BY_NT      the same, and the second copy uses non-temporal stores (base/nt_copy.h)
 *   MSI_BY_CMA     one copy, by the kernel (cma.h)
 *
 * It depends on the machine, on the size, and on what the program leaves in the caches. So a receiver tries
 * each method a few times for each size class. Cells without NT stores also stand for memory that is mapped
 * and read in place.
 */
#ifndef MSI_TRANSPORT_COPY_TRIALS_H
#define MSI_TRANSPORT_COPY_TRIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MUSTER_CMA and MUSTER_NT_STORES. AUTO: where that is measured to be faster. */
enum msi_copy_mode { MSI_COPY_NEVER, MSI_COPY_AUTO, MSI_COPY_ALWAYS };

enum msi_copy_method { MSI_BY_CELLS, MSI_BY_NT, MSI_BY_CMA, MSI_COPY_METHODS };
/* A set of methods is a bit for each. */
#define MSI_METHOD(method) (1u << (method))

enum {
    MSI_COPY_FROM = 16 << 10,    /* bytes; smaller blocks always use cells */
    MSI_COPY_NT_FROM = 48 << 20, /* bytes of a rank's output; of a smaller one the caches may keep a part */
    MSI_COPY_TRIALS = 5,  /* trials of each method before a class is decided; large classes take fewer */
    MSI_COPY_CLASSES = 7, /* each covers sizes up to four times the previous one */
};

/* The size class of a block; -1 if it is too small. */
int msi_copy_class(size_t bytes);

/* The trials so far. Starts as zeros. */
struct msi_copy_trials {
    struct {
        int n[MSI_COPY_METHODS];
        double best[MSI_COPY_METHODS]; /* bytes per nanosecond */
    } of[MSI_COPY_CLASSES];
};

/* Was each of the methods tried often enough? */
bool msi_copy_decided(const struct msi_copy_trials *trials, int class, unsigned methods);
/* The fastest of the methods; MSI_BY_CELLS if that is not decided. */
enum msi_copy_method msi_copy_fastest(const struct msi_copy_trials *trials, int class, unsigned methods);
/* The method for trial number turn. Some trials in turn use the same one: the first one after a change finds
 * the caches as the other method has left them. */
enum msi_copy_method msi_copy_in_turn(int class, unsigned methods, unsigned turn);
void msi_copy_add(struct msi_copy_trials *trials, int class, enum msi_copy_method method, size_t bytes,
                  int64_t nanoseconds);

#endif
