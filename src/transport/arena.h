/*
 * arena.h - memory that a rank gives to its program and that the other ranks of the host can map: one segment for each
 * piece. A piece is known to others by a number that is never used again in its process. Any thread may use it, and
 * msi_arena_find, which is on the path of every operation, waits for no other.
 */
#ifndef MSI_TRANSPORT_ARENA_H
#define MSI_TRANSPORT_ARENA_H

#include "os/segment.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a range of memory lies. */
struct msi_where {
    uint64_t number; /* of its piece; 0: it is ordinary memory */
    uint64_t place;  /* pid << 32 | descriptor of the piece */
    uint64_t size;   /* of the piece */
    uint64_t offset; /* in it */
};

/* Page-aligned, zeroed memory. */
mst_status msi_arena_alloc(size_t bytes, void **memory);
/* false: it is not from there. */
bool msi_arena_free(void *memory);
/* Finds out where bytes behind memory lie. */
struct msi_where msi_arena_find(const void *memory, size_t bytes);

#endif
