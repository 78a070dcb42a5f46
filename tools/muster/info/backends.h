/* backends.h - what "muster info" shows about backends. */
#ifndef MUSTER_TOOL_INFO_BACKENDS_H
#define MUSTER_TOOL_INFO_BACKENDS_H

#include "base/json.h"

/* Writes the member "backends": which there are, whether each is usable here, and why. */
void info_add_backends(struct msi_json_out *out);

/*
 * "muster info --operations": prints a Markdown table of what each backend supports. Returns the exit status.
 */
int info_operations(void);

#endif
