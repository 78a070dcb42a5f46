/* arena.c - see arena.h. */
#include "transport/arena.h"
#include "base/error.h"
#include "os/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct block {
    struct msi_segment segment;
    _Atomic uint64_t number; /* 0: freed */
};

/* Sorted by address. After publication, only the numbers of freed blocks change. */
struct table {
    struct table *older; /* replaced before this one */
    size_t n;
    struct block blocks[];
};

/*
 * Every call with a large buffer reads the table. Allocation replaces it, under the lock. A replaced table is
 * freed when readers is 0: later readers see the new table.
 */
static _Atomic(struct table *) current; /* NULL before the first allocation */
static _Atomic int readers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *replaced;
static uint64_t last_number;

/* Returns the last block that begins at or before the address, or NULL. */
static struct block *find(struct table *table, const void *address) {
    size_t low = 0, high = table ? table->n : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)table->blocks[middle].segment.base > (uintptr_t)address)
            high = middle;
        else
            low = middle + 1;
    }
    return low ? &table->blocks[low - 1] : NULL;
}

static void put(struct table *table, const struct msi_segment *segment, uint64_t number) {
    struct block *block = &table->blocks[table->n++];
    block->segment = *segment;
    atomic_init(&block->number, number);
}

/* Copies the blocks in use and inserts one more. Returns NULL without memory. */
static struct table *table_with(const struct table *old, const struct msi_segment *segment) {
    size_t n = old ? old->n : 0;
    struct table *made = malloc(sizeof *made + (n + 1) * sizeof *made->blocks);
    bool inserted = false;
    if (!made) return NULL;
    made->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct block *block = &old->blocks[i];
        uint64_t number = atomic_load_explicit(&block->number, memory_order_relaxed);
        if (number == 0) continue;
        if (!inserted && (uintptr_t)block->segment.base > (uintptr_t)segment->base) {
            put(made, segment, ++last_number);
            inserted = true;
        }
        put(made, &block->segment, number);
    }
    if (!inserted) put(made, segment, ++last_number);
    return made;
}

/* Pairs with msi_arena_find: either it sees the new table, or this sees it in readers. */
static void replace(struct table *old, struct table *made) {
    atomic_store_explicit(&current, made, memory_order_seq_cst);
    if (old) {
        old->older = replaced;
        replaced = old;
    }
    if (atomic_load_explicit(&readers, memory_order_seq_cst)) return; /* the next call retries */
    while (replaced) {
        struct table *older = replaced->older;
        free(replaced);
        replaced = older;
    }
}

mst_status msi_arena_alloc(size_t bytes, void **memory) {
    struct msi_segment segment;
    mst_status st = msi_segment_make("muster-alloc", bytes ? bytes : 1, &segment);
    if (st != MST_OK) return st;
    pthread_mutex_lock(&lock);
    struct table *old = atomic_load_explicit(&current, memory_order_relaxed),
                 *made = table_with(old, &segment);
    if (made) replace(old, made);
    pthread_mutex_unlock(&lock);
    if (!made) {
        msi_segment_close(&segment);
        return msi_fail_memory();
    }
    *memory = segment.base;
    return MST_OK;
}

bool msi_arena_free(void *memory) {
    struct msi_segment segment = {.fd = -1};
    pthread_mutex_lock(&lock);
    struct block *block = find(atomic_load_explicit(&current, memory_order_relaxed), memory);
    bool found = block && block->segment.base == memory &&
                 atomic_exchange_explicit(&block->number, 0, memory_order_relaxed) != 0;
    if (found) segment = block->segment;
    pthread_mutex_unlock(&lock);
    if (found) {
        msi_segment_empty(&segment); /* other ranks may still have it mapped */
        msi_segment_close(&segment);
    }
    return found;
}

struct msi_arena_ref msi_arena_find(const void *memory, size_t bytes) {
    struct msi_arena_ref ref = {0};
    if (!atomic_load_explicit(&current, memory_order_relaxed)) return ref;
    atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst); /* see replace */
    struct block *block = find(atomic_load_explicit(&current, memory_order_seq_cst), memory);
    uint64_t number = block ? atomic_load_explicit(&block->number, memory_order_relaxed) : 0;
    if (number) {
        const struct msi_segment *segment = &block->segment;
        size_t offset = (uintptr_t)memory - (uintptr_t)segment->base;
        if (offset <= segment->size && bytes <= segment->size - offset)
            ref = (struct msi_arena_ref){number, (uint64_t)(uint32_t)msi_pid() << 32 | (uint32_t)segment->fd,
                                         segment->size, offset};
    }
    atomic_fetch_sub_explicit(&readers, 1, memory_order_release); /* acquired by replace */
    return ref;
}
