/*
 * forget.c - what a group has in the store goes with its last member: each counts itself out, and whoever
 * finds that it was the last deletes the keys. Where a member died before, they stay until the store ends.
 */
#include "bootstrap/report.h"
#include "group/world.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

/* Counts this rank out under prefix; true if all size ranks are out now. */
static bool count_out(struct msi_world *world, const char *id, int size) {
    char key[MSI_KEY_MAX];
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    struct msi_exchange x = {
        .req = {.op = MSI_OP_ADD, .key = msi_key(key, "%s%s/out", world->prefix, id), .number = 1}};
    bool last = false;
    if (msi_world_exec(world, &wait, &x, 1) == MST_OK) {
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        last = (int64_t)msi_read_u64(&r) >= size;
    }
    msi_exchange_free(&x, 1);
    return last;
}

/* Deletes the named keys and those with a rank behind them, in one batch. */
static void delete_keys(struct msi_world *world, const char *const *names, size_t n, const char *numbered,
                        int size) {
    size_t total = n + (size_t)size;
    char(*keys)[MSI_KEY_MAX] = malloc(total * sizeof *keys);
    struct msi_exchange *x = calloc(total, sizeof *x);
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    for (size_t i = 0; keys && x && i < total; i++) {
        struct msi_str key = i < n ? msi_key(keys[i], "%s%s", world->prefix, names[i])
                                   : msi_key(keys[i], "%s%s%d", world->prefix, numbered, (int)(i - n));
        x[i].req = (struct msi_store_req){.op = MSI_OP_DELETE_KEY, .key = key};
    }
    if (keys && x) {
        msi_world_exec(world, &wait, x, total);
        msi_exchange_free(x, total);
    }
    free(x);
    free(keys);
}

void msi_group_forget(mst_group *group) {
    char all[64], out[64], at[64];
    if (group->rank < 0 || group->barriers == 0 || group->size == 1) return;
    if (!count_out(group->world, group->id, group->size)) return;
    snprintf(all, sizeof all, "%s/all", group->id);
    snprintf(out, sizeof out, "%s/out", group->id);
    snprintf(at, sizeof at, "%s/at/", group->id);
    delete_keys(group->world, (const char *const[]){all, out}, 2, at, group->size);
}

void msi_world_forget(struct msi_world *world) {
    static const char *const names[] = {"params", "roster", "places", "all", "w/out"};
    if (world->size > 1 && count_out(world, "w", world->size))
        delete_keys(world, names, sizeof names / sizeof *names, "who/", world->size);
}
