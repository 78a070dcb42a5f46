/* maps.c - pieces of other ranks' memory. See maps.h. */
#include "backend/maps.h"

#include <stdbool.h>
#include <stdlib.h>

/* A piece has two places, by its number; those of pieces made one after the other are different. */
enum { PLACES = 64, WAYS = 2 };

struct kept {
    uint64_t number; /* 0: free */
    struct msi_segment segment;
};

struct place {
    struct kept kept[WAYS];
    int last; /* the one asked for last, which stays */
};

struct msi_maps {
    int ranks;
    struct place places[]; /* PLACES for each rank */
};

struct msi_maps *msi_maps_new(int ranks) {
    struct msi_maps *maps = calloc(1, sizeof *maps + (size_t)ranks * PLACES * sizeof *maps->places);
    if (maps) maps->ranks = ranks;
    return maps;
}

void msi_maps_free(struct msi_maps *maps) {
    if (!maps) return;
    for (int i = 0; i < maps->ranks * PLACES; i++)
        for (int way = 0; way < WAYS; way++)
            if (maps->places[i].kept[way].number) msi_segment_close(&maps->places[i].kept[way].segment);
    free(maps);
}

static bool attach(struct kept *kept, const struct msi_where *where) {
    struct msi_segment segment;
    if (where->number == 0 || msi_segment_attach((int)(where->place >> 32), (int)(uint32_t)where->place,
                                                 (size_t)where->size, &segment))
        return false;
    if (kept->number) msi_segment_close(&kept->segment);
    *kept = (struct kept){where->number, segment};
    return true;
}

void *msi_maps_find(void *context, int rank, const struct msi_where *where, size_t skip, size_t len) {
    struct msi_maps *maps = context;
    struct place *place = &maps->places[(size_t)rank * PLACES + where->number % PLACES];
    int way = place->kept[place->last].number == where->number ? place->last : !place->last;
    struct kept *kept = &place->kept[way];
    if (kept->number != where->number && !attach(kept, where)) return NULL;
    place->last = way;
    size_t size = kept->segment.size, offset = (size_t)where->offset;
    if (offset > size || skip > size - offset || len > size - offset - skip) return NULL;
    return (char *)kept->segment.base + offset + skip;
}
