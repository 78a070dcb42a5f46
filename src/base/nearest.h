/* nearest.h - which name was meant, for messages about one that is not known. */
#ifndef MSI_BASE_NEAREST_H
#define MSI_BASE_NEAREST_H

#include "base/str.h"

/* The number of single-character edits between a name and another; 64 if one is that long. */
int msi_edits(struct msi_str a, const char *b);

#endif
