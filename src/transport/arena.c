/* arena.c - memory that the other ranks of the host can map. See arena.h. */
#include "transport/arena.h"
#include "base/error.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sorted by address. Read by every call with a large buffer, written by those who allocate and free. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct msi_piece *pieces;
static size_t room;
static _Atomic size_t n_pieces; /* read without the lock to see that there are none */
static uint64_t last_number;

/* Index of the first piece that begins behind the address. */
static size_t behind(const void *address) {
    size_t low = 0, high = n_pieces;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)pieces[middle].segment.base > (uintptr_t)address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool insert(const struct msi_segment *segment) {
    if (n_pieces == room) {
        struct msi_piece *grown = realloc(pieces, (2 * room + 8) * sizeof *pieces);
        if (!grown) return false;
        pieces = grown;
        room = 2 * room + 8;
    }
    size_t at = behind(segment->base);
    memmove(&pieces[at + 1], &pieces[at], (n_pieces - at) * sizeof *pieces);
    pieces[at] = (struct msi_piece){*segment, ++last_number};
    n_pieces++;
    return true;
}

mst_status msi_arena_alloc(size_t bytes, void **memory) {
    struct msi_segment segment;
    mst_status st = msi_segment_make("muster-alloc", bytes ? bytes : 1, &segment);
    if (st != MST_OK) return st;
    pthread_rwlock_wrlock(&lock);
    bool kept = insert(&segment);
    pthread_rwlock_unlock(&lock);
    if (!kept) {
        msi_segment_close(&segment);
        return msi_fail_memory();
    }
    *memory = segment.base;
    return MST_OK;
}

bool msi_arena_free(void *memory) {
    struct msi_segment segment = {.fd = -1};
    pthread_rwlock_wrlock(&lock);
    size_t at = behind(memory);
    bool found = at > 0 && pieces[at - 1].segment.base == memory;
    if (found) {
        segment = pieces[at - 1].segment;
        memmove(&pieces[at - 1], &pieces[at], (n_pieces - at) * sizeof *pieces);
        n_pieces--;
    }
    pthread_rwlock_unlock(&lock);
    if (found) {
        msi_segment_empty(&segment); /* others may have it mapped still */
        msi_segment_close(&segment);
    }
    return found;
}

struct msi_where msi_arena_find(const void *memory, size_t bytes) {
    struct msi_where where = {0};
    if (atomic_load_explicit(&n_pieces, memory_order_relaxed) == 0) return where;
    pthread_rwlock_rdlock(&lock);
    size_t at = behind(memory);
    if (at > 0) {
        const struct msi_piece *piece = &pieces[at - 1];
        size_t offset = (uintptr_t)memory - (uintptr_t)piece->segment.base;
        if (offset <= piece->segment.size && bytes <= piece->segment.size - offset)
            where = (struct msi_where){piece->number,
                                       (uint64_t)(uint32_t)getpid() << 32 | (uint32_t)piece->segment.fd,
                                       piece->segment.size, offset};
    }
    pthread_rwlock_unlock(&lock);
    return where;
}
