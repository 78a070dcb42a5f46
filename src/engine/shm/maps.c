/* maps.c - pieces of other ranks' memory. See maps.h. */
#include "engine/shm/maps.h"

#include <stdbool.h>
#include <stdlib.h>

/* A piece belongs on a shelf, by its number; those of pieces made one after the other are different. */
enum { SHELVES = 64, ON_EACH = 2 };

struct kept {
    uint64_t number; /* 0: free */
    struct msi_segment segment;
};

struct shelf {
    struct kept kept[ON_EACH];
    int last; /* the one asked for last, which stays when another comes */
};

struct msi_maps {
    int ranks;
    struct shelf shelves[]; /* SHELVES for each rank */
};

struct msi_maps *msi_maps_new(int ranks) {
    struct msi_maps *maps = calloc(1, sizeof *maps + (size_t)ranks * SHELVES * sizeof *maps->shelves);
    if (maps) maps->ranks = ranks;
    return maps;
}

void msi_maps_free(struct msi_maps *maps) {
    if (!maps) return;
    for (int i = 0; i < maps->ranks * SHELVES; i++)
        for (int k = 0; k < ON_EACH; k++)
            if (maps->shelves[i].kept[k].number) msi_segment_close(&maps->shelves[i].kept[k].segment);
    free(maps);
}

static bool attach(struct kept *kept, const struct msi_arena_ref *where) {
    struct msi_segment segment;
    if (where->number == 0 || msi_segment_attach((int)(where->pid_fd >> 32), (int)(uint32_t)where->pid_fd,
                                                 (size_t)where->size, &segment))
        return false;
    if (kept->number) msi_segment_close(&kept->segment);
    *kept = (struct kept){where->number, segment};
    return true;
}

void *msi_maps_find(void *context, int rank, const struct msi_arena_ref *where, size_t skip, size_t len) {
    struct msi_maps *maps = context;
    struct shelf *shelf = &maps->shelves[(size_t)rank * SHELVES + where->number % SHELVES];
    int which = shelf->kept[shelf->last].number == where->number ? shelf->last : !shelf->last;
    struct kept *kept = &shelf->kept[which];
    if (kept->number != where->number && !attach(kept, where)) return NULL;
    shelf->last = which;
    size_t size = kept->segment.size, offset = (size_t)where->offset;
    if (offset > size || skip > size - offset || len > size - offset - skip) return NULL;
    return (char *)kept->segment.base + offset + skip;
}
