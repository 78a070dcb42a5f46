/*
 * layout.h - how the buffers of a call become those of a plan, which knows one input and one output, each in one piece.
 * What lies elsewhere is packed into memory that is kept for the next time, and unpacked at the end.
 */
#ifndef MSI_ENGINE_NET_LAYOUT_H
#define MSI_ENGINE_NET_LAYOUT_H

#include "coll/plan.h"
#include "comm/comm_internal.h"

struct msi_net_layout {
    const void *in;
    void *out;
    char *packed[2]; /* for the input, for the output */
    size_t room[2];
    size_t *counts; /* elements of each rank; 2 x size */
    struct msi_link **links;
    bool unpack;
};

/* Fills in what the plan shall do, but for rank, size and hosts, which the request has already. */
mst_status msi_net_layout_begin(struct msi_net_layout *layout, const struct mst_work *op,
                                struct msi_request *request);
/* Puts the results where they belong. */
void msi_net_layout_end(struct msi_net_layout *layout, const struct mst_work *op);
void msi_net_layout_free(struct msi_net_layout *layout);

#endif
