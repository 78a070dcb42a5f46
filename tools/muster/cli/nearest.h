/* nearest.h - finds the name that somebody probably meant. */
#ifndef MUSTER_TOOL_CLI_NEAREST_H
#define MUSTER_TOOL_CLI_NEAREST_H

#include <stddef.h>

/*
 * The name in a table that is nearest to what was typed, or NULL where none is similar. The table has n
 * entries of stride bytes, each beginning with a const char * to its name.
 */
const char *nearest_name(const char *typed, const void *table, size_t n, size_t stride);

#endif
