/* coordinator.c - the decisions of a coordinator; see coordinator.h. */
#include "run/nodes/coordinator_internal.h"

#include "commands.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double never = 1e18;
static const char told_to_end[] = "the job was told to end";

__attribute__((format(printf, 2, 3))) static void say(const struct coordinator *c, const char *format, ...) {
    char text[TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->options.say(c->options.arg, text);
}

static void order(const struct coordinator *c, struct order order) {
    c->options.order(c->options.arg, &order);
}

static void enter(struct coordinator *c, enum state state, double now) {
    c->state = state;
    c->since = now;
    c->progress = now + c->options.progress_seconds;
    c->enough = never;
}

static void end_job(struct coordinator *c, int status, const char *text, double now) {
    enter(c, ENDED, now);
    order(c, (struct order){.kind = ORDER_END, .status = status, .text = text});
}

/* Starts a generation with n nodes. */
static void begin(struct coordinator *c, int n, double now) {
    struct node **nodes = calloc((size_t)n, sizeof nodes[0]);
    struct node_ranks *ranks = calloc((size_t)n, sizeof ranks[0]);
    int at = 0, world_size = 0;
    if (!nodes || !ranks) {
        end_job(c, EXIT_FAILED, "the coordinator is out of memory", now);
        goto free_both;
    }
    for (struct node *node = c->nodes; node; node = node->next) {
        node->takes_part = false;
        if (at < n && node_is_eligible(c, node)) nodes[at++] = node;
    }
    qsort(nodes, (size_t)n, sizeof nodes[0], node_compare);
    for (int i = 0; i < n; i++) {
        node_begin(nodes[i]);
        ranks[i] = (struct node_ranks){nodes[i]->ticket, world_size, nodes[i]->n, nodes[i]->host};
        world_size += nodes[i]->n;
    }
    c->generation++;
    c->taking_part = n;
    c->cause = NULL;
    survivors_begin(&c->survivors, world_size);
    c->alone = false;
    enter(c, RUNNING, now);
    order(c, (struct order){.kind = ORDER_START,
                            .generation = c->generation,
                            .world_size = world_size,
                            .nodes = n,
                            .ranks = ranks});
free_both:
    free(nodes);
    free(ranks);
}

/* Starts a generation if there are enough nodes; ends the job if there are too few for too long. */
static void check_gathered(struct coordinator *c, double now) {
    const struct coordinator_options *o = &c->options;
    int n = node_count_eligible(c);
    char text[TEXT], all[TEXT + 128];
    bool first = c->generation < 0;
    if (n < o->min)
        c->enough = never;
    else if (now < c->enough)
        c->enough = now;
    if (n >= o->min && (n == o->max || !first || now >= c->enough + o->last_call_seconds)) {
        begin(c, n, now);
        return;
    }
    if (n >= o->min || now < c->since + o->join_seconds) return; /* the same sum as in coordinator_due */
    node_describe(c, text);
    snprintf(all, sizeof all, "not enough nodes in %g s: %s", o->join_seconds, text);
    end_job(c, EXIT_FAILED, all, now);
}

static void gather(struct coordinator *c, double now) {
    enter(c, GATHERING, now);
    c->cause = NULL;
    node_drop_absent(c);
    check_gathered(c, now);
}

/* The root cause: the node that reported a failure first, unless its rank blames a rank that failed too. */
static const struct node *find_root(const struct coordinator *c) {
    const struct node *cause = c->cause, *failed = NULL;
    for (const struct node *node = c->nodes; node; node = node->next) {
        if (!node_has_failed(node)) continue;
        if (cause->outcome.culprit >= 0 && node->outcome.rank == cause->outcome.culprit) return node;
        if (!failed) failed = node;
    }
    return failed && !node_has_failed(cause) ? failed : cause;
}

static void after_failure(struct coordinator *c, double now) {
    const struct node *root = find_root(c);
    char name[NODE_NAME], text[TEXT];
    if (root->report) c->options.report(c->options.arg, root->report);
    if (!root->outcome.final && !c->signal && c->restarts < c->options.max_restarts) {
        c->restarts++;
        say(c, "starting all ranks again: restart %d of %d", c->restarts, c->options.max_restarts);
        gather(c, now);
        return;
    }
    snprintf(text, sizeof text, "rank %d failed on %s", root->outcome.rank, node_name(root, name));
    end_job(c, root->outcome.status ? root->outcome.status : EXIT_FAILED, text, now);
}

static void after_loss(struct coordinator *c, double now) {
    const struct coordinator_options *o = &c->options;
    int n = node_count_eligible(c);
    char name[NODE_NAME], text[TEXT];
    snprintf(text, sizeof text, "%s %s", node_name(c->cause, name),
             c->cause->leaving ? "has left" : "was lost");
    if (n >= o->min) {
        say(c, "%s; continuing with %d node%s", text, n, n == 1 ? "" : "s");
        gather(c, now);
    } else if (c->restarts < o->max_restarts) {
        c->restarts++;
        say(c, "%s; waiting %g s for another: restart %d of %d", text, o->join_seconds, c->restarts,
            o->max_restarts);
        gather(c, now);
    } else {
        end_job(c, EXIT_FAILED, text, now);
    }
}

static void say_line(void *arg, const char *line) {
    say(arg, "%s", line);
}

/* All ranks have exited. A failure before the signal decides the status, as it does on a single node. */
static void conclude(struct coordinator *c, double now) {
    const struct node *cause = c->cause;
    bool failed = cause && node_has_failed(cause);
    survivors_summarize(&c->survivors, say_line, c);
    if (c->signal && !failed)
        end_job(c, EXIT_SIGNAL + c->signal, told_to_end, now);
    else if (c->failed)
        end_job(c, c->failed, c->failure, now);
    else if (cause && !failed && !node_is_present(cause))
        after_loss(c, now);
    else if (cause)
        after_failure(c, now);
    else
        gather(c, now);
}

static void stop(struct coordinator *c, int signal, const char *text, double now) {
    enter(c, STOPPING, now);
    order(c, (struct order){.kind = ORDER_STOP, .generation = c->generation, .signal = signal, .text = text});
    if (!node_count(c, node_has_ranks)) conclude(c, now);
}

static void check_stopped(struct coordinator *c, double now) {
    if (node_count(c, node_has_ranks)) return;
    if (c->state == STOPPING)
        conclude(c, now);
    else if (c->state == RUNNING) {
        survivors_summarize(&c->survivors, say_line, c);
        end_job(c, EXIT_DONE, "", now);
    }
}

/* Before the first generation a wrong command line ends the job; later it concerns only the new node. */
static void refuse(struct coordinator *c, const struct notice *n, const char *why, double now) {
    char text[TEXT];
    order(c, (struct order){.kind = ORDER_REFUSE, .ticket = n->ticket, .status = EXIT_USAGE, .text = why});
    snprintf(text, sizeof text, "host %s (pid %d) cannot join: %s", n->text, n->pid, why);
    if (c->generation < 0)
        end_job(c, EXIT_USAGE, text, now);
    else
        say(c, "%s", text);
}

/* As on the command line. */
static const char *format_nnodes(int min, int max, char out[32]) {
    snprintf(out, 32, min == max ? "%d" : "%d:%d", min, max);
    return out;
}

/* Why the node cannot join; "" if it can. */
static void check_node(const struct coordinator *c, const struct notice *n, char why[TEXT]) {
    const struct coordinator_options *o = &c->options;
    const struct node *first = c->nodes, *same = n->node_rank >= 0 ? node_find_rank(c, n->node_rank) : NULL;
    char name[NODE_NAME], theirs[32], ours[32];
    int ranks = 0;
    why[0] = 0;
    for (const struct node *node = first; node; node = node->next) ranks += node->n;
    if (n->min != o->min || n->max != o->max)
        snprintf(why, TEXT, "it was started with --nnodes %s, and the coordinator with --nnodes %s",
                 format_nnodes(n->min, n->max, theirs), format_nnodes(o->min, o->max, ours));
    else if (n->node_rank >= o->max)
        snprintf(why, TEXT, "it has --node-rank %d, and there are %d nodes", n->node_rank, o->max);
    else if (first && (first->node_rank < 0) != (n->node_rank < 0))
        snprintf(why, TEXT, "it has %s --node-rank, and %s has %s", n->node_rank < 0 ? "no" : "a",
                 node_name(first, name), n->node_rank < 0 ? "one" : "none");
    else if (same && c->generation < 0)
        snprintf(why, TEXT, "it has --node-rank %d, as has %s", n->node_rank, node_name(same, name));
    else if (ranks > NODE_RANKS_MOST - n->n)
        snprintf(why, TEXT, "there would be more than %d ranks", NODE_RANKS_MOST);
}

/* Stops a running generation for a new node unless some nodes are done: their work would be repeated. */
static void join(struct coordinator *c, const struct notice *n, double now) {
    char name[NODE_NAME], text[TEXT];
    if (node_find(c, n->ticket)) return;
    check_node(c, n, text);
    if (text[0]) {
        refuse(c, n, text, now);
        return;
    }
    const struct node *node = node_add(c, n);
    if (!node) return;
    node_name(node, name);
    if (c->state == GATHERING) {
        check_gathered(c, now);
    } else if (c->state == RUNNING && c->taking_part < c->options.max && node_is_eligible(c, node) &&
               !node_count(c, node_is_done)) {
        snprintf(text, sizeof text, "%s joins; starting all ranks again with %d nodes", name,
                 c->taking_part + 1);
        say(c, "%s", text);
        stop(c, SIGTERM, text, now);
    } else {
        say(c, "%s has joined and waits for a free place", name);
    }
}

/* Tells the nodes when replacements cannot be admitted any more, and when that has changed. */
static void check_alone(struct coordinator *c) {
    bool alone = survivors_all_wait(&c->survivors);
    if (c->state != RUNNING || alone == c->alone) return;
    c->alone = alone;
    order(c, (struct order){.kind = ORDER_ALONE, .generation = c->generation, .alone = alone});
}

/* With --survive: the other ranks go on without those of the node, if enough are left. */
static bool survive_node(struct coordinator *c, struct node *node, const char *text, double now) {
    char line[SURVIVORS_TEXT];
    if (c->options.survive.min == 0) return false;
    enum survivors_verdict verdict = survivors_node_lost(&c->survivors, node->running, node->waiting, text);
    survivors_describe(&c->survivors, verdict, text, line);
    say(c, "%s", line);
    if (verdict == SURVIVORS_FAIL) return false;
    node->running = node->waiting = 0;
    check_stopped(c, now);
    check_alone(c);
    return true;
}

/* The node is lost or leaves. */
static void node_gone(struct coordinator *c, struct node *node, double now) {
    char name[NODE_NAME], text[TEXT];
    bool had_ranks = node_has_ranks(node);
    snprintf(text, sizeof text, "%s %s", node_name(node, name), node->lost ? "was lost" : "leaves");
    if (node->lost) node->stopped = true;
    if (c->state == RUNNING && had_ranks && survive_node(c, node, text, now)) return;
    if (c->state == RUNNING && had_ranks) {
        c->cause = node;
        say(c, "%s; ending all ranks", text);
        stop(c, 0, text, now);
    } else if (c->state == GATHERING) {
        say(c, "%s", text);
        node_drop_absent(c);
        check_gathered(c, now);
    } else if (c->state == STOPPING) {
        check_stopped(c, now);
    }
}

static void node_failed(struct coordinator *c, struct node *node, const char *text, double now) {
    if (c->state != RUNNING || !node->takes_part || (node->stopped && !node_has_failed(node))) return;
    c->cause = node;
    stop(c, 0, text, now);
}

/* Carries out what follows from the end of a rank. */
static void after_rank(struct coordinator *c, struct node *node, const struct notice *n,
                       enum survivors_verdict verdict, double now) {
    char line[SURVIVORS_TEXT];
    bool replace = verdict == SURVIVORS_REPLACE;
    survivors_describe(&c->survivors, verdict, n->text, line);
    say(c, "%s", line);
    node->running += replace;
    node->waiting += replace;
    if (verdict == SURVIVORS_FAIL)
        node_failed(c, node, line, now);
    else
        order(c, (struct order){
                     .kind = ORDER_RANK, .generation = c->generation, .rank = n->rank, .replace = replace});
}

/* With --survive: an event of a rank. */
static void rank_event(struct coordinator *c, struct node *node, const struct notice *n, double now) {
    enum rank_event event = (enum rank_event)n->event;
    bool ended = event == RANK_DIED || event == RANK_UNADMITTED, waited = n->waited && node->waiting > 0;
    if (c->state != RUNNING || !node_has_ranks(node) || n->serial <= node->events) return;
    node->events = n->serial;
    if (c->options.survive.min == 0 && ended) node_failed(c, node, n->text, now);
    if (c->options.survive.min == 0 || node->running == 0) return;
    node->running -= event != RANK_JOINED;
    node->waiting -= waited;
    enum survivors_verdict verdict = survivors_handle(&c->survivors, event, waited, n->text);
    if (ended) after_rank(c, node, n, verdict, now);
    check_alone(c);
}

static void node_stopped(struct coordinator *c, struct node *node, const struct notice *n, double now) {
    char name[NODE_NAME], text[TEXT];
    if (!node_has_ranks(node)) return;
    node->stopped = true;
    node->outcome = *n;
    if (n->text[0]) node->report = strdup(n->text);
    if (n->rank >= 0) {
        snprintf(text, sizeof text, "rank %d failed on %s", n->rank, node_name(node, name));
        node_failed(c, node, text, now);
    }
    check_stopped(c, now);
}

void coordinator_handle(struct coordinator *c, const struct notice *n, double now) {
    struct node *node = node_find(c, n->ticket);
    bool current = n->generation == c->generation;
    if (c->state == ENDED || (node && node->lost) || (!node && n->kind != NOTICE_JOIN)) return;
    switch (n->kind) {
    case NOTICE_JOIN:
        join(c, n, now);
        break;
    case NOTICE_FAILED:
        if (current) node_failed(c, node, n->text, now);
        break;
    case NOTICE_RANK:
        if (current) rank_event(c, node, n, now);
        break;
    case NOTICE_STOPPED:
        if (current) node_stopped(c, node, n, now);
        break;
    case NOTICE_LEAVE:
        if (node->leaving) break;
        node->leaving = true;
        node_gone(c, node, now);
        break;
    case NOTICE_DIED:
        node->lost = true;
        node_gone(c, node, now);
        break;
    }
}

void coordinator_interrupt(struct coordinator *c, int signal, double now) {
    if (c->state == ENDED) return;
    if (!c->signal) c->signal = signal;
    c->insisted |= signal == SIGKILL;
    if (c->state == GATHERING)
        conclude(c, now);
    else
        stop(c, signal, told_to_end, now);
}

void coordinator_fail(struct coordinator *c, int status, const char *text, double now) {
    if (c->state == ENDED || c->failed) return;
    c->failed = status;
    snprintf(c->failure, sizeof c->failure, "%s", text);
    if (c->state == GATHERING)
        conclude(c, now);
    else if (c->state == RUNNING)
        stop(c, SIGTERM, text, now);
}

/* Goes on without the nodes that have not ended their ranks in time. */
static void drop_stuck(struct coordinator *c, double now) {
    char name[NODE_NAME];
    for (struct node *node = c->nodes; node; node = node->next) {
        if (!node_has_ranks(node)) continue;
        say(c, "%s has not ended its ranks in %g s; continuing without it", node_name(node, name),
            c->options.stop_seconds);
        order(c, (struct order){.kind = ORDER_REFUSE,
                                .ticket = node->ticket,
                                .status = EXIT_FAILED,
                                .text = "this node took too long to end its ranks"});
        node->stopped = node->lost = true;
        if (!c->cause && !c->signal) c->cause = node;
    }
    conclude(c, now);
}

void coordinator_tick(struct coordinator *c, double now) {
    char text[TEXT];
    if (c->state == GATHERING && now >= c->progress) {
        node_describe(c, text);
        say(c, "waiting: %s", text);
        c->progress = now + 2 * (now - c->since);
    }
    if (c->state == GATHERING) check_gathered(c, now);
    if (c->state == STOPPING && now >= coordinator_due(c)) drop_stuck(c, now);
}

double coordinator_due(const struct coordinator *c) {
    const struct coordinator_options *o = &c->options;
    if (c->state == STOPPING) /* after SIGINT the ranks have time until the user insists */
        return c->signal == SIGINT && !c->insisted ? never : c->since + o->stop_seconds;
    if (c->state != GATHERING) return never;
    double due = c->enough < never ? c->enough + o->last_call_seconds : c->since + o->join_seconds;
    return c->progress < due ? c->progress : due;
}

struct coordinator *coordinator_open(const struct coordinator_options *options, double now) {
    struct coordinator *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->options = *options;
    c->survivors.options = options->survive;
    c->generation = -1;
    enter(c, GATHERING, now);
    return c;
}

void coordinator_free(struct coordinator *c) {
    while (c && c->nodes) {
        struct node *next = c->nodes->next;
        node_free(c->nodes);
        c->nodes = next;
    }
    free(c);
}
