/*
 * store.h - what a kind of store must provide, and what all of them share.
 */
#ifndef MSI_STORE_STORE_H
#define MSI_STORE_STORE_H

#include "base/settings.h"
#include "os/wait.h"
#include "wire/store_msg.h"
#include "wire/url.h"

#include <muster/store.h>

/* One request and its reply. */
struct msi_store_rpc {
    struct msi_store_req req;
    struct msi_buf reply; /* of dialect C, without status byte; the caller frees it */
    mst_status status;
};

/* A kind of store. Each slot may be called from several threads at once. */
struct msi_store_ops {
    const char *kind;
    /*
     * Carries out n requests in order, as one batch where the store is far away. Only the last may be one
     * that waits; a GUARD stands for the request behind it. MST_OK: all were carried out and each has its
     * status. Otherwise those behind the first that was not carried out have none: MST_ERR_TIMEOUT,
     * MST_ERR_CANCELLED (the store stays usable), MST_ERR_PEER_LOST (the guard), MST_ERR_STORE_LOST,
     * MST_ERR_STORE_ENDED (its host closed it in good order), MST_ERR_UNREACHABLE (no new connection),
     * MST_ERR_PROTOCOL, MST_ERR_UNSUPPORTED (a server of PyTorch's lacks it),
     * MST_ERR_MEMORY, MST_ERR_SYSTEM. Records its failures, except that of a guard and of single requests.
     */
    mst_status (*exec)(struct mst_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                       size_t n);
    /* Frees it. A will that was not taken back is carried out, where there are wills: tcp among ours, file. */
    void (*close)(struct mst_store *store);
};

/* The head of every store. */
struct mst_store {
    const struct msi_store_ops *ops;
    int timeout_ms;
    int port;          /* tcp */
    int64_t linger_ms; /* tcp master: how long closing it waits for our clients to go; 0 unless set */
    size_t max_key, max_value, max_items, max_message; /* see struct msi_store_limits; keys are shorter */
};

/* What a message may hold under these settings, here and on the server. */
struct msi_store_limits msi_store_limits(const struct msi_settings *settings);

/* Fills in the head of a store. */
void msi_store_init(struct mst_store *store, const struct msi_store_ops *ops,
                    const struct msi_settings *settings);

mst_status msi_store_open_tcp(const struct msi_address *address, const struct msi_settings *settings,
                              const struct msi_wait *wait, const mst_store_options *options,
                              struct mst_store **store);
/*
 * A member is a rank of a world that meets in the file: it counts as alive while its handle is open, a file
 * that only dead members have written to is MST_ERR_STALE, and the last member removes the file.
 */
mst_status msi_store_open_file(const char *path, bool member, const struct msi_settings *settings,
                               const struct msi_wait *wait, struct mst_store **store);
mst_status msi_store_open_hash(const struct msi_settings *settings, struct mst_store **store);
mst_status msi_store_open_prefix(struct mst_store *base, const char *prefix, struct mst_store **store);
/* Opens by url. */
mst_status msi_store_open(const struct msi_url *url, const struct msi_settings *settings,
                          const struct msi_wait *wait, const mst_store_options *options,
                          struct mst_store **store);
void msi_store_free(struct mst_store *store);

/*
 * exec with the failures of single requests and of deadlines said in words: the first request that failed
 * decides the status. Replies of requests that succeeded are there all the same.
 */
mst_status msi_store_exec(struct mst_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                          size_t n);

/*
 * The requests with prefix before every key, in one block that the caller frees; NULL without memory. The
 * replies are still those of x.
 */
struct msi_store_rpc *msi_store_prefixed(const struct msi_store_rpc *x, size_t n, struct msi_str prefix);

/* A request that reads a value which may be missing, without making it; and its reply without the stand-in. */
struct msi_store_req msi_read_request(struct msi_str key);
struct msi_str msi_value_or_none(struct msi_str reply);

/* Frees the replies. */
void msi_store_rpc_free(struct msi_store_rpc *x, size_t n);

/* Rewrites the reply of LIST_KEYS: takes the prefix off; keys without it are dropped, or kept if keep_others.
 */
mst_status msi_store_strip_keys(struct msi_buf *reply, struct msi_str prefix, bool keep_others);

#endif
