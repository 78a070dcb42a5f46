/* nearest.h - edit distance, to suggest a name for an unknown one. */
#ifndef MSI_BASE_NEAREST_H
#define MSI_BASE_NEAREST_H

#include "base/str.h"

/* The edit distance of two names; 64 if one of them is that long. */
int msi_edits(struct msi_str a, const char *b);

#endif
