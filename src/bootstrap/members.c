/*
 * members.c - builds struct msi_members from the entries that the ranks wrote. Hosts are numbered by their
 * lowest rank, local ranks by ascending rank.
 */
#include "base/error.h"
#include "bootstrap/report.h"

#include <stdlib.h>

struct location {
    uint64_t id, host;
    int index; /* of the host; -1: not seen yet */
    const char *name, *address;
};

struct builder {
    struct location *locations;
    size_t n_locations;
    uint64_t *location_of; /* by rank; 0: none yet */
};

void msi_members_free(struct msi_members *members) {
    free(members->members);
    free(members->local_sizes);
    free(members->strings);
    *members = (struct msi_members){0};
}

static int by_location(const void *a, const void *b) {
    const struct location *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Reads the locations into an array sorted by id; names go into members->strings. */
static mst_status read_locations(struct builder *b, struct msi_str text, struct msi_members *members) {
    size_t most = text.n / 32 + 1;
    b->locations = calloc(most, sizeof *b->locations);
    members->strings = malloc(text.n + 2 * most);
    if (!b->locations || !members->strings) return msi_fail_memory();
    char *at = members->strings;
    struct msi_location_entry entry;
    while (b->n_locations < most && msi_location_next(&text, &entry)) {
        struct location *p = &b->locations[b->n_locations++];
        *p = (struct location){.id = entry.location, .host = entry.host, .index = -1};
        p->name = msi_str_copy(entry.name, at, entry.name.n + 1);
        at += entry.name.n + 1;
        p->address = msi_str_copy(entry.address, at, entry.address.n + 1);
        at += entry.address.n + 1;
    }
    qsort(b->locations, b->n_locations, sizeof *b->locations, by_location);
    return MST_OK;
}

/* The location with that id; of several, always the same. */
static struct location *find_location(const struct builder *b, uint64_t id) {
    struct location key = {.id = id};
    struct location *found = bsearch(&key, b->locations, b->n_locations, sizeof *b->locations, by_location);
    while (found && found > b->locations && found[-1].id == id) found--;
    return found;
}

static mst_status read_ranks(struct builder *b, struct msi_str text, struct msi_members *members) {
    struct msi_member_entry entry;
    int count = 0;
    while (msi_members_next(&text, &entry)) {
        if (entry.rank >= (uint32_t)members->size || b->location_of[entry.rank])
            return msi_fail(MST_ERR_PROTOCOL, NULL,
                            "the world's list of members names rank %u twice, or it is out of range",
                            entry.rank);
        b->location_of[entry.rank] = entry.location;
        members->members[entry.rank].pid = (int)entry.pid;
        count++;
    }
    if (count != members->size)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the world's list of members has %d of %d ranks", count,
                        members->size);
    return MST_OK;
}

/* The index of a host, in order of first appearance. */
static int host_index(struct builder *b, const struct location *location, struct msi_members *members) {
    if (location->index >= 0) return location->index;
    int index = -1;
    for (size_t i = 0; i < b->n_locations; i++)
        if (b->locations[i].host == location->host && b->locations[i].index >= 0)
            index = b->locations[i].index;
    if (index < 0) index = members->host_count++;
    for (size_t i = 0; i < b->n_locations; i++)
        if (b->locations[i].host == location->host) b->locations[i].index = index;
    return index;
}

static mst_status set_hosts(struct builder *b, struct msi_members *members) {
    for (int r = 0; r < members->size; r++) {
        struct location *location = find_location(b, b->location_of[r]);
        if (!location)
            return msi_fail(MST_ERR_PROTOCOL, NULL,
                            "the world's list of members gives rank %d an unknown location", r);
        struct msi_member *m = &members->members[r];
        m->host = host_index(b, location, members);
        m->local_rank = members->local_sizes[m->host]++;
        m->host_name = location->name;
        m->address = location->address;
    }
    return MST_OK;
}

mst_status msi_members_build(struct msi_str entries, struct msi_str locations, int size,
                             struct msi_members *members) {
    struct msi_members made = {.size = size};
    struct builder b = {.location_of = calloc((size_t)size, sizeof *b.location_of)};
    made.members = calloc((size_t)size, sizeof *made.members);
    made.local_sizes = calloc((size_t)size, sizeof *made.local_sizes);
    mst_status st = b.location_of && made.members && made.local_sizes ? MST_OK : msi_fail_memory();
    if (st == MST_OK) st = read_locations(&b, locations, &made);
    if (st == MST_OK) st = read_ranks(&b, entries, &made);
    if (st == MST_OK) st = set_hosts(&b, &made);
    free(b.locations);
    free(b.location_of);
    if (st != MST_OK) {
        msi_members_free(&made);
        return st;
    }
    *members = made;
    return MST_OK;
}
