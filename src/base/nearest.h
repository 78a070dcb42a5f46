/* nearest.h - finds the name that somebody probably meant. */
#ifndef MSI_BASE_NEAREST_H
#define MSI_BASE_NEAREST_H

#include <stddef.h>

/*
 * The name in a table that is nearest to what was typed, or NULL where none is similar. The table has n
 * entries of stride bytes, each beginning with a const char * to its name.
 */
const char *msi_nearest(const char *typed, const void *table, size_t n, size_t stride);

#endif
