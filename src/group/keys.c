/* keys.c - values that the ranks of a world exchange under keys of its store. See world.h. */
#include "base/error.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "os/pidfd.h"
#include "os/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Runs a request on a key of the world. The value in its reply is appended to value, unless that is NULL. */
static mst_status run(struct msi_world *world, const struct msi_wait *wait, const char *name,
                      struct msi_store_req req, struct msi_buf *value) {
    char key[MSI_KEY_MAX];
    req.key = msi_key(key, "%s%s", world->prefix, name);
    struct msi_store_rpc x = {.req = req};
    mst_status st = msi_world_exec(world, wait, &x, 1);
    if (st == MST_OK && value) {
        struct msi_str text = msi_store_reply_value(&x);
        msi_buf_add(value, text.p, text.n);
        if (value->failed) st = msi_fail_memory();
    }
    msi_store_rpc_free(&x, 1);
    return st;
}

mst_status msi_world_put(struct msi_world *world, const struct msi_wait *wait, const char *name,
                         struct msi_str value) {
    return run(world, wait, name, (struct msi_store_req){.op = MSI_OP_SET, .value = value}, NULL);
}

mst_status msi_world_put_once(struct msi_world *world, const struct msi_wait *wait, const char *name,
                              struct msi_str value, struct msi_buf *first) {
    return run(world, wait, name, (struct msi_store_req){.op = MSI_OP_COMPARE_SET, .desired = value}, first);
}

void msi_world_delete(struct msi_world *world, const struct msi_wait *wait, const char *name) {
    run(world, wait, name, (struct msi_store_req){.op = MSI_OP_DELETE_KEY}, NULL);
}

mst_status msi_world_read(struct msi_world *world, const struct msi_wait *wait, const char *name,
                          struct msi_buf *value) {
    return run(world, wait, name, msi_read_request(msi_str(NULL, 0)), value);
}

/* Waits until the key exists or a rank is lost. */
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

bool msi_world_has_events(struct msi_world *world) {
    pthread_mutex_lock(&world->lock);
    bool some = world->events_seen > 0;
    pthread_mutex_unlock(&world->lock);
    return some;
}

bool msi_world_excludes(struct msi_world *world) {
    pthread_mutex_lock(&world->lock);
    bool excluded = world->excluded;
    pthread_mutex_unlock(&world->lock);
    return excluded;
}

char msi_world_rank_event(struct msi_world *world, int rank) {
    pthread_mutex_lock(&world->lock);
    char event = world->lost_ranks[rank].order ? world->lost_ranks[rank].event : 0;
    pthread_mutex_unlock(&world->lock);
    return event;
}

mst_status msi_world_get(struct msi_world *world, const struct msi_wait *wait, const char *name, int rank,
                         struct msi_buf *value) {
    for (;;) {
        bool lost = msi_world_rank_event(world, rank); /* before the read: a lost rank writes nothing more */
        mst_status st = msi_world_read(world, wait, name, value);
        if (st != MST_OK || value->len || lost) return st;
        st = wait_for(world, name, wait);
        if (st != MST_OK) return st;
    }
}

static mst_status report_death(struct msi_world *world, const struct msi_wait *wait, int rank) {
    char line[32];
    snprintf(line, sizeof line, "D %d\n", rank);
    return run(world, wait, "events", (struct msi_store_req){.op = MSI_OP_APPEND, .value = msi_cstr(line)},
               NULL);
}

/* Does the endpoint of a rank of another host refuse connections? Its kernel knows that it is closed. */
static bool is_refused(struct msi_world *world, int rank) {
    enum { CONNECT_MS = 100 };
    struct msi_wait wait = {msi_deadline(CONNECT_MS), NULL};
    struct msi_address address = {.port = 0};
    struct msi_buf value = {0};
    char name[32], text[16];
    int fd, error = 0;
    snprintf(name, sizeof name, "endpoint/%d", rank);
    if (msi_world_read(world, &wait, name, &value) == MST_OK)
        address.port = atoi(msi_str_copy(msi_buf_str(&value), text, sizeof text));
    msi_buf_free(&value);
    if (address.port <= 0 || address.port > UINT16_MAX) return false;
    snprintf(address.host, sizeof address.host, "%s", world->members.members[rank].address);
    mst_status st = msi_connect_once(&address, false, &wait, &fd, &error);
    if (st == MST_OK) close(fd);
    return st == MST_ERR_UNREACHABLE && error == ECONNREFUSED;
}

/* Has the process of the rank ended, as far as this rank can tell without the store's server? */
static bool has_ended(struct msi_world *world, int rank) {
    const struct msi_member *m = &world->members.members[rank], *own = &world->members.members[world->rank];
    if (m->host == own->host) return m->pid != own->pid && msi_process_has_ended(m->pid);
    /* A server knows the end of its clients. A standby that has taken over waits for them. */
    return world->hosted && msi_store_takeovers(world->store) > 0 && is_refused(world, rank);
}

mst_status msi_group_report_ended(const mst_group *group, const struct msi_wait *wait) {
    struct msi_world *world = group->world;
    mst_status st = MST_OK;
    for (int i = 0; i < group->size && st == MST_OK; i++) {
        int r = msi_group_global_rank(group, i);
        if (r == world->rank || msi_world_rank_event(world, r) || !has_ended(world, r)) continue;
        st = msi_world_read_events(world, wait); /* it may have left before it ended */
        if (st == MST_OK && !msi_world_rank_event(world, r)) st = report_death(world, wait, r);
    }
    return st;
}
