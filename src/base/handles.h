/*
 * handles.h - handles that programs keep, and the set of valid ones, so that a stale handle is refused.
 *
 * An object is aligned to 64 bytes. Its handle is its address plus a generation below 64: when memory is used
 * again, its handle changes. Any thread may check a handle without a lock.
 */
#ifndef MSI_BASE_HANDLES_H
#define MSI_BASE_HANDLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSI_HANDLE_GENERATIONS = 64 };

/* Zeroed, aligned memory, released with free. NULL without memory. */
void *msi_handle_alloc(size_t bytes);

/* The handle of an object; the object and the generation of a handle. */
static inline void *msi_handle_make(const void *memory, unsigned generation) {
    return (void *)((uintptr_t)memory |
                    generation % MSI_HANDLE_GENERATIONS); /* NOLINT(performance-no-int-to-ptr) */
}
static inline void *msi_handle_memory(const void *handle) {
    return (void *)((uintptr_t)handle &
                    ~(uintptr_t)(MSI_HANDLE_GENERATIONS - 1)); /* NOLINT(performance-no-int-to-ptr) */
}
static inline unsigned msi_handle_generation(const void *handle) {
    return (unsigned)((uintptr_t)handle % MSI_HANDLE_GENERATIONS);
}

/* Adds a handle, if there is memory; removes it; is it valid? */
bool msi_handle_add(const void *handle);
void msi_handle_remove(const void *handle);
bool msi_handle_alive(const void *handle);

#endif
