/* arena.c - memory that the other ranks of the host can map. See arena.h. */
#include "transport/arena.h"
#include "base/error.h"
#include "os/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    struct msi_segment segment;
    _Atomic uint64_t number; /* 0: it was freed */
};

/* Sorted by address. Once others can see it, nothing in it changes but that pieces are freed. */
struct table {
    struct table *older; /* replaced before this one */
    size_t n;
    struct piece pieces[];
};

/*
 * Read by every call with a large buffer, and replaced, under the lock, by whoever allocates. A table that was replaced is
 * freed when nobody reads: who begins to read after that was seen has the new one.
 */
static _Atomic(struct table *) current; /* NULL before the first piece */
static _Atomic int readers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *replaced;
static uint64_t last_number;

/* The last piece that begins at or before the address; NULL if there is none. */
static struct piece *find(struct table *table, const void *address) {
    size_t low = 0, high = table ? table->n : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)table->pieces[middle].segment.base > (uintptr_t)address)
            high = middle;
        else
            low = middle + 1;
    }
    return low ? &table->pieces[low - 1] : NULL;
}

static void put(struct table *table, const struct msi_segment *segment, uint64_t number) {
    struct piece *piece = &table->pieces[table->n++];
    piece->segment = *segment;
    atomic_init(&piece->number, number);
}

/* The pieces that are in use, and one more; NULL without memory. */
static struct table *table_with(const struct table *old, const struct msi_segment *segment) {
    size_t n = old ? old->n : 0;
    struct table *made = malloc(sizeof *made + (n + 1) * sizeof *made->pieces);
    bool put_in = false;
    if (!made) return NULL;
    made->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct piece *piece = &old->pieces[i];
        uint64_t number = atomic_load_explicit(&piece->number, memory_order_relaxed);
        if (number == 0) continue;
        if (!put_in && (uintptr_t)piece->segment.base > (uintptr_t)segment->base) {
            put(made, segment, ++last_number);
            put_in = true;
        }
        put(made, &piece->segment, number);
    }
    if (!put_in) put(made, segment, ++last_number);
    return made;
}

/* Pairs with msi_arena_find, by the one order of all that is sequentially consistent: either it sees the new table, or it
 * is seen here. */
static void replace(struct table *old, struct table *made) {
    atomic_store_explicit(&current, made, memory_order_seq_cst);
    if (old) {
        old->older = replaced;
        replaced = old;
    }
    if (atomic_load_explicit(&readers, memory_order_seq_cst)) return; /* the next one looks again */
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
    struct piece *piece = find(atomic_load_explicit(&current, memory_order_relaxed), memory);
    bool found = piece && piece->segment.base == memory &&
                 atomic_exchange_explicit(&piece->number, 0, memory_order_relaxed) != 0;
    if (found) segment = piece->segment;
    pthread_mutex_unlock(&lock);
    if (found) {
        msi_segment_empty(&segment); /* others may have it mapped still */
        msi_segment_close(&segment);
    }
    return found;
}

struct msi_where msi_arena_find(const void *memory, size_t bytes) {
    struct msi_where where = {0};
    if (!atomic_load_explicit(&current, memory_order_relaxed)) return where;
    atomic_fetch_add_explicit(&readers, 1, memory_order_seq_cst); /* see replace */
    struct piece *piece = find(atomic_load_explicit(&current, memory_order_seq_cst), memory);
    uint64_t number = piece ? atomic_load_explicit(&piece->number, memory_order_relaxed) : 0;
    if (number) {
        const struct msi_segment *segment = &piece->segment;
        size_t offset = (uintptr_t)memory - (uintptr_t)segment->base;
        if (offset <= segment->size && bytes <= segment->size - offset)
            where = (struct msi_where){number, (uint64_t)(uint32_t)msi_pid() << 32 | (uint32_t)segment->fd,
                                       segment->size, offset};
    }
    atomic_fetch_sub_explicit(&readers, 1, memory_order_release); /* acquired by replace */
    return where;
}
