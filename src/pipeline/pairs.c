/* pairs.c - see pairs.h. */
#include "pipeline/pairs.h"
#include "base/handles.h"

#include <stdio.h>

static mst_status open_pair(const mst_group *stages, int i, mst_group **pair) {
    char name[48];
    int ranks[] = {msi_group_global_rank(stages, i), msi_group_global_rank(stages, (i + 1) % stages->size)};
    mst_group_options options = {.size = sizeof options,
                                 .world = stages->world->all->handle,
                                 .timeout_ms = stages->timeout_ms,
                                 .name = name};
    snprintf(name, sizeof name, "pair %d-%d", ranks[0], ranks[1]);
    return mst_new_group_with(ranks, 2, pair, &options);
}

/* The lower pair first: two ranks have two pairs with the same members, who tell them apart by their order. */
mst_status msi_pairs_open(const mst_group *stages, struct msi_pairs *pairs) {
    struct msi_pairs made = {NULL, NULL};
    int n = stages->size, rank = stages->rank, before = (rank + n - 1) % n;
    mst_status st = MST_OK;
    for (int i = 0; i < n && n > 1 && st == MST_OK; i++) {
        if (i == before) st = open_pair(stages, i, &made.pred);
        if (i == rank && st == MST_OK) st = open_pair(stages, i, &made.succ);
    }
    if (st == MST_OK)
        *pairs = made;
    else
        msi_pairs_close(&made);
    return st;
}

static void close_pair(mst_group **pair) {
    if (*pair && msi_handle_alive(*pair)) mst_destroy_process_group(*pair);
    *pair = NULL;
}

void msi_pairs_close(struct msi_pairs *pairs) {
    close_pair(&pairs->pred);
    close_pair(&pairs->succ);
}
