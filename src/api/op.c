/* op.c - the public calls that create and free user-defined operations. */
#include "base/error.h"
#include "base/options.h"
#include "reduce/user.h"

mst_status mst_op_create_with(mst_reduce_fn fn, void *arg, mst_op *op, const mst_op_options *given) {
    mst_op_options options;
    mst_status st = msi_options_begin("mst_op_create", &options, sizeof options, given);
    if (st != MST_OK) return st;
    if (!fn) return msi_fail(MST_ERR_INVALID, NULL, "fn is NULL");
    if (!op) return msi_fail(MST_ERR_INVALID, NULL, "op is NULL");
    if (options.unit > MSI_UNIT_MOST)
        return msi_fail(MST_ERR_INVALID, NULL, ".unit is %zu, but at most %d elements", options.unit,
                        MSI_UNIT_MOST);
    return msi_user_op_add(&(struct msi_user_op){fn, arg, options.unit ? options.unit : 1}, op);
}

mst_status mst_op_free(mst_op op) {
    msi_call_begin("mst_op_free", NULL, -1);
    return msi_user_op_remove(op) ? MST_OK
                                  : msi_fail(MST_ERR_INVALID, "free an operation of mst_op_create once",
                                             "%d is not a user-defined operation", (int)op);
}
