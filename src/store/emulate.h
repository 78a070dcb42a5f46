/*
 * emulate.h - the operations of a store in terms of simpler ones: for PyTorch's servers, which lack some of
 * ours, and for stores of the program.
 */
#ifndef MSI_STORE_EMULATE_H
#define MSI_STORE_EMULATE_H

#include "store/store.h"

/* A store that has at least SET, GET, ADD, COMPARE_SET, WAIT, CHECK and DELETE_KEY. */
struct msi_basic_store {
    /* Executes n requests in order, as msi_store_ops.exec. All others than those below come here, too. */
    mst_status (*run)(void *context, const struct msi_wait *wait, struct msi_store_rpc *x, size_t n);
    void *context;
    bool polls;                         /* a WAIT that times out breaks the connection: use CHECK */
    bool slices;                        /* a WAIT cannot be cancelled: wait in slices */
    bool gets_many, sets_many, appends; /* it has MULTI_GET, MULTI_SET, APPEND */
    const bool *broken;                 /* the connection cannot be used any more; NULL: it always can */
};

/* Executes requests, as msi_store_ops.exec. Emulates GUARD, WAIT_GET, BARRIER and what the store lacks. */
mst_status msi_store_emulate(const struct msi_basic_store *basic, const struct msi_wait *wait,
                             struct msi_store_rpc *x, size_t n);

#endif
