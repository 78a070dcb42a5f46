/*
 * declare.c - ranks compare the purpose of a group that they create together. The first rank sets the group's
 * key "for" to "RANK WHAT"; the others compare.
 */
#include "base/error.h"
#include "base/hash.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

enum { LISTED_MOST = 16 };

static mst_status compare(const mst_group *group, const char *what, const char *remedy, struct msi_str line) {
    char us[MSI_RANK_SHOW_MAX], them[MSI_RANK_SHOW_MAX], text[MSI_NOTE_MAX];
    int rank = -1, used = 0;
    msi_str_copy(line, text, sizeof text);
    if (sscanf(text, "%d %n", &rank, &used) != 1 || !used || rank < 0 || rank >= group->world->size)
        return msi_fail(MST_ERR_PROTOCOL, NULL,
                        "the store holds '%.*s' where the purpose of a group should be", MSI_SHOW(line));
    if (msi_str_equal(msi_str(line.p + used, line.n - (size_t)used), msi_cstr(what))) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, remedy, "%s created %.300s, but %s created %.300s",
             msi_rank_show(group, group->world->rank, us, sizeof us), what,
             msi_rank_show(group, rank, them, sizeof them), text + used);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

static mst_status declare(mst_group *group, const char *what, const char *remedy,
                          const struct msi_wait *wait) {
    char name[64];
    if (group->rank < 0 || group->size == 1) return MST_OK;
    struct msi_buf own = {0}, first = {0};
    msi_buf_add_format(&own, "%d %s", group->world->rank, what);
    snprintf(name, sizeof name, "%s/for", group->id);
    mst_status st = own.failed ? msi_fail_memory()
                               : msi_world_put_once(group->world, wait, name, msi_buf_str(&own), &first);
    group->declared = st == MST_OK;
    if (st == MST_OK) st = compare(group, what, remedy, msi_buf_str(&first));
    msi_buf_free(&own);
    msi_buf_free(&first);
    return st;
}

mst_status msi_group_declare(mst_group *group, const char *what, const struct msi_wait *wait) {
    return declare(group, what, "create the same meshes and pipelines in the same order on all ranks", wait);
}

mst_status msi_group_declare_order(mst_group *group, const struct msi_wait *wait) {
    static const uint64_t hash_key[2] = {9, 10};
    char what[400], show[96];
    size_t bytes = (size_t)group->size * sizeof *group->ranks;
    size_t used =
        (size_t)snprintf(what, sizeof what, "%s of ranks", msi_group_show(group, show, sizeof show));
    for (int i = 0; i < group->size && i < LISTED_MOST; i++)
        used += (size_t)snprintf(what + used, sizeof what - used, " %d", group->ranks[i]);
    if (group->size > LISTED_MOST)
        snprintf(what + used, sizeof what - used, " and %d more (%016llx)", group->size - LISTED_MOST,
                 (unsigned long long)msi_hash(group->ranks, bytes, hash_key));
    return declare(group, what, "pass the ranks of a group with a name in the same order on all of them",
                   wait);
}
