/* mesh.h - "muster info --mesh": which rank is where in a mesh, and who is in a group with whom. */
#ifndef MUSTER_TOOL_INFO_MESH_H
#define MUSTER_TOOL_INFO_MESH_H

#include "cli/options.h"

/* Prints the mesh that the text describes, as a picture or as JSON, and returns the exit status. */
int info_mesh(const struct opt_command *command, const char *text, bool json);

#endif
