/* host_map.c - see host_map.h. */
#include "coll/host_map.h"
#include "coll/emit.h"

bool msi_host_map_find(struct msi_plan *plan, struct msi_host_map *map) {
    int n = plan->request.size, hosts = plan->request.hosts.n;
    const int *of = plan->request.hosts.of;
    if (hosts < 1) return false;
    if (!msi_grow(&plan->ranks, &plan->ranks_cap, 2 * (size_t)n + (size_t)hosts + 1, sizeof *plan->ranks,
                  &plan->failed))
        return false;
    int *sorted = plan->ranks, *index = sorted + n, *first = index + n;
    for (int h = 0; h <= hosts; h++) first[h] = 0;
    for (int r = 0; r < n; r++) index[r] = first[of[r] + 1]++;
    for (int h = 0; h < hosts; h++) first[h + 1] += first[h];
    for (int r = 0; r < n; r++) sorted[first[of[r]] + index[r]] = r;
    *map = (struct msi_host_map){n, hosts, of, sorted, first, index, plan->request.rank, 0, 0};
    map->host = of[map->me];
    map->local = first[map->host + 1] - first[map->host];
    return true;
}
