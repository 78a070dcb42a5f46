/*
 * executor.h - runs a plan over links, a little at a time.
 *
 *  1. Nothing here blocks or waits: msi_exec_advance starts what may start and notices what has arrived; moving the bytes
 *     is the links' progress, which the caller calls in between, or lets msi_exec_poll call.
 *  2. An exec is used again and again; once it has grown to the largest plan, nothing is allocated.
 *  3. The plan, the buffers and the links stay in place until the run is over. A run that failed leaves transfers posted
 *     on the links that still work: those are of no use any more and must be closed before the exec is begun again or
 *     freed.
 *  4. An exec belongs to one thread at a time.
 */
#ifndef MSI_COLL_EXECUTOR_H
#define MSI_COLL_EXECUTOR_H

#include "coll/plan.h"
#include "reduce/reduce.h"
#include "transport/link.h"

/* What a plan is run on. */
struct msi_exec_run {
    const struct msi_plan *plan;
    struct msi_link *const *links; /* by rank; that of the caller itself is not used */
    const void *in;
    void *out;
    size_t raw_size;                   /* bytes of an element */
    const struct msi_reducer *reducer; /* NULL for what does not reduce */
    struct msi_reduce_scale scale;
};

struct msi_exec {
    struct msi_exec_run run;
    mst_status status; /* how it goes; once it is not MST_OK the run is over */
    int culprit;       /* the rank whose link failed; its why says more */
    uint32_t left;     /* steps that are not done */

    char *base[MSI_SPACES];
    size_t size[MSI_SPACES]; /* bytes of an element */
    char *scratch;
    uint32_t *waits; /* of each step */
    uint8_t *state;  /* of each step */
    struct msi_transfer *transfers;
    const void **sources;
    uint32_t *ready; /* a queue of the steps that may start; every step passes through it once */
    uint32_t *heads; /* the oldest message under way to, or from, each peer that has any */
    uint32_t first_ready, end_ready, n_heads;
    size_t scratch_cap, waits_cap, state_cap, transfers_cap, sources_cap, ready_cap, heads_cap;
};

/* Sets up a run; an exec that starts as zeros is new. MST_ERR_MEMORY is the only failure. */
mst_status msi_exec_begin(struct msi_exec *exec, const struct msi_exec_run *run);
/* True if anything happened. */
bool msi_exec_advance(struct msi_exec *exec);
/* Advances it, and the links that it waits for. True if anything happened or moved. */
bool msi_exec_poll(struct msi_exec *exec);
static inline bool msi_exec_over(const struct msi_exec *exec) {
    return exec->left == 0 || exec->status != MST_OK;
}
void msi_exec_free(struct msi_exec *exec);

#endif
