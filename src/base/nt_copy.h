/*
 * nt_copy.h - copies with non-temporal stores, which write whole cache lines to memory without reading them
 * first.
 *
 * memcpy does this for single blocks that are larger than most of the cache that the processor reports. A
 * virtual machine often reports the cache of a whole socket, and an operation copies a large block in
 * pieces. On aarch64 the processors detect such writes by themselves.
 */
#ifndef MSI_BASE_NT_COPY_H
#define MSI_BASE_NT_COPY_H

#include <stdbool.h>
#include <stddef.h>

/* Does msi_nt_copy differ from memcpy on this processor? */
#ifdef __SSE2__
enum { MSI_HAS_NT_COPY = 1 };
#else
enum { MSI_HAS_NT_COPY = 0 };
#endif

/* Copies n bytes that the program does not read soon. Later stores of this thread are visible after them. */
void msi_nt_copy(void *to, const void *from, size_t n);

#endif
