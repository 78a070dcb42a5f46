/*
 * cma.h - cross-memory attach: reads the memory of another process (process_vm_readv). It copies once
 * instead of twice, but in the kernel, page by page. copy_trials.h measures where that is faster than shared
 * cells.
 */
#ifndef MSI_TRANSPORT_CMA_H
#define MSI_TRANSPORT_CMA_H

#include "transport/copy_trials.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msi_team;

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

/* What a receiver has measured about CMA. */
enum msi_cma_result { MSI_CMA_UNDECIDED, MSI_CMA_SLOWER, MSI_CMA_FASTER };

#endif
