/* kv_item.h - what kv.c and kv_wait.c share: one key of the map, with all that hangs on it. */
#ifndef MSI_STORE_KV_ITEM_H
#define MSI_STORE_KV_ITEM_H

#include "store/kv.h"

struct msi_kv_item {
    struct msi_kv_item *next; /* in its bucket */
    uint64_t hash;
    char *value;
    size_t len, cap;
    bool has_value;
    bool counts;           /* ADD wrote the value, which is … */
    int64_t count;         /* … this number */
    struct msi_list queue; /* of struct queued, in kv.c */
    int64_t queued;
    int64_t arrived;       /* calls of BARRIER */
    int64_t next_target;   /* the fewest arrivals that somebody waits for */
    struct msi_list links; /* of struct msi_kv_link: who waits */
    size_t key_len;
    char key[];
};

struct msi_kv {
    struct msi_kv_item **buckets;
    size_t n_buckets, n_items;  /* buckets are a power of two */
    struct msi_kv_item *recent; /* the last one looked up: one request asks for its key several times */
    int64_t n_keys;             /* items that exist as keys */
    size_t bytes, max_total, max_value;
    size_t key_bytes; /* of all keys, with their lengths, as LIST_KEYS sends them */
    uint64_t seed[2];
    msi_kv_watch *changed;
    void *context;
};

static inline bool msi_kv_exists(const struct msi_kv_item *item) {
    return item->has_value || item->queued > 0;
}

/* The key's item, made if missing and wanted; NULL if missing, or without memory. */
struct msi_kv_item *msi_kv_item(struct msi_kv *kv, struct msi_str key, bool make);

/* Frees the item if nothing hangs on it any more. */
void msi_kv_item_release(struct msi_kv *kv, struct msi_kv_item *item);

/* Wakes those whose wait the item's new state has ended. */
void msi_kv_item_changed(struct msi_kv *kv, struct msi_kv_item *item);

#endif
