/* module_file.h - where modules are that are loaded at run time: backends and TLS. */
#ifndef MSI_OS_MODULE_FILE_H
#define MSI_OS_MODULE_FILE_H

#include <limits.h>
#include <stdbool.h>

/*
 * The i-th directory with modules; false after the last: those of path, separated by colons, "muster" beside
 * the library, "../lib/muster" beside the program, and the directory of the installation.
 */
bool msi_module_directory(int i, const char *path, char out[PATH_MAX]);

/* Finds a module in these directories; false: there is none. */
bool msi_module_file(const char *file, const char *path, char out[PATH_MAX]);

#endif
