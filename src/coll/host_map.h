/* host_map.h - the ranks of a request grouped by host, for hierarchical planners. */
#ifndef MSI_COLL_HOST_MAP_H
#define MSI_COLL_HOST_MAP_H

#include "coll/plan.h"

struct msi_host_map {
    int n, hosts;
    const int *of;       /* the host of each rank */
    const int *sorted;   /* the ranks in order of their hosts */
    const int *first;    /* index in sorted of each host's first rank, and the end */
    const int *index;    /* of each rank within its host */
    int me, host, local; /* local: ranks on my host */
};

/* Fills in the map, in memory of the plan. Returns false without memory, or without hosts in the request. */
bool msi_host_map_find(struct msi_plan *plan, struct msi_host_map *map);

static inline int msi_host_map_ranks(const struct msi_host_map *map, int host) {
    return map->first[host + 1] - map->first[host];
}

/* The i-th rank of a host, modulo the number of its ranks. */
static inline int msi_host_map_rank(const struct msi_host_map *map, int host, int i) {
    return map->sorted[map->first[host] + i % msi_host_map_ranks(map, host)];
}

#endif
