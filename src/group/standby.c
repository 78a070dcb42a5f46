/*
 * standby.c - if a rank hosts the world's store, another one keeps a copy of it: its standby. When the host
 * is lost, the standby serves, and the store goes on. See store/server.h.
 *
 * The standby is the first rank of another host, else of another process. Keys of the world:
 *   host            in a world that continues another one: "HOST STANDBY", the ranks; from HOST
 *   standby         "PORT TAKEOVERS" of the standby, with port 0 if there is none; from STANDBY
 *   standby/N       the rank that replaces a standby which is lost or serves now, for the N-th time; from the
 *                   first survivor of a group that proposes one
 *   standby/N/port  as standby; from that rank
 */
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "group/choice.h"
#include "wire/recovery.h"

#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 5000 };

/* The rank that serves after t takeovers, or -1. */
static int server_after(const struct msi_world *world, int t) {
    return world->hosted && t < MSI_STORE_HOSTS
               ? atomic_load_explicit(&world->store_ranks[t], memory_order_relaxed)
               : -1;
}

static void set_server(struct msi_world *world, int t, int rank) {
    if (t < MSI_STORE_HOSTS) atomic_store_explicit(&world->store_ranks[t], rank, memory_order_relaxed);
}

int msi_world_store_host(const struct msi_world *world) {
    return world->hosted ? server_after(world, msi_store_takeovers(world->store)) : -1;
}

bool msi_world_store_is_silent(const struct msi_world *world) {
    const struct msi_member *members = world->members.members;
    int host = msi_world_store_host(world);
    return msi_store_is_silent(world->store) && (host < 0 || members[host].host != members[world->rank].host);
}

void msi_world_store_ranks(const struct msi_world *world, int ranks[2]) {
    int takeovers = world->hosted ? msi_store_takeovers(world->store) : 0;
    ranks[0] = server_after(world, takeovers);
    ranks[1] = server_after(world, takeovers + 1);
}

void msi_world_set_store_ranks(struct msi_world *world, int host, int standby) {
    set_server(world, 0, host);
    set_server(world, 1, standby);
    for (int t = 2; t < MSI_STORE_HOSTS; t++) set_server(world, t, -1);
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
static mst_status learn_ranks(struct msi_world *world, bool continues, const struct msi_wait *wait,
                              int ranks[2]) {
    char text[MSI_STORE_RANKS_MAX];
    if (!continues) {
        ranks[0] = 0;
        ranks[1] = choose(&world->members, 0);
        return MST_OK;
    }
    if (ranks[0] == world->rank) {
        if (ranks[1] < 0) ranks[1] = choose(&world->members, ranks[0]);
        msi_store_ranks_write(text, ranks);
        return msi_world_put(world, wait, "host", msi_cstr(text));
    }
    struct msi_buf value = {0};
    mst_status st = msi_world_get(world, wait, "host", ranks[0] >= 0 ? ranks[0] : world->first_old, &value);
    if (st == MST_OK)
        msi_store_ranks_read(msi_buf_str(&value), world->size, ranks); /* -1: the host is lost */
    msi_buf_free(&value);
    return st;
}

/* This rank is the standby of host: opens it, unless it has one. Tells the others where it is. */
static mst_status open_standby(struct msi_world *world, const struct msi_settings *settings, int host,
                               const struct msi_wait *wait, const char *key, struct msi_address *address) {
    char text[32];
    if (!address->port && msi_store_hosts(world->store)) address->port = world->standby_port;
    if (!address->port && settings->store_standby &&
        msi_store_stand_by(world->store, address, settings, wait) != MST_OK) {
        msi_log(group, WARN, "the store will end with rank %d: %s", host, mst_last_error()->message);
        address->port = 0;
    }
    world->standby_port = address->port;
    snprintf(text, sizeof text, "%d %d", address->port, msi_store_takeovers(world->store));
    return msi_world_put(world, wait, key, msi_cstr(text));
}

/* Reads where the standby is, and after how many takeovers it was opened. */
static mst_status read_standby(struct msi_world *world, const struct msi_wait *wait, int standby,
                               const char *key, int *port, int *takeovers) {
    struct msi_buf value = {0};
    char text[32];
    mst_status st = msi_world_get(world, wait, key, standby, &value);
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(msi_buf_str(&value)));
    msi_buf_free(&value);
    if (sscanf(text, "%d %d", port, takeovers) != 2 || *takeovers < 0) *port = 0;
    return st;
}

static void add_to(struct msi_world *world, const struct msi_address *address) {
    if (msi_store_add_standby(world->store, address) != MST_OK)
        msi_log(group, WARN, "%s", mst_last_error()->message);
}

void msi_world_copy_store(struct msi_world *world, struct msi_world *previous,
                          const struct msi_settings *settings) {
    struct msi_wait wait = {msi_deadline(WAIT_MS), NULL};
    struct msi_address address = {.port = 0};
    int ranks[2], takeovers;
    if (!world->hosted || world->size == 1) return;
    ranks[0] = server_after(world, 0);
    ranks[1] = server_after(world, 1);
    if (previous && ranks[0] < 0) return; /* no survivor hosts the store: nobody would tell */
    bool continues = strcmp(world->lineage, world->spec.run) != 0;
    bool stays = previous && ranks[1] == world->rank; /* it stood by for the previous world, too */
    mst_status st = learn_ranks(world, continues, &wait, ranks);
    msi_world_set_store_ranks(world, ranks[0], ranks[1]);
    if (st != MST_OK || ranks[1] < 0) return;
    snprintf(address.host, sizeof address.host, "%s", world->members.members[ranks[1]].address);
    if (ranks[1] == world->rank) {
        if (stays) address.port = previous->standby_port;
        st = open_standby(world, settings, ranks[0], &wait, "standby", &address);
    } else {
        st = read_standby(world, &wait, ranks[1], "standby", &address.port, &takeovers);
    }
    if (st != MST_OK || address.port <= 0) return;
    world->standby_port = address.port;
    add_to(world, &address);
    for (struct msi_world *w = previous; w; w = w->previous) add_to(w, &address);
}

/* The first survivor of another host, else of another process; -1: none. */
static int choose_survivor(const mst_group *survivors, int host) {
    struct msi_world *world = survivors->world;
    const struct msi_member *members = world->members.members;
    int other = -1;
    for (int i = 0; i < survivors->size; i++) {
        int r = msi_group_global_rank(survivors, i);
        if (msi_world_rank_event(world, r)) continue;
        if (members[r].host != members[host].host) return r;
        if (other < 0 && members[r].pid != members[host].pid) other = r;
    }
    return other;
}

/* Agrees with all ranks of the world on its next standby; -1: there is none, or no need for one. */
static int agree_on_standby(const mst_group *survivors, const struct msi_wait *wait, const char *key,
                            bool wanted) {
    struct msi_world *world = survivors->world;
    struct msi_buf value = {0};
    char text[16] = "";
    int ranks[2];
    mst_status st = msi_world_read(world, wait, key, &value);
    msi_world_store_ranks(world, ranks);
    bool stands = ranks[1] >= 0 && !msi_world_rank_event(world, ranks[1]);
    if (st == MST_OK && !value.len && wanted && !stands && ranks[0] >= 0) {
        snprintf(text, sizeof text, "%d", choose_survivor(survivors, ranks[0]));
        if (text[0] != '-') st = msi_world_put_once(world, wait, key, msi_cstr(text), &value);
    }
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(msi_buf_str(&value)));
    bool agreed = st == MST_OK && value.len;
    msi_buf_free(&value);
    int rank = agreed ? atoi(text) : -1;
    return rank < world->size ? rank : -1;
}

/* Opens the standby or learns where it is: its port, or 0 if it cannot be opened or the rank is lost. */
static mst_status replace_standby(struct msi_world *world, const struct msi_settings *settings,
                                  const struct msi_wait *wait, const char *key, int standby, int *port) {
    struct msi_address address = {.port = 0};
    char of_port[64];
    int takeovers = msi_store_takeovers(world->store);
    snprintf(of_port, sizeof of_port, "%s/port", key);
    snprintf(address.host, sizeof address.host, "%s", world->members.members[standby].address);
    mst_status st = standby == world->rank
                        ? open_standby(world, settings, msi_world_store_host(world), wait, of_port, &address)
                        : read_standby(world, wait, standby, of_port, &address.port, &takeovers);
    *port = address.port;
    if (st != MST_OK || address.port <= 0) return st;
    set_server(world, takeovers + 1, standby);
    world->standby_port = address.port;
    for (struct msi_world *w = world; w; w = w->previous) add_to(w, &address);
    return MST_OK;
}

void msi_world_renew_standby(const mst_group *survivors, const struct msi_wait *whole) {
    struct msi_world *world = survivors->world;
    struct msi_settings settings;
    char key[32];
    if (!world->hosted || world->continued || survivors->size == 1 ||
        msi_settings_load(&settings, NULL) != MST_OK)
        return;
    settings.tls = world->endpoint.auth.tls != NULL;
    pthread_mutex_lock(&world->standby_lock); /* threads may shrink groups at once */
    struct msi_wait wait = {msi_deadline(WAIT_MS), whole->cancel};
    if (whole->deadline < wait.deadline) wait.deadline = whole->deadline;
    while (world->standbys < MSI_STORE_HOSTS - 2) {
        int port = 0;
        snprintf(key, sizeof key, "standby/%d", world->standbys);
        int standby = agree_on_standby(survivors, &wait, key, settings.store_standby);
        if (standby < 0 || replace_standby(world, &settings, &wait, key, standby, &port) != MST_OK)
            break; /* if it is late, the next call asks again */
        world->standbys++;
        if (port <= 0 && !msi_world_rank_event(world, standby)) break;
    }
    pthread_mutex_unlock(&world->standby_lock);
}
