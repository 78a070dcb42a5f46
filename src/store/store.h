/* store.h - the interface of a kind of store, and code that all kinds share. */
#ifndef MSI_STORE_STORE_H
#define MSI_STORE_STORE_H

#include "base/list.h"
#include "base/settings.h"
#include "os/wait.h"
#include "wire/store_msg.h"
#include "wire/url.h"

#include <muster/store.h>

/* One request and its reply. */
struct msi_store_rpc {
    struct msi_store_req req;
    struct msi_buf reply; /* as in dialect C, without status byte; the caller frees it */
    mst_status status;
};

/* Was the request not executed because the store has no space? Then those after it must not be either: they
 * may tell others that it was. */
static inline bool msi_store_rpc_full(const struct msi_store_rpc *x) {
    return x->status == MST_ERR_LIMIT || x->status == MST_ERR_MEMORY;
}

typedef mst_status msi_store_exec_fn(struct mst_store *store, const struct msi_wait *wait,
                                     struct msi_store_rpc *x, size_t n);

/* A kind of store. Several threads may call each function at once. */
struct msi_store_ops {
    /*
     * Executes n requests in order, as one batch if the store is remote. Only the last may wait; a GUARD
     * applies to the request after it. MST_OK: all requests were executed, and each has its status. Otherwise
     * the requests from the first failed one on have none: MST_ERR_TIMEOUT, MST_ERR_CANCELLED (the store
     * stays usable), MST_ERR_PEER_LOST (the guard), MST_ERR_STORE_LOST, MST_ERR_STORE_ENDED (its host closed
     * it in order), MST_ERR_UNREACHABLE (no new connection), MST_ERR_PROTOCOL, MST_ERR_UNSUPPORTED (PyTorch's
     * server lacks it), MST_ERR_MEMORY, MST_ERR_SYSTEM. Records its failures, except those of a guard and of
     * single requests.
     */
    msi_store_exec_fn *exec;
    /* Opens a second handle on the same store. */
    mst_status (*clone)(struct mst_store *store, const struct msi_settings *settings,
                        const struct msi_wait *wait, struct mst_store **copy);
    /* Frees the store. A remaining on_disconnect value takes effect (tcp, file). */
    void (*close)(struct mst_store *store);
};

/* Every store begins with this. */
struct mst_store {
    const struct msi_store_ops *ops;
    struct msi_list live;   /* in the list of all stores */
    _Atomic int timeout_ms; /* any thread may set it (relaxed): nothing depends on the order */
    int port;               /* tcp */
    int64_t linger_ms;      /* tcp master: how long closing waits for our clients to disconnect */
    size_t max_key, max_value, max_items, max_message; /* see struct msi_store_limits; keys are shorter */
};

/* The limits of a message, for client and server. */
struct msi_store_limits msi_store_limits(const struct msi_settings *settings);

/* Initializes the common part of a store. */
void msi_store_init(struct mst_store *store, const struct msi_store_ops *ops,
                    const struct msi_settings *settings);

mst_status msi_store_open_tcp(const struct msi_address *address, const struct msi_settings *settings,
                              const struct msi_wait *wait, const mst_store_options *options,
                              struct mst_store **store);
/*
 * member: this process is a rank of a world that uses the file. It counts as alive while the store is open. A
 * file with dead members only is MST_ERR_STALE. The last member removes the file.
 */
mst_status msi_store_open_file(const char *path, bool member, const struct msi_settings *settings,
                               const struct msi_wait *wait, struct mst_store **store);
mst_status msi_store_open_hash(const struct msi_settings *settings, struct mst_store **store);
mst_status msi_store_open_prefix(struct mst_store *base, const char *prefix, struct mst_store **store);
/* See mst_store_open_custom. The caller has checked the operations. */
mst_status msi_store_open_custom(const mst_store_ops *ops, void *context, const struct msi_settings *settings,
                                 struct mst_store **store);
/* Opens by url. */
mst_status msi_store_open(const struct msi_url *url, const struct msi_settings *settings,
                          const struct msi_wait *wait, const mst_store_options *options,
                          struct mst_store **store);
void msi_store_free(struct mst_store *store);
/* After MST_ERR_STORE_LOST: does the host of the store not answer? Otherwise it has ended, or is of another
 * kind. */
bool msi_store_is_silent(const struct mst_store *store);
/* tcp: how often a standby has taken over since this handle was opened, as far as this process knows. */
int msi_store_takeovers(const struct mst_store *store);
/* tcp: is a connection lost, and not yet restored? */
bool msi_store_is_restoring(const struct mst_store *store);
/* Does this handle own a server, or a standby? */
bool msi_store_hosts(const struct mst_store *store);
/* The store under prefixes. */
const struct mst_store *msi_store_base(const struct mst_store *store);
bool msi_store_is_custom(const struct mst_store *store);
/* tcp, without a server: opens a standby of the server on a free port of address. It ends with the handle. */
mst_status msi_store_stand_by(struct mst_store *store, struct msi_address *address,
                              const struct msi_settings *settings, const struct msi_wait *wait);
/* tcp: if the server is lost, the store goes on with the standby at that address. */
mst_status msi_store_add_standby(struct mst_store *store, const struct msi_address *address);
/* Does the store exist? Otherwise it was freed, or the address is wrong. */
bool msi_store_is_live(const struct mst_store *store);

/*
 * As exec, with messages for failures of single requests and for timeouts. The first failed request decides
 * the status. Replies of requests that succeeded are valid.
 */
mst_status msi_store_exec(struct mst_store *store, const struct msi_wait *wait, struct msi_store_rpc *x,
                          size_t n);

/* Executes requests with a prefix before every key, and removes it from the keys of a LIST_KEYS reply. */
struct msi_store_view {
    struct mst_store *store;
    msi_store_exec_fn *exec;
    struct msi_str prefix;
    bool keep_others; /* keys without the prefix stay in the list */
};
mst_status msi_store_exec_view(const struct msi_store_view *view, const struct msi_wait *wait,
                               struct msi_store_rpc *x, size_t n);

/* A request that reads a value without waiting for it. Its reply: msi_store_reply_value. */
struct msi_store_req msi_read_request(struct msi_str key);
struct msi_str msi_value_or_none(struct msi_str reply);

/* The string or number that a reply consists of; of msi_read_request: the value, empty if there is none. */
struct msi_str msi_store_reply_str(const struct msi_store_rpc *x);
int64_t msi_store_reply_number(const struct msi_store_rpc *x);
struct msi_str msi_store_reply_value(const struct msi_store_rpc *x);

/* Frees the replies. */
void msi_store_rpc_free(struct msi_store_rpc *x, size_t n);
#endif
