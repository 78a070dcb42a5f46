/*
 * options.h - options structs as they cross the ABI. Each begins with its size as the caller knew it: a
 * shorter one is filled up with zeros, a longer one may hold nothing but zeros where this library has no
 * fields.
 */
#ifndef MSI_BASE_OPTIONS_H
#define MSI_BASE_OPTIONS_H

#include <muster/status.h>
#include <stddef.h>

/* Copies *given (NULL: all defaults) into *known, which has size bytes. */
mst_status msi_options_take(void *known, size_t size, const void *given);

/*
 * The same, and names the public call that this thread is in: all options structs have their site behind the
 * size. The rank that the thread had stays.
 */
mst_status msi_options_begin(const char *operation, void *known, size_t size, const void *given);

/* A call's .timeout_ms: not negative. 0 stands for the default. */
mst_status msi_check_timeout(int timeout_ms);

#endif
