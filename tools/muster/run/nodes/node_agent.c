/* node_agent.c - see node_agent.h. */
#include "run/nodes/node_agent.h"

#include "cli/text.h"
#include "commands.h"
#include "run/nodes/coordinator.h"
#include "run/nodes/node_link.h"
#include "run/nodes/rendezvous.h"

#include "os/host.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_SLACK_SECONDS = 30 };

struct company {
    struct company_options options;
    struct node_link *link;
    struct head *head; /* NULL on a member */
    uv_timer_t timer;  /* when the head must look again, or a member say that it waits */
    double waited;
    struct job_card card;
    int ticket;
    int generation; /* that this node takes part in; -1: none yet */
    bool joined, ended;
    int passing;    /* the head: the generation that signals are passed on to */
    bool has_ranks; /* a generation was begun here, and no end of it told */
    bool reported;  /* the head has shown why the ranks are ended */
};

static double seconds(const struct company *c) {
    return (double)uv_now(c->options.loop) / 1000;
}

static void post(struct company *c, enum node_log log, char *line) {
    if (line != NULL) node_link_post(c->link, log, line);
    free(line);
}

static void notify(struct company *c, struct notice notice) {
    notice.ticket = c->ticket;
    notice.generation = c->generation;
    post(c, NODE_NOTICES, notice_write(&notice));
}

static void end(struct company *c, int status, const char *why) {
    const struct company_events *events = &c->options.events;

    if (c->ended) return;
    c->ended = true;
    if (status == EXIT_DONE && c->joined && c->generation < 0)
        events->on_say(events->arg, "the job has ended; there was no place for this node");
    c->options.events.on_end(c->options.events.arg, status, why);
}

/* Whoever reaches the store can write orders: one that makes no sense here was not the head's. */
static void go(struct company *c, const struct order *o) {
    struct company_place place = {
        .generation = o->generation, .world_size = o->world_size, .node = -1, .nodes = o->nodes};

    if (c->has_ranks || o->generation <= c->generation) return;
    for (int i = 0; i < o->nodes; i++) {
        const struct node_place *p = &o->places[i];
        if (!c->joined || p->ticket != c->ticket || p->n != c->options.n) continue;
        place.node = i;
        place.first_rank = p->first_rank;
        c->generation = o->generation;
        c->has_ranks = true;
    }
    c->options.events.on_go(c->options.events.arg, &place);
}

static void refused(struct company *c, const struct order *o) {
    char text[1024];

    snprintf(text, sizeof text, "the head at %s does not take this launcher: %s", c->options.endpoint,
             o->text);
    end(c, o->status, text);
}

static void obey(struct company *c, const struct order *o) {
    const struct company_events *events = &c->options.events;
    const char *why = c->options.quiet ? "" : o->text;

    if (c->ended) return;
    switch (o->kind) {
    case ORDER_REFUSE:
        if (o->ticket == c->ticket && c->joined) refused(c, o);
        break;
    case ORDER_GO:
        go(c, o);
        break;
    case ORDER_STOP:
        if (o->generation == c->generation) events->on_stop(events->arg, o->signal, why);
        break;
    case ORDER_PASS:
        if (o->generation == c->generation) events->on_pass(events->arg, o->signal);
        break;
    case ORDER_END:
        end(c, o->status, c->head != NULL ? o->text : why);
        break;
    }
}

/* A member says for whom it waits, at growing intervals. */
static void on_wait(uv_timer_t *timer) {
    struct company *c = timer->data;
    char text[NODE_HOST_MAX + 128];

    if (c->ended || c->generation >= 0 || c->options.quiet) return;
    snprintf(text, sizeof text,
             c->joined ? "waiting: the head at %s has not begun, or has no place for this node yet"
                       : "waiting: nobody answers at %s, where the head of the job is to be",
             c->options.endpoint);
    c->options.events.on_say(c->options.events.arg, text);
    c->waited *= 2;
    uv_timer_start(timer, on_wait, (uint64_t)(c->waited * 1000), 0);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct company *c) {
    double left = head_due(c->head) - seconds(c);

    if (left > 3600) left = 3600;
    uv_timer_start(&c->timer, on_timer, left > 0 ? (uint64_t)(left * 1000) + 1 : 1, 0);
}

static void on_timer(uv_timer_t *timer) {
    struct company *c = timer->data;

    head_tick(c->head, seconds(c));
    set_timer(c);
}

/* The head's orders reach the others through the store, and this node at once. */
static void on_order(void *arg, const struct order *order) {
    struct company *c = arg;

    struct order here = *order;

    if (order->kind == ORDER_GO) {
        c->passing = order->generation;
        c->reported = false;
        post(c, NODE_HOSTS, node_hosts_write(c->card.id, order->generation, order->places, order->nodes));
    }
    post(c, NODE_ORDERS, order_write(order));
    if (order->kind == ORDER_END && c->reported) here.text = "";
    obey(c, &here);
}

static void on_say(void *arg, const char *text) {
    struct company *c = arg;
    c->options.events.on_say(c->options.events.arg, text);
}

static void on_report(void *arg, const char *text) {
    struct company *c = arg;
    c->reported = true;
    c->options.events.on_report(c->options.events.arg, text);
}

static void on_line(void *arg, char *line) {
    struct company *c = arg;
    struct notice notice;
    struct order order;

    if (c->head != NULL) {
        if (!notice_read(line, &notice)) return;
        text_clean((char *)(uintptr_t)notice.text, true); /* into the line, which is ours to change */
        head_hear(c->head, &notice, seconds(c));
        set_timer(c);
    } else if (order_read(line, &order)) {
        text_clean((char *)(uintptr_t)order.text, false);
        obey(c, &order);
        free(order.places);
    }
}

static void on_open(void *arg, int ticket, const struct job_card *card) {
    struct company *c = arg;
    const struct company_options *o = &c->options;
    char host[MSI_HOST_MAX], text[NODE_HOST_MAX * 2 + 64];

    c->ticket = ticket;
    c->card = *card;
    if (o->run_id != NULL && strcmp(o->run_id, card->id) != 0) {
        snprintf(text, sizeof text, "the head at %s runs job '%s', not '%s' (--rdzv-id)", o->endpoint,
                 card->id, o->run_id);
        end(c, EXIT_USAGE, text);
        return;
    }
    if (o->n == 0) return;
    c->joined = true;
    notify(c, (struct notice){.kind = NOTICE_JOIN,
                              .node_rank = o->node_rank,
                              .n = o->n,
                              .min = o->min_nodes,
                              .max = o->max_nodes,
                              .pid = (int)getpid(),
                              .text = msi_host_name(host)});
}

static void on_lost(void *arg, const char *why, bool never_met) {
    struct company *c = arg;
    char text[1024];

    const char *what = never_met ? "cannot join the job" : "the head of the job is gone";

    snprintf(text, sizeof text, "%s: %s", c->head != NULL ? "the launcher's own store fails" : what, why);
    end(c, never_met ? EXIT_USAGE : EXIT_FAILED, text);
}

static int open_head(struct company *c) {
    const struct company_options *o = &c->options;
    struct head_options options = {
        .min = o->min_nodes,
        .max = o->max_nodes,
        .max_restarts = o->max_restarts,
        .join_seconds = o->join_seconds,
        .last_call_seconds = o->last_call_seconds,
        .stop_seconds = o->shutdown_seconds + STOP_SLACK_SECONDS,
        .progress_seconds = meeting_report_after(),
        .names = o->names,
        .order = on_order,
        .say = on_say,
        .report = on_report,
        .arg = c,
    };

    c->head = head_open(&options, seconds(c));
    if (c->head == NULL) return -ENOMEM;
    set_timer(c);
    return 0;
}

static int open_link(struct company *c) {
    const struct company_options *o = &c->options;
    struct node_link_options options = {
        .loop = o->loop,
        .store = o->store,
        .endpoint = o->endpoint,
        .card = {.min = o->min_nodes, .max = o->max_nodes},
        .patience = o->join_seconds,
        .events = {.on_open = on_open, .on_line = on_line, .on_lost = on_lost, .arg = c},
    };

    if (o->run_id != NULL) snprintf(options.card.id, sizeof options.card.id, "%s", o->run_id);
    return node_link_open(&c->link, &options);
}

int company_open(struct company **made, const struct company_options *options) {
    struct company *c = calloc(1, sizeof *c);

    if (c == NULL) return -ENOMEM;
    c->options = *options;
    c->generation = -1;
    c->waited = meeting_report_after();
    uv_timer_init(options->loop, &c->timer);
    c->timer.data = c;
    int rc = open_link(c);
    if (rc == 0 && options->store != NULL) rc = open_head(c);
    if (rc == 0 && options->store == NULL)
        uv_timer_start(&c->timer, on_wait, (uint64_t)(c->waited * 1000), 0);
    if (rc == 0) {
        *made = c;
        return 0;
    }
    if (c->link != NULL) node_link_close(c->link, true);
    uv_close((uv_handle_t *)&c->timer, NULL);
    uv_run(options->loop, UV_RUN_NOWAIT);
    company_free(c);
    return rc;
}

const char *company_run_id(const struct company *c) {
    return c->card.id;
}

void company_tell_failure(struct company *c, const char *text) {
    notify(c, (struct notice){.kind = NOTICE_FAILED, .text = text});
}

void company_tell_stopped(struct company *c, const struct company_outcome *outcome) {
    c->has_ranks = false;
    notify(c, (struct notice){.kind = NOTICE_STOPPED,
                              .rank = outcome->rank,
                              .status = outcome->status,
                              .culprit = outcome->culprit,
                              .final = outcome->final,
                              .text = outcome->report});
}

void company_pass(struct company *c, int signal) {
    struct order order = {.kind = ORDER_PASS, .generation = c->passing, .signal = signal};

    if (c->head != NULL) post(c, NODE_ORDERS, order_write(&order));
}

void company_interrupt(struct company *c, int signal) {
    if (c->head != NULL) {
        head_interrupt(c->head, signal, seconds(c));
        set_timer(c);
    } else if (c->joined)
        notify(c, (struct notice){.kind = NOTICE_LEAVE, .signal = signal});
}

void company_fail(struct company *c, int status, const char *text) {
    if (c->head == NULL) return;
    head_fail(c->head, status, text, seconds(c));
    set_timer(c);
}

/*
 * A member says that it goes, whoever told it to: if that was not the head, the head must know. One that has not told how its
 * ranks have ended counts as lost with them.
 */
void company_close(struct company *c) {
    if (c->head == NULL && c->joined) notify(c, (struct notice){.kind = NOTICE_LEAVE});
    node_link_close(c->link, !c->has_ranks);
    uv_close((uv_handle_t *)&c->timer, NULL);
}

void company_free(struct company *c) {
    if (c == NULL) return;
    node_link_free(c->link);
    head_free(c->head);
    free(c);
}
