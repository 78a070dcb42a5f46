/*
 * kv.h - the map behind the tcp server, the hash store and the file store: values, queues, barrier counts,
 * and those who wait for them.
 *
 * No thread, no lock, no I/O: the owner serialises calls. Requests and replies are those of wire/store_msg.h,
 * so every store answers with the same bytes. What it keeps is bounded by max_total.
 */
#ifndef MSI_STORE_KV_H
#define MSI_STORE_KV_H

#include "base/list.h"
#include "wire/store_msg.h"

#include <muster/status.h>

struct msi_kv;

/* What happened to a watched key; the numbers are PyTorch 1.13's. */
enum msi_kv_event { MSI_KV_UPDATED = 0, MSI_KV_CREATED = 1, MSI_KV_DELETED = 2 };
typedef void msi_kv_watch(void *context, enum msi_kv_event event, struct msi_str key, struct msi_str before,
                          struct msi_str after);

struct msi_kv *msi_kv_new(size_t max_total, size_t max_value);
/* Nobody may be waiting any more. */
void msi_kv_free(struct msi_kv *kv);

/* Has changed called for every key from now on; NULL ends it. */
void msi_kv_set_watch(struct msi_kv *kv, msi_kv_watch *changed, void *context);

/* Bytes kept in keys, values and bookkeeping. */
size_t msi_kv_bytes(const struct msi_kv *kv);

/*
 * Applies a request that does not wait, or answers one whose wait has ended, and appends the reply of dialect
 * C. MST_ERR_NOT_FOUND: GET or MULTI_GET of a missing key. MST_ERR_STATE: ADD to what is not a number.
 * MST_ERR_LIMIT: max_total is reached. On an error nothing is changed and nothing appended.
 */
mst_status msi_kv_apply(struct msi_kv *kv, const struct msi_store_req *req, struct msi_buf *reply);

/* A value, for the owner's own use; false if the key has none. */
bool msi_kv_get(const struct msi_kv *kv, struct msi_str key, struct msi_str *value);

/* How long the reply to a request that asks for values or keys would be; 0 for others. */
size_t msi_kv_reply_size(struct msi_kv *kv, const struct msi_store_req *req);

/* Somebody who waits. The owner keeps it in place until wake was called or msi_kv_wait_end. */
struct msi_kv_waiter {
    /* Called once, from within the call that ended the wait; must not call into the map. */
    void (*wake)(struct msi_kv_waiter *waiter, mst_status status);
    struct msi_kv_link *links;
    size_t n_links, missing;
    mst_status status;
    struct msi_list ready;
};

struct msi_kv_guard {
    struct msi_str key;
    int64_t length;
};

/*
 * Begins a request that may wait (a barrier counts its caller now). *waiting false: it need not, apply it.
 * Else wake comes later: MST_OK, then apply it; or MST_ERR_PEER_LOST if the guard's key (guard may be NULL)
 * has a value longer than the guard's length.
 */
mst_status msi_kv_wait_begin(struct msi_kv *kv, const struct msi_store_req *req,
                             const struct msi_kv_guard *guard, struct msi_kv_waiter *waiter, bool *waiting);

/* Takes back a wait that has not ended. */
void msi_kv_wait_end(struct msi_kv *kv, struct msi_kv_waiter *waiter);

#endif
