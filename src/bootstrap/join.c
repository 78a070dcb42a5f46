/* join.c - joining a world through a store. See join.h. */
#include "bootstrap/join.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "bootstrap/topology.h"
#include "os/host.h"
#include "wire/cursor.h"

#include <muster/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of the keys and records that ranks of one world share; another version refuses to join. */
enum { WORLD_PROTOCOL = 1 };

struct join {
    struct mst_store *store;
    const struct msi_place *place;
    const struct msi_settings *settings;
    const struct msi_wait *wait;
    const char *prefix;
    char host_name[MSI_HOST_MAX], address[64];
    struct msi_topology topology;
    bool told; /* the failure is one that others have told of */
    char segment_key[MSI_KEY_MAX];
};

static struct msi_str reply_str(const struct msi_exchange *x) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    return msi_read_str(&r);
}

/* Opening the k-th time means that this rank has left the world before: else somebody else has this rank now.
 */
static mst_status check_not_taken(struct join *join, int64_t k) {
    char prefix[MSI_PREFIX_MAX], who[MSI_WHO_MAX], open[MSI_KEY_MAX];
    snprintf(prefix, sizeof prefix, "muster/%s/%lld/", join->place->run, (long long)k - 1);
    struct msi_buf events = {0};
    mst_status st = msi_events_read(join->store, join->wait, prefix, &events);
    bool gone = st == MST_OK && msi_events_mention(msi_buf_str(&events), join->place->rank);
    msi_buf_free(&events);
    if (st != MST_OK || gone) return st;
    struct msi_exchange x = {
        .req = {.op = MSI_OP_ADD,
                .key = msi_key(open, "muster/%s/open/%d", join->place->run, join->place->rank),
                .number = -1}};
    msi_store_exec(join->store, join->wait, &x, 1);
    msi_exchange_free(&x, 1);
    msi_join_who(join->store, prefix, join->place->rank, who, sizeof who);
    st = msi_fail(MST_ERR_DUPLICATE_RANK, "give every process a rank of its own",
                  "two processes claim rank %d: %s and host %s, pid %d", join->place->rank,
                  *who ? who : "one that is joining", join->host_name, (int)getpid());
    msi_blame(st, join->place->rank);
    if (!msi_join_is_formed(join->store, prefix, join->place->world_size))
        msi_join_post(join->store, prefix, join->place->rank, 'F', false);
    return st;
}

/* Learns which world this is. */
static mst_status find_world(struct join *join, char prefix[MSI_PREFIX_MAX]) {
    char open[MSI_KEY_MAX];
    struct msi_exchange x = {
        .req = {.op = MSI_OP_ADD,
                .key = msi_key(open, "muster/%s/open/%d", join->place->run, join->place->rank),
                .number = 1}};
    mst_status st = msi_store_exec(join->store, join->wait, &x, 1);
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    int64_t k = (int64_t)msi_read_u64(&r);
    msi_exchange_free(&x, 1);
    if (st == MST_OK && k > 1) st = check_not_taken(join, k);
    if (st == MST_OK) snprintf(prefix, MSI_PREFIX_MAX, "muster/%s/%lld/", join->place->run, (long long)k);
    return st;
}

/* What the first rank to come said of the world must be what this rank thinks. */
static mst_status compare_params(const struct join *join, struct msi_str said) {
    int size, protocol, rank;
    char text[64], version[24];
    snprintf(text, sizeof text, "%.*s", MSI_SHOW(said));
    if (sscanf(text, "%d %d %23s %d", &size, &protocol, version, &rank) != 4)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where the world's size should be",
                        MSI_SHOW(said));
    mst_status st = MST_OK;
    if (protocol != WORLD_PROTOCOL)
        st = msi_fail(MST_ERR_VERSION, "run one version of muster in all ranks",
                      "rank %d runs muster %s, rank %d runs %s", join->place->rank, mst_version(), rank,
                      version);
    else if (size != join->place->world_size)
        st = msi_fail(MST_ERR_WORLD_SIZE, "start all ranks with the same world size",
                      "rank %d thinks the world has %d ranks, rank %d thinks %d", join->place->rank,
                      join->place->world_size, rank, size);
    return st == MST_OK ? st : msi_blame(st, rank);
}

/* Leaves a will, compares the world's parameters, and finds the ranks of this host. */
static mst_status introduce(struct join *join) {
    char who[MSI_WHO_MAX], params[64], will[32], offer[MSI_OFFER_MAX], host[MSI_HOST_KEY_MAX];
    char keys[3][MSI_KEY_MAX];
    int rank = join->place->rank;
    snprintf(who, sizeof who, "host %s, pid %d", join->host_name, (int)getpid());
    snprintf(params, sizeof params, "%d %d %s %d", join->place->world_size, WORLD_PROTOCOL, mst_version(),
             rank);
    snprintf(will, sizeof will, "D %d\n", rank);
    mst_status st = msi_topology_offer(&join->topology, offer);
    if (st != MST_OK) return st;
    struct msi_str events = msi_key(keys[1], "%sevents", join->prefix);
    struct msi_str segment = msi_key(join->segment_key, "%sseg/%s/%s", join->prefix, msi_host_key(host),
                                     join->settings->force_host);
    struct msi_exchange x[] = {
        {.req = {.op = MSI_OP_SET,
                 .key = msi_key(keys[0], "%swho/%d", join->prefix, rank),
                 .value = msi_cstr(who)}},
        {.req = {.op = MSI_OP_COMPARE_SET, .key = events}},
        {.req = {.op = MSI_OP_WILL, .key = events, .value = msi_cstr(will)}},
        {.req = {.op = MSI_OP_COMPARE_SET,
                 .key = msi_key(keys[2], "%sparams", join->prefix),
                 .desired = msi_cstr(params)}},
        {.req = {.op = MSI_OP_COMPARE_SET, .key = segment, .desired = msi_cstr(offer)}},
    };
    enum { N = sizeof x / sizeof *x };
    st = msi_store_exec(join->store, join->wait, x, N);
    if (st == MST_OK) {
        st = msi_events_explain(join->store, join->prefix, reply_str(&x[1]), rank);
        join->told = st != MST_OK;
    }
    if (st == MST_OK) st = compare_params(join, reply_str(&x[3]));
    if (st == MST_OK) msi_topology_accept(&join->topology, reply_str(&x[4]));
    msi_exchange_free(x, N);
    return st;
}

/* A place is a host, as seen from one network: what it is called and where it is reached. */
static uint64_t place_of(const struct join *join) {
    static const uint64_t seed[2] = {0x6d7573746572, 1};
    char text[MSI_HOST_MAX + 128];
    int n = snprintf(text, sizeof text, "%llx %s %s", (unsigned long long)join->topology.host,
                     join->host_name, join->address);
    uint64_t place = msi_hash(text, (size_t)n, seed);
    return place ? place : 1;
}

/* Adds this rank to the roster and waits until everybody is on it. */
static mst_status arrive(struct join *join) {
    char keys[4][MSI_KEY_MAX];
    struct msi_roster_entry me = {(uint32_t)join->place->rank, (uint32_t)getpid(), place_of(join)};
    struct msi_place_entry place = {me.place, join->topology.host, msi_cstr(join->host_name),
                                    msi_cstr(join->address)};
    struct msi_buf entry = {0}, place_entry = {0};
    msi_roster_write(&entry, &me);
    if (msi_topology_publishes(&join->topology, me.place)) msi_place_write(&place_entry, &place);
    struct msi_exchange x[] = {
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[0], "%splaces", join->prefix),
                 .value = msi_buf_str(&place_entry)}},
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[1], "%sroster", join->prefix),
                 .value = msi_buf_str(&entry)}},
        {.req = {.op = MSI_OP_GUARD, .key = msi_key(keys[2], "%sevents", join->prefix)}},
        {.req = {.op = MSI_OP_BARRIER,
                 .key = msi_key(keys[3], "%sall", join->prefix),
                 .number = join->place->world_size}},
    };
    enum { N = sizeof x / sizeof *x };
    mst_status st = entry.failed || place_entry.failed ? msi_fail_memory()
                                                       : msi_store_exec(join->store, join->wait, x, N);
    msi_exchange_free(x, N);
    msi_buf_free(&entry);
    msi_buf_free(&place_entry);
    join->told = st == MST_ERR_PEER_LOST;
    if (join->told) st = msi_join_explain_loss(join->store, join->prefix, join->place->rank);
    if (!join->told && st == MST_ERR_TIMEOUT)
        st = msi_join_explain_missing(join->store, join->prefix, join->place);
    return st;
}

static mst_status read_roster(struct join *join, struct msi_roster *roster) {
    char keys[2][MSI_KEY_MAX];
    struct msi_str names[2] = {msi_key(keys[0], "%sroster", join->prefix),
                               msi_key(keys[1], "%splaces", join->prefix)};
    struct msi_exchange x[] = {
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(join->segment_key)}},
        {.req = {.op = MSI_OP_WAIT_GET, .n = 2, .keys = names}},
    };
    /* Everybody has mapped what they could: whoever offered the host's segment takes the offer back. */
    int skip = join->topology.mine.base ? 0 : 1;
    mst_status st = msi_store_exec(join->store, join->wait, x + skip, (size_t)(2 - skip));
    struct msi_reader r = msi_reader(x[1].reply.data, x[1].reply.len);
    struct msi_str entries = msi_read_str(&r), places = msi_read_str(&r);
    if (st == MST_OK) st = msi_roster_build(entries, places, join->place->world_size, roster);
    msi_exchange_free(x, 2);
    return st;
}

static mst_status run(struct join *join, char prefix[MSI_PREFIX_MAX], struct msi_roster *roster) {
    const char *why;
    bool tcp = join->place->url.scheme == MSI_SCHEME_TCP;
    msi_host_name(join->host_name);
    mst_status st = msi_netif_choose(join->settings->advertise_addr, join->settings->socket_ifname,
                                     tcp ? &join->place->url.address : NULL, join->address, &why);
    if (st == MST_OK) st = find_world(join, prefix);
    if (st != MST_OK) return st;
    msi_log(bootstrap, DEBUG, "joining %s as %d of %d; others reach this host at %s (%s)", prefix,
            join->place->rank, join->place->world_size, join->address, why);
    join->prefix = prefix;
    st = introduce(join);
    if (st == MST_OK) st = arrive(join);
    if (st == MST_OK) st = read_roster(join, roster);
    if (st != MST_OK && st != MST_ERR_STORE_LOST)
        msi_join_post(join->store, prefix, join->place->rank, join->told ? 'L' : 'F', true);
    return st;
}

mst_status msi_join(struct mst_store *store, const struct msi_place *place,
                    const struct msi_settings *settings, const struct msi_wait *wait,
                    char prefix[MSI_PREFIX_MAX], struct msi_roster *roster) {
    struct join join = {.store = store, .place = place, .settings = settings, .wait = wait};
    join.topology = (struct msi_topology){.mine = {.fd = -1}, .shared = {.fd = -1}};
    mst_status st = run(&join, prefix, roster);
    msi_topology_close(&join.topology);
    return st;
}

void msi_leave(struct mst_store *store, const char *prefix, int rank) {
    char key[MSI_KEY_MAX], line[32];
    snprintf(line, sizeof line, "L %d\n", rank);
    struct msi_wait wait = {msi_deadline(MSI_LAST_WORDS_MS), NULL};
    struct msi_exchange x[] = {
        {.req = {.op = MSI_OP_APPEND, .key = msi_key(key, "%sevents", prefix), .value = msi_cstr(line)}},
        {.req = {.op = MSI_OP_WILL}},
    };
    msi_store_exec(store, &wait, x, 2);
    msi_exchange_free(x, 2);
}
