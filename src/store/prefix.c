/* prefix.c - a name space inside another store: adds "prefix/" to every key. */
#include "base/error.h"
#include "store/store.h"

#include <stdlib.h>

struct prefix_store {
    struct mst_store head;
    struct mst_store *base;
    size_t len;
    char prefix[]; /* with the slash */
};

static mst_status exec(struct mst_store *head, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n) {
    struct prefix_store *store = (struct prefix_store *)head;
    struct msi_store_view view = {store->base, store->base->ops->exec, msi_str(store->prefix, store->len),
                                  false};
    return msi_store_exec_view(&view, wait, x, n);
}

static void close_store(struct mst_store *head) {
    free(head);
}

static const struct msi_store_ops ops = {exec, close_store};

mst_status msi_store_open_prefix(struct mst_store *base, const char *prefix, struct mst_store **store) {
    size_t len = strlen(prefix);
    if (len + 2 > base->max_key)
        return msi_fail(MST_ERR_LIMIT, "shorten it, or raise MUSTER_STORE_MAX_KEY",
                        "a prefix of %zu bytes leaves no space for keys, which are limited to %zu", len,
                        base->max_key - 1);
    struct prefix_store *made = calloc(1, sizeof *made + len + 1);
    if (!made) return msi_fail_memory();
    made->head = *base;
    made->head.ops = &ops;
    made->head.max_key = base->max_key - len - 1;
    made->base = base;
    made->len = len + 1;
    memcpy(made->prefix, prefix, len);
    made->prefix[len] = '/';
    *store = &made->head;
    return MST_OK;
}
