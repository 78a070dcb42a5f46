/*
 * maps.h - pieces of other ranks' memory (see transport/arena.h) that a comm has mapped. They stay mapped until the comm
 * ends or others take their place, so that a tensor is mapped once and not at every call. The address of a piece is good
 * until two others of its rank were asked for.
 */
#ifndef MSI_ENGINE_SHM_MAPS_H
#define MSI_ENGINE_SHM_MAPS_H

#include "transport/arena.h"

struct msi_maps;

struct msi_maps *msi_maps_new(int ranks);
void msi_maps_free(struct msi_maps *maps);

/* The address of len bytes that lie skip behind where; NULL if they cannot be mapped or lie outside their piece. */
void *msi_maps_find(void *maps, int rank, const struct msi_arena_ref *where, size_t skip, size_t len);

#endif
