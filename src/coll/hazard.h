/*
 * hazard.h - finds which steps depend on which: who reads what another writes, writes what another reads, or writes what
 * another writes. For each buffer a sorted list of segments remembers the step that wrote it last and those that have
 * read it since. Appending never fails at the call; failed says that memory ran out.
 */
#ifndef MSI_COLL_HAZARD_H
#define MSI_COLL_HAZARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msi_edge {
    uint32_t from, to;
};

struct msi_stretch {
    size_t begin;     /* it ends where the next one begins */
    uint32_t writer;  /* UINT32_MAX: none */
    uint32_t readers; /* a list in the readers; UINT32_MAX: none */
};

struct msi_hazard_reader {
    uint32_t step, next;
};

enum { MSI_HAZARD_SPACES = 4 };

struct msi_hazards {
    struct msi_stretch *segments[MSI_HAZARD_SPACES];
    size_t n[MSI_HAZARD_SPACES], cap[MSI_HAZARD_SPACES];
    struct msi_hazard_reader *readers;
    size_t n_readers, readers_cap;
    /* The steps that the last access must wait for; an entry may occur twice. */
    uint32_t *found;
    size_t n_found, found_cap;
    bool failed;
};

/* Forgets everything but the memory. */
void msi_hazards_reset(struct msi_hazards *hazards);
void msi_hazards_free(struct msi_hazards *hazards);

/* Step touches count elements, count > 0, of a space; the steps that it depends on are added to found. */
void msi_hazards_read(struct msi_hazards *hazards, int space, size_t at, size_t count, uint32_t step);
void msi_hazards_write(struct msi_hazards *hazards, int space, size_t at, size_t count, uint32_t step);

/* Makes room for n entries of size bytes in an array; false, and *failed, without memory. */
bool msi_grow(void *array, size_t *cap, size_t n, size_t size, bool *failed);

#endif
