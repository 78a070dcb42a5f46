/* maps.c - see maps.h. */
#include "transport/maps.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* A two-way set-associative cache: a piece belongs to a set by its number. */
enum { SETS = 64, WAYS = 2 };

struct mapping {
    uint64_t number; /* 0: free */
    struct msi_segment segment;
};

struct set {
    struct mapping kept[WAYS];
    int last; /* the one used last, which is not evicted next */
};

struct msi_maps {
    int ranks;
    struct set sets[]; /* SETS for each rank */
};

struct msi_maps *msi_maps_new(int ranks) {
    struct msi_maps *maps = calloc(1, sizeof *maps + (size_t)ranks * SETS * sizeof *maps->sets);
    if (maps) maps->ranks = ranks;
    return maps;
}

void msi_maps_free(struct msi_maps *maps) {
    if (!maps) return;
    for (int i = 0; i < maps->ranks * SETS; i++)
        for (int k = 0; k < WAYS; k++)
            if (maps->sets[i].kept[k].number) msi_segment_close(&maps->sets[i].kept[k].segment);
    free(maps);
}

static bool attach(struct mapping *kept, const struct msi_arena_ref *where) {
    struct msi_segment segment;
    errno = EINVAL;
    if (where->number == 0 || msi_segment_attach((int)(where->pid_fd >> 32), (int)(uint32_t)where->pid_fd, 0,
                                                 (size_t)where->size, &segment))
        return false;
    if (kept->number) msi_segment_close(&kept->segment);
    *kept = (struct mapping){where->number, segment};
    return true;
}

void *msi_maps_find(struct msi_maps *maps, int rank, const struct msi_arena_ref *where, size_t skip,
                    size_t len) {
    struct set *set = &maps->sets[(size_t)rank * SETS + where->number % SETS];
    int which = set->kept[set->last].number == where->number ? set->last : !set->last;
    struct mapping *kept = &set->kept[which];
    if (kept->number != where->number && !attach(kept, where)) return NULL;
    set->last = which;
    size_t size = kept->segment.size, offset = (size_t)where->offset;
    if (offset > size || skip > size - offset || len > size - offset - skip) {
        errno = EINVAL;
        return NULL;
    }
    return (char *)kept->segment.base + offset + skip;
}

const char *msi_maps_why(void) {
    if (errno == EMFILE) return "a buffer that it published cannot be mapped: Too many open files";
    if (errno == ENOMEM) return "a buffer that it published cannot be mapped: Cannot allocate memory";
    return "a buffer that it published cannot be mapped";
}
