/* rendezvous.c - see rendezvous.h. The main thread uses it before anything is started. */
#include "run/nodes/rendezvous.h"

#include "os/clock.h"
#include "wire/url.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { STATIC_PORT = 29500, RENDEZVOUS_PORT = 29400, PROBE_MS_MIN = 100, PROBE_MS_MAX = 2000 };
static const double join_default = 600, last_call_default = 30;

#define MISTAKE(...) (snprintf(why, why_size, __VA_ARGS__), -1)

static int read_nodes(const char *text, struct meeting *m, char *why, size_t why_size) {
    const char *colon = strchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : strlen(text);
    char first[16];
    long long min, max;

    snprintf(first, sizeof first, "%.*s", (int)(len < 15 ? len : 15), text);
    if (len >= sizeof first || !opt_read_number(first, 1, NODE_MOST, &min) ||
        !opt_read_number(colon != NULL ? colon + 1 : text, 1, NODE_MOST, &max))
        return MISTAKE("--nnodes takes a number of nodes from 1 to %d, or MIN:MAX, not '%s'", NODE_MOST,
                       text);
    if (min > max) return MISTAKE("--nnodes %s: the least is more than the most", text);
    m->min = (int)min;
    m->max = (int)max;
    m->company = max > 1;
    return 0;
}

/* "join_timeout=60,last_call_timeout=5", as torchrun has them. */
static int read_conf(const char *text, struct meeting *m, char *why, size_t why_size) {
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        char entry[64], extra;
        double seconds;

        snprintf(entry, sizeof entry, "%.*s", (int)(len < 63 ? len : 63), text);
        bool whole = len < sizeof entry;
        if (whole && sscanf(entry, "join_timeout=%lf%c", &seconds, &extra) == 1 && seconds > 0 &&
            seconds <= 86400)
            m->join_seconds = seconds;
        else if (whole && sscanf(entry, "last_call_timeout=%lf%c", &seconds, &extra) == 1 && seconds >= 0 &&
                 seconds <= 86400)
            m->last_call_seconds = seconds;
        else
            return MISTAKE("--rdzv-conf knows join_timeout=SECONDS and last_call_timeout=SECONDS, not '%s'",
                           entry);
        text += len + (text[len] == ',');
    }
    return 0;
}

/* "host", "host:port", "::1", "[::1]" or "[::1]:port". */
static int read_address(const char *option, const char *text, int port, struct meeting *m, char *why,
                        size_t why_size) {
    const char *colon = strchr(text, ':'), *bracket = strrchr(text, ']');
    bool bare_six = text[0] != '[' && colon != NULL && strchr(colon + 1, ':') != NULL;
    bool has_port = bracket != NULL ? bracket[1] == ':' : colon != NULL && !bare_six;
    char whole[MSI_HOST_MAX + 64];
    struct msi_url url;

    if (has_port)
        snprintf(whole, sizeof whole, "tcp://%s", text);
    else
        snprintf(whole, sizeof whole, bare_six ? "tcp://[%s]:%d" : "tcp://%s:%d", text, port);
    if (strlen(text) >= MSI_HOST_MAX || strpbrk(text, "/?& ") != NULL || msi_url_parse(whole, &url) != MST_OK)
        return MISTAKE("%s takes HOST or HOST:PORT, not '%.64s'", option, text);
    m->address = url.address;
    return 0;
}

/* Addresses that are everybody's or nobody's: each node would take itself for the head. */
static bool is_nowhere(const char *host) {
    unsigned first = 0, rest[3];
    if (strcmp(host, "::") == 0 || strncasecmp(host, "ff0", 3) == 0) return true;
    return sscanf(host, "%u.%u.%u.%u", &first, &rest[0], &rest[1], &rest[2]) == 4 &&
           (first == 0 || first >= 224);
}

static int read_endpoint(const struct run_options *o, int port, struct meeting *m, char *why,
                         size_t why_size) {
    const char *text = o->rdzv_endpoint, *colon = strchr(text, ':');

    if (text[0] != '[' && colon != NULL && strchr(colon + 1, ':') != NULL && strpbrk(text, "/?& ]") == NULL)
        return MISTAKE("--rdzv-endpoint %.64s: an IPv6 address stands in brackets, as [::1]:29400", text);
    if (read_address("--rdzv-endpoint", text, port, m, why, why_size) != 0) return -1;
    if (m->company && is_nowhere(m->address.host))
        return MISTAKE(
            "--rdzv-endpoint %.64s is no address of one host; give that of the head, as other nodes reach it",
            text);
    return 0;
}

/* Where the head is, if the command line says so. */
static int read_place(const struct run_options *o, struct meeting *m, char *why, size_t why_size) {
    bool alone = !m->company;
    int free_port = 0;

    if (o->rdzv_endpoint != NULL && (o->master_addr != NULL || o->master_port >= 0))
        return MISTAKE("--rdzv-endpoint and --master-addr, --master-port say the same; drop either");
    if (o->rdzv_endpoint != NULL)
        return read_endpoint(o, alone ? free_port : RENDEZVOUS_PORT, m, why, why_size);
    m->address.port = o->master_port >= 0 ? (int)o->master_port : alone ? free_port : STATIC_PORT;
    if (o->master_addr != NULL)
        return read_address("--master-addr", o->master_addr, m->address.port, m, why, why_size);
    if (!alone)
        return MISTAKE("%s nodes must know where to meet: give all of them --rdzv-endpoint HOST:PORT, or "
                       "--master-addr and each its --node-rank",
                       o->nnodes);
    strcpy(m->address.host, "127.0.0.1");
    return 0;
}

static int choose_role(const struct run_options *o, struct meeting *m, char *why, size_t why_size) {
    m->node_rank = (int)o->node_rank;
    if (m->node_rank >= m->max)
        return MISTAKE("--node-rank %d: of %d node%s the last has node rank %d", m->node_rank, m->max,
                       m->max == 1 ? "" : "s", m->max - 1);
    if (o->agent >= 0)
        m->role = MEETING_JOIN;
    else if (!m->company || m->node_rank == 0)
        m->role = MEETING_HOST;
    else if (m->node_rank > 0)
        m->role = MEETING_JOIN;
    else if (o->rdzv_endpoint != NULL)
        m->role = MEETING_WHOEVER_CAN;
    else
        return MISTAKE("--master-addr needs --node-rank on every node: 0 on the one that has that address");
    if (m->role != MEETING_HOST && m->address.port == 0)
        return MISTAKE("nodes that are to meet must know the port; 0 is none");
    return 0;
}

int meeting_read(const struct run_options *o, struct meeting *made, char *why, size_t why_size) {
    struct meeting m = {.join_seconds = join_default, .last_call_seconds = last_call_default};
    const char *backend = o->rdzv_backend;

    if (backend != NULL && strcmp(backend, "c10d") != 0 && strcmp(backend, "static") != 0)
        return MISTAKE("--rdzv-backend %s is not there; launchers meet in muster's own store (c10d, static)",
                       backend);
    if (o->rdzv_id != NULL &&
        (o->rdzv_id[0] == '\0' || o->rdzv_id[0] == '.' || strlen(o->rdzv_id) >= RUN_ID_MAX ||
         strspn(o->rdzv_id, RUN_ID_LETTERS) != strlen(o->rdzv_id)))
        return MISTAKE("--rdzv-id takes up to %d letters, digits, '_', '-' and '.', not '%s'", RUN_ID_MAX - 1,
                       o->rdzv_id);
    if (read_nodes(o->nnodes, &m, why, why_size) != 0) return -1;
    if (o->standalone && m.max > 1)
        return MISTAKE("--standalone means one node, and --nnodes %s more", o->nnodes);
    if (o->rdzv_conf != NULL && read_conf(o->rdzv_conf, &m, why, why_size) != 0) return -1;
    m.company |= o->agent >= 0;
    if (read_place(o, &m, why, why_size) != 0 || choose_role(o, &m, why, why_size) != 0) return -1;
    *made = m;
    return 0;
}

/* Asks for a store at the endpoint. MST_ERR_UNREACHABLE: nothing listens there; else no store has answered in time. */
static mst_status probe(const char *url, int ms) {
    mst_store *found;
    mst_status st = mst_store_open(url, &found, .timeout_ms = ms);

    if (st == MST_OK) mst_store_free(found);
    return st;
}

double meeting_report_after(void) {
    return isatty(STDERR_FILENO) ? 2 : 10;
}

/*
 * Hosts the store. If another socket holds the port, another launcher may host it: as soon as a store answers, a launcher
 * that need not host joins it. Otherwise it tries again until the join timeout, because the holder may be an outgoing
 * connection of any process, which soon frees the port. A launcher that must host gives up if something answers.
 */
static mst_status host_or_find(struct meeting *m, const char *url, mst_store **store) {
    int64_t begin = msi_now(), deadline = begin + (int64_t)(m->join_seconds * 1e9);
    double report = meeting_report_after();
    bool last = !m->company;

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
        if (st == MST_OK && m->role == MEETING_WHOEVER_CAN) {
            m->role = MEETING_JOIN;
            return MST_OK;
        }
        last = msi_now() >= deadline || (m->role == MEETING_HOST && st != MST_ERR_UNREACHABLE);
        if (!last) poll(NULL, 0, msi_ms_until(next));
    }
}

int meeting_open(struct meeting *m, mst_store **store, char *why, size_t why_size) {
    char url[MSI_ADDRESS_TEXT_MAX + 16], endpoint[MSI_ADDRESS_TEXT_MAX];

    *store = NULL;
    if (m->role == MEETING_JOIN) return 0;
    snprintf(url, sizeof url, "tcp://%s", msi_address_format(&m->address, endpoint));
    mst_status st = host_or_find(m, url, store);
    const mst_error_info *e = mst_last_error();
    if (st == MST_ERR_ADDRESS && m->role == MEETING_WHOEVER_CAN) {
        m->role = MEETING_JOIN;
        return 0;
    }
    if (st == MST_ERR_PORT_TAKEN && m->role == MEETING_WHOEVER_CAN)
        return MISTAKE("%s, and no launcher answered there in %g s; choose another port for --rdzv-endpoint",
                       e->message, m->join_seconds);
    if (st != MST_OK)
        return MISTAKE("%s%s%s%s", st == MST_ERR_CONFIG ? "" : "cannot host the store: ", e->message,
                       e->remedy[0] != '\0' ? "; " : "", e->remedy);
    if (*store != NULL) {
        m->role = MEETING_HOST;
        m->address.port = mst_store_port(*store);
    }
    return 0;
}
