/* api.h - what the files of public calls share. */
#ifndef MSI_API_API_H
#define MSI_API_API_H

#include "group/call.h"

/* Prints a text in one piece whatever this process's rank is, and past mst_suppress_output. */
void msi_print(const void *text, size_t len);

/* mst_all_gather_into_tensor_with as a part of a call with another name, which errors and records have. */
mst_status msi_all_gather_as(const char *name, void *out, const void *in, size_t count, mst_dtype dtype,
                             const mst_call *call);

/*
 * Of calls of which one buffer has a block for each rank: fails if the buffers overlap, unless the smaller is
 * this rank's own block of the larger.
 */
mst_status msi_check_pair(const struct msi_call *call, enum msi_kind kind, const void *out, const void *in,
                          size_t count);

/* gather and scatter: fails if count is not the length of this rank's own block. */
mst_status msi_check_own_count(const struct msi_call *call, size_t count);

#endif
