/* api.h - what the files of public calls share. */
#ifndef MSI_API_API_H
#define MSI_API_API_H

#include "group/world.h"

/* The group that a call is about (NULL: the default world), or NULL with the failure recorded. Names the
 * call. */
mst_group *msi_api_group(const char *name, const mst_site *site, const mst_group *group);

/* Prints a text in one piece whatever this process's rank is, and past mst_suppress_output. */
void msi_print(const void *text, size_t len);

#endif
