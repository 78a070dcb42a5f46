/* peers.c - see peers.h. */
#include "wireup/peers.h"
#include "base/error.h"
#include "base/log.h"
#include "wireup/endpoint.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 768, DELETE_MS = 1000 };
/* Offers that a rank replaces before it fails: each rank of a host may have died, or another user writes them
 * again and again. */
enum { REPLACE_MOST = MSI_SHM_REGION_RANKS };

static struct msi_str region_key(const struct msi_comm *comm, char out[KEY_MAX]) {
    snprintf(out, KEY_MAX, "%s/region/%d", comm->key, comm->ranks.hosts.of[comm->rank]);
    return msi_cstr(out);
}

/*
 * Opens the region that another rank of this host has made. If that rank has died or left, ranks that have
 * opened the region before have it. *gone: no rank has it any more, or another user has written the offer.
 */
static mst_status attach(struct msi_peers *peers, const char *offer, bool *gone) {
    struct msi_comm *comm = peers->comm;
    const struct msi_comm_ranks *ranks = &comm->ranks;
    int slot = ranks->slots[comm->rank], maker = -1;
    char why[200];
    mst_status st = msi_shm_region_attach(offer, 0, slot, ranks->local, &peers->region);
    bool foreign = errno == EPERM, ended = foreign || errno == ENOENT;
    *gone = false;
    if (st != MST_ERR_SYSTEM) return st;
    snprintf(why, sizeof why, "%s", mst_last_error()->message);
    for (int r = 0; r < comm->size; r++) {
        if (ranks->slots[r] < 0 || r == comm->rank) continue;
        if (ranks->pids[r] == atoi(offer))
            maker = r; /* or another thread of its process, which may have it */
        if (msi_shm_region_attach(offer, ranks->pids[r], slot, ranks->local, &peers->region) == MST_OK)
            return MST_OK;
    }
    if (foreign) msi_log(group, WARN, "ignored an offer of a shared region: %s", why);
    if (!ended && maker >= 0) st = msi_comm_say_cut_off(comm, st, maker, why, false);
    *gone = ended || (maker >= 0 && comm->hooks.is_gone(comm->hooks.context, maker));
    return st;
}

/* Publishes this rank's region in place of another one; *found is the one that counts. */
static mst_status publish(struct msi_comm *comm, const struct msi_wait *wait, const char *offer,
                          char found[MSI_SHM_REGION_OFFER_MAX]) {
    char key[KEY_MAX];
    struct msi_store_rpc x = {.req = {.op = MSI_OP_COMPARE_SET,
                                      .key = region_key(comm, key),
                                      .value = msi_cstr(found),
                                      .desired = msi_cstr(offer)}};
    mst_status st = comm->hooks.exec(comm->hooks.context, wait, &x, 1);
    if (st == MST_OK) st = x.status;
    if (st == MST_OK) msi_str_copy(msi_store_reply_str(&x), found, MSI_SHM_REGION_OFFER_MAX);
    msi_store_rpc_free(&x, 1);
    return st;
}

static bool empty_cells(struct msi_held *held) {
    const struct msi_peers *peers = msi_container(held, struct msi_peers, cells);
    struct msi_shm_region *region = peers->region;
    return msi_list_empty(&peers->comm->ops.queue) && msi_shm_region_is_finished(region, region->cells_seq) &&
           msi_shm_region_empty_cells(region);
}

void msi_peers_hold_more(struct msi_peers *peers, bool small, bool big) {
    struct msi_shm_region *region = peers->region;
    region->small_held |= small;
    region->big_held |= big;
    msi_memory_hold(&peers->cells,
                    (region->small_held ? sizeof region->cells->small : 0) +
                        (region->big_held ? sizeof region->cells->big : 0),
                    true);
}

mst_status msi_peers_open_region(struct msi_peers *peers, const struct msi_wait *wait) {
    struct msi_comm *comm = peers->comm;
    char offer[MSI_SHM_REGION_OFFER_MAX], found[MSI_SHM_REGION_OFFER_MAX] = "";
    struct msi_shm_region *own;
    if (peers->region) return MST_OK;
    int local = comm->ranks.local;
    mst_status st = msi_shm_region_make(comm->ranks.slots[comm->rank], local, &own, offer);
    if (st != MST_OK) return st;
    peers->made = local == 1;
    bool gone = true;
    for (int i = 0; gone && !peers->made && i < REPLACE_MOST; i++) {
        st = publish(comm, wait, offer, found);
        gone = false;
        peers->made = st == MST_OK && strcmp(found, offer) == 0;
        if (st == MST_OK && !peers->made) st = attach(peers, found, &gone);
    }
    if (peers->made)
        peers->region = own;
    else
        msi_shm_region_close(own);
    if (!peers->region) return st;
    msi_endpoint_add_region(comm->config.endpoint, peers->region);
    msi_memory_keep(&comm->config.endpoint->memory, msi_shm_region_share(peers->region));
    peers->cells = (struct msi_held){.comm = comm, .empty = empty_cells};
    if (st == MST_OK && local > 1) msi_shm_region_arrive(peers->region);
    return st;
}

/* A key that stays does no harm. */
static void delete_key(struct msi_comm *comm) {
    char key[KEY_MAX];
    struct msi_wait wait = {msi_deadline(DELETE_MS), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_DELETE_KEY, .key = region_key(comm, key)}};
    comm->hooks.exec(comm->hooks.context, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
}

void msi_peers_set_all_here(struct msi_peers *peers) {
    struct msi_comm *comm = peers->comm;
    peers->all_here = true;
    int processors = msi_shm_region_processors(peers->region); /* 0: not known */
    if (processors) msi_comm_share_processors(&comm->ranks, comm->ranks.local, processors);
    if (comm->ranks.local == 1) return;
    if (processors) msi_team_limit(comm->config.team, processors / comm->ranks.local);
    if (peers->made) delete_key(comm);
    msi_shm_region_seal(peers->region);
}

void msi_peers_leave(const struct msi_peers *peers) {
    const struct msi_shm_region *region = peers->region;
    /* Read by msi_peers_has_left. */
    if (region) msi_shm_region_post(region, &msi_shm_region_own(region)->left, 1);
}

void msi_peers_close(struct msi_peers *peers) {
    if (peers->region) {
        msi_endpoint_remove_region(peers->comm->config.endpoint, peers->region);
        msi_memory_release(&peers->cells);
        msi_memory_unkeep(&peers->comm->config.endpoint->memory, msi_shm_region_share(peers->region));
    }
    msi_shm_region_close(peers->region); /* late ranks find it in the others, or make a new one */
}

bool msi_peers_has_left(const struct msi_peers *peers, int rank) {
    int slot = peers->comm->ranks.slots[rank];
    if (!peers->region || slot < 0) return false;
    /* From msi_peers_leave. */
    return atomic_load_explicit(&peers->region->areas[slot].left, memory_order_acquire) != 0;
}

int msi_peers_cause_of(const struct msi_peers *peers, int rank, bool waits) {
    int slot = peers->comm->ranks.slots[rank];
    if (!peers->region || slot < 0) return -1;
    /* From msi_endpoint_tell_cause. */
    uint64_t cause = atomic_load_explicit(&peers->region->areas[slot].cause, memory_order_acquire);
    uint64_t plus_1 = cause >> MSI_CAUSE_SHIFT;
    return (cause & MSI_CAUSE_WAITS && !waits) || plus_1 > INT_MAX ? -1 : (int)plus_1 - 1;
}

uint64_t msi_peers_news(const struct msi_peers *peers) {
    const struct msi_shm_region *region = peers->region;
    uint64_t sum = 0;
    for (int slot = 0; region && slot < region->size; slot++) {
        uint64_t cause =
            atomic_load_explicit(&region->areas[slot].cause, memory_order_acquire); /* as above */
        if (slot != region->rank && !(cause & MSI_CAUSE_WAITS)) sum += cause;
    }
    return sum;
}
