/* program.h - finds the program that is to be started. */
#ifndef MUSTER_TOOL_RUN_RANKS_PROGRAM_H
#define MUSTER_TOOL_RUN_RANKS_PROGRAM_H

#include <stddef.h>

/*
 * Finds name as a shell would: as a path if it has a slash, else in PATH. On success returns 0 with an
 * allocated path; else returns -1 with one line in why that says what is wrong and what might help.
 */
int program_find(const char *name, char **path, char *why, size_t why_size);

#endif
