/*
 * executor.h - runs a plan over links, incrementally.
 *
 *  1. No function blocks. msi_exec_advance starts the steps that are ready and detects completed transfers.
 *     The caller calls the links' progress function, which moves the bytes.
 *  2. An exec is reusable. It allocates nothing once it has grown to the largest plan.
 *  3. The plan, the buffers and the links must stay valid until the run ends. A failed run leaves transfers
 *     posted on the links that still work. Close these links before the exec is begun again or freed.
 *  4. One thread at a time uses an exec.
 */
#ifndef MSI_COLL_EXECUTOR_H
#define MSI_COLL_EXECUTOR_H

#include "coll/plan.h"
#include "reduce/reduce.h"
#include "transport/link.h"

/* The plan, the links and the buffers of one run. */
struct msi_exec_run {
    const struct msi_plan *plan;
    struct msi_link *const *links; /* by rank; the entry of this rank is not used */
    const void *in;
    void *out;
    size_t raw_size;                   /* bytes of an element of the plan */
    const struct msi_reducer *reducer; /* NULL if the kind does not reduce */
    struct msi_reduce_scale scale;
    int divisor; /* of unpacked elements */
    size_t unit; /* elements of the reducer in one of the plan; 0: 1 */
};

struct msi_exec {
    struct msi_exec_run run;
    mst_status status; /* the run has failed if not MST_OK */
    int culprit;       /* the rank whose link failed; the link has the message */
    uint32_t left;     /* steps not done */
    bool pauses;       /* it leaves time to the links */

    char *base[MSI_SPACES];
    size_t size[MSI_SPACES]; /* bytes of an element */
    char *scratch;
    uint32_t *waits; /* of each step */
    uint8_t *state;  /* of each step */
    struct msi_transfer *transfers;
    const void **sources;
    uint32_t *ready; /* queue of the steps that may start; each step enters it once */
    uint32_t *heads; /* the oldest posted message of each direction of each peer */
    uint32_t first_ready, end_ready, n_heads;
    size_t scratch_cap, waits_cap, state_cap, transfers_cap, sources_cap, ready_cap, heads_cap;
};

/* Sets up a run. A zeroed struct is a new exec. The only error is MST_ERR_MEMORY. */
mst_status msi_exec_begin(struct msi_exec *exec, const struct msi_exec_run *run);
/* Returns true if a step started or completed. */
bool msi_exec_advance(struct msi_exec *exec);
static inline bool msi_exec_over(const struct msi_exec *exec) {
    return exec->left == 0 || exec->status != MST_OK;
}
void msi_exec_free(struct msi_exec *exec);

#endif
