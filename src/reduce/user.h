/*
 * user.h - user-defined operations. Their reducer has no merge, so plans must reduce in rank order. Counts of
 * its calls are whole units.
 */
#ifndef MSI_REDUCE_USER_H
#define MSI_REDUCE_USER_H

#include "reduce/reduce.h"

#include <muster/comm.h>

enum { MSI_UNIT_MOST = 64, MSI_ELEMENT_MOST = 16 };

struct msi_user_op {
    mst_reduce_fn fn;
    void *arg;
    size_t unit; /* elements that belong together; at least 1 */
};

/* Elements that belong together; user may be NULL. */
static inline size_t msi_unit_of(const struct msi_user_op *user) {
    return user ? user->unit : 1;
}

/* Adds an operation, with the next number. */
mst_status msi_user_op_add(const struct msi_user_op *user, mst_op *op);
/* NULL: there is no such operation. */
const struct msi_user_op *msi_user_op_find(mst_op op);
/* False: there is no such operation. */
bool msi_user_op_remove(mst_op op);
/* For any of them. */
const struct msi_reducer *msi_user_reducer(mst_dtype dtype);

#endif
