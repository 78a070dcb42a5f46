/*
 * kv_wait.c - waiters of the map. A link connects a waiter with each item that it needs. A change of an item
 * walks its links, collects the waiters whose wait has ended, and wakes them after the walk.
 */
#include "store/kv_item.h"

#include <stdlib.h>

enum link_kind { NEEDS_KEY, NEEDS_ARRIVALS, GUARDS };

struct msi_kv_link {
    struct msi_list node; /* in the item's links */
    struct msi_kv_item *item;
    struct msi_kv_waiter *waiter;
    enum link_kind kind;
    int64_t threshold; /* arrivals, or the guard's length */
};

static bool exceeds(const struct msi_kv_item *item, int64_t length) {
    return item->has_value && (int64_t)item->len > length;
}

static bool met(const struct msi_kv_link *link) {
    const struct msi_kv_item *item = link->item;
    switch (link->kind) {
    case NEEDS_KEY:
        return msi_kv_exists(item);
    case NEEDS_ARRIVALS:
        return item->arrived >= link->threshold;
    default:
        return exceeds(item, link->threshold);
    }
}

void msi_kv_wait_end(struct msi_kv *kv, struct msi_kv_waiter *waiter) {
    for (size_t i = 0; i < waiter->n_links; i++) {
        struct msi_kv_item *item = waiter->links[i].item;
        if (!item) continue;
        msi_list_remove(&waiter->links[i].node);
        msi_kv_item_release(kv, item); /* the last of several links frees it */
    }
    kv->bytes -= waiter->n_links * sizeof *waiter->links;
    free(waiter->links);
    waiter->links = NULL;
    waiter->n_links = 0;
}

/* The item is not freed: the change has given it a value, a queue or arrivals. */
void msi_kv_item_changed(struct msi_kv *kv, struct msi_kv_item *item) {
    struct msi_list ready;
    if (msi_list_empty(&item->links)) return;
    msi_list_init(&ready);
    for (struct msi_list *at = item->links.next, *next; at != &item->links; at = next) {
        next = at->next;
        struct msi_kv_link *link = msi_container(at, struct msi_kv_link, node);
        struct msi_kv_waiter *waiter = link->waiter;
        if (!met(link)) continue;
        if (link->kind == GUARDS) {
            if (waiter->missing) waiter->status = MST_ERR_PEER_LOST;
        } else {
            msi_list_remove(&link->node);
            link->item = NULL;
            waiter->missing--;
        }
        bool ended = waiter->missing == 0 || waiter->status != MST_OK;
        if (ended && msi_list_empty(&waiter->ready)) msi_list_push(&ready, &waiter->ready);
    }
    while (!msi_list_empty(&ready)) {
        struct msi_kv_waiter *waiter = msi_container(ready.next, struct msi_kv_waiter, ready);
        msi_list_remove(&waiter->ready);
        if (waiter->missing == 0) waiter->status = MST_OK;
        msi_kv_wait_end(kv, waiter);
        waiter->ended = true;
        if (waiter->wake) waiter->wake(waiter);
    }
}

static void add_link(struct msi_kv_waiter *waiter, struct msi_kv_item *item, enum link_kind kind,
                     int64_t threshold) {
    struct msi_kv_link *link = &waiter->links[waiter->n_links++];
    *link = (struct msi_kv_link){.item = item, .waiter = waiter, .kind = kind, .threshold = threshold};
    msi_list_push(&item->links, &link->node);
    if (kind != GUARDS) waiter->missing++;
}

static int64_t target_of(const struct msi_store_req *req) {
    if (req->number >= 0) return req->number;
    return req->number == INT64_MIN ? INT64_MAX : -req->number;
}

/* The fewest arrivals that a waiter still needs. */
static int64_t next_target(const struct msi_kv_item *item) {
    int64_t least = INT64_MAX;
    for (const struct msi_list *at = item->links.next; at != &item->links; at = at->next) {
        const struct msi_kv_link *link = msi_container(at, const struct msi_kv_link, node);
        if (link->kind == NEEDS_ARRIVALS && link->threshold < least) least = link->threshold;
    }
    return least;
}

/* Counts the caller, unless the number is negative; *complete: enough have arrived. */
static mst_status arrive(struct msi_kv *kv, const struct msi_store_req *req, bool *complete) {
    struct msi_kv_item *item = msi_kv_item(kv, req->key, true);
    if (!item) return MST_ERR_LIMIT;
    item->arrived += req->number >= 0;
    if (item->arrived >= item->next_target) {
        msi_kv_item_changed(kv, item);
        item->next_target = next_target(item);
    }
    *complete = item->arrived >= target_of(req);
    return MST_OK;
}

/* Links the waiter to the items that it still needs. */
static mst_status add_links(struct msi_kv *kv, const struct msi_store_req *req,
                            struct msi_kv_waiter *waiter) {
    if (req->op == MSI_OP_BARRIER) {
        struct msi_kv_item *item = msi_kv_item(kv, req->key, true);
        add_link(waiter, item, NEEDS_ARRIVALS, target_of(req));
        if (target_of(req) < item->next_target) item->next_target = target_of(req);
        return MST_OK;
    }
    for (size_t i = 0; i < req->n; i++) {
        struct msi_kv_item *item = msi_kv_item(kv, req->keys[i], true);
        if (!item) return MST_ERR_LIMIT;
        if (!msi_kv_exists(item)) add_link(waiter, item, NEEDS_KEY, 0);
    }
    return MST_OK;
}

mst_status msi_kv_wait_begin(struct msi_kv *kv, const struct msi_store_req *req,
                             const struct msi_store_req *guard, struct msi_kv_waiter *waiter, bool *waiting) {
    *waiting = false;
    if (req->op == MSI_OP_BARRIER) {
        bool complete;
        mst_status st = arrive(kv, req, &complete);
        if (st != MST_OK || complete) return st;
    }
    size_t n = (req->op == MSI_OP_BARRIER ? 1 : req->n) + (guard != NULL);
    if (n * sizeof *waiter->links > kv->max_total - (kv->bytes < kv->max_total ? kv->bytes : kv->max_total))
        return MST_ERR_LIMIT;
    waiter->links = calloc(n ? n : 1, sizeof *waiter->links);
    if (!waiter->links) return MST_ERR_MEMORY;
    waiter->n_links = waiter->missing = 0;
    waiter->ended = false;
    waiter->status = MST_OK;
    msi_list_init(&waiter->ready);
    mst_status st = add_links(kv, req, waiter);
    if (st == MST_OK && waiter->missing && guard) {
        struct msi_kv_item *watched = msi_kv_item(kv, guard->key, true);
        if (!watched)
            st = MST_ERR_LIMIT;
        else if (exceeds(watched, guard->number))
            st = MST_ERR_PEER_LOST;
        else
            add_link(waiter, watched, GUARDS, guard->number);
    }
    kv->bytes += waiter->n_links * sizeof *waiter->links;
    *waiting = st == MST_OK && waiter->missing;
    if (!*waiting) msi_kv_wait_end(kv, waiter);
    return st;
}
