/* program.h - finds the program to start. */
#ifndef MUSTER_TOOL_RUN_RANKS_PROGRAM_H
#define MUSTER_TOOL_RUN_RANKS_PROGRAM_H

#include <muster/status.h>

/*
 * Finds a program as a shell does: a name with a slash is a path, others are searched in PATH. Sets *path to
 * an allocated string. MST_ERR_INVALID if there is no such program or it cannot be executed.
 */
mst_status program_find(const char *name, char **path);

#endif
