/* nearest.h - the library's search for the name that somebody probably meant, as the tool calls it. */
#ifndef MUSTER_TOOL_NEAREST_H
#define MUSTER_TOOL_NEAREST_H

#include "base/nearest.h"

static inline const char *nearest_name(const char *typed, const void *table, size_t n, size_t stride) {
    return msi_nearest(typed, table, n, stride);
}

#endif
