/*
 * layout.h - how the buffers of an operation become those of a plan, which has one input and one output, each
 * contiguous. Other buffers are packed into memory that is kept for the next operation, and unpacked at the
 * end.
 */
#ifndef MSI_ENGINE_NET_LAYOUT_H
#define MSI_ENGINE_NET_LAYOUT_H

#include "coll/plan.h"
#include "comm/op.h"

struct msi_net_layout {
    const void *in;
    void *out;
    char *packed[2]; /* for the input, for the output */
    size_t room[2];
    struct msi_link **links; /* by rank, for the executor */
    bool unpack;
    bool identity; /* the result is the identity of the operation: rank 0 of exscan */
};

/* Fills in the request, except for rank, size and hosts, which the caller has set. Copies an out-of-place
 * input if the plan runs in place. */
mst_status msi_net_layout_begin(struct msi_net_layout *layout, const struct msi_op *op,
                                struct msi_request *request);
/* Unpacks or fills in the results. */
void msi_net_layout_end(struct msi_net_layout *layout, const struct msi_op *op, int ranks);
void msi_net_layout_free(struct msi_net_layout *layout);

#endif
