/*
 * node_link.c - see node_link.h.
 *
 *   loop's thread  --outbox, and a token that ends the wait-->  link's thread  --store
 *   loop's thread  <--inbox, and uv_async--                     link's thread  <--store
 *
 * The two lists and the token are all that the threads share, under one lock.
 */
#include "run/nodes/node_link.h"

#include "base/buf.h"
#include "base/error.h"
#include "bootstrap/report.h"
#include "os/clock.h"
#include "store/store.h"
#include "wire/cursor.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_MS = 10000, NAP_MS = 60 * 60 * 1000, SHORT_OF_FILES_MS = 100 };

static const char card_key[] = "muster/launch/card", tickets_key[] = "muster/launch/tickets",
                  never_key[] = "muster/launch/never"; /* which is never set */
static const char *const log_keys[NODE_LOGS] = {"muster/launch/notices", MSI_LAUNCH_HOSTS_KEY,
                                                "muster/launch/orders"};

enum news_kind { NEWS_OPEN, NEWS_LINE, NEWS_LOST };

struct news {
    struct news *next;
    enum news_kind kind;
    int ticket;
    bool never_met;
    struct job_card card;
    char text[];
};

struct node_link {
    struct node_link_options options;
    pthread_t thread;
    uv_async_t async;
    pthread_mutex_t lock; /* of what follows */
    struct news *inbox, **inbox_end;
    char *outbox[NODE_LOGS]; /* lines that were not said yet, or NULL */
    mst_cancel *token;
    bool closing, deserts; /* deserts: keeps its will */
    /* The link's thread alone: */
    mst_store *store;
    int ticket;
    size_t heard; /* bytes of the others' log that were told … */
    size_t seen;  /* … and that there were: half a line at its end is nobody's */
};

static void tell(struct node_link *link, enum news_kind kind, const char *text, const struct job_card *card,
                 bool never_met) {
    struct news *news = malloc(sizeof *news + strlen(text) + 1);

    if (news == NULL) return; /* only a launcher without memory would miss it */
    *news = (struct news){.kind = kind, .ticket = link->ticket, .never_met = never_met};
    if (card != NULL) news->card = *card;
    strcpy(news->text, text);
    pthread_mutex_lock(&link->lock);
    *link->inbox_end = news;
    link->inbox_end = &news->next;
    pthread_mutex_unlock(&link->lock);
    uv_async_send(&link->async);
}

static void on_async(uv_async_t *async) {
    struct node_link *link = async->data;
    const struct node_link_events *events = &link->options.events;

    pthread_mutex_lock(&link->lock);
    struct news *news = link->inbox;
    link->inbox = NULL;
    link->inbox_end = &link->inbox;
    pthread_mutex_unlock(&link->lock);
    while (news != NULL) {
        struct news *next = news->next;
        if (news->kind == NEWS_OPEN) events->on_open(events->arg, news->ticket, &news->card);
        if (news->kind == NEWS_LINE) events->on_line(events->arg, news->text);
        if (news->kind == NEWS_LOST) events->on_lost(events->arg, news->text, news->never_met);
        free(news);
        news = next;
    }
}

static void lose(struct node_link *link, bool never_met) {
    const mst_error_info *e = mst_last_error();
    char why[1024];

    snprintf(why, sizeof why, "%s%s%s", e->message, e->remedy[0] != '\0' ? "; " : "", e->remedy);
    tell(link, NEWS_LOST, why, NULL, never_met);
}

/* One request, answered in time; the reply is the caller's to free. */
static mst_status ask(struct node_link *link, struct msi_store_rpc *x, size_t n, int ms, mst_cancel *cancel) {
    struct msi_wait wait = {msi_deadline(ms), cancel};
    return msi_store_exec(link->store, &wait, x, n);
}

static mst_status connect_to_head(struct node_link *link) {
    const struct node_link_options *o = &link->options;
    char url[NODE_HOST_MAX + 64];

    snprintf(url, sizeof url, "tcp://%s", o->endpoint);
    return mst_store_open(url, &link->store, .timeout_ms = (int)(o->patience * 1000), .cancel = link->token);
}

static mst_status read_card(struct node_link *link, struct job_card *card) {
    struct msi_str key = msi_cstr(card_key);
    struct msi_store_rpc x = {.req = {.op = MSI_OP_WAIT_GET, .n = 1, .keys = &key}};
    double patience_ms = link->options.patience * 1000;
    mst_status st = ask(link, &x, 1, patience_ms < ANSWER_MS ? (int)patience_ms : ANSWER_MS, link->token);
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    struct msi_str value = st == MST_OK ? msi_read_str(&r) : msi_str("", 0);
    char text[NODE_TEXT_MAX] = "";

    if (value.n > 0 && value.n < sizeof text) memcpy(text, value.p, value.n);
    msi_store_rpc_free(&x, 1);
    if (st == MST_ERR_CANCELLED) return st;
    if (st == MST_OK && job_card_read(text, card)) return MST_OK;
    return msi_fail(MST_ERR_PROTOCOL, "is it the endpoint of the node that shall be the head?",
                    "what listens at %s is not a launcher that waits for nodes%s", link->options.endpoint,
                    st == MST_OK ? ", or one of another version" : "");
}

/* From now on the store tells the head if this launcher is gone. */
static mst_status enter(struct node_link *link) {
    char will[32];
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ADD, .key = msi_cstr(tickets_key), .number = 1}};
    mst_status st = ask(link, &x, 1, ANSWER_MS, link->token);
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    uint64_t ticket = st == MST_OK ? msi_read_u64(&r) : 0;
    bool sound = !r.bad && ticket >= 1 && ticket <= NODE_TICKET_MOST; /* 0 is the head's */
    msi_store_rpc_free(&x, 1);
    if (st == MST_OK && !sound)
        st = msi_fail(MST_ERR_PROTOCOL, "somebody else writes to that store; use another port",
                      "the store at %s counts launchers wrongly", link->options.endpoint);
    if (st != MST_OK) return st;
    link->ticket = (int)ticket;
    snprintf(will, sizeof will, "\nD %d\n", link->ticket); /* as post begins, see there */
    struct msi_store_rpc y = {.req = {.op = MSI_OP_ON_DISCONNECT,
                                      .key = msi_cstr(log_keys[NODE_NOTICES]),
                                      .value = msi_cstr(will)}};
    st = ask(link, &y, 1, ANSWER_MS, link->token);
    msi_store_rpc_free(&y, 1);
    return st;
}

static mst_status meet_head(struct node_link *link) {
    struct job_card card;
    mst_status st = connect_to_head(link);
    if (st == MST_OK) st = read_card(link, &card);
    if (st == MST_OK) st = enter(link);
    if (st == MST_OK) tell(link, NEWS_OPEN, "", &card, false);
    return st;
}

static mst_status show_card(struct node_link *link) {
    char *text = job_card_write(&link->options.card);
    if (text == NULL) return msi_fail_memory();
    link->store = link->options.store;
    struct msi_store_rpc x = {.req = {.op = MSI_OP_SET, .key = msi_cstr(card_key), .value = msi_cstr(text)}};
    mst_status st = ask(link, &x, 1, ANSWER_MS, NULL);
    msi_store_rpc_free(&x, 1);
    free(text);
    if (st == MST_OK) tell(link, NEWS_OPEN, "", &link->options.card, false);
    return st;
}

static bool is_closing(struct node_link *link) {
    pthread_mutex_lock(&link->lock);
    bool closing = link->closing;
    pthread_mutex_unlock(&link->lock);
    return closing;
}

/*
 * A store that is slow to answer may be that of a head that was stopped for a while: whether it is gone, the connection tells.
 * What is said twice because of that does no harm.
 */
static mst_status ask_patiently(struct node_link *link, struct msi_store_rpc *x) {
    for (;;) {
        mst_status st = ask(link, x, 1, ANSWER_MS, NULL);
        if (st != MST_ERR_TIMEOUT || is_closing(link)) return st;
        msi_store_rpc_free(x, 1);
        x->reply = (struct msi_buf){0};
    }
}

static mst_status say(struct node_link *link, char *const lines[NODE_LOGS]) {
    mst_status st = MST_OK;
    for (int i = 0; i < NODE_LOGS && st == MST_OK; i++) {
        if (lines[i] == NULL) continue;
        struct msi_store_rpc x = {
            .req = {.op = MSI_OP_APPEND, .key = msi_cstr(log_keys[i]), .value = msi_cstr(lines[i])}};
        st = ask_patiently(link, &x);
        msi_store_rpc_free(&x, 1);
    }
    return st;
}

/* Tells the lines that the log has beyond what was heard. */
static void hear_lines(struct node_link *link, struct msi_str log) {
    link->seen = log.n;
    while (link->heard < log.n) {
        const char *at = (const char *)log.p + link->heard;
        const char *newline = memchr(at, '\n', log.n - link->heard);
        if (newline == NULL) return; /* nobody of ours writes half a line */
        size_t n = (size_t)(newline - at);
        link->heard += n + 1;
        if (n == 0 || n > NODE_LINE_MOST || memchr(at, '\0', n) != NULL) continue;
        char *line = strndup(at, n);
        if (line != NULL) tell(link, NEWS_LINE, line, NULL, false);
        free(line);
    }
}

static mst_status hear(struct node_link *link, const char *key) {
    struct msi_store_rpc x = {.req = msi_read_request(msi_cstr(key))};
    mst_status st = ask_patiently(link, &x);
    struct msi_reader r = msi_reader(x.reply.data, x.reply.len);
    if (st == MST_OK) hear_lines(link, msi_value_or_none(msi_read_str(&r)));
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Until the log is longer, or something is to be said. */
static mst_status wait_for_more(struct node_link *link, const char *key, mst_cancel *token) {
    struct msi_str never = msi_cstr(never_key);
    struct msi_store_rpc x[] = {
        {.req = {.op = MSI_OP_GUARD, .key = msi_cstr(key), .number = (int64_t)link->seen}},
        {.req = {.op = MSI_OP_WAIT, .n = 1, .keys = &never}},
    };
    mst_status st = ask(link, x, 2, NAP_MS, token);
    msi_store_rpc_free(x, 2);
    return st == MST_ERR_PEER_LOST || st == MST_ERR_CANCELLED || st == MST_ERR_TIMEOUT ? MST_OK : st;
}

/* What is to be said now; the caller's to free. False if there is nothing: then *token ends the wait for more. */
static bool take_outbox(struct node_link *link, char *lines[NODE_LOGS], mst_cancel **token, bool *closing) {
    bool any = false;

    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < NODE_LOGS; i++) {
        lines[i] = link->outbox[i];
        any |= lines[i] != NULL;
        link->outbox[i] = NULL;
    }
    *closing = link->closing;
    mst_cancel *fresh = NULL;
    bool wants = !any && !*closing;
    if (wants && mst_cancel_new(&fresh) == MST_OK) {
        mst_cancel_free(link->token);
        link->token = fresh;
    }
    *token = link->token;
    pthread_mutex_unlock(&link->lock);
    if (wants && fresh == NULL) poll(NULL, 0, SHORT_OF_FILES_MS); /* the old token may have been fired */
    return any;
}

static mst_status converse(struct node_link *link) {
    const char *in = log_keys[link->options.store != NULL ? NODE_NOTICES : NODE_ORDERS];
    bool closing = false;
    mst_status st = MST_OK;

    while (st == MST_OK && !closing) {
        char *lines[NODE_LOGS];
        mst_cancel *token;
        if (take_outbox(link, lines, &token, &closing))
            st = say(link, lines);
        else if (!closing)
            st = wait_for_more(link, in, token);
        for (int i = 0; i < NODE_LOGS; i++) free(lines[i]);
        if (st == MST_OK && !closing) st = hear(link, in);
    }
    return st;
}

static void take_leave(struct node_link *link) {
    struct msi_store_rpc x = {.req = {.op = MSI_OP_ON_DISCONNECT}};
    ask(link, &x, 1, ANSWER_MS, NULL);
    msi_store_rpc_free(&x, 1);
}

static void *run(void *arg) {
    struct node_link *link = arg;
    bool head = link->options.store != NULL, met = false;
    mst_status st = head ? show_card(link) : meet_head(link);

    met = st == MST_OK;
    if (st == MST_OK) st = converse(link);
    if (st == MST_OK && !head && !link->deserts) take_leave(link);
    if (st != MST_OK && st != MST_ERR_CANCELLED) lose(link, !met);
    if (!head) mst_store_free(link->store);
    return NULL;
}

/* Signals are the main thread's. */
static int start_thread(struct node_link *link) {
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&link->thread, NULL, run, link);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

int node_link_open(struct node_link **made, const struct node_link_options *options) {
    struct node_link *link = calloc(1, sizeof *link);
    int rc = -ENOMEM;

    if (link == NULL) return rc;
    link->options = *options;
    link->inbox_end = &link->inbox;
    if (mst_cancel_new(&link->token) != MST_OK) goto free_link;
    rc = uv_async_init(options->loop, &link->async, on_async);
    if (rc != 0) goto free_token;
    link->async.data = link;
    pthread_mutex_init(&link->lock, NULL);
    rc = start_thread(link);
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
    char **box = &link->outbox[log];
    size_t before = *box != NULL ? strlen(*box) : 0;
    char *grown = realloc(*box, before + strlen(lines) + 2);
    if (grown != NULL) {
        /* An empty line first: should somebody have left half of one there, this is not its end. */
        grown[before] = '\n';
        strcpy(grown + before + 1, lines);
        *box = grown;
    }
    mst_cancel_fire(link->token);
    pthread_mutex_unlock(&link->lock);
}

void node_link_close(struct node_link *link, bool in_good_order) {
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    link->deserts = !in_good_order;
    mst_cancel_fire(link->token);
    pthread_mutex_unlock(&link->lock);
    pthread_join(link->thread, NULL);
    uv_close((uv_handle_t *)&link->async, NULL);
}

void node_link_free(struct node_link *link) {
    if (link == NULL) return;
    while (link->inbox != NULL) {
        struct news *next = link->inbox->next;
        free(link->inbox);
        link->inbox = next;
    }
    for (int i = 0; i < NODE_LOGS; i++) free(link->outbox[i]);
    mst_cancel_free(link->token);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
