/* memory.c - see memory.h. */
#include "base/memory.h"

#include <muster/muster.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static bool shared;

void gpt_memory_share(void) {
    shared = true;
}

void *gpt_memory_alloc(size_t bytes) {
    void *block = NULL;
    if (shared) return mst_alloc(bytes, &block) == MST_OK ? block : NULL;
    if (bytes > SIZE_MAX - ALIGNMENT) return NULL;
    block = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (block) memset(block, 0, bytes);
    return block;
}

void gpt_memory_free(void *block) {
    if (shared)
        mst_free(block);
    else
        free(block);
}
