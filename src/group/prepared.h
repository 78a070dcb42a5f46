/*
 * prepared.h - the fast path of small blocking collectives.
 *
 * A program makes the same calls again and again: same line, options, count and dtype. The first one is
 * checked, described and signed, and kept. The next one is compared with it, byte by byte, and then only its
 * buffers are checked. It needs no operation of the communicator unless another rank is late. The flight
 * recorder is written while the announcement travels to the other ranks.
 *
 *  1. What is kept does not depend on the communicator, which may be replaced.
 *  2. It is used under the lock of the group's communicator for host memory.
 */
#ifndef MSI_GROUP_PREPARED_H
#define MSI_GROUP_PREPARED_H

#include "group/call.h"

/* The arguments of a collective that are not options. in: as in struct msi_op; for msi_prepared_run without
 * .in. */
struct msi_args {
    enum msi_kind kind;
    void *out;
    const void *in;
    size_t count;
    mst_dtype dtype;
};

/* Runs a call that was prepared. False: nothing has happened, and the call must be opened. */
bool msi_prepared_run(const struct msi_args *args, const mst_call *options, mst_status *status);
/* Prepares a call whose arguments are checked, and runs it. False: nothing has happened, and it needs a
 * work. */
bool msi_call_now(struct msi_call *call, const struct msi_args *args, mst_status *status);

#endif
