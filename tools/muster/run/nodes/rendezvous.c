/* rendezvous.c - see rendezvous.h. */
#include "run/nodes/rendezvous.h"

#include "run/nodes/node_msg.h"

#include "base/error.h"
#include "os/clock.h"
#include "wire/url.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { STATIC_PORT = 29500, RENDEZVOUS_PORT = 29400, PROBE_MS_MIN = 100, PROBE_MS_MAX = 2000 };
static const double default_join_seconds = 600, default_last_call_seconds = 30;

#define INVALID(...) msi_fail(MST_ERR_INVALID, NULL, __VA_ARGS__)

static mst_status read_nodes(const char *text, struct rendezvous *r) {
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    char first[16];
    long long min, max;
    snprintf(first, sizeof first, "%.*s", (int)(len < 15 ? len : 15), text);
    if (len >= sizeof first || !opt_read_number(first, 1, NODE_MOST, &min) ||
        !opt_read_number(colon ? colon + 1 : text, 1, NODE_MOST, &max))
        return INVALID("--nnodes takes a number of nodes from 1 to %d, or MIN:MAX, not '%s'", NODE_MOST,
                       text);
    if (min > max) return INVALID("--nnodes %s: MIN is greater than MAX", text);
    r->min = (int)min;
    r->max = (int)max;
    r->multi_node = max > 1;
    return MST_OK;
}

/* "join_timeout=60,last_call_timeout=5", as for torchrun. */
static mst_status read_conf(const char *text, struct rendezvous *r) {
    while (*text) {
        size_t len = strcspn(text, ",");
        char entry[64], extra;
        double seconds;
        snprintf(entry, sizeof entry, "%.*s", (int)(len < 63 ? len : 63), text);
        bool whole = len < sizeof entry;
        if (whole && sscanf(entry, "join_timeout=%lf%c", &seconds, &extra) == 1 && seconds > 0 &&
            seconds <= 86400)
            r->join_seconds = seconds;
        else if (whole && sscanf(entry, "last_call_timeout=%lf%c", &seconds, &extra) == 1 && seconds >= 0 &&
                 seconds <= 86400)
            r->last_call_seconds = seconds;
        else
            return INVALID("--rdzv-conf takes join_timeout=SECONDS and last_call_timeout=SECONDS, not '%s'",
                           entry);
        text += len + (text[len] == ',');
    }
    return MST_OK;
}

static bool is_bare_ipv6(const char *text) {
    const char *colon = strchr(text, ':');
    return text[0] != '[' && colon && strchr(colon + 1, ':');
}

/* "host", "host:port", "::1", "[::1]" or "[::1]:port". */
static mst_status read_address(const char *option, const char *text, int port, struct rendezvous *r) {
    const char *bracket = strrchr(text, ']');
    bool bare = is_bare_ipv6(text), has_port = bracket ? bracket[1] == ':' : strchr(text, ':') && !bare;
    char whole[MSI_HOST_MAX + 64];
    struct msi_url url;
    if (has_port)
        snprintf(whole, sizeof whole, "tcp://%s", text);
    else
        snprintf(whole, sizeof whole, bare ? "tcp://[%s]:%d" : "tcp://%s:%d", text, port);
    if (strlen(text) >= MSI_HOST_MAX || strpbrk(text, "/?& ") || msi_url_parse(whole, &url) != MST_OK)
        return INVALID("%s takes HOST or HOST:PORT, not '%.64s'", option, text);
    r->address = url.address;
    return MST_OK;
}

/* A wildcard or multicast address: each node would take itself for the coordinator. */
static bool is_wildcard(const char *host) {
    unsigned first = 0, rest[3];
    if (!strcmp(host, "::") || !strncasecmp(host, "ff0", 3)) return true;
    return sscanf(host, "%u.%u.%u.%u", &first, &rest[0], &rest[1], &rest[2]) == 4 &&
           (first == 0 || first >= 224);
}

static mst_status read_endpoint(const char *text, int port, struct rendezvous *r) {
    if (is_bare_ipv6(text) && !strpbrk(text, "/?& ]"))
        return INVALID("--rdzv-endpoint %.64s: an IPv6 address needs brackets, as in [::1]:29400", text);
    mst_status st = read_address("--rdzv-endpoint", text, port, r);
    if (st == MST_OK && r->multi_node && is_wildcard(r->address.host))
        st = msi_fail(MST_ERR_INVALID, "give an address of the coordinator's node that other nodes reach",
                      "--rdzv-endpoint %.64s is not the address of one host", text);
    return st;
}

/* The address of the coordinator. */
static mst_status read_coordinator(const struct run_options *o, struct rendezvous *r) {
    int any_port = 0;
    if (o->rdzv_endpoint && (o->master_addr || o->master_port >= 0))
        return INVALID("--rdzv-endpoint cannot be combined with --master-addr or --master-port");
    if (o->rdzv_endpoint)
        return read_endpoint(o->rdzv_endpoint, r->multi_node ? RENDEZVOUS_PORT : any_port, r);
    r->address.port = o->master_port >= 0 ? (int)o->master_port : r->multi_node ? STATIC_PORT : any_port;
    if (o->master_addr) return read_address("--master-addr", o->master_addr, r->address.port, r);
    if (r->multi_node)
        return msi_fail(
            MST_ERR_INVALID,
            "give all of them --rdzv-endpoint HOST:PORT, or --master-addr and each its --node-rank",
            "%s nodes need an address to find each other", o->nnodes);
    strcpy(r->address.host, "127.0.0.1");
    return MST_OK;
}

static mst_status choose_role(const struct run_options *o, struct rendezvous *r) {
    r->node_rank = (int)o->node_rank;
    if (r->node_rank >= r->max)
        return INVALID("--node-rank %d: the last of %d node%s has node rank %d", r->node_rank, r->max,
                       r->max == 1 ? "" : "s", r->max - 1);
    if (o->agent >= 0)
        r->role = RENDEZVOUS_JOIN;
    else if (!r->multi_node || r->node_rank == 0)
        r->role = RENDEZVOUS_HOST;
    else if (r->node_rank > 0)
        r->role = RENDEZVOUS_JOIN;
    else if (o->rdzv_endpoint)
        r->role = RENDEZVOUS_ANY;
    else
        return INVALID("--master-addr needs --node-rank on every node: 0 on the one that has that address");
    if (r->role != RENDEZVOUS_HOST && r->address.port == 0)
        return INVALID("port 0 is not valid here: several nodes need a port that all of them know");
    return MST_OK;
}

mst_status rendezvous_read(const struct run_options *o, struct rendezvous *made) {
    struct rendezvous r = {.join_seconds = default_join_seconds,
                           .last_call_seconds = default_last_call_seconds};
    const char *backend = o->rdzv_backend, *id = o->rdzv_id;
    if (backend && strcmp(backend, "c10d") != 0 && strcmp(backend, "static") != 0)
        return INVALID("--rdzv-backend takes c10d or static, not '%s': launchers use muster's own store",
                       backend);
    if (id &&
        (!id[0] || id[0] == '.' || strlen(id) >= RUN_ID_MAX || strspn(id, RUN_ID_LETTERS) != strlen(id)))
        return INVALID("--rdzv-id takes up to %d letters, digits, '_', '-' and '.', not '%s'", RUN_ID_MAX - 1,
                       id);
    mst_status st = read_nodes(o->nnodes, &r);
    if (st == MST_OK && o->standalone && r.max > 1)
        st = INVALID("--standalone means one node, but --nnodes is %s", o->nnodes);
    if (st == MST_OK && o->rdzv_conf) st = read_conf(o->rdzv_conf, &r);
    r.multi_node |= o->agent >= 0;
    if (st == MST_OK) st = read_coordinator(o, &r);
    if (st == MST_OK) st = choose_role(o, &r);
    if (st == MST_OK) *made = r;
    return st;
}

/*
 * Asks for the store of a job that has not ended. MST_ERR_UNREACHABLE: nothing listens there, or the store
 * will close soon; others: no store has answered in time.
 */
static mst_status probe(const char *url, int ms) {
    static const char *const ended_key = NODE_ENDED_KEY;
    mst_store *found;
    bool ended = false;
    mst_status st = mst_store_open(url, &found, .timeout_ms = ms);
    if (st != MST_OK) return st;
    st = mst_store_check(found, &ended_key, 1, &ended, .timeout_ms = ms);
    mst_store_free(found);
    return st != MST_OK || ended ? MST_ERR_UNREACHABLE : MST_OK;
}

double rendezvous_report_after(void) {
    return isatty(STDERR_FILENO) ? 2 : 10;
}

/*
 * Hosts the store. If another socket holds the port, another launcher may host it: as soon as a store
 * answers, a launcher that need not host joins it. Otherwise it tries again until the join timeout, because
 * the holder may be an outgoing connection of any process, which soon frees the port. A launcher that must
 * host gives up if something answers.
 */
static mst_status host_or_find(struct rendezvous *r, const char *url, mst_store **store) {
    int64_t begin = msi_now(), deadline = begin + (int64_t)(r->join_seconds * 1e9);
    double report = rendezvous_report_after();
    bool last = !r->multi_node;
    for (int ms = PROBE_MS_MIN;; ms = ms < PROBE_MS_MAX / 2 ? 2 * ms : PROBE_MS_MAX) {
        mst_status st = mst_store_open(url, store, .is_master = true);
        if (st != MST_ERR_PORT_TAKEN || last) return st;
        double waited = (double)(msi_now() - begin) / 1e9;
        if (waited >= report) {
            fprintf(stderr, "muster run: waiting: %s, and no launcher answers there\n",
                    mst_last_error()->message);
            report = 2 * waited;
        }
        int64_t next = msi_deadline(ms) < deadline ? msi_deadline(ms) : deadline;
        st = probe(url, msi_ms_until(next) + 1);
        if (st == MST_OK && r->role == RENDEZVOUS_ANY) {
            r->role = RENDEZVOUS_JOIN;
            return MST_OK;
        }
        last = msi_now() >= deadline || (r->role == RENDEZVOUS_HOST && st != MST_ERR_UNREACHABLE);
        if (!last) poll(NULL, 0, msi_ms_until(next));
    }
}

mst_status rendezvous_open(struct rendezvous *r, mst_store **store) {
    char url[MSI_ADDRESS_TEXT_MAX + 16], endpoint[MSI_ADDRESS_TEXT_MAX], taken[512];
    *store = NULL;
    if (r->role == RENDEZVOUS_JOIN) return MST_OK;
    snprintf(url, sizeof url, "tcp://%s", msi_address_format(&r->address, endpoint));
    mst_status st = host_or_find(r, url, store);
    if (st == MST_ERR_ADDRESS && r->role == RENDEZVOUS_ANY) {
        r->role = RENDEZVOUS_JOIN;
        return MST_OK;
    }
    if (st == MST_ERR_PORT_TAKEN && r->role == RENDEZVOUS_ANY) {
        snprintf(taken, sizeof taken, "%s", mst_last_error()->message);
        return msi_fail(st, "choose another port for --rdzv-endpoint",
                        "%s, and no launcher answered there in %g s", taken, r->join_seconds);
    }
    if (st == MST_OK && *store) {
        r->role = RENDEZVOUS_HOST;
        r->address.port = mst_store_port(*store);
    }
    return st;
}
