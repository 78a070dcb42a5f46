/* info.h - shared by the parts of "muster info". */
#ifndef MUSTER_TOOL_INFO_INFO_H
#define MUSTER_TOOL_INFO_INFO_H

#include "base/json.h"

/* Prints a JSON text and frees it. Returns the exit status. */
int info_print_json(struct msi_buf *json);

#endif
