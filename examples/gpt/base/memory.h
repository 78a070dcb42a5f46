/*
 * memory.h - large blocks that collectives read and write. A process of a mesh takes them from mst_alloc: the
 * ranks of a host then access them in place, without a copy. A single process takes them from the heap.
 */
#ifndef GPT_BASE_MEMORY_H
#define GPT_BASE_MEMORY_H

#include <stddef.h>

/* Later blocks come from mst_alloc. Call it once, after mst_init and before the first block. */
void gpt_memory_share(void);
/* A zeroed block, aligned to at least 64 bytes; NULL if memory is short. */
void *gpt_memory_alloc(size_t bytes);
void gpt_memory_free(void *block);

#endif
