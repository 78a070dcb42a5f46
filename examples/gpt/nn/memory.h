/*
 * memory.h - large blocks whose contents processes sum: from the heap, or, in processes that work together, memory that those of a host
 * read in place (mst_alloc), which spares copies.
 */
#ifndef GPT_NN_MEMORY_H
#define GPT_NN_MEMORY_H

#include <stddef.h>

/* Blocks are shared from here on. Once, before the first one is taken. */
void gpt_memory_share(void);
/* Aligned to 64 bytes at least, and zero; NULL if there is none. */
void *gpt_memory_take(size_t bytes);
void gpt_memory_give(void *block);

#endif
