/*
 * arena.h - memory for user buffers that the other ranks of the host can map (mst_alloc). Each block is one
 * segment and has a number that its process never reuses. Any thread may use the arena. msi_arena_find is on
 * the fast path of every operation and takes no lock.
 */
#ifndef MSI_TRANSPORT_ARENA_H
#define MSI_TRANSPORT_ARENA_H

#include "os/segment.h"

#include <stdbool.h>
#include <stdint.h>

/* Identifies a range of memory to other ranks. */
struct msi_arena_ref {
    uint64_t number; /* of its block; 0: not arena memory */
    uint64_t pid_fd; /* pid << 32 | descriptor of the block's segment */
    uint64_t size;   /* of the block */
    uint64_t offset; /* of the range in the block */
};

/* Allocates page-aligned, zeroed memory. */
mst_status msi_arena_alloc(size_t bytes, void **memory);
/* Returns false if the memory is not from msi_arena_alloc. */
bool msi_arena_free(void *memory);
/* Finds the block of a range; number is 0 if the range is not inside one block. */
struct msi_arena_ref msi_arena_find(const void *memory, size_t bytes);

#endif
