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
#include <unistd.h>

/* Version of the keys and records that ranks share; ranks with another version do not join. */
enum { WORLD_PROTOCOL = 1, PARAMS_MAX = 160 };

/* Between looks for dead ranks; the store serves the looks of all ranks. */
enum { CHECK_MS = 100, LOOK_MS = 1000, LOOK_MS_PER_RANK = 4 };

struct join {
    struct mst_store *store;
    const struct msi_join_spec *spec;
    const struct msi_settings *settings;
    const struct msi_wait *wait;
    const char *prefix;
    char host_name[MSI_HOST_MAX], address[64];
    struct msi_topology topology;
    bool reported;   /* another rank has reported the failure */
    bool checked;    /* spec->check has failed */
    bool registered; /* this process is the rank of the world under prefix */
    char segment_key[MSI_KEY_MAX], offer[MSI_OFFER_MAX], params[PARAMS_MAX];
};

/* Compares the parameters of the first rank with this rank's. */
static mst_status compare_params(const struct join *join, struct msi_str params) {
    int size, protocol, rank;
    char text[PARAMS_MAX], version[24], backend[96] = "";
    if (sscanf(msi_str_copy(params, text, sizeof text), "%d %d %23s %d %95s", &size, &protocol, version,
               &rank, backend) < 4)
        return msi_fail(MST_ERR_PROTOCOL, NULL, "the store holds '%.*s' where the world's size should be",
                        MSI_SHOW(params));
    mst_status st = MST_OK;
    if (protocol != WORLD_PROTOCOL)
        st = msi_fail(MST_ERR_VERSION, "run one version of muster in all ranks",
                      "rank %d runs muster %s, rank %d runs %s", join->spec->rank, mst_version(), rank,
                      version);
    else if (size != join->spec->world_size)
        st = msi_fail(MST_ERR_WORLD_SIZE, "start all ranks with the same world size",
                      "rank %d expects a world of %d ranks, rank %d expects %d", join->spec->rank,
                      join->spec->world_size, rank, size);
    else if (strcmp(backend, join->spec->backend) != 0)
        st =
            msi_fail(MST_ERR_MISMATCH, MSI_SAME_BACKEND, "rank %d chose backend '%s', but rank %d chose '%s'",
                     join->spec->rank, join->spec->backend, rank, backend);
    return st == MST_OK ? st : msi_blame(st, rank);
}

/* The number of worlds of this run that have ended. */
static mst_status read_ended(const struct join *join, int64_t *ended) {
    char key[MSI_KEY_MAX];
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_ADD, .key = msi_key(key, "muster/%s/ended", join->spec->run)}};
    mst_status st = msi_store_exec(join->store, join->wait, &x, 1);
    if (st == MST_OK) *ended = msi_store_reply_number(&x);
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Deletes this rank's registration. all: the world has ended, so delete all keys that this rank has set. */
static void unregister(const struct join *join, bool all) {
    char keys[4][MSI_KEY_MAX];
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_DELETE_KEY,
                 .key = msi_key(keys[0], "%srank/%d", join->prefix, join->spec->rank)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(keys[1], "%sparams", join->prefix)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(keys[2], "%sarrived", join->prefix)}},
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_key(keys[3], "%sevents", join->prefix)}},
    };
    msi_store_exec(join->store, join->wait, x, all ? 4 : 1);
    msi_store_rpc_free(x, 4);
}

/* This rank joins another world. No rank of this one needs the offer. */
static void delete_offer(const struct join *join) {
    struct msi_store_rpc x = {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(join->segment_key)}};
    msi_store_exec(join->store, join->wait, &x, 1);
    msi_store_rpc_free(&x, 1);
}

static mst_status fail_duplicate(const struct join *join, bool formed) {
    char other[MSI_PROCESS_MAX];
    msi_join_process(join->store, join->prefix, join->spec->rank, other, sizeof other);
    mst_status st = msi_fail(MST_ERR_DUPLICATE_RANK, "give every process a rank of its own",
                             "two processes have rank %d: %s and host %s, pid %d", join->spec->rank,
                             *other ? other : "another", join->host_name, (int)getpid());
    msi_blame(st, join->spec->rank);
    if (!formed) msi_join_post(join->store, join->prefix, join->spec->rank, 'F', false);
    return st;
}

/* OTHER_WORLD: try again with the world *k. */
enum outcome { REGISTERED, OTHER_WORLD, REFUSED };

/* Evaluates the replies to try_register. */
static enum outcome check_registration(struct join *join, struct msi_store_rpc *x, const char *own,
                                       int64_t *k, mst_status *st) {
    struct msi_str owner = msi_store_reply_str(&x[0]), params = msi_store_reply_str(&x[1]),
                   events = msi_store_reply_value(&x[2]);
    bool mine = msi_str_equal(owner, msi_cstr(own));
    bool formed = msi_store_reply_number(&x[3]) >= msi_params_size(params);
    int64_t next = msi_store_reply_number(&x[4]) + 1;
    bool ended = next > *k;
    bool failed = msi_events_mention(events, join->spec->rank);
    *k = ended ? next : *k + 1;
    if (ended) {
        /* The last rank has ended that world meanwhile, and may have deleted this registration. */
        if (mine) unregister(join, msi_str_equal(params, msi_cstr(join->params)));
        return OTHER_WORLD;
    }
    /* Its own, if this rank lost its connections in that world and has connected again. */
    if (failed) return OTHER_WORLD;
    if (!mine) {
        *st = fail_duplicate(join, formed);
        return REFUSED;
    }
    if (formed) {
        /* A world of another size has formed. Unless all its ranks have left, the sizes differ. */
        unregister(join, false);
        if (msi_events_all(events, msi_params_size(params))) return OTHER_WORLD;
        *st = compare_params(join, params);
        return *st == MST_OK ? OTHER_WORLD : REFUSED;
    }
    *st = msi_events_explain(join->store, join->prefix, events, join->spec->rank);
    join->reported = *st != MST_OK;
    if (*st == MST_OK) *st = compare_params(join, params);
    if (*st == MST_OK && join->topology.mine.base)
        *st = msi_topology_accept(&join->topology, msi_store_reply_str(&x[5]));
    return REGISTERED;
}

/* Registers as a rank of the k-th world. The request for "ended" must follow the registration. */
static enum outcome try_register(struct join *join, const char *own, int64_t *k, mst_status *st) {
    char keys[6][MSI_KEY_MAX], host[MSI_HOST_KEY_MAX];
    struct msi_str segment = msi_key(join->segment_key, "%sseg/%s/%s", join->prefix, msi_host_key(host),
                                     join->settings->force_host);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_COMPARE_SET,
                 .key = msi_key(keys[0], "%srank/%d", join->prefix, join->spec->rank),
                 .desired = msi_cstr(own)}},
        {.req = {.op = MSI_OP_COMPARE_SET,
                 .key = msi_key(keys[1], "%sparams", join->prefix),
                 .desired = msi_cstr(join->params)}},
        {.req = msi_read_request(msi_key(keys[2], "%sevents", join->prefix))},
        {.req = {.op = MSI_OP_ADD, .key = msi_key(keys[3], "%sarrived", join->prefix)}},
        {.req = {.op = MSI_OP_ADD, .key = msi_key(keys[4], "muster/%s/ended", join->spec->run)}},
        {.req = {.op = MSI_OP_COMPARE_SET, .key = segment, .desired = msi_cstr(join->offer)}},
        {.req = msi_read_request(msi_key(keys[5], "%srank/0", join->prefix))},
    };
    enum { N = sizeof x / sizeof *x };
    enum outcome outcome = REFUSED;
    *st = msi_store_exec(join->store, join->wait, x, N);
    if (*st == MST_OK) {
        msi_process_of(msi_store_reply_value(&x[6]), join->spec->rank_0, MSI_PROCESS_MAX);
        outcome = check_registration(join, x, own, k, st);
        bool mine = msi_str_equal(msi_store_reply_str(&x[5]), msi_cstr(join->offer));
        if (outcome == OTHER_WORLD && mine) delete_offer(join);
    }
    msi_store_rpc_free(x, N);
    return outcome;
}

/* Finds the world that is forming now and registers in it. */
static mst_status find_world(struct join *join, char prefix[MSI_PREFIX_MAX]) {
    char own[MSI_PROCESS_MAX];
    struct msi_saved_error why;
    snprintf(own, sizeof own, "%08x%08x host %s, pid %d", join->spec->nonce, msi_join_host_mark(),
             join->host_name, (int)getpid());
    snprintf(join->params, sizeof join->params, "%d %d %s %d %s", join->spec->world_size, WORLD_PROTOCOL,
             mst_version(), join->spec->rank, join->spec->backend);
    /* Without a segment this rank registers too, to tell the others why it fails. */
    mst_status offered = msi_topology_offer(&join->topology, join->offer);
    msi_error_save(&why, offered);
    int64_t k = 0;
    mst_status st = read_ended(join, &k);
    enum outcome outcome = OTHER_WORLD;
    for (k++; st == MST_OK && outcome == OTHER_WORLD;) {
        snprintf(prefix, MSI_PREFIX_MAX, "muster/%s/%lld/", join->spec->run, (long long)k);
        outcome = try_register(join, own, &k, &st);
    }
    join->registered = outcome == REGISTERED;
    return st == MST_OK && offered != MST_OK ? msi_error_restore(&why) : st;
}

/* The store refused a second connection of this rank. Does it still answer the first? Then its host lacks
 * descriptors. */
static mst_status explain_refusal(struct join *join, mst_status lost) {
    int64_t ended;
    struct msi_saved_error why;
    msi_error_save(&why, lost);
    if (read_ended(join, &ended) != MST_OK) return msi_error_restore(&why);
    return msi_fail(
        MST_ERR_SYSTEM, "raise the limit of open files (ulimit -n) of the process that hosts the store",
        "the store refused a second connection of rank %d: the process that hosts it has no descriptor "
        "left (RLIMIT_NOFILE)",
        join->spec->rank);
}

/* From here on the store reports the death of this rank to the others. */
static mst_status set_on_disconnect(struct join *join) {
    char key[MSI_KEY_MAX], event[32], silent[32];
    snprintf(event, sizeof event, "D %d\n", join->spec->rank);
    snprintf(silent, sizeof silent, "D %d " MSI_EVENT_SILENT "\n", join->spec->rank);
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT,
                                      .key = msi_key(key, "%sevents", join->prefix),
                                      .value = msi_cstr(event),
                                      .desired = msi_cstr(silent)}};
    mst_status st = msi_store_exec(join->store, join->wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return st == MST_ERR_STORE_LOST || st == MST_ERR_LIMIT ? explain_refusal(join, st) : st;
}

/* A location is a host and the name and address under which other hosts reach it. */
static uint64_t location_of(const struct join *join) {
    static const uint64_t seed[2] = {0x6d7573746572, 1};
    char text[MSI_HOST_MAX + 128];
    int n = snprintf(text, sizeof text, "%llx %s %s", (unsigned long long)join->topology.host,
                     join->host_name, join->address);
    uint64_t location = msi_hash(text, (size_t)n, seed);
    return location ? location : 1;
}

/* Executes requests until they end or it is time to look around. */
static mst_status wait_a_while(const struct join *join, const struct msi_slow *slow, struct msi_store_rpc *x,
                               size_t n) {
    struct msi_wait part = msi_slow_part(slow, join->wait);
    int look_ms = join->spec->check ? CHECK_MS : LOOK_MS + LOOK_MS_PER_RANK * join->spec->world_size;
    int64_t look = msi_deadline(look_ms);
    if (look < part.deadline) part.deadline = look;
    return msi_store_exec(join->store, &part, x, n);
}

/* Runs the requests of arrive, of which the last two wait. Looks for dead ranks now and then, and writes a
 * line if that takes long. */
static mst_status wait_for_all(struct join *join, struct msi_store_rpc *x, size_t n) {
    struct msi_slow slow = msi_slow_begin(join->settings->slow_s, msi_now());
    int next = 0;
    mst_status st = wait_a_while(join, &slow, x, n);
    while (st == MST_ERR_TIMEOUT && msi_now() < join->wait->deadline) {
        if (msi_slow_is_due(&slow, join->wait->deadline))
            msi_join_write_slow(join->store, join->prefix, join->spec, &slow, join->wait->deadline);
        if (msi_now() >= slow.due) slow.due = INT64_MAX; /* there was nothing to write */
        st = join->spec->check ? join->spec->check(join->spec->check_context) : MST_OK;
        join->checked = st != MST_OK;
        if (st != MST_OK) return st;
        msi_join_report_dead(join->store, join->prefix, join->spec, &next);
        if (!*join->spec->rank_0) /* it hosts the store, and may have registered after this rank */
            msi_join_process(join->store, join->prefix, 0, join->spec->rank_0, MSI_PROCESS_MAX);
        struct msi_store_rpc again[] = {{.req = x[n - 2].req}, {.req = x[n - 1].req}};
        again[1].req.number = -again[1].req.number; /* this rank was counted */
        st = wait_a_while(join, &slow, again, 2);
        /* The host of the store does not answer: a longer attempt finds out whether it is lost. */
        if (st == MST_ERR_UNREACHABLE) st = msi_store_exec(join->store, join->wait, again, 2);
        msi_store_rpc_free(again, 2);
    }
    return st;
}

/* A rank is lost. If all ranks had arrived before, the world has formed: its first call reports the loss. */
static mst_status explain_loss(struct join *join) {
    char key[MSI_KEY_MAX];
    struct msi_wait wait = {msi_deadline(MSI_REPORT_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ADD, .key = msi_key(key, "%sarrived", join->prefix)}};
    mst_status st = msi_store_exec(join->store, &wait, &x, 1);
    bool formed = st == MST_OK && msi_store_reply_number(&x) >= join->spec->world_size;
    msi_store_rpc_free(&x, 1);
    return formed ? MST_OK : msi_join_explain_loss(join->store, join->prefix, join->spec->rank);
}

/* Adds this rank to the members and waits until all ranks have arrived. */
static mst_status arrive(struct join *join) {
    char keys[6][MSI_KEY_MAX];
    struct msi_member_entry me = {(uint32_t)join->spec->rank, (uint32_t)getpid(), location_of(join)};
    struct msi_location_entry location = {me.location, join->topology.host, msi_cstr(join->host_name),
                                          msi_cstr(join->address)};
    struct msi_buf entry = {0}, location_entry = {0};
    char zero[96];
    snprintf(zero, sizeof zero, "%lld %lld 0", (long long)msi_now(), (long long)msi_calendar());
    /* Without profiling rank 0 publishes the time here to save a round trip; else group/prof.c does. */
    bool profiles = join->settings->trace[0] || join->settings->prof;
    int skip = join->spec->rank == 0 && !profiles ? 0 : 1;
    msi_members_write(&entry, &me);
    if (msi_topology_publishes(&join->topology, me.location)) msi_location_write(&location_entry, &location);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_SET,
                 .key = msi_key(keys[5], "%sprof/zero", join->prefix),
                 .value = msi_cstr(zero)}},
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[0], "%slocations", join->prefix),
                 .value = msi_buf_str(&location_entry)}},
        {.req = {.op = MSI_OP_APPEND,
                 .key = msi_key(keys[1], "%smembers", join->prefix),
                 .value = msi_buf_str(&entry)}},
        {.req = {.op = MSI_OP_ADD, .key = msi_key(keys[4], "%sarrived", join->prefix), .number = 1}},
        {.req = {.op = MSI_OP_GUARD, .key = msi_key(keys[2], "%sevents", join->prefix)}},
        {.req = {.op = MSI_OP_BARRIER,
                 .key = msi_key(keys[3], "%sall", join->prefix),
                 .number = join->spec->world_size}},
    };
    enum { N = sizeof x / sizeof *x };
    mst_status st = entry.failed || location_entry.failed ? msi_fail_memory()
                                                          : wait_for_all(join, x + skip, (size_t)(N - skip));
    msi_store_rpc_free(x, N);
    msi_buf_free(&entry);
    msi_buf_free(&location_entry);
    join->reported = st == MST_ERR_PEER_LOST && !join->checked;
    if (join->reported) st = explain_loss(join);
    if (!join->reported && st == MST_ERR_TIMEOUT)
        st = msi_join_explain_missing(join->store, join->prefix, join->spec);
    return st;
}

static mst_status read_members(struct join *join, struct msi_members *members) {
    char keys[2][MSI_KEY_MAX];
    struct msi_str names[2] = {msi_key(keys[0], "%smembers", join->prefix),
                               msi_key(keys[1], "%slocations", join->prefix)};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_DELETE_KEY, .key = msi_cstr(join->segment_key)}},
        {.req = {.op = MSI_OP_WAIT_GET, .n = 2, .keys = names}},
    };
    /* All ranks have tried to map the segment: the rank that offered it deletes the offer. */
    int skip = join->topology.mine.base ? 0 : 1;
    mst_status st = msi_store_exec(join->store, join->wait, x + skip, (size_t)(2 - skip));
    struct msi_reader r = msi_reader(x[1].reply.data, x[1].reply.len);
    struct msi_str entries = msi_read_str(&r), locations = msi_read_str(&r);
    if (st == MST_OK) st = msi_members_build(entries, locations, join->spec->world_size, members);
    msi_store_rpc_free(x, 2);
    return st;
}

static mst_status run(struct join *join, char prefix[MSI_PREFIX_MAX], struct msi_members *members) {
    const char *why;
    bool tcp = join->spec->url.scheme == MSI_SCHEME_TCP;
    msi_host_name(join->host_name);
    join->prefix = prefix;
    mst_status st = find_world(join, prefix);
    if (st == MST_OK) st = set_on_disconnect(join);
    if (st == MST_OK)
        st = msi_netif_choose(join->settings->advertise_addr, join->settings->socket_ifname,
                              tcp ? &join->spec->url.address : NULL, join->address, &why);
    if (st == MST_OK) {
        msi_log(bootstrap, DEBUG, "joining %s as %d of %d; others reach this host at %s (%s)", prefix,
                join->spec->rank, join->spec->world_size, join->address, why);
        st = arrive(join);
    }
    if (st == MST_OK) st = read_members(join, members);
    bool store_lost = st == MST_ERR_STORE_LOST || st == MST_ERR_STORE_ENDED;
    if (st != MST_OK && !store_lost && join->registered)
        msi_join_post(join->store, prefix, join->spec->rank, join->reported ? 'L' : 'F', true);
    return st;
}

mst_status msi_join(struct mst_store *store, const struct msi_join_spec *spec,
                    const struct msi_settings *settings, const struct msi_wait *wait,
                    char prefix[MSI_PREFIX_MAX], struct msi_members *members) {
    struct join join = {.store = store, .spec = spec, .settings = settings, .wait = wait};
    join.topology = (struct msi_topology){.mine = {.fd = -1}, .shared = {.fd = -1}};
    mst_status st = run(&join, prefix, members);
    msi_topology_close(&join.topology);
    return st;
}
