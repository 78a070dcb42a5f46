/*
 * members.c - from what the ranks wrote about themselves to who sits where. Hosts are numbered by their lowest
 * rank, local ranks follow ascending rank.
 */
#include "base/error.h"
#include "bootstrap/report.h"

#include <stdlib.h>

struct host_of {
    uint64_t place, host;
    int index; /* of the host; -1 until one of its ranks was seen */
    const char *name, *address;
};

struct builder {
    struct host_of *places;
    size_t n_places;
    uint64_t *place_of; /* by rank; 0: none yet */
};

void msi_members_free(struct msi_members *members) {
    free(members->members);
    free(members->local_sizes);
    free(members->strings);
    *members = (struct msi_members){0};
}

static int by_place(const void *a, const void *b) {
    const struct host_of *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

static char *copy_text(struct msi_str text, char **at) {
    char *start = *at;
    if (text.n) memcpy(start, text.p, text.n);
    start[text.n] = 0;
    *at += text.n + 1;
    return start;
}

/* Reads the places into an array sorted by number; names go into the members's strings. */
static mst_status take_places(struct builder *b, struct msi_str text, struct msi_members *members) {
    size_t most = text.n / 32 + 1;
    b->places = calloc(most, sizeof *b->places);
    members->strings = malloc(text.n + 2 * most);
    if (!b->places || !members->strings) return msi_fail_memory();
    char *at = members->strings;
    struct msi_place_entry entry;
    while (b->n_places < most && msi_place_next(&text, &entry)) {
        struct host_of *p = &b->places[b->n_places++];
        *p = (struct host_of){.place = entry.place, .host = entry.host, .index = -1};
        p->name = copy_text(entry.name, &at);
        p->address = copy_text(entry.address, &at);
    }
    qsort(b->places, b->n_places, sizeof *b->places, by_place);
    return MST_OK;
}

/* The place's entry; of several with one number, always the same. */
static struct host_of *find_place(const struct builder *b, uint64_t place) {
    struct host_of key = {.place = place};
    struct host_of *found = bsearch(&key, b->places, b->n_places, sizeof *b->places, by_place);
    while (found && found > b->places && found[-1].place == place) found--;
    return found;
}

static mst_status take_ranks(struct builder *b, struct msi_str text, struct msi_members *members) {
    struct msi_member_entry entry;
    int count = 0;
    while (msi_members_next(&text, &entry)) {
        if (entry.rank >= (uint32_t)members->size || b->place_of[entry.rank])
            return msi_fail(MST_ERR_PROTOCOL, NULL, "the world's members names rank %u twice or out of range",
                            entry.rank);
        b->place_of[entry.rank] = entry.place;
        members->members[entry.rank].pid = (int)entry.pid;
        count++;
    }
    if (count != members->size)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the world's members has %d of %d ranks", count,
                        members->size);
    return MST_OK;
}

/* The index of a host, given out in order of first appearance. */
static int host_index(struct builder *b, const struct host_of *place, struct msi_members *members) {
    if (place->index >= 0) return place->index;
    int index = -1;
    for (size_t i = 0; i < b->n_places; i++)
        if (b->places[i].host == place->host && b->places[i].index >= 0) index = b->places[i].index;
    if (index < 0) index = members->host_count++;
    for (size_t i = 0; i < b->n_places; i++)
        if (b->places[i].host == place->host) b->places[i].index = index;
    return index;
}

static mst_status seat_ranks(struct builder *b, struct msi_members *members) {
    for (int r = 0; r < members->size; r++) {
        struct host_of *place = find_place(b, b->place_of[r]);
        if (!place)
            return msi_fail(MST_ERR_PROTOCOL, NULL,
                            "the world's members gives rank %d a place nobody described", r);
        struct msi_member *m = &members->members[r];
        m->host = host_index(b, place, members);
        m->local_rank = members->local_sizes[m->host]++;
        m->host_name = place->name;
        m->address = place->address;
    }
    return MST_OK;
}

mst_status msi_members_build(struct msi_str entries, struct msi_str places, int size,
                             struct msi_members *members) {
    struct msi_members made = {.size = size};
    struct builder b = {.place_of = calloc((size_t)size, sizeof *b.place_of)};
    made.members = calloc((size_t)size, sizeof *made.members);
    made.local_sizes = calloc((size_t)size, sizeof *made.local_sizes);
    mst_status st = b.place_of && made.members && made.local_sizes ? MST_OK : msi_fail_memory();
    if (st == MST_OK) st = take_places(&b, places, &made);
    if (st == MST_OK) st = take_ranks(&b, entries, &made);
    if (st == MST_OK) st = seat_ranks(&b, &made);
    free(b.places);
    free(b.place_of);
    if (st != MST_OK) {
        msi_members_free(&made);
        return st;
    }
    *members = made;
    return MST_OK;
}
