/* status_link.c - see status_link.h. The threads share what the lock protects. */
#include "run/status/status_link.h"

#include "base/address.h"
#include "os/host.h"
#include "os/thread.h"
#include "status/status_keys.h"
#include "store/store.h"

#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>

enum { START_MS = 100, ANSWER_MS = 10000, WAIT_MS = 60 * 60 * 1000 };

struct status_link {
    struct status_link_options options;
    pthread_t thread;
    uv_async_t async;
    mst_cancel *token; /* ends every wait of the thread */
    mst_store *store;  /* the thread's */
    int64_t id;        /* of this launcher */
    int64_t request;   /* the newest one that was seen */
    pthread_mutex_t lock;
    pthread_cond_t composed;
    struct msi_buf answer;
    bool wanted, closing; /* wanted: the loop has not composed the answer yet */
};

static void on_async(uv_async_t *async) {
    struct status_link *link = async->data;
    pthread_mutex_lock(&link->lock);
    if (link->wanted) {
        link->answer.len = 0;
        link->options.compose(link->options.arg, link->request, &link->answer);
        link->wanted = false;
        pthread_cond_signal(&link->composed);
    }
    pthread_mutex_unlock(&link->lock);
}

/* False: the link is being closed, or there was no memory. */
static bool let_loop_compose(struct status_link *link) {
    pthread_mutex_lock(&link->lock);
    link->wanted = true;
    uv_async_send(&link->async);
    while (link->wanted && !link->closing) pthread_cond_wait(&link->composed, &link->lock);
    bool composed = !link->wanted && !link->answer.failed;
    pthread_mutex_unlock(&link->lock);
    return composed;
}

static mst_status open_store(struct status_link *link) {
    char url[MSI_ADDRESS_TEXT_MAX + 8], address[MSI_ADDRESS_TEXT_MAX];
    struct msi_address at = {.port = link->options.port};
    snprintf(at.host, sizeof at.host, "%s", link->options.host);
    snprintf(url, sizeof url, "tcp://%s", msi_address_format(&at, address));
    return mst_store_open(url, &link->store, .timeout_ms = ANSWER_MS, .cancel = link->token);
}

/* Registers this launcher; the store notes when the connection ends. */
static mst_status enter(struct status_link *link) {
    struct msi_wait wait = {msi_deadline(ANSWER_MS), link->token};
    char here[MSI_HOST_MAX + 32], gone[32], host[MSI_HOST_MAX];
    mst_status st = open_store(link);
    if (st == MST_OK)
        st = mst_store_add(link->store, STATUS_IDS_KEY, 1, &link->id, .timeout_ms = ANSWER_MS,
                           .cancel = link->token);
    if (st != MST_OK) return st;
    snprintf(here, sizeof here, "+%lld %s\n", (long long)link->id, msi_host_name(host));
    snprintf(gone, sizeof gone, "-%lld\n", (long long)link->id);
    struct msi_str key = msi_cstr(STATUS_LAUNCHERS_KEY);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_ON_DISCONNECT, .key = key, .value = msi_cstr(gone)}},
        {.req = {.op = MSI_OP_ADD, .key = msi_cstr(STATUS_COUNT_KEY)}},
        {.req = {.op = MSI_OP_APPEND, .key = key, .value = msi_cstr(here)}},
    };
    st = msi_store_exec(link->store, &wait, x, 3);
    if (st == MST_OK) link->request = msi_store_reply_number(&x[1]);
    msi_store_rpc_free(x, 3);
    return st;
}

/* MST_OK: there may be a request. */
static mst_status wait_for_request(struct status_link *link) {
    struct msi_str never = msi_cstr("muster/status/never");
    struct msi_wait wait = {msi_deadline(WAIT_MS), link->token};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_cstr(STATUS_ASKED_KEY), .number = link->request}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &never}},
    };
    mst_status st = msi_store_exec(link->store, &wait, x, 2);
    msi_store_rpc_free(x, 2);
    if (st == MST_ERR_TIMEOUT || st == MST_ERR_PEER_LOST) st = MST_OK;
    return st;
}

static mst_status answer(struct status_link *link) {
    char key[sizeof STATUS_NODE_KEY + 32];
    int64_t request = 0;
    mst_status st = mst_store_add(link->store, STATUS_COUNT_KEY, 0, &request, .timeout_ms = ANSWER_MS,
                                  .cancel = link->token);
    if (st != MST_OK || request <= link->request) return st;
    link->request = request;
    if (!let_loop_compose(link)) return MST_OK;
    snprintf(key, sizeof key, STATUS_NODE_KEY "%lld", (long long)link->id);
    return mst_store_set(link->store, key, link->answer.data, link->answer.len, .timeout_ms = ANSWER_MS,
                         .cancel = link->token);
}

/*
 * The first pause leaves the store to the ranks, which join meanwhile; the others bound the work that any
 * number of requests causes.
 */
static void *run(void *arg) {
    struct status_link *link = arg;
    struct msi_wait pause = {INT64_MAX, link->token};
    mst_status st = msi_wait_pause(&pause, START_MS, "muster status");
    if (st == MST_OK) st = enter(link);
    while (st == MST_OK) {
        st = wait_for_request(link);
        if (st == MST_OK) st = answer(link);
        if (st == MST_ERR_TIMEOUT) st = MST_OK; /* the host of the store may have been suspended */
        if (st == MST_OK) st = msi_wait_pause(&pause, STATUS_PAUSE_MS, "muster status");
    }
    mst_store_free(link->store);
    return NULL;
}

struct status_link *status_link_open(const struct status_link_options *options) {
    struct status_link *link = calloc(1, sizeof *link);
    if (!link) return NULL;
    link->options = *options;
    if (mst_cancel_new(&link->token) != MST_OK) goto free_link;
    if (uv_async_init(options->loop, &link->async, on_async) != 0) goto free_token;
    link->async.data = link;
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->composed, NULL);
    if (msi_thread_start(&link->thread, run, link) == 0) return link;
    uv_close((uv_handle_t *)&link->async, NULL);
    uv_run(options->loop, UV_RUN_NOWAIT);
    pthread_cond_destroy(&link->composed);
    pthread_mutex_destroy(&link->lock);
free_token:
    mst_cancel_free(link->token);
free_link:
    free(link);
    return NULL;
}

void status_link_close(struct status_link *link) {
    if (!link) return;
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_cond_signal(&link->composed);
    pthread_mutex_unlock(&link->lock);
    mst_cancel_fire(link->token);
    pthread_join(link->thread, NULL);
    uv_close((uv_handle_t *)&link->async, NULL);
}

void status_link_free(struct status_link *link) {
    if (!link) return;
    msi_buf_free(&link->answer);
    mst_cancel_free(link->token);
    pthread_cond_destroy(&link->composed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
