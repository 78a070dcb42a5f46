/*
 * standby.c - if a rank hosts the world's store, another one keeps a copy of it: its standby. When the host
 * is lost, the standby serves, and the store goes on. See store/server.h.
 *
 * The standby is the first rank of another host, else of another process. Keys of the world:
 *   host      in a world that continues another one: "HOST STANDBY", the ranks; from HOST
 *   standby   the port of the standby, 0: there is none; from STANDBY
 */
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "group/choice.h"

#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 5000 };

int msi_world_store_host(const struct msi_world *world) {
    if (!world->hosted) return -1;
    int takeovers = msi_store_takeovers(world->store);
    return takeovers < 2 ? world->store_ranks[takeovers] : -1;
}

bool msi_world_store_is_silent(const struct msi_world *world) {
    const struct msi_member *members = world->members.members;
    int host = msi_world_store_host(world);
    return msi_store_is_silent(world->store) && (host < 0 || members[host].host != members[world->rank].host);
}

void msi_world_store_ranks(const struct msi_world *world, int ranks[2]) {
    ranks[0] = msi_world_store_host(world);
    ranks[1] = world->hosted && msi_store_takeovers(world->store) == 0 ? world->store_ranks[1] : -1;
}

static int choose(const struct msi_members *members, int host) {
    const struct msi_member *of_host = &members->members[host];
    int other = -1;
    for (int r = 0; r < members->size; r++) {
        const struct msi_member *m = &members->members[r];
        if (m->host != of_host->host) return r;
        if (other < 0 && m->pid != of_host->pid) other = r;
    }
    return other;
}

/* Finds out which rank hosts the store, and which one is its standby. */
static mst_status learn_ranks(struct msi_world *world, bool continues, const struct msi_wait *wait) {
    int *ranks = world->store_ranks;
    char text[48];
    if (!continues) {
        ranks[0] = 0;
        ranks[1] = choose(&world->members, 0);
        return MST_OK;
    }
    if (ranks[0] == world->rank) {
        if (ranks[1] < 0) ranks[1] = choose(&world->members, ranks[0]);
        snprintf(text, sizeof text, "%d %d", ranks[0], ranks[1]);
        return msi_world_put(world, wait, "host", msi_cstr(text));
    }
    struct msi_buf value = {0};
    mst_status st = msi_world_get(world, wait, "host", ranks[0] >= 0 ? ranks[0] : world->first_old, &value);
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(msi_buf_str(&value)));
    msi_buf_free(&value);
    if (st != MST_OK) return st;
    if (sscanf(text, "%d %d", &ranks[0], &ranks[1]) != 2 || ranks[0] < 0 || ranks[0] >= world->size ||
        ranks[1] < -1 || ranks[1] >= world->size)
        ranks[0] = ranks[1] = -1; /* the host is lost */
    return MST_OK;
}

/* This rank is the standby: opens it, unless it has one. Tells the others where it is. */
static mst_status open_standby(struct msi_world *world, const struct msi_settings *settings,
                               const struct msi_wait *wait, struct msi_address *address) {
    char text[16];
    if (!address->port && settings->store_standby &&
        msi_store_stand_by(world->store, address, settings, wait) != MST_OK) {
        msi_log(group, WARN, "the store will end with rank %d: %s", world->store_ranks[0],
                mst_last_error()->message);
        address->port = 0;
    }
    snprintf(text, sizeof text, "%d", address->port);
    return msi_world_put(world, wait, "standby", msi_cstr(text));
}

static mst_status read_port(struct msi_world *world, const struct msi_wait *wait, int *port) {
    struct msi_buf value = {0};
    char text[16];
    mst_status st = msi_world_get(world, wait, "standby", world->store_ranks[1], &value);
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(msi_buf_str(&value)));
    msi_buf_free(&value);
    *port = atoi(text);
    return st;
}

void msi_world_copy_store(struct msi_world *world, struct msi_world *previous,
                          const struct msi_settings *settings) {
    struct msi_wait wait = {msi_deadline(WAIT_MS), NULL};
    struct msi_address address = {.port = 0};
    if (!world->hosted || world->size == 1) return;
    if (previous && world->store_ranks[0] < 0) return; /* no survivor hosts the store: nobody would tell */
    bool continues = strcmp(world->lineage, world->spec.run) != 0;
    bool stays =
        previous && world->store_ranks[1] == world->rank; /* it stood by for the previous world, too */
    mst_status st = learn_ranks(world, continues, &wait);
    int standby = world->store_ranks[1];
    if (st != MST_OK || standby < 0) return;
    snprintf(address.host, sizeof address.host, "%s", world->members.members[standby].address);
    if (standby == world->rank) {
        if (stays) address.port = previous->standby_port;
        st = open_standby(world, settings, &wait, &address);
    } else {
        st = read_port(world, &wait, &address.port);
    }
    if (st != MST_OK || address.port <= 0) return;
    world->standby_port = address.port;
    for (struct msi_world *w = world; w; w = w == world ? previous : w->previous)
        if (msi_store_add_standby(w->store, &address) != MST_OK)
            msi_log(group, WARN, "%s", mst_last_error()->message);
}
