/*
 * declare.c - ranks compare the purpose of a group that they create together. The first rank sets the group's
 * key "for" to "RANK WHAT"; the others compare.
 */
#include "base/error.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

static mst_status compare(const mst_group *group, const char *what, struct msi_str line) {
    char us[MSI_PROCESS_MAX + 32], them[MSI_PROCESS_MAX + 32], text[MSI_NOTE_MAX];
    int rank = -1, used = 0;
    msi_str_copy(line, text, sizeof text);
    if (sscanf(text, "%d %n", &rank, &used) != 1 || !used || rank < 0 || rank >= group->world->size)
        return msi_fail(MST_ERR_PROTOCOL, NULL,
                        "the store holds '%.*s' where the purpose of a group should be", MSI_SHOW(line));
    if (msi_str_equal(msi_str(line.p + used, line.n - (size_t)used), msi_cstr(what))) return MST_OK;
    msi_fail(MST_ERR_MISMATCH, "create the same meshes and pipelines in the same order on all ranks",
             "%s created %.300s, but %s created %.300s",
             msi_rank_show(group, group->world->rank, us, sizeof us), what,
             msi_rank_show(group, rank, them, sizeof them), text + used);
    return msi_blame(MST_ERR_MISMATCH, rank);
}

mst_status msi_group_declare(mst_group *group, const char *what, const struct msi_wait *wait) {
    char name[64];
    if (group->rank < 0 || group->size == 1) return MST_OK;
    struct msi_buf own = {0}, first = {0};
    msi_buf_add_format(&own, "%d %s", group->world->rank, what);
    snprintf(name, sizeof name, "%s/for", group->id);
    mst_status st = own.failed ? msi_fail_memory()
                               : msi_world_put_once(group->world, wait, name, msi_buf_str(&own), &first);
    group->declared = st == MST_OK;
    if (st == MST_OK) st = compare(group, what, msi_buf_str(&first));
    msi_buf_free(&own);
    msi_buf_free(&first);
    return st;
}
