/*
 * kv.h - the map of the tcp server, the hash store and the file store: values, queues, barrier counts, and
 * waiters.
 *
 * No thread, no lock, no I/O: the owner serialises calls. Requests and replies are those of wire/store_msg.h,
 * so all stores give the same replies. max_total limits its memory.
 */
#ifndef MSI_STORE_KV_H
#define MSI_STORE_KV_H

#include "base/list.h"
#include "wire/store_msg.h"

#include <muster/status.h>

struct msi_kv;

/* A change of a watched key; numbers as in PyTorch 1.13. */
enum msi_kv_event { MSI_KV_UPDATED = 0, MSI_KV_CREATED = 1, MSI_KV_DELETED = 2 };
typedef void msi_kv_watch(void *context, enum msi_kv_event event, struct msi_str key, struct msi_str before,
                          struct msi_str after);

struct msi_kv *msi_kv_new(size_t max_total, size_t max_value);
/* There must be no waiters. */
void msi_kv_free(struct msi_kv *kv);

/* Calls changed for every change from now on; NULL: no longer. */
void msi_kv_set_watch(struct msi_kv *kv, msi_kv_watch *changed, void *context);

/* Bytes of keys, values and bookkeeping. */
size_t msi_kv_bytes(const struct msi_kv *kv);

/*
 * Applies a request that does not wait, or whose wait has ended, and appends the reply of dialect C.
 * MST_ERR_NOT_FOUND: GET or MULTI_GET of a missing key. MST_ERR_STATE: ADD to a value that is not a number.
 * MST_ERR_LIMIT: max_total is reached. On an error it changes and appends nothing.
 */
mst_status msi_kv_apply(struct msi_kv *kv, const struct msi_store_req *req, struct msi_buf *reply);

/* Reads a value; false if the key has none. */
bool msi_kv_get(const struct msi_kv *kv, struct msi_str key, struct msi_str *value);

/* Appends requests of dialect M that give an empty map the same state. */
void msi_kv_write_state(const struct msi_kv *kv, struct msi_buf *out);

/* The length of the reply to a request for values or keys; 0 for others. */
size_t msi_kv_reply_size(struct msi_kv *kv, const struct msi_store_req *req);

/* A waiting request. The owner keeps it at its address until it has ended or msi_kv_wait_end was called. */
struct msi_kv_waiter {
    /* Called once, inside the call that ends the wait; must not call the map. May be NULL. */
    void (*wake)(struct msi_kv_waiter *waiter);
    bool ended;        /* the wait has ended … */
    mst_status status; /* … with this status */
    struct msi_kv_link *links;
    size_t n_links, missing;
    struct msi_list ready;
};

/*
 * Begins a request that may wait (a barrier counts its caller now). *waiting false: apply the request now.
 * Otherwise the wait ends later: with MST_OK, then apply it; or with MST_ERR_PEER_LOST if the value of the
 * key of guard, a GUARD request or NULL, has become longer than its number.
 */
mst_status msi_kv_wait_begin(struct msi_kv *kv, const struct msi_store_req *req,
                             const struct msi_store_req *guard, struct msi_kv_waiter *waiter, bool *waiting);

/* Cancels the wait, unless it has ended. */
void msi_kv_wait_end(struct msi_kv *kv, struct msi_kv_waiter *waiter);

#endif
