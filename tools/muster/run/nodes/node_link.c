/*
 * node_link.c - see node_link.h.
 *
 *   loop's thread  --outbox, and a token that ends the wait-->  link's thread  --store
 *   loop's thread  <--inbox, and uv_async--                     link's thread  <--store
 *
 * The threads share only the two boxes and the token, under one lock.
 */
#include "run/nodes/node_link.h"

#include "base/buf.h"
#include "base/error.h"
#include "bootstrap/report.h"
#include "os/clock.h"
#include "os/thread.h"
#include "store/store.h"
#include "wire/cursor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 10000, NEXT_JOB_MS = 100, WAIT_MS = 60 * 60 * 1000, SHORT_OF_FILES_MS = 100 };

static const char info_key[] = "muster/launch/job", tickets_key[] = "muster/launch/tickets",
                  never_key[] = "muster/launch/never"; /* no launcher sets it */
static const char *const log_keys[NODE_LOGS] = {"muster/launch/notices", MSI_LAUNCH_HOSTS_KEY,
                                                "muster/launch/orders", NODE_ENDED_KEY};

enum event { EVENT_OPEN = 'o', EVENT_LINE = 'l', EVENT_LOST = 'x' };

struct node_link {
    const struct node_agent_options *options;
    const char *endpoint;
    struct node_agent *agent;
    pthread_t thread;
    uv_async_t async;
    pthread_mutex_t lock;             /* of what follows */
    struct msi_buf inbox;             /* events: each is its kind and a text with its NUL */
    struct msi_buf outbox[NODE_LOGS]; /* lines to send */
    mst_cancel *token;
    bool closing, cleanly;
    /* Written by the link's thread before EVENT_OPEN: */
    char run_id[NODE_RUN_ID_MAX];
    int ticket;
    /* The link's thread alone: */
    mst_store *store;
    size_t delivered; /* bytes of the log that were delivered as lines */
    size_t seen;      /* bytes of the log; a part of a line at its end is never delivered */
};

/* Only a launcher without memory misses an event. */
static void push_event(struct node_link *link, enum event kind, struct msi_str text) {
    pthread_mutex_lock(&link->lock);
    if (msi_buf_reserve(&link->inbox, text.n + 2)) {
        msi_buf_add_u8(&link->inbox, (uint8_t)kind);
        msi_buf_add(&link->inbox, text.p, text.n);
        msi_buf_add_u8(&link->inbox, 0);
    }
    link->inbox.failed = false;
    pthread_mutex_unlock(&link->lock);
    uv_async_send(&link->async);
}

static void on_async(uv_async_t *async) {
    struct node_link *link = async->data;
    pthread_mutex_lock(&link->lock);
    struct msi_buf inbox = link->inbox;
    link->inbox = (struct msi_buf){0};
    pthread_mutex_unlock(&link->lock);
    for (size_t at = 0, next; at < inbox.len; at = next) {
        char *event = (char *)inbox.data + at;
        next = at + strlen(event) + 1;
        if (event[0] == EVENT_OPEN) node_agent_on_open(link->agent, link->ticket, link->run_id);
        if (event[0] == EVENT_LINE) node_agent_on_line(link->agent, event + 1);
        if (event[0] == EVENT_LOST) node_agent_on_lost(link->agent, event + 1);
    }
    msi_buf_free(&inbox);
}

static void push_lost(struct node_link *link) {
    const mst_error_info *e = mst_last_error();
    char why[1024];
    snprintf(why, sizeof why, "%s%s%s", e->message, e->remedy[0] ? "; " : "", e->remedy);
    push_event(link, EVENT_LOST, msi_cstr(why));
}

static bool is_closing(struct node_link *link) {
    pthread_mutex_lock(&link->lock);
    bool closing = link->closing;
    pthread_mutex_unlock(&link->lock);
    return closing;
}

static mst_status read_info(struct node_link *link) {
    double ms = link->options->rendezvous->join_seconds * 1000;
    mst_bytes value = {0};
    mst_status st =
        mst_store_get(link->store, info_key, &value, .timeout_ms = ms < ANSWER_MS ? (int)ms + 1 : ANSWER_MS,
                      .cancel = link->token);
    bool valid = st == MST_OK && job_info_read(value.data, link->run_id);
    mst_bytes_free(&value);
    if (valid || st == MST_ERR_CANCELLED) return st;
    return msi_fail(MST_ERR_PROTOCOL, "check that this is the endpoint of the coordinator's node",
                    "the program that listens at %s is not a launcher that waits for nodes%s", link->endpoint,
                    st == MST_OK ? ", or one of another version" : "");
}

static mst_status take_ticket(struct node_link *link) {
    int64_t ticket = 0; /* 0 is the coordinator's */
    mst_status st =
        mst_store_add(link->store, tickets_key, 1, &ticket, .timeout_ms = ANSWER_MS, .cancel = link->token);
    if (st == MST_OK && (ticket < 1 || ticket > NODE_TICKET_MOST))
        st = msi_fail(MST_ERR_PROTOCOL, "another program writes to that store; use another port",
                      "the store at %s has an invalid count of launchers", link->endpoint);
    link->ticket = (int)ticket;
    return st;
}

/* The store appends the line to the notices when this launcher disconnects; NULL: not any more. */
static mst_status set_on_disconnect(struct node_link *link, const char *line, mst_cancel *cancel) {
    struct msi_wait wait = {msi_deadline(ANSWER_MS), cancel};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT}};
    if (line) x.req.key = msi_cstr(log_keys[NODE_NOTICES]);
    if (line) x.req.value = msi_cstr(line);
    mst_status st = msi_store_exec(link->store, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return st;
}

/*
 * Connects to a coordinator. The store of a job that has ended may still answer: then it waits for the next
 * job.
 */
static mst_status connect_to_job(struct node_link *link) {
    static const char *const ended_key = NODE_ENDED_KEY;
    struct msi_wait wait = {msi_deadline((int64_t)(link->options->rendezvous->join_seconds * 1000)),
                            link->token};
    char url[NODE_HOST_MAX + 64];
    snprintf(url, sizeof url, "tcp://%s", link->endpoint);
    for (;;) {
        bool ended = false;
        mst_status st = mst_store_open(url, &link->store, .timeout_ms = msi_ms_until(wait.deadline) + 1,
                                       .cancel = link->token);
        if (st != MST_OK) return st;
        st = mst_store_check(link->store, &ended_key, 1, &ended, .timeout_ms = ANSWER_MS,
                             .cancel = link->token);
        if (st != MST_ERR_STORE_LOST && st != MST_ERR_STORE_ENDED && !ended) return st;
        mst_store_free(link->store);
        link->store = NULL;
        st = msi_wait_pause(&wait, NEXT_JOB_MS, "waiting for the next job");
        if (st == MST_ERR_TIMEOUT)
            return msi_fail(MST_ERR_UNREACHABLE, NULL,
                            "the job at %s has ended, and no other has started in %g s", link->endpoint,
                            link->options->rendezvous->join_seconds);
        if (st != MST_OK) return st;
    }
}

static mst_status join_job(struct node_link *link) {
    char died[32];
    mst_status st = connect_to_job(link);
    if (st == MST_OK) st = read_info(link);
    if (st == MST_OK) st = take_ticket(link);
    snprintf(died, sizeof died, "\n%c %d\n", NOTICE_DIED, link->ticket); /* begins as in node_link_post */
    return st == MST_OK ? set_on_disconnect(link, died, link->token) : st;
}

static mst_status publish_info(struct node_link *link) {
    char *text = job_info_write(link->options->run_id);
    if (!text) return msi_fail_memory();
    link->store = link->options->store;
    snprintf(link->run_id, sizeof link->run_id, "%s", link->options->run_id);
    mst_status st = mst_store_set(link->store, info_key, text, strlen(text), .timeout_ms = ANSWER_MS);
    free(text);
    return st;
}

/*
 * This and receive_lines repeat a request that was not answered in time: the coordinator may have been
 * suspended, and only the end of the connection means that it is gone. Readers accept lines that were
 * appended twice.
 */
static mst_status send_lines(struct node_link *link, const struct msi_buf lines[NODE_LOGS]) {
    mst_status st = MST_OK;
    for (int i = 0; i < NODE_LOGS && st == MST_OK; i++) {
        if (lines[i].len == 0) continue;
        do
            st = mst_store_append(link->store, log_keys[i], lines[i].data, lines[i].len,
                                  .timeout_ms = ANSWER_MS);
        while (st == MST_ERR_TIMEOUT && !is_closing(link));
    }
    return st;
}

/* Delivers the whole lines that the log has beyond those delivered before. */
static void deliver_lines(struct node_link *link, struct msi_str log) {
    link->seen = log.n;
    while (link->delivered < log.n) {
        const char *at = (const char *)log.p + link->delivered;
        const char *newline = memchr(at, '\n', log.n - link->delivered);
        if (!newline) return; /* launchers append whole lines only */
        size_t n = (size_t)(newline - at);
        link->delivered += n + 1;
        if (n > 0 && n <= NODE_LINE_MOST && !memchr(at, 0, n)) push_event(link, EVENT_LINE, msi_str(at, n));
    }
}

static mst_status receive_lines(struct node_link *link, const char *key) {
    mst_status st;
    do {
        struct msi_wait wait = {msi_deadline(ANSWER_MS), NULL};
        struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(key))};
        st = msi_store_exec(link->store, &wait, &x, 1);
        struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
        if (st == MST_OK) deliver_lines(link, msi_value_or_none(msi_read_str(&r)));
        msi_store_rpc_free(&x, 1);
    } while (st == MST_ERR_TIMEOUT && !is_closing(link));
    return st;
}

/* Until the log grows, or there is something to send. */
static mst_status wait_for_more(struct node_link *link, const char *key, mst_cancel *token) {
    struct msi_str never = msi_cstr(never_key);
    struct msi_wait wait = {msi_deadline(WAIT_MS), token};
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_cstr(key), .number = (int64_t)link->seen}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &never}},
    };
    mst_status st = msi_store_exec(link->store, &wait, x, 2);
    msi_store_rpc_free(x, 2);
    return st == MST_ERR_PEER_LOST || st == MST_ERR_CANCELLED || st == MST_ERR_TIMEOUT ? MST_OK : st;
}

/* Moves the outbox to lines. False if it is empty: then *token ends the wait for more. */
static bool take_outbox(struct node_link *link, struct msi_buf lines[NODE_LOGS], mst_cancel **token,
                        bool *closing) {
    bool any = false;
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < NODE_LOGS; i++) {
        lines[i] = link->outbox[i];
        any |= lines[i].len > 0;
        link->outbox[i] = (struct msi_buf){0};
    }
    *closing = link->closing;
    mst_cancel *fresh = NULL;
    bool waits = !any && !*closing;
    if (waits && mst_cancel_new(&fresh) == MST_OK) {
        mst_cancel_free(link->token);
        link->token = fresh;
    }
    *token = link->token;
    pthread_mutex_unlock(&link->lock);
    if (waits && !fresh) poll(NULL, 0, SHORT_OF_FILES_MS); /* the old token may have been fired */
    return any;
}

static mst_status exchange_lines(struct node_link *link) {
    const char *in = log_keys[link->options->store ? NODE_NOTICES : NODE_ORDERS];
    bool closing = false;
    mst_status st = MST_OK;
    while (st == MST_OK && !closing) {
        struct msi_buf lines[NODE_LOGS];
        mst_cancel *token;
        if (take_outbox(link, lines, &token, &closing))
            st = send_lines(link, lines);
        else if (!closing)
            st = wait_for_more(link, in, token);
        for (int i = 0; i < NODE_LOGS; i++) msi_buf_free(&lines[i]);
        if (st == MST_OK && !closing) st = receive_lines(link, in);
    }
    return st;
}

static void *run(void *arg) {
    struct node_link *link = arg;
    bool member = !link->options->store;
    mst_status st = member ? join_job(link) : publish_info(link);
    if (st == MST_OK) push_event(link, EVENT_OPEN, msi_str("", 0));
    if (st == MST_OK) st = exchange_lines(link);
    if (st == MST_OK && member && link->cleanly) set_on_disconnect(link, NULL, NULL);
    if (st != MST_OK && st != MST_ERR_CANCELLED) push_lost(link);
    if (member) mst_store_free(link->store);
    return NULL;
}

int node_link_open(struct node_link **made, const struct node_agent_options *options, const char *endpoint,
                   struct node_agent *agent) {
    struct node_link *link = calloc(1, sizeof *link);
    int rc = -ENOMEM;
    if (!link) return rc;
    link->options = options;
    link->endpoint = endpoint;
    link->agent = agent;
    if (mst_cancel_new(&link->token) != MST_OK) goto free_link;
    rc = uv_async_init(options->loop, &link->async, on_async);
    if (rc != 0) goto free_token;
    link->async.data = link;
    pthread_mutex_init(&link->lock, NULL);
    rc = -msi_thread_start(&link->thread, run, link);
    if (rc != 0) goto close_async;
    *made = link;
    return 0;

close_async:
    uv_close((uv_handle_t *)&link->async, NULL);
    uv_run(options->loop, UV_RUN_NOWAIT);
    pthread_mutex_destroy(&link->lock);
free_token:
    mst_cancel_free(link->token);
free_link:
    free(link);
    return rc;
}

void node_link_post(struct node_link *link, enum node_log log, const char *lines) {
    pthread_mutex_lock(&link->lock);
    msi_buf_add_u8(&link->outbox[log], '\n'); /* another program may have left a part of a line in the log */
    msi_buf_add(&link->outbox[log], lines, strlen(lines));
    mst_cancel_fire(link->token);
    pthread_mutex_unlock(&link->lock);
}

void node_link_close(struct node_link *link, bool cleanly) {
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    link->cleanly = cleanly;
    mst_cancel_fire(link->token);
    pthread_mutex_unlock(&link->lock);
    pthread_join(link->thread, NULL);
    uv_close((uv_handle_t *)&link->async, NULL);
}

void node_link_free(struct node_link *link) {
    if (!link) return;
    msi_buf_free(&link->inbox);
    for (int i = 0; i < NODE_LOGS; i++) msi_buf_free(&link->outbox[i]);
    mst_cancel_free(link->token);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
