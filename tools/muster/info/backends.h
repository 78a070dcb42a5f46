/* backends.h - what "muster info" says of backends. */
#ifndef MUSTER_TOOL_INFO_BACKENDS_H
#define MUSTER_TOOL_INFO_BACKENDS_H

#include <cjson/cJSON.h>

/* Adds which backends there are, whether each can be used here, and why not. */
void info_add_backends(cJSON *root);

/*
 * "muster info --operations": a table in Markdown of what each backend does itself. Returns the exit status.
 */
int info_operations(void);

#endif
