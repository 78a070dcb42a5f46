/* node_agent.c - see node_agent.h. */
#include "run/nodes/node_agent.h"

#include "cli/text.h"
#include "commands.h"
#include "run/nodes/coordinator.h"
#include "run/nodes/node_link.h"

#include "os/host.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_SLACK_SECONDS = 30 };

struct node_agent {
    struct node_agent_options options;
    struct node_link *link;
    struct coordinator *coordinator; /* NULL on a member */
    uv_timer_t timer;                /* calls the coordinator, or reports that a member waits */
    double waited;
    char run_id[NODE_RUN_ID_MAX], endpoint[MSI_ADDRESS_TEXT_MAX];
    int ticket;
    int generation; /* of the ranks of this node; -1: none yet */
    bool joined, ended;
    int last_started; /* generation, on the coordinator */
    bool has_ranks;   /* a generation was started here, and its end was not reported */
    int events;       /* of ranks of this generation that were reported */
    bool reported;    /* the coordinator has shown the report of the failure */
};

static double seconds(const struct node_agent *a) {
    return (double)uv_now(a->options.loop) / 1000;
}

static void post(struct node_agent *a, enum node_log log, char *line) {
    if (line) node_link_post(a->link, log, line);
    free(line);
}

static void notify(struct node_agent *a, struct notice notice) {
    notice.ticket = a->ticket;
    notice.generation = a->generation;
    post(a, NODE_NOTICES, notice_write(&notice));
}

static void end(struct node_agent *a, int status, const char *why) {
    const struct node_agent_events *events = &a->options.events;
    if (a->ended) return;
    a->ended = true;
    if (status == EXIT_DONE && a->joined && a->generation < 0)
        output_line(a->options.output, "the job has ended; there was no place for this node");
    events->on_end(events->arg, status, why);
}

/* Orders may be forged: those that do not fit this node are ignored. */
static void start(struct node_agent *a, const struct order *o) {
    struct node_assignment assignment = {.generation = o->generation,
                                         .world_size = o->world_size,
                                         .node = -1,
                                         .nodes = o->nodes,
                                         .run_id = a->run_id};
    if (a->has_ranks || o->generation <= a->generation) return;
    for (int i = 0; i < o->nodes; i++) {
        const struct node_ranks *r = &o->ranks[i];
        if (!a->joined || r->ticket != a->ticket || r->n != a->options.n) continue;
        assignment.node = i;
        assignment.first_rank = r->first_rank;
        a->generation = o->generation;
        a->events = 0;
        a->has_ranks = true;
    }
    a->options.events.on_start(a->options.events.arg, &assignment);
}

static void refused(struct node_agent *a, const struct order *o) {
    char text[1024];
    snprintf(text, sizeof text, "the coordinator at %s refuses this launcher: %s", a->endpoint, o->text);
    end(a, o->status, text);
}

static void carry_out(struct node_agent *a, const struct order *o) {
    const struct node_agent_events *events = &a->options.events;
    const char *why = a->options.quiet ? "" : o->text;
    if (a->ended) return;
    switch (o->kind) {
    case ORDER_REFUSE:
        if (o->ticket == a->ticket && a->joined) refused(a, o);
        break;
    case ORDER_START:
        start(a, o);
        break;
    case ORDER_STOP:
        if (o->generation == a->generation) events->on_stop(events->arg, o->signal, why);
        break;
    case ORDER_SIGNAL:
        if (o->generation == a->generation) events->on_signal(events->arg, o->signal);
        break;
    case ORDER_RANK:
        if (o->generation == a->generation) events->on_rank(events->arg, o->rank, o->replace);
        break;
    case ORDER_ALONE:
        if (o->generation == a->generation) events->on_alone(events->arg, o->alone);
        break;
    case ORDER_END:
        end(a, o->status, a->coordinator ? o->text : why);
        break;
    }
}

/* A member that waits says so, at growing intervals. */
static void on_wait(uv_timer_t *timer) {
    struct node_agent *a = timer->data;
    if (a->ended || a->generation >= 0 || a->options.quiet) return;
    output_line(a->options.output,
                a->joined ? "waiting: the coordinator at %s has not started this node's ranks yet"
                          : "waiting: no coordinator answers at %s",
                a->endpoint);
    a->waited *= 2;
    uv_timer_start(timer, on_wait, (uint64_t)(a->waited * 1000), 0);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct node_agent *a) {
    double left = coordinator_due(a->coordinator) - seconds(a);
    if (left > 3600) left = 3600;
    uv_timer_start(&a->timer, on_timer, left > 0 ? (uint64_t)(left * 1000) + 1 : 1, 0);
}

static void on_timer(uv_timer_t *timer) {
    struct node_agent *a = timer->data;
    coordinator_tick(a->coordinator, seconds(a));
    set_timer(a);
}

/* Orders go to the other nodes through the store, and to this node directly. */
static void on_order(void *arg, const struct order *order) {
    struct node_agent *a = arg;
    struct order here = *order;
    if (order->kind == ORDER_START) {
        a->last_started = order->generation;
        a->reported = false;
        post(a, NODE_HOSTS, node_hosts_write(a->run_id, order->generation, order->ranks, order->nodes));
    }
    post(a, NODE_ORDERS, order_write(order));
    if (order->kind == ORDER_END) node_link_post(a->link, NODE_ENDED, "");
    if (order->kind == ORDER_END && a->reported) here.text = "";
    carry_out(a, &here);
}

static void on_say(void *arg, const char *text) {
    struct node_agent *a = arg;
    output_line(a->options.output, "%s", text);
}

static void on_report(void *arg, const char *text) {
    struct node_agent *a = arg;
    a->reported = true;
    output_say(a->options.output, text);
}

void node_agent_on_line(struct node_agent *a, char *line) {
    struct notice notice;
    struct order order;
    if (a->coordinator) {
        if (!notice_read(line, &notice)) return;
        text_clean((char *)(uintptr_t)notice.text, true); /* it points into line */
        coordinator_handle(a->coordinator, &notice, seconds(a));
        set_timer(a);
    } else if (order_read(line, &order)) {
        text_clean((char *)(uintptr_t)order.text, false);
        carry_out(a, &order);
        free(order.ranks);
    }
}

void node_agent_on_open(struct node_agent *a, int ticket, const char *run_id) {
    const struct node_agent_options *o = &a->options;
    char host[MSI_HOST_MAX], text[NODE_HOST_MAX * 2 + 64];
    a->ticket = ticket;
    snprintf(a->run_id, sizeof a->run_id, "%s", run_id);
    if (o->run_id && strcmp(o->run_id, run_id) != 0) {
        snprintf(text, sizeof text, "the coordinator at %s runs job '%s', not '%s' (--rdzv-id)", a->endpoint,
                 run_id, o->run_id);
        end(a, EXIT_USAGE, text);
        return;
    }
    if (o->n == 0) return;
    a->joined = true;
    notify(a, (struct notice){.kind = NOTICE_JOIN,
                              .node_rank = o->rendezvous->node_rank,
                              .n = o->n,
                              .min = o->rendezvous->min,
                              .max = o->rendezvous->max,
                              .pid = (int)getpid(),
                              .text = msi_host_name(host)});
}

void node_agent_on_lost(struct node_agent *a, const char *why) {
    bool never_opened = !a->run_id[0];
    const char *what = a->coordinator ? "the launcher's own store has failed"
                       : never_opened ? "cannot join the job"
                                      : "the coordinator of the job was lost";
    char text[1024];
    snprintf(text, sizeof text, "%s: %s", what, why);
    end(a, never_opened ? EXIT_USAGE : EXIT_FAILED, text);
}

static int open_coordinator(struct node_agent *a) {
    const struct node_agent_options *o = &a->options;
    struct coordinator_options options = {
        .min = o->rendezvous->min,
        .max = o->rendezvous->max,
        .max_restarts = o->max_restarts,
        .survive = o->survive,
        .join_seconds = o->rendezvous->join_seconds,
        .last_call_seconds = o->rendezvous->last_call_seconds,
        .stop_seconds = o->shutdown_seconds + STOP_SLACK_SECONDS,
        .progress_seconds = rendezvous_report_after(),
        .hosts = o->hosts,
        .order = on_order,
        .say = on_say,
        .report = on_report,
        .arg = a,
    };
    a->coordinator = coordinator_open(&options, seconds(a));
    if (!a->coordinator) return -ENOMEM;
    set_timer(a);
    return 0;
}

int node_agent_open(struct node_agent **made, const struct node_agent_options *options) {
    struct node_agent *a = calloc(1, sizeof *a);
    if (!a) return -ENOMEM;
    *made = a;
    a->options = *options;
    msi_address_format(&options->rendezvous->address, a->endpoint);
    a->generation = -1;
    a->waited = rendezvous_report_after();
    uv_timer_init(options->loop, &a->timer);
    a->timer.data = a;
    int rc = node_link_open(&a->link, &a->options, a->endpoint, a);
    if (rc != 0) return rc;
    return options->store ? open_coordinator(a)
                          : uv_timer_start(&a->timer, on_wait, (uint64_t)(a->waited * 1000), 0);
}

void node_agent_report_failure(struct node_agent *a, const char *text) {
    notify(a, (struct notice){.kind = NOTICE_FAILED, .text = text});
}

void node_agent_report_rank(struct node_agent *a, struct notice event) {
    event.kind = NOTICE_RANK;
    event.serial = ++a->events;
    notify(a, event);
}

void node_agent_report_stopped(struct node_agent *a, struct notice outcome) {
    a->has_ranks = false;
    outcome.kind = NOTICE_STOPPED;
    notify(a, outcome);
}

void node_agent_forward_signal(struct node_agent *a, int signal) {
    struct order order = {.kind = ORDER_SIGNAL, .generation = a->last_started, .signal = signal};
    if (a->coordinator) post(a, NODE_ORDERS, order_write(&order));
}

void node_agent_interrupt(struct node_agent *a, int signal) {
    if (a->coordinator) {
        coordinator_interrupt(a->coordinator, signal, seconds(a));
        set_timer(a);
    } else if (a->joined) {
        notify(a, (struct notice){.kind = NOTICE_LEAVE, .signal = signal});
    }
}

void node_agent_fail(struct node_agent *a, int status, const char *text) {
    if (!a->coordinator) return;
    coordinator_fail(a->coordinator, status, text, seconds(a));
    set_timer(a);
}

/*
 * A member always says that it leaves: the order to end may have been forged, and then the coordinator must
 * know. A member that has not reported the end of its ranks counts as lost.
 */
void node_agent_close(struct node_agent *a) {
    if (!a->coordinator && a->joined) notify(a, (struct notice){.kind = NOTICE_LEAVE});
    if (a->link) node_link_close(a->link, !a->has_ranks);
    uv_close((uv_handle_t *)&a->timer, NULL);
}

void node_agent_free(struct node_agent *a) {
    if (!a) return;
    node_link_free(a->link);
    coordinator_free(a->coordinator);
    free(a);
}
