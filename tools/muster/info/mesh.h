/* mesh.h - "muster info --mesh": the coordinates of the ranks of a mesh, and its groups. */
#ifndef MUSTER_TOOL_INFO_MESH_H
#define MUSTER_TOOL_INFO_MESH_H

#include "cli/options.h"

/* Prints the mesh that the text describes, as a picture or as JSON. Returns the exit status. */
int info_mesh(const struct opt_command *command, const char *text, bool json);

#endif
