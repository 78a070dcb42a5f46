/* api.h - what the files of public calls share. */
#ifndef MSI_API_API_H
#define MSI_API_API_H

#include "group/call.h"

/* Prints a text in one piece whatever this process's rank is, and past mst_suppress_output. */
void msi_print(const void *text, size_t len);

#endif
