/*
 * maps.h - other ranks' memory (arena.h) that a communicator or a link has mapped. A piece stays mapped
 * until its owner ends or the cache evicts it, so that a tensor is mapped once and not at every call. The
 * address of a piece is valid until two other pieces of its rank were looked up.
 */
#ifndef MSI_TRANSPORT_MAPS_H
#define MSI_TRANSPORT_MAPS_H

#include "transport/arena.h"

struct msi_maps;

struct msi_maps *msi_maps_new(int ranks);
void msi_maps_free(struct msi_maps *maps);

/* The address of len bytes, skip bytes after where; NULL if they cannot be mapped or are outside of their
 * piece. */
void *msi_maps_find(struct msi_maps *maps, int rank, const struct msi_arena_ref *where, size_t skip,
                    size_t len);
/* Why the last call returned NULL, from errno. */
const char *msi_maps_why(void);

#endif
