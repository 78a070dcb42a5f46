/* join.c - joining a world through a store. See join.h. */
#include "bootstrap/join.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "bootstrap/report.h"
#include "bootstrap/topology.h"
#include "os/clock.h"
#include "os/host.h"
#include "wire/cursor.h"

#include <muster/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Of the keys and records that ranks of one world share; another version refuses to join. */
enum { WORLD_PROTOCOL = 1 };
enum { PARAMS_MAX = 160 };

struct join {
    struct mst_store *store;
    const struct msi_place *place;
    const struct msi_settings *settings;
    const struct msi_wait *wait;
    const char *prefix;
    char host_name[MSI_HOST_MAX], address[64];
    struct msi_topology topology;
    bool told;    /* the failure is one that others have told of */
    bool claimed; /* this rank of the world under prefix is ours */
    char segment_key[MSI_KEY_MAX], offer[MSI_OFFER_MAX], params[PARAMS_MAX];
};

static struct msi_str reply_str(const struct msi_store_rpc *x) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    return msi_read_str(&r);
}

static int64_t reply_number(const struct msi_store_rpc *x) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    return (int64_t)msi_read_u64(&r);
}

/* What the first rank to come said of the world must be what this rank thinks. */
static mst_status compare_params(const struct join *join, struct msi_str said) {
    int size, protocol, rank;
    char text[PARAMS_MAX], version[24], backend[96] = "";
    snprintf(text, sizeof text, "%.*s", (int)(said.n < sizeof text ? said.n : sizeof text), said.p);
    if (sscanf(text, "%d %d %23s %d %95s", &size, &protocol, version, &rank, backend) < 4)
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
    else if (strcmp(backend, join->place->backend) != 0)
        st =
            msi_fail(MST_ERR_MISMATCH, MSI_SAME_BACKEND, "rank %d chose backend '%s', but rank %d chose '%s'",
                     join->place->rank, join->place->backend, rank, backend);
    return st == MST_OK ? st : msi_blame(st, rank);
}

/* How many worlds of this run are over. */
static mst_status read_ended(const struct join *join, int64_t *ended) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_ADD, .key = msi_key(key, "muster/%s/ended", join->place->run)}};
    mst_status st = msi_store_exec(join->store, join->wait, &x, 1);
    if (st == MST_OK) *ended = reply_number(&x);
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Takes the claim to a world back that turned out to be another job's. all: it was over, nothing of it shall stay. */
static void unclaim(const struct join *join, bool all) {
    char keys[4][MSI_KEY_MAX];
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_DELETE_KEY,
                 .key = msi_key(keys[0], "%swho/%d", join->prefix, join->place->rank)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(join->segment_key)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(keys[1], "%sparams", join->prefix)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(keys[2], "%scome", join->prefix)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(keys[3], "%sevents", join->prefix)}},
    };
    msi_store_exec(join->store, join->wait, x, all ? 5 : 1);
    msi_store_rpc_free(x, 5);
}

static mst_status say_taken(const struct join *join, bool formed) {
    char who[MSI_WHO_MAX];
    msi_join_who(join->store, join->prefix, join->place->rank, who, sizeof who);
    mst_status st = msi_fail(MST_ERR_DUPLICATE_RANK, "give every process a rank of its own",
                             "two processes claim rank %d: %s and host %s, pid %d", join->place->rank,
                             *who ? who : "another", join->host_name, (int)getpid());
    msi_blame(st, join->place->rank);
    if (!formed)
        msi_join_post(join->store, join->prefix, join->place->rank, 'F', false); /* the others wait in vain */
    return st;
}

enum claim { CLAIMED, NEXT_WORLD, WORLD_ENDED, REFUSED };

/* What came of the attempt to be this rank of that world. */
static enum claim judge(struct join *join, struct msi_store_rpc *x, const char *own, int64_t k,
                        mst_status *st) {
    struct msi_str who = reply_str(&x[0]), params = reply_str(&x[1]),
                   events = msi_value_or_none(reply_str(&x[2]));
    bool mine = msi_str_equal(who, msi_cstr(own));
    bool formed = reply_number(&x[3]) >= msi_params_size(params);
    if (reply_number(&x[4]) + 1 > k) {
        /* The last rank of that world has ended it while we looked; our claim came before or behind its cleaning. */
        if (mine) unclaim(join, msi_str_equal(params, msi_cstr(join->params)));
        return WORLD_ENDED;
    }
    if (!mine && msi_events_mention(events, join->place->rank)) return NEXT_WORLD;
    if (!mine) {
        *st = say_taken(join, formed);
        return REFUSED;
    }
    if (formed) {
        /* A world of another size that has formed: over if all its ranks are gone, else somebody is mistaken. */
        unclaim(join, false);
        if (msi_events_all(events, msi_params_size(params))) return NEXT_WORLD;
        *st = compare_params(join, params);
        return *st == MST_OK ? NEXT_WORLD : REFUSED;
    }
    *st = msi_events_explain(join->store, join->prefix, events, join->place->rank);
    join->told = *st != MST_OK;
    if (*st == MST_OK) *st = compare_params(join, params);
    if (*st == MST_OK) msi_topology_accept(&join->topology, reply_str(&x[5]));
    return CLAIMED;
}

/* Tries to be this rank of the k-th world; reading how many are over comes behind the claim, on purpose. */
static enum claim try_claim(struct join *join, const char *own, int64_t k, mst_status *st) {
    char keys[5][MSI_KEY_MAX], host[MSI_HOST_KEY_MAX];
    struct msi_str segment = msi_key(join->segment_key, "%sseg/%s/%s", join->prefix, msi_host_key(host),
                                     join->settings->force_host);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_COMPARE_SET,
                 .key = msi_key(keys[0], "%swho/%d", join->prefix, join->place->rank),
                 .desired = msi_cstr(own)}},
        {.req = {.op = MSI_OP_COMPARE_SET,
                 .key = msi_key(keys[1], "%sparams", join->prefix),
                 .desired = msi_cstr(join->params)}},
        {.req = msi_read_request(msi_key(keys[2], "%sevents", join->prefix))},
        {.req = {.op = MSI_OP_ADD, .key = msi_key(keys[3], "%scome", join->prefix)}},
        {.req = {.op = MSI_OP_ADD, .key = msi_key(keys[4], "muster/%s/ended", join->place->run)}},
        {.req = {.op = MSI_OP_COMPARE_SET, .key = segment, .desired = msi_cstr(join->offer)}},
    };
    enum { N = sizeof x / sizeof *x };
    enum claim outcome = REFUSED;
    *st = msi_store_exec(join->store, join->wait, x, N);
    if (*st == MST_OK) outcome = judge(join, x, own, k, st);
    msi_store_rpc_free(x, N);
    return outcome;
}

/* Finds the world that is forming now, and claims this rank of it. */
static mst_status find_world(struct join *join, char prefix[MSI_PREFIX_MAX]) {
    char own[MSI_WHO_MAX];
    uint64_t nonce;
    msi_random(&nonce, sizeof nonce);
    snprintf(own, sizeof own, "%016llx host %s, pid %d", (unsigned long long)nonce, join->host_name,
             (int)getpid());
    snprintf(join->params, sizeof join->params, "%d %d %s %d %s", join->place->world_size, WORLD_PROTOCOL,
             mst_version(), join->place->rank, join->place->backend);
    mst_status st = msi_topology_offer(&join->topology, join->offer);
    int64_t k = 0;
    if (st == MST_OK) st = read_ended(join, &k);
    for (k++; st == MST_OK;) {
        snprintf(prefix, MSI_PREFIX_MAX, "muster/%s/%lld/", join->place->run, (long long)k);
        enum claim outcome = try_claim(join, own, k, &st);
        join->claimed = outcome == CLAIMED;
        if (outcome == CLAIMED || outcome == REFUSED) break;
        if (outcome == NEXT_WORLD) k++;
        if (outcome == WORLD_ENDED) {
            st = read_ended(join, &k);
            k++;
        }
    }
    return st;
}

/* Leaves the will: should this rank die from now on, the others are told. */
static mst_status leave_will(struct join *join) {
    char key[MSI_KEY_MAX], will[32];
    snprintf(will, sizeof will, "D %d\n", join->place->rank);
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_WILL, .key = msi_key(key, "%sevents", join->prefix), .value = msi_cstr(will)}};
    mst_status st = msi_store_exec(join->store, join->wait, &x, 1);
    msi_store_rpc_free(&x, 1);
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

/* Adds this rank to the members and waits until everybody is on it. */
static mst_status arrive(struct join *join) {
    char keys[6][MSI_KEY_MAX];
    struct msi_member_entry me = {(uint32_t)join->place->rank, (uint32_t)getpid(), place_of(join)};
    struct msi_place_entry place = {me.place, join->topology.host, msi_cstr(join->host_name),
                                    msi_cstr(join->address)};
    struct msi_buf entry = {0}, place_entry = {0};
    char zero[96];
    snprintf(zero, sizeof zero, "%lld %lld 0", (long long)msi_now(), (long long)msi_calendar());
    /* Rank 0, if it is not traced, tells those who are when that was with what it has to send anyway; else group/prof.c does. */
    int skip = join->place->rank == 0 && !join->settings->trace[0] ? 0 : 1;
    msi_members_write(&entry, &me);
    if (msi_topology_publishes(&join->topology, me.place)) msi_place_write(&place_entry, &place);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_SET,
                 .key = msi_key(keys[5], "%sprof/zero", join->prefix),
                 .value = msi_cstr(zero)}},
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[0], "%splaces", join->prefix),
                 .value = msi_buf_str(&place_entry)}},
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[1], "%sroster", join->prefix),
                 .value = msi_buf_str(&entry)}},
        {.req = {.op = MSI_OP_ADD, .key = msi_key(keys[4], "%scome", join->prefix), .number = 1}},
        {.req = {.op = MSI_OP_GUARD, .key = msi_key(keys[2], "%sevents", join->prefix)}},
        {.req = {.op = MSI_OP_BARRIER,
                 .key = msi_key(keys[3], "%sall", join->prefix),
                 .number = join->place->world_size}},
    };
    enum { N = sizeof x / sizeof *x };
    mst_status st = entry.failed || place_entry.failed
                        ? msi_fail_memory()
                        : msi_store_exec(join->store, join->wait, x + skip, (size_t)(N - skip));
    msi_store_rpc_free(x, N);
    msi_buf_free(&entry);
    msi_buf_free(&place_entry);
    join->told = st == MST_ERR_PEER_LOST;
    if (join->told) st = msi_join_explain_loss(join->store, join->prefix, join->place->rank);
    if (!join->told && st == MST_ERR_TIMEOUT)
        st = msi_join_explain_missing(join->store, join->prefix, join->place);
    return st;
}

static mst_status read_members(struct join *join, struct msi_members *members) {
    char keys[2][MSI_KEY_MAX];
    struct msi_str names[2] = {msi_key(keys[0], "%sroster", join->prefix),
                               msi_key(keys[1], "%splaces", join->prefix)};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(join->segment_key)}},
        {.req = {.op = MSI_OP_WAIT_GET, .n = 2, .keys = names}},
    };
    /* Everybody has mapped what they could: whoever offered the host's segment takes the offer back. */
    int skip = join->topology.mine.base ? 0 : 1;
    mst_status st = msi_store_exec(join->store, join->wait, x + skip, (size_t)(2 - skip));
    struct msi_reader r = msi_reader(x[1].reply.data, x[1].reply.len);
    struct msi_str entries = msi_read_str(&r), places = msi_read_str(&r);
    if (st == MST_OK) st = msi_members_build(entries, places, join->place->world_size, members);
    msi_store_rpc_free(x, 2);
    return st;
}

static mst_status run(struct join *join, char prefix[MSI_PREFIX_MAX], struct msi_members *members) {
    const char *why;
    bool tcp = join->place->url.scheme == MSI_SCHEME_TCP;
    msi_host_name(join->host_name);
    join->prefix = prefix;
    mst_status st = find_world(join, prefix);
    if (st == MST_OK) st = leave_will(join);
    if (st == MST_OK)
        st = msi_netif_choose(join->settings->advertise_addr, join->settings->socket_ifname,
                              tcp ? &join->place->url.address : NULL, join->address, &why);
    if (st == MST_OK) {
        msi_log(bootstrap, DEBUG, "joining %s as %d of %d; others reach this host at %s (%s)", prefix,
                join->place->rank, join->place->world_size, join->address, why);
        st = arrive(join);
    }
    if (st == MST_OK) st = read_members(join, members);
    bool store_gone = st == MST_ERR_STORE_LOST || st == MST_ERR_STORE_ENDED; /* the next there is another's */
    if (st != MST_OK && !store_gone && join->claimed)
        msi_join_post(join->store, prefix, join->place->rank, join->told ? 'L' : 'F', true);
    return st;
}

mst_status msi_join(struct mst_store *store, const struct msi_place *place,
                    const struct msi_settings *settings, const struct msi_wait *wait,
                    char prefix[MSI_PREFIX_MAX], struct msi_members *members) {
    struct join join = {.store = store, .place = place, .settings = settings, .wait = wait};
    join.topology = (struct msi_topology){.mine = {.fd = -1}, .shared = {.fd = -1}};
    mst_status st = run(&join, prefix, members);
    msi_topology_close(&join.topology);
    return st;
}
