/* pairs.c - see pairs.h. */
#include "pipeline/pairs.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

/* Pairs of the world get its backends as their own only if they do not follow it. */
static const struct msi_backends *backends_of(const mst_group *stages, const struct msi_pairs_kind *kind) {
    return stages->own_backends && (stages->ranks || !kind->follow) ? &stages->backends : NULL;
}

/* The label separates them from groups that the program makes of the same ranks. */
static mst_status make(const mst_group *stages, const int *ranks, int n, const struct msi_pairs_kind *kind,
                       const char *name, mst_group **handle) {
    mst_group *made;
    const struct msi_group_label what = {.text = kind->label};
    mst_group_options options = {
        .size = sizeof options, .timeout_ms = msi_group_timeout(stages), .name = name};
    struct msi_group_spec spec = {ranks, n, &what, backends_of(stages, kind), &options};
    mst_status st = msi_group_new(stages->world, &spec, &made);
    if (st == MST_OK) *handle = made->handle;
    return st;
}

static mst_status open_pair(const mst_group *stages, int i, const struct msi_pairs_kind *kind,
                            mst_group **pair) {
    char name[48];
    int a = msi_group_global_rank(stages, i), b = msi_group_global_rank(stages, (i + 1) % stages->size);
    int ranks[] = {a < b ? a : b, a < b ? b : a};
    snprintf(name, sizeof name, "pair %d-%d", a, b);
    return make(stages, ranks, 2, kind, name, pair);
}

/* The lower pair first: with two ranks, both pairs have the same ranks and differ only in their order. */
mst_status msi_pairs_open(const mst_group *stages, const struct msi_pairs_kind *kind,
                          struct msi_pairs *pairs) {
    struct msi_pairs made = {NULL, NULL};
    int n = stages->size, rank = stages->rank, before = (rank + n - 1) % n;
    mst_status st = MST_OK;
    for (int i = 0; i < n && n > 1 && st == MST_OK; i++) {
        if (i == before) st = open_pair(stages, i, kind, &made.pred);
        if (i == rank && st == MST_OK) st = open_pair(stages, i, kind, &made.succ);
    }
    if (st != MST_OK) return msi_pairs_undo(&made, st);
    *pairs = made;
    return MST_OK;
}

static mst_status join(struct msi_comm *comm, const struct msi_wait *wait) {
    int left = msi_ms_until(wait->deadline);
    return comm ? msi_comm_open(comm, left ? left : 1, wait->cancel) : MST_OK;
}

/*
 * The lower pair first, which avoids a deadlock; for the first rank that is the pair with the rank after it.
 * Joins the second pair also after a failure, because the rank there waits for this one.
 */
mst_status msi_pairs_join(bool first_rank, struct msi_comm *pred, struct msi_comm *succ,
                          const struct msi_wait *wait) {
    struct msi_saved_error error;
    mst_status st = join(first_rank ? succ : pred, wait);
    msi_error_save(&error, st);
    mst_status second = join(first_rank ? pred : succ, wait);
    return st == MST_OK ? second : msi_error_restore(&error);
}

void msi_pairs_report(const struct msi_pairs *pairs, mst_status status) {
    mst_group *const both[] = {pairs->pred, pairs->succ};
    for (int i = 0; i < 2; i++)
        if (both[i] && msi_handle_alive(both[i])) msi_group_report_end(msi_handle_memory(both[i]), status);
}

void msi_pairs_close(struct msi_pairs *pairs) {
    msi_group_end(&pairs->pred);
    msi_group_end(&pairs->succ);
}

/* Ending a group may record another failure. */
mst_status msi_pairs_undo(struct msi_pairs *pairs, mst_status status) {
    struct msi_saved_error error;
    msi_error_save(&error, status);
    msi_pairs_close(pairs);
    return msi_error_restore(&error);
}
