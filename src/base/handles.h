/*
 * handles.h - handles that programs keep, and which of them are alive, so that one that is used too long is refused instead of
 * followed.
 *
 * What a handle stands for is aligned to 64 bytes, and the handle is its address plus a turn below 64: when memory is used
 * again its handle is another one. Any thread may ask, and takes no lock for it.
 */
#ifndef MSI_BASE_HANDLES_H
#define MSI_BASE_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSI_HANDLE_GENERATIONS = 64 };

/* Zeroed memory that handles can stand for; to be given to free. NULL without memory. */
void *msi_handle_alloc(size_t bytes);

/* The handle of such memory in this turn, what a handle stands for, and its turn. */
static inline void *msi_handle_make(const void *memory, unsigned turn) {
    return (void *)((uintptr_t)memory |
                    turn % MSI_HANDLE_GENERATIONS); /* NOLINT(performance-no-int-to-ptr) */
}
static inline void *msi_handle_memory(const void *handle) {
    return (void *)((uintptr_t)handle &
                    ~(uintptr_t)(MSI_HANDLE_GENERATIONS - 1)); /* NOLINT(performance-no-int-to-ptr) */
}
static inline unsigned msi_handle_generation(const void *handle) {
    return (unsigned)((uintptr_t)handle % MSI_HANDLE_GENERATIONS);
}

/* Makes it known, if there is memory for that; forgets it; is it known? */
bool msi_handle_add(const void *handle);
void msi_handle_remove(const void *handle);
bool msi_handle_alive(const void *handle);

#endif
