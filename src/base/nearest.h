/* nearest.h - suggests the known name that resembles an unknown one, for "did you mean" in messages. Pure. */
#ifndef MSI_BASE_NEAREST_H
#define MSI_BASE_NEAREST_H

#include "base/str.h"

/*
 * The edit distance of two names: how many characters must be inserted, removed, replaced or swapped with
 * their neighbour. A very large number if a name has more than 63 bytes.
 */
int msi_edits(struct msi_str a, const char *b);

/*
 * The name in a table that is most similar to what was typed, or NULL if none is similar. A name that was cut
 * short counts as similar. The table has n entries of stride bytes; each begins with a const char * to its
 * name.
 */
const char *msi_nearest(const char *typed, const void *table, size_t n, size_t stride);

#endif
