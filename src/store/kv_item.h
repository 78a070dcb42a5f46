/* kv_item.h - shared by kv.c and kv_wait.c: one key of the map with its value, queue, barrier and waiters. */
#ifndef MSI_STORE_KV_ITEM_H
#define MSI_STORE_KV_ITEM_H

#include "base/table.h"
#include "store/kv.h"

struct msi_kv_item {
    char *value;
    size_t len, cap;
    bool has_value;
    bool counts;           /* ADD wrote the value, which is … */
    int64_t count;         /* … this number */
    struct msi_list queue; /* of struct queued, in kv.c */
    int64_t queued;
    int64_t arrived;       /* calls of BARRIER */
    int64_t next_target;   /* the fewest arrivals that a waiter needs */
    struct msi_list links; /* of struct msi_kv_link: the waiters */
    struct msi_str key;    /* the table's copy */
};

struct msi_kv {
    struct msi_table items;     /* of struct msi_kv_item */
    struct msi_kv_item *recent; /* the last one looked up: a request looks its key up several times */
    int64_t n_keys;             /* items with a value or a queue */
    size_t bytes, max_total, max_value;
    size_t key_bytes; /* of all keys, with their lengths, as LIST_KEYS sends them */
    msi_kv_watch *changed;
    void *context;
};

static inline bool msi_kv_exists(const struct msi_kv_item *item) {
    return item->has_value || item->queued > 0;
}

/* The key's item; make: creates a missing one. NULL: missing, or out of memory. */
struct msi_kv_item *msi_kv_item(struct msi_kv *kv, struct msi_str key, bool make);

/* Frees the item if it has neither value, queue, arrivals nor waiters. */
void msi_kv_item_release(struct msi_kv *kv, struct msi_kv_item *item);

/* Wakes the waiters whose wait has ended with the item's new state. */
void msi_kv_item_changed(struct msi_kv *kv, struct msi_kv_item *item);

#endif
