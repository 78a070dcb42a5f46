/* peers.c - see peers.h. */
#include "wireup/peers.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 768, DELETE_MS = 1000 };

static struct msi_str region_key(const struct msi_comm *comm, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/region/%d", comm->key, comm->ranks.hosts.of[comm->rank]);
    return msi_cstr(out);
}

/* Opens the region that another rank of this host has made, which may have died since. */
static mst_status attach(struct msi_peers *peers, const char *offer) {
    struct msi_comm *comm = peers->comm;
    const struct msi_comm_ranks *ranks = &comm->ranks;
    mst_status st = msi_shm_region_attach(offer, ranks->slots[comm->rank], ranks->local, &peers->region);
    if (st != MST_ERR_SYSTEM) return st;
    char why[200];
    snprintf(why, sizeof why, "%s", mst_last_error()->message);
    for (int r = 0; r < comm->size; r++)
        if (ranks->slots[r] >= 0 && r != comm->rank && ranks->pids[r] == atoi(offer))
            return msi_comm_say_cut_off(comm, st, r, why);
    return st;
}

mst_status msi_peers_open_region(struct msi_peers *peers, const struct msi_wait *wait) {
    struct msi_comm *comm = peers->comm;
    char offer[MSI_SHM_REGION_OFFER_MAX], found[MSI_SHM_REGION_OFFER_MAX], key[KEY_MAX];
    if (peers->region) return MST_OK;
    int local = comm->ranks.local;
    mst_status st = msi_shm_region_make(comm->ranks.slots[comm->rank], local, &peers->region, offer);
    if (st != MST_OK || local == 1) return st;
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_COMPARE_SET, .key = region_key(comm, key), .desired = msi_cstr(offer)}};
    st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) st = x.status;
    msi_str_copy(msi_store_reply_str(&x), found, sizeof found);
    msi_store_rpc_free(&x, 1);
    if (st != MST_OK || strcmp(found, offer) != 0) {
        msi_shm_region_close(peers->region);
        peers->region = NULL;
        if (st == MST_OK) st = attach(peers, found);
    }
    if (st == MST_OK) msi_shm_region_arrive(peers->region);
    return st;
}

void msi_peers_set_all_here(struct msi_peers *peers) {
    struct msi_comm *comm = peers->comm;
    peers->all_here = true;
    int processors = msi_shm_region_processors(peers->region); /* 0: not known */
    if (processors && comm->ranks.local > processors) comm->ranks.oversubscribed = true;
    if (peers->region->segment.fd < 0 || comm->ranks.local == 1) return;
    char key[KEY_MAX];
    struct msi_wait wait = {msi_deadline(DELETE_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_DELETE_KEY, .key = region_key(comm, key)}};
    comm->hooks.exec(comm->hooks.context, &wait, &x, 1); /* a key that stays does no harm */
    msi_store_rpc_free(&x, 1);
    msi_shm_region_seal(peers->region);
}

void msi_peers_leave(const struct msi_peers *peers) {
    const struct msi_shm_region *region = peers->region;
    /* Read by msi_peers_has_left. */
    if (region) msi_shm_region_post(region, &msi_shm_region_own(region)->left, 1);
}

void msi_peers_close(struct msi_peers *peers) {
    struct msi_shm_region *region = peers->region;
    if (region && !peers->all_here)
        msi_peers_set_all_here(peers); /* late ranks must not look for the region */
    if (region) msi_shm_region_close(region);
}

bool msi_peers_has_left(const struct msi_peers *peers, int rank) {
    int slot = peers->comm->ranks.slots[rank];
    if (!peers->region || slot < 0) return false;
    /* From msi_peers_leave. */
    return atomic_load_explicit(&peers->region->areas[slot].left, memory_order_acquire) != 0;
}
