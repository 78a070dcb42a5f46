/* hazard.c - see hazard.h. Reader lists grow at the head, so split segments share the tail of their list. */
#include "coll/hazard.h"

#include <stdlib.h>
#include <string.h>

bool msi_grow(void *array, size_t *cap, size_t n, size_t size, bool *failed) {
    if (n <= *cap) return true;
    void *old, *grown;
    size_t capacity = *cap ? *cap : 32;
    while (capacity < n) capacity *= 2;
    memcpy(&old, array, sizeof old);
    grown = capacity <= SIZE_MAX / size ? realloc(old, capacity * size) : NULL;
    if (!grown) {
        *failed = true;
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *cap = capacity;
    return true;
}

void msi_hazards_reset(struct msi_hazards *h) {
    for (int space = 0; space < MSI_HAZARD_SPACES; space++) h->n[space] = 0;
    h->n_readers = h->n_found = 0;
    h->failed = false;
}

void msi_hazards_free(struct msi_hazards *h) {
    for (int space = 0; space < MSI_HAZARD_SPACES; space++) free(h->segments[space]);
    free(h->readers);
    free(h->found);
    memset(h, 0, sizeof *h);
}

static void add_found(struct msi_hazards *h, uint32_t step, uint32_t self) {
    if (step == UINT32_MAX || step == self) return;
    if (h->n_found && h->found[h->n_found - 1] == step) return;
    if (!msi_grow(&h->found, &h->found_cap, h->n_found + 1, sizeof *h->found, &h->failed)) return;
    h->found[h->n_found++] = step;
}

/* Returns the index of the segment that begins at `at`; splits the segment around it if necessary. */
static size_t split_at(struct msi_hazards *h, int space, size_t at) {
    struct msi_hazard_segment *list = h->segments[space];
    size_t low = 0, high = h->n[space];
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    if (list[low].begin == at) return low;
    if (!msi_grow(&h->segments[space], &h->cap[space], h->n[space] + 1, sizeof *list, &h->failed)) return low;
    list = h->segments[space];
    memmove(list + low + 2, list + low + 1, (h->n[space] - low - 1) * sizeof *list);
    list[low + 1] = list[low];
    list[low + 1].begin = at;
    h->n[space]++;
    return low + 1;
}

/* Finds the segments that cover exactly a range: *first up to, not including, the returned index. */
static size_t find(struct msi_hazards *h, int space, size_t at, size_t count, size_t *first) {
    if (h->n[space] == 0) {
        if (!msi_grow(&h->segments[space], &h->cap[space], 1, sizeof **h->segments, &h->failed)) return 0;
        h->segments[space][0] = (struct msi_hazard_segment){0, UINT32_MAX, UINT32_MAX};
        h->n[space] = 1;
    }
    *first = split_at(h, space, at);
    size_t end = split_at(h, space, at + count);
    return h->failed ? 0 : end;
}

void msi_hazards_read(struct msi_hazards *h, int space, size_t at, size_t count, uint32_t step) {
    size_t first = 0, end = find(h, space, at, count, &first);
    for (size_t i = first; i < end; i++) {
        struct msi_hazard_segment *segment = &h->segments[space][i];
        add_found(h, segment->writer, step);
        if (!msi_grow(&h->readers, &h->readers_cap, h->n_readers + 1, sizeof *h->readers, &h->failed)) return;
        h->readers[h->n_readers] = (struct msi_hazard_reader){step, segment->readers};
        segment->readers = (uint32_t)h->n_readers++;
    }
}

void msi_hazards_write(struct msi_hazards *h, int space, size_t at, size_t count, uint32_t step) {
    size_t first = 0, end = find(h, space, at, count, &first);
    if (end == 0) return;
    struct msi_hazard_segment *list = h->segments[space];
    for (size_t i = first; i < end; i++) {
        /* The readers already waited for the writer. */
        bool read_by_others = false;
        for (uint32_t r = list[i].readers; r != UINT32_MAX; r = h->readers[r].next) {
            read_by_others |= h->readers[r].step != step;
            add_found(h, h->readers[r].step, step);
        }
        if (!read_by_others) add_found(h, list[i].writer, step);
    }
    list[first] = (struct msi_hazard_segment){at, step, UINT32_MAX};
    memmove(list + first + 1, list + end, (h->n[space] - end) * sizeof *list);
    h->n[space] -= end - first - 1;
}
