/*
 * options.h - option structs across the ABI. Each begins with MST_OPTIONS_HEAD, which has its size in the
 * caller's version. A shorter struct is extended with zeros; in a longer one the unknown fields must be zero.
 */
#ifndef MSI_BASE_OPTIONS_H
#define MSI_BASE_OPTIONS_H

#include <muster/status.h>
#include <stddef.h>

/* Copies *given (NULL: all defaults) into *known, which has size bytes. */
mst_status msi_options_copy(void *known, size_t size, const void *given);

/* The same, and calls msi_call_begin with the struct's site. Keeps the thread's rank. */
mst_status msi_options_begin(const char *operation, void *known, size_t size, const void *given);

/* Fails if .timeout_ms is negative. 0 stands for the default. */
mst_status msi_check_timeout(int timeout_ms);
/* The same for calls that accept MST_NOW. */
mst_status msi_check_wait_timeout(int timeout_ms);

#endif
