/*
 * members.c - the worlds in a store that no launcher serves: which ranks have joined, left or died, from the
 * keys of bootstrap/join.h. See status.h.
 */
#include "status/status.h"

#include "cli/text.h"
#include "run/nodes/node_msg.h"

#include "base/error.h"
#include "bootstrap/report.h"

#include <stdlib.h>

struct member {
    uint32_t pid;
    uint64_t location;
    bool here;  /* it has arrived */
    char event; /* of wire/members.h; 0: none */
};

/* A world, with the values of its keys. */
struct world {
    char prefix[MSI_PREFIX_MAX]; /* "muster/RUN/K/" */
    struct msi_buf params, members, locations, events;
    int size, arrived;
    struct member *list;
};

/* A key "muster/RUN/K/params" belongs to a world. */
static bool is_world(const char *key, char prefix[MSI_PREFIX_MAX]) {
    int run = 0, number = 0, end = 0;
    if (sscanf(key, "muster/%*[^/]%n/%*[0-9]%n/params%n", &run, &number, &end) < 0 || !end || key[end])
        return false;
    if (!run || !number || number + 2 > MSI_PREFIX_MAX) return false;
    snprintf(prefix, MSI_PREFIX_MAX, "%.*s/", number, key);
    return true;
}

static mst_status read_key(mst_store *store, const struct world *world, const char *name,
                           struct msi_buf *value) {
    char key[MSI_PREFIX_MAX + 16];
    snprintf(key, sizeof key, "%s%s", world->prefix, name);
    return status_read_value(store, key, value);
}

static void read_members(struct world *world) {
    struct msi_str text = msi_buf_str(&world->members);
    struct msi_member_entry entry;
    while (msi_members_next(&text, &entry)) {
        if (entry.rank >= (uint32_t)world->size) continue;
        struct member *member = &world->list[entry.rank];
        world->arrived += !member->here;
        *member = (struct member){.pid = entry.pid, .location = entry.location, .here = true};
    }
}

static void read_events(struct world *world) {
    struct msi_str text = msi_buf_str(&world->events);
    struct msi_event event;
    while (msi_event_next(&text, &event))
        if (event.rank >= 0 && event.rank < world->size) world->list[event.rank].event = event.kind;
}

static mst_status read_world(mst_store *store, struct world *world) {
    mst_status st = read_key(store, world, "params", &world->params);
    if (st == MST_OK) st = read_key(store, world, "members", &world->members);
    if (st == MST_OK) st = read_key(store, world, "locations", &world->locations);
    if (st == MST_OK) st = read_key(store, world, "events", &world->events);
    if (st != MST_OK) return st;
    int64_t size = msi_params_size(msi_buf_str(&world->params));
    if (size < 1 || size > REPORT_RANKS_MOST) return MST_OK; /* it has just ended, or is of another version */
    world->size = (int)size;
    world->list = report_alloc((size_t)size, sizeof *world->list);
    read_members(world);
    read_events(world);
    return MST_OK;
}

static void free_world(struct world *world) {
    msi_buf_free(&world->params);
    msi_buf_free(&world->members);
    msi_buf_free(&world->locations);
    msi_buf_free(&world->events);
    free(world->list);
}

static const char *host_of(const struct world *world, const struct member *member, char host[MSI_HOST_MAX]) {
    struct msi_str text = msi_buf_str(&world->locations);
    struct msi_location_entry entry;
    snprintf(host, MSI_HOST_MAX, "?");
    while (msi_location_next(&text, &entry))
        if (entry.location == member->location) msi_str_copy(entry.name, host, MSI_HOST_MAX);
    text_clean(host, false);
    return host;
}

static const char *state_of(const struct world *world, const struct member *member) {
    if (member->event == 'D') return "died";
    if (member->event == 'L') return "left";
    if (member->event == 'F') return "failed";
    if (!member->here) return "missing";
    return world->arrived == world->size ? "joined" : "joining";
}

static void print_text(const struct world *world) {
    char host[MSI_HOST_MAX];
    printf("world %s: %d of %d ranks have joined\n", world->prefix, world->arrived, world->size);
    printf("%6s  %-16s %8s  %s\n", "rank", "host", "pid", "state");
    for (int r = 0; r < world->size; r++) {
        const struct member *member = &world->list[r];
        if (member->here)
            printf("%6d  %-16s %8u  %s\n", r, host_of(world, member, host), member->pid,
                   state_of(world, member));
        else
            printf("%6d  %-16s %8s  %s\n", r, "-", "-", state_of(world, member));
    }
}

static void put_world(struct msi_json_out *out, const struct world *world) {
    char host[MSI_HOST_MAX];
    msi_json_put_object(out);
    msi_json_member_string(out, "world", world->prefix);
    msi_json_member_int(out, "world_size", world->size);
    msi_json_member_array(out, "ranks");
    for (int r = 0; r < world->size; r++) {
        const struct member *member = &world->list[r];
        msi_json_put_object(out);
        msi_json_member_int(out, "rank", r);
        if (member->here) msi_json_member_string(out, "host", host_of(world, member, host));
        if (member->here) msi_json_member_int(out, "pid", member->pid);
        msi_json_member_string(out, "state", state_of(world, member));
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

/* Why the calls are not known. */
static const char *explain(char *const *keys, size_t n) {
    const char *why = "no launcher: the calls are not known";
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(keys[i], NODE_ENDED_KEY)) return "the job has ended";
        if (!strncmp(keys[i], "muster/launch/", 14))
            why =
                "the launcher has not started its ranks yet, or it is of a version that does not answer: the "
                "calls are not known";
    }
    return why;
}

mst_status status_print_worlds(mst_store *store, const char *address, bool json) {
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    char **keys;
    size_t n;
    int worlds = 0;
    mst_status st = mst_store_list_keys(store, &keys, &n);
    if (st != MST_OK) return st;
    msi_json_put_object(&out);
    msi_json_member_string(&out, "address", address);
    msi_json_member_string(&out, "note", explain(keys, n));
    msi_json_member_array(&out, "worlds");
    if (!json) printf("%s: %s\n", address, explain(keys, n));
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        struct world world = {0};
        if (!is_world(keys[i], world.prefix)) continue;
        st = read_world(store, &world);
        if (st == MST_OK && world.size > 0) {
            worlds++;
            put_world(&out, &world);
            if (!json) print_text(&world);
        }
        free_world(&world);
    }
    if (!json && worlds == 0 && st == MST_OK) printf("no rank has joined a world through this store\n");
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    if (json && st == MST_OK) puts(msi_buf_text(&text));
    msi_buf_free(&text);
    mst_store_free_keys(keys);
    return st;
}
