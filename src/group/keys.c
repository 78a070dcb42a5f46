/* keys.c - what ranks of a world tell each other through its store, under keys of the world. See world.h. */
#include "base/error.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "wire/cursor.h"

mst_status msi_world_put(struct msi_world *world, const struct msi_wait *wait, const char *name,
                         struct msi_str value) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_SET, .key = msi_key(key, "%s%s", world->prefix, name), .value = value}};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return st;
}

mst_status msi_world_register(struct msi_world *world, const struct msi_wait *wait, const char *name,
                              struct msi_str value, struct msi_buf *there) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = {.op = MSI_OP_COMPARE_SET,
                                      .key = msi_key(key, "%s%s", world->prefix, name),
                                      .desired = value}};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    if (st == MST_OK) {
        struct msi_str first = msi_reply_str(&x);
        msi_buf_add(there, first.p, first.n);
    }
    msi_store_rpc_free(&x, 1);
    return st == MST_OK && there->failed ? msi_fail_memory() : st;
}

void msi_world_drop(struct msi_world *world, const struct msi_wait *wait, const char *name) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(key, "%s%s", world->prefix, name)}};
    msi_world_exec(world, wait, &x, 1);
    msi_store_rpc_free(&x, 1);
}

mst_status msi_world_look(struct msi_world *world, const struct msi_wait *wait, const char *name,
                          struct msi_buf *value) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {.req = msi_read_request(msi_key(key, "%s%s", world->prefix, name))};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    if (st == MST_OK) {
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        struct msi_str text = msi_value_or_none(msi_read_str(&r));
        msi_buf_add(value, text.p, text.n);
    }
    msi_store_rpc_free(&x, 1);
    return st == MST_OK && value->failed ? msi_fail_memory() : st;
}

/* Until the key is there, or something became of a rank. */
static mst_status wait_for(struct msi_world *world, const char *name, const struct msi_wait *wait) {
    char keys[2][MSI_KEY_MAX];
    struct msi_str key = msi_key(keys[0], "%s%s", world->prefix, name);
    pthread_mutex_lock(&world->lock);
    int64_t seen = world->events_seen;
    pthread_mutex_unlock(&world->lock);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_key(keys[1], "%sevents", world->prefix), .number = seen}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &key}}};
    mst_status st = msi_world_exec(world, wait, x, 2);
    msi_store_rpc_free(x, 2);
    return st == MST_ERR_PEER_LOST ? msi_world_read_events(world, wait) : st;
}

char msi_world_how_gone(struct msi_world *world, int rank) {
    pthread_mutex_lock(&world->lock);
    char how = world->gone[rank].order ? world->gone[rank].how : 0;
    pthread_mutex_unlock(&world->lock);
    return how;
}

mst_status msi_world_get(struct msi_world *world, const struct msi_wait *wait, const char *name, int rank,
                         struct msi_buf *value) {
    for (;;) {
        bool gone =
            msi_world_how_gone(world, rank); /* asked first: what it left behind was there before it went */
        mst_status st = msi_world_look(world, wait, name, value);
        if (st != MST_OK || value->len || gone) return st;
        st = wait_for(world, name, wait);
        if (st != MST_OK) return st;
    }
}
