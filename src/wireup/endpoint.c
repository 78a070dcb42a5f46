/* endpoint.c - see endpoint.h. */
#include "wireup/endpoint.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "comm/comm_internal.h"
#include "transport/shm_region.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 768, TOLD_MAX = 32, STORE_MS = 500 };

mst_status msi_endpoint_init(struct msi_endpoint *endpoint, int rank, int size, const char *prefix,
                             const char *address, uint64_t tuning) {
    *endpoint = (struct msi_endpoint){
        .rank = rank, .size = size, .prefix = prefix, .address = address, .tuning = tuning};
    endpoint->ports = calloc((size_t)size, sizeof *endpoint->ports);
    if (!endpoint->ports) return msi_fail_memory();
    pthread_mutex_init(&endpoint->lock, NULL);
    pthread_mutex_init(&endpoint->regions_lock, NULL);
    msi_list_init(&endpoint->regions);
    msi_memory_init(&endpoint->memory);
    return MST_OK;
}

/* Read by msi_peers_cause_of and msi_peers_news. Wakes the others for a failure and for a recovery. */
static void write_cause(const struct msi_endpoint *endpoint, const struct msi_shm_region *region) {
    uint64_t word = endpoint->cause | (endpoint->recovers ? MSI_CAUSE_RECOVERS : 0);
    _Atomic uint64_t *to = &msi_shm_region_own(region)->cause;
    if (word == 0 || word & MSI_CAUSE_WAITS)
        atomic_store_explicit(to, word, memory_order_release);
    else
        msi_shm_region_post(region, to, word);
}

/* Under the lock. */
static void write_causes(struct msi_endpoint *endpoint) {
    for (struct msi_list *at = endpoint->regions.next; at != &endpoint->regions; at = at->next)
        write_cause(endpoint, msi_container(at, struct msi_shm_region, node));
}

void msi_endpoint_tell_cause(struct msi_endpoint *endpoint, uint64_t cause) {
    pthread_mutex_lock(&endpoint->regions_lock);
    endpoint->cause = cause;
    write_causes(endpoint);
    pthread_mutex_unlock(&endpoint->regions_lock);
}

void msi_endpoint_tell_recovery(struct msi_endpoint *endpoint, bool recovers) {
    pthread_mutex_lock(&endpoint->regions_lock);
    endpoint->recovers = recovers;
    write_causes(endpoint);
    pthread_mutex_unlock(&endpoint->regions_lock);
}

void msi_endpoint_add_region(struct msi_endpoint *endpoint, struct msi_shm_region *region) {
    pthread_mutex_lock(&endpoint->regions_lock);
    msi_list_push(&endpoint->regions, &region->node);
    write_cause(endpoint, region);
    pthread_mutex_unlock(&endpoint->regions_lock);
}

void msi_endpoint_remove_region(struct msi_endpoint *endpoint, struct msi_shm_region *region) {
    pthread_mutex_lock(&endpoint->regions_lock);
    msi_list_remove(&region->node);
    pthread_mutex_unlock(&endpoint->regions_lock);
}

void msi_endpoint_close(struct msi_endpoint *endpoint) {
    if (!endpoint->ports) return;
    msi_listener_close(endpoint->listener);
    msi_auth_end(&endpoint->auth);
    pthread_mutex_destroy(&endpoint->lock);
    pthread_mutex_destroy(&endpoint->regions_lock);
    msi_memory_close(&endpoint->memory);
    free(endpoint->ports);
    endpoint->ports = NULL;
}

static struct msi_str key_of(const struct msi_endpoint *endpoint, int rank, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%sendpoint/%d", endpoint->prefix, rank);
    return msi_cstr(out);
}

static mst_status refuse_text(void) {
    return msi_fail(MST_ERR_PROTOCOL, NULL, "the store has malformed data about the world's endpoints");
}

/* Sets a key to the text, unless another rank has set it before; then reads it. */
static mst_status set_first(const struct msi_comm *comm, const char *key, char text[TOLD_MAX],
                            const struct msi_wait *wait) {
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = msi_cstr(key), .desired = msi_cstr(text)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) st = x.status;
    if (st == MST_OK) msi_str_copy(msi_store_reply_str(&x), text, TOLD_MAX);
    msi_store_rpc_free(&x, 1);
    return st;
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
    mst_status st = set_first(comm, key, text, wait);
    if (st == MST_OK && (sscanf(text, "%llx", &number) != 1 || !number)) st = refuse_text();
    if (st == MST_OK) endpoint->world = number;
    return st;
}

/* All ranks of comm must select the same algorithms as the first one that came. */
static mst_status compare_tuning(const struct msi_comm *comm, const struct msi_wait *wait) {
    const struct msi_endpoint *endpoint = comm->config.endpoint;
    char key[KEY_MAX], text[TOLD_MAX];
    unsigned long long tuning;
    int rank;
    snprintf(text, sizeof text, "%llx %d", (unsigned long long)endpoint->tuning, endpoint->rank);
    snprintf(key, sizeof key, "%s/tuning", comm->key);
    mst_status st = set_first(comm, key, text, wait);
    if (st != MST_OK) return st;
    if (sscanf(text, "%llx %d", &tuning, &rank) != 2 || rank < 0 || rank >= endpoint->size)
        return refuse_text();
    if (tuning == endpoint->tuning) return MST_OK;
    st = msi_fail(
        MST_ERR_CONFIG, "give all ranks the same MUSTER_ALGO and the same MUSTER_MODEL",
        "rank %d would select other algorithms than rank %d: its MUSTER_ALGO or MUSTER_MODEL differs", rank,
        endpoint->rank);
    return msi_blame(st, rank);
}

static mst_status tell(const struct msi_comm *comm, const struct msi_wait *wait) {
    struct msi_endpoint *endpoint = comm->config.endpoint;
    char key[KEY_MAX], text[TOLD_MAX];
    snprintf(text, sizeof text, "%d", msi_listener_port(endpoint->listener));
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_SET, .key = key_of(endpoint, endpoint->rank, key), .value = msi_cstr(text)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    endpoint->told = st == MST_OK;
    msi_store_rpc_free(&x, 1);
    return st;
}

static mst_status listen_on(const struct msi_comm *comm, const struct msi_wait *wait) {
    struct msi_endpoint *e = comm->config.endpoint;
    struct msi_address address = {.port = 0};
    snprintf(address.host, sizeof address.host, "%s", e->address);
    mst_status st = agree(comm, wait);
    if (st == MST_OK) st = msi_listener_open(&address, &e->auth, e->world, e->rank, e->size, &e->listener);
    if (st == MST_ERR_ADDRESS) { /* the address is translated (NAT), so that it cannot be bound here */
        snprintf(address.host, sizeof address.host, "%s", strchr(e->address, ':') ? "::" : "0.0.0.0");
        st = msi_listener_open(&address, &e->auth, e->world, e->rank, e->size, &e->listener);
    }
    if (st == MST_OK)
        msi_log(backend, INFO, "listening on %s port %d", address.host, msi_listener_port(e->listener));
    return st;
}

/* If telling the port fails, the others may know it nevertheless: the listener stays for the next call. */
mst_status msi_endpoint_open(const struct msi_comm *comm, const struct msi_wait *wait) {
    struct msi_endpoint *endpoint = comm->config.endpoint;
    pthread_mutex_lock(&endpoint->lock);
    mst_status st = endpoint->listener ? MST_OK : listen_on(comm, wait);
    if (st == MST_OK && !endpoint->told) st = tell(comm, wait);
    pthread_mutex_unlock(&endpoint->lock);
    return st == MST_OK ? compare_tuning(comm, wait) : st;
}

static mst_status read_port(struct msi_comm *comm, int global, int *port) {
    char key[KEY_MAX], text[TOLD_MAX];
    struct msi_wait wait;
    struct msi_store_rpc x = {.req = msi_read_request(key_of(comm->config.endpoint, global, key))};
    *port = 0;
    if (!msi_comm_may_ask(comm, STORE_MS, &wait)) return MST_OK;
    mst_status st = msi_comm_asked(comm, comm->hooks.exec(comm->hooks.context, &wait, &x, 1));
    struct msi_str told = st == MST_OK ? msi_store_reply_value(&x) : msi_str(NULL, 0);
    int found = told.n ? atoi(msi_str_copy(told, text, sizeof text)) : 0;
    msi_store_rpc_free(&x, 1);
    if (told.n && (found <= 0 || found > UINT16_MAX)) return refuse_text();
    *port = found;
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

mst_status msi_endpoint_find(struct msi_comm *comm, int rank, int *port) {
    struct msi_endpoint *endpoint = comm->config.endpoint;
    int global = comm->ranks.globals[rank];
    pthread_mutex_lock(&endpoint->lock);
    int known = endpoint->ports[global];
    pthread_mutex_unlock(&endpoint->lock);
    mst_status st = known ? MST_OK : read_port(comm, global, &known);
    if (st != MST_OK) return st;
    pthread_mutex_lock(&endpoint->lock);
    endpoint->ports[global] = *port = known;
    pthread_mutex_unlock(&endpoint->lock);
    return MST_OK;
}
