/* ranks.c - maps group ranks to global ranks. See world.h. */
#include "base/error.h"
#include "group/world.h"

#include <stdlib.h>

static int compare_ranks(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

mst_status msi_group_check_ranks(int *ranks, int n, int world_size) {
    qsort(ranks, (size_t)n, sizeof *ranks, compare_ranks);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= world_size)
            return msi_fail(MST_ERR_INVALID, NULL, "rank %d is not in this world of %d", ranks[i],
                            world_size);
        if (i && ranks[i] == ranks[i - 1])
            return msi_fail(MST_ERR_INVALID, NULL, "rank %d is named twice", ranks[i]);
    }
    return MST_OK;
}

int msi_group_global_rank(const mst_group *group, int group_rank) {
    if (group_rank < 0 || group_rank >= group->size) return -1;
    return group->ranks ? group->ranks[group_rank] : group_rank;
}

int msi_group_rank_of(const mst_group *group, int global_rank) {
    if (!group->ranks) return global_rank >= 0 && global_rank < group->size ? global_rank : -1;
    const int *found =
        bsearch(&global_rank, group->ranks, (size_t)group->size, sizeof *group->ranks, compare_ranks);
    return found ? (int)(found - group->ranks) : -1;
}
