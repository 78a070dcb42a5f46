/*
 * cma.h - cross-memory attach: reads the memory of another process (process_vm_readv), and measures for which
 * sizes that is faster than copying through shared cells. It copies once instead of twice, but in the kernel,
 * page by page. Machines differ, so both methods are tried a few times for each size class.
 */
#ifndef MSI_TRANSPORT_CMA_H
#define MSI_TRANSPORT_CMA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msi_team;

/* MUSTER_CMA. AUTO: where it is measured to be faster. */
enum msi_cma_mode { MSI_CMA_MODE_NEVER, MSI_CMA_MODE_AUTO, MSI_CMA_MODE_ALWAYS };

enum {
    MSI_CMA_FROM = 16 << 10, /* bytes; smaller blocks never use CMA */
    MSI_CMA_TRIALS = 5,      /* measurements per method before a class is decided; large classes take fewer */
    MSI_CMA_CLASSES = 7,     /* each covers sizes up to four times the previous one */
};

/* The size class of a block; -1 if it is too small for CMA. */
int msi_cma_class(size_t bytes);

/* Copies memory of another process. Returns false and sets errno if any byte is not readable. */
bool msi_cma_read(int pid, uint64_t from, void *to, size_t bytes);

/* The same by the threads of a team, which may be NULL. Returns 0 or errno. */
int msi_cma_read_by(struct msi_team *team, int pid, uint64_t from, void *to, size_t bytes);

/* A random value and its address, in shared memory. Others try to read it from this process. */
struct msi_cma_token {
    _Atomic uint32_t ready; /* the other fields are valid */
    int32_t pid;
    uint64_t address, value;
};

enum msi_cma_access { MSI_CMA_NOT_READY, MSI_CMA_DENIED, MSI_CMA_ALLOWED };

/*
 * Writes a token. *value must stay where it is. Called on first use, not on open: the process that uses the
 * memory may be a fork of the one that opened it.
 */
void msi_cma_publish(struct msi_cma_token *token, uint64_t *value);
/* Can this process read the memory of the one that publishes the token? */
enum msi_cma_access msi_cma_try(const struct msi_cma_token *token);

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
