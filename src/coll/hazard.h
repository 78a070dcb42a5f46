/*
 * hazard.h - finds the dependencies between steps: read after write, write after read, write after write. For
 * each buffer, a sorted list of segments records the last writer of the segment and the readers since then.
 * If memory runs out, the functions set failed.
 */
#ifndef MSI_COLL_HAZARD_H
#define MSI_COLL_HAZARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msi_edge {
    uint32_t from, to;
};

struct msi_hazard_segment {
    size_t begin;     /* ends where the next segment begins */
    uint32_t writer;  /* UINT32_MAX: none */
    uint32_t readers; /* head of a list in msi_hazards.readers; UINT32_MAX: none */
};

struct msi_hazard_reader {
    uint32_t step, next;
};

enum { MSI_HAZARD_SPACES = 5 };

struct msi_hazards {
    struct msi_hazard_segment *segments[MSI_HAZARD_SPACES];
    size_t n[MSI_HAZARD_SPACES], cap[MSI_HAZARD_SPACES];
    struct msi_hazard_reader *readers;
    size_t n_readers, readers_cap;
    /* The steps that the last access must wait for. An entry may occur twice. */
    uint32_t *found;
    size_t n_found, found_cap;
    bool failed;
};

/* Clears the lists and keeps their memory. */
void msi_hazards_reset(struct msi_hazards *hazards);
void msi_hazards_free(struct msi_hazards *hazards);

/* Records that step accesses count > 0 elements of a space; appends the steps that it depends on to found. */
void msi_hazards_read(struct msi_hazards *hazards, int space, size_t at, size_t count, uint32_t step);
void msi_hazards_write(struct msi_hazards *hazards, int space, size_t at, size_t count, uint32_t step);

/* Grows an array to at least n entries of size bytes. Without memory, sets *failed and returns false. */
bool msi_grow(void *array, size_t *cap, size_t n, size_t size, bool *failed);

#endif
