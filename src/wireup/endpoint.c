/* endpoint.c - see endpoint.h. */
#include "wireup/endpoint.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "comm/comm_internal.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 768, TOLD_MAX = 32 };

mst_status msi_endpoint_init(struct msi_endpoint *endpoint, int rank, int size, const char *prefix,
                             const char *address, uint64_t tuning) {
    *endpoint = (struct msi_endpoint){
        .rank = rank, .size = size, .prefix = prefix, .address = address, .tuning = tuning};
    endpoint->ports = calloc((size_t)size, sizeof *endpoint->ports);
    if (!endpoint->ports) return msi_fail_memory();
    pthread_mutex_init(&endpoint->lock, NULL);
    return MST_OK;
}

void msi_endpoint_close(struct msi_endpoint *endpoint) {
    if (!endpoint->ports) return;
    msi_listener_close(endpoint->listener);
    pthread_mutex_destroy(&endpoint->lock);
    free(endpoint->ports);
    endpoint->ports = NULL;
}

static struct msi_str key_of(const struct msi_endpoint *endpoint, int rank, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%sendpoint/%d", endpoint->prefix, rank);
    return msi_cstr(out);
}

/* The next text of a reply; false if it is malformed. */
static bool read_text(struct msi_reader *r, char text[TOLD_MAX]) {
    struct msi_str value = msi_read_str(r);
    msi_str_copy(value, text, TOLD_MAX);
    return value.n > 0 && value.n < TOLD_MAX;
}

static mst_status refuse_text(void) {
    return msi_fail(MST_ERR_PROTOCOL, NULL, "the store has malformed data about the world's endpoints");
}

/* All ranks use one random number for the world: the first rank draws it. */
static mst_status agree(const struct msi_comm *comm, const struct msi_wait *wait) {
    struct msi_endpoint *endpoint = comm->config.endpoint;
    char key[KEY_MAX], text[TOLD_MAX];
    uint64_t drawn;
    unsigned long long number;
    do msi_random(&drawn, sizeof drawn);
    while (drawn == 0);
    snprintf(text, sizeof text, "%llx", (unsigned long long)drawn);
    snprintf(key, sizeof key, "%sendpoint/id", endpoint->prefix);
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(key), .desired = msi_cstr(text)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) st = x.status;
    msi_str_copy(msi_store_reply_str(&x), text, sizeof text);
    if (st == MST_OK && (sscanf(text, "%llx", &number) != 1 || !number)) st = refuse_text();
    if (st == MST_OK) endpoint->world = number;
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status tell(const struct msi_comm *comm, int port, const struct msi_wait *wait) {
    const struct msi_endpoint *endpoint = comm->config.endpoint;
    char key[KEY_MAX], text[TOLD_MAX];
    snprintf(text, sizeof text, "%d %llx", port, (unsigned long long)endpoint->tuning);
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_SET, .key = key_of(endpoint, endpoint->rank, key), .value = msi_cstr(text)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status open_locked(const struct msi_comm *comm, const struct msi_wait *wait) {
    struct msi_endpoint *e = comm->config.endpoint;
    struct msi_address address = {.port = 0};
    snprintf(address.host, sizeof address.host, "%s", e->address);
    mst_status st = agree(comm, wait);
    if (st == MST_OK) st = msi_listener_open(&address, e->world, e->rank, e->size, &e->listener);
    if (st == MST_ERR_ADDRESS) { /* the address is translated (NAT), so that it cannot be bound here */
        snprintf(address.host, sizeof address.host, "%s", strchr(e->address, ':') ? "::" : "0.0.0.0");
        st = msi_listener_open(&address, e->world, e->rank, e->size, &e->listener);
    }
    if (st != MST_OK) return st;
    int port = msi_listener_port(e->listener);
    st = tell(comm, port, wait);
    if (st == MST_OK) {
        msi_log(backend, INFO, "listening on %s port %d", address.host, port);
        return MST_OK;
    }
    msi_listener_close(e->listener);
    e->listener = NULL;
    return st;
}

mst_status msi_endpoint_open(const struct msi_comm *comm, const struct msi_wait *wait) {
    struct msi_endpoint *endpoint = comm->config.endpoint;
    pthread_mutex_lock(&endpoint->lock);
    mst_status st = endpoint->listener ? MST_OK : open_locked(comm, wait);
    pthread_mutex_unlock(&endpoint->lock);
    return st;
}

/* Reads what a rank has published. */
static mst_status read_told(const struct msi_endpoint *endpoint, int rank, struct msi_reader *r, int *port) {
    char text[TOLD_MAX];
    unsigned long long tuning;
    if (!read_text(r, text) || sscanf(text, "%d %llx", port, &tuning) != 2 || *port <= 0)
        return refuse_text();
    if (tuning == endpoint->tuning) return MST_OK;
    return msi_blame(
        msi_fail(
            MST_ERR_CONFIG, "give all ranks the same MUSTER_ALGO and the same MUSTER_MODEL",
            "rank %d would select other algorithms than rank %d: its MUSTER_ALGO or MUSTER_MODEL differs",
            rank, endpoint->rank),
        rank);
}

/* Writes the ports that are known, 0 for the others; returns how many are not known. */
static int look_up(struct msi_endpoint *endpoint, const int *ranks, int n, int *ports) {
    int unknown = 0;
    pthread_mutex_lock(&endpoint->lock);
    for (int i = 0; i < n; i++) {
        ports[i] = endpoint->ports[ranks[i]];
        unknown += ports[i] == 0;
    }
    pthread_mutex_unlock(&endpoint->lock);
    return unknown;
}

static mst_status read_ports(struct msi_endpoint *endpoint, const struct msi_store_rpc *x, const int *ranks,
                             int n, int *ports) {
    struct msi_reader r = msi_reader(x->reply.data, x->reply.len);
    mst_status st = MST_OK;
    for (int i = 0; i < n && st == MST_OK; i++) {
        if (!ports[i]) st = read_told(endpoint, ranks[i], &r, &ports[i]);
    }
    if (st != MST_OK) return st;
    pthread_mutex_lock(&endpoint->lock);
    for (int i = 0; i < n; i++) endpoint->ports[ranks[i]] = ports[i];
    pthread_mutex_unlock(&endpoint->lock);
    return st;
}

mst_status msi_endpoint_find(const struct msi_comm *comm, const int *ranks, int n,
                             const struct msi_wait *wait, int *ports) {
    struct msi_endpoint *endpoint = comm->config.endpoint;
    int unknown = look_up(endpoint, ranks, n, ports);
    if (unknown == 0) return MST_OK;
    char(*names)[KEY_MAX] = calloc((size_t)unknown, sizeof *names);
    struct msi_str *keys = calloc((size_t)unknown, sizeof *keys);
    mst_status st = names && keys ? MST_OK : msi_fail_memory();
    for (int i = 0, k = 0; i < n && st == MST_OK; i++) {
        if (ports[i]) continue;
        keys[k] = key_of(endpoint, ranks[i], names[k]);
        k++;
    }
    struct msi_store_rpc x = {.req = {.op = MSI_OP_WAIT_GET, .n = (size_t)unknown, .keys = keys}};
    if (st == MST_OK) st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) st = read_ports(endpoint, &x, ranks, n, ports);
    msi_store_rpc_free(&x, 1);
    free(keys);
    free(names);
    return st;
}
