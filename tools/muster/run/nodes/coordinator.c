/* coordinator.c - see coordinator.h: hears, decides, orders. */
#include "run/nodes/coordinator_internal.h"

#include "commands.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double never = 1e18;

__attribute__((format(printf, 2, 3))) static void say(const struct head *head, const char *format, ...) {
    char text[TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    head->options.say(head->options.arg, text);
}

static void order(const struct head *head, struct order order) {
    head->options.order(head->options.arg, &order);
}

static void enter(struct head *head, enum state state, double now) {
    head->state = state;
    head->since = now;
    head->progress = now + head->options.progress_seconds;
    head->enough = never;
}

static void end_job(struct head *head, int status, const char *text, double now) {
    enter(head, OVER, now);
    order(head, (struct order){.kind = ORDER_END, .status = status, .text = text});
}

/* All that are here take part, up to max; whoever comes behind waits for a place. */
static void begin(struct head *head, int n, double now) {
    struct node **here = calloc((size_t)n, sizeof here[0]);
    struct node_place *places = calloc((size_t)n, sizeof places[0]);
    int at = 0, ranks = 0;

    if (here == NULL || places == NULL) {
        end_job(head, EXIT_FAILED, "the head is out of memory", now);
        goto free_both;
    }
    for (struct node *node = head->nodes; node != NULL; node = node->next) {
        node->takes_part = false;
        if (at < n && node_has_a_place(head, node)) here[at++] = node;
    }
    qsort(here, (size_t)n, sizeof here[0], node_by_place);
    for (int i = 0; i < n; i++) {
        node_begin(here[i]);
        places[i] = (struct node_place){here[i]->ticket, ranks, here[i]->n, here[i]->host};
        ranks += here[i]->n;
    }
    head->generation++;
    head->cause = NULL;
    enter(head, RUNNING, now);
    order(head, (struct order){.kind = ORDER_GO,
                               .generation = head->generation,
                               .world_size = ranks,
                               .nodes = n,
                               .places = places});
free_both:
    free(here);
    free(places);
}

/* Goes on if everybody is there. */
static void look_who_is_here(struct head *head, double now) {
    const struct head_options *o = &head->options;
    int n = node_count_ready(head);
    char text[TEXT], all[TEXT + 128];
    bool first = head->generation < 0;

    if (n < o->min)
        head->enough = never;
    else if (now < head->enough)
        head->enough = now;
    if (n >= o->min && (n == o->max || !first || now >= head->enough + o->last_call_seconds)) {
        begin(head, n, now);
        return;
    }
    if (n >= o->min || now < head->since + o->join_seconds) return; /* the same sum as in head_due */
    node_describe(head, text);
    snprintf(all, sizeof all, "not enough nodes in %g s: %s", o->join_seconds, text);
    end_job(head, EXIT_FAILED, all, now);
}

static void gather(struct head *head, double now) {
    enter(head, GATHERING, now);
    head->cause = NULL;
    node_forget_the_gone(head);
    look_who_is_here(head, now);
}

/* The failure that the others follow from: that of the node that told first, unless its rank blames one that failed, too. */
static const struct node *find_root(const struct head *head) {
    const struct node *cause = head->cause;

    for (const struct node *node = head->nodes; node != NULL; node = node->next)
        if (node_has_failed(node) && cause->culprit >= 0 && node->rank == cause->culprit) return node;
    if (node_has_failed(cause)) return cause;
    for (const struct node *node = head->nodes; node != NULL; node = node->next)
        if (node_has_failed(node)) return node;
    return cause;
}

static void after_failure(struct head *head, double now) {
    const struct node *root = find_root(head);
    char who[NODE_HOST_MAX + 64], text[TEXT];
    bool again = !root->final && head->signal == 0 && head->restarts < head->options.max_restarts;

    if (root->report != NULL) head->options.report(head->options.arg, root->report);
    if (again) {
        head->restarts++;
        say(head, "starting all ranks again: restart %d of %d", head->restarts, head->options.max_restarts);
        gather(head, now);
        return;
    }
    snprintf(text, sizeof text, "rank %d failed on %s", root->rank, node_show(root, who, sizeof who));
    end_job(head, root->status != 0 ? root->status : EXIT_FAILED, text, now);
}

static void after_loss(struct head *head, double now) {
    const struct head_options *o = &head->options;
    int n = node_count_ready(head);
    char who[NODE_HOST_MAX + 64], text[TEXT];

    node_show(head->cause, who, sizeof who);
    snprintf(text, sizeof text, "%s %s", who, head->cause->leaving ? "has left" : "was lost");
    if (n >= o->min) {
        say(head, "%s; going on with %d node%s", text, n, n == 1 ? "" : "s");
        gather(head, now);
    } else if (head->restarts < o->max_restarts) {
        head->restarts++;
        say(head, "%s; waiting %g s for another: restart %d of %d", text, o->join_seconds, head->restarts,
            o->max_restarts);
        gather(head, now);
    } else {
        end_job(head, EXIT_FAILED, text, now);
    }
}

/* No node has ranks any more. A failure that came before a signal is why, as it is where there is one node. */
static void conclude(struct head *head, double now) {
    const struct node *cause = head->cause;

    if (head->signal != 0 && (cause == NULL || !node_has_failed(cause)))
        end_job(head, EXIT_SIGNAL + head->signal, "the job was told to end", now);
    else if (head->failed != 0)
        end_job(head, head->failed, head->failure, now);
    else if (cause != NULL && !node_is_here(cause) && !node_has_failed(cause))
        after_loss(head, now);
    else if (cause != NULL)
        after_failure(head, now);
    else
        gather(head, now);
}

static void stop(struct head *head, int signal, const char *text, double now) {
    enter(head, STOPPING, now);
    order(head,
          (struct order){.kind = ORDER_STOP, .generation = head->generation, .signal = signal, .text = text});
    if (node_count(head, node_is_stuck) == 0) conclude(head, now);
}

static void look_who_is_stopped(struct head *head, double now) {
    if (node_count(head, node_is_stuck) > 0) return;
    if (head->state == STOPPING)
        conclude(head, now);
    else if (head->state == RUNNING)
        end_job(head, EXIT_DONE, "", now);
}

/* A mistake on a command line, found before anything has begun, ends the job; later, it is the newcomer's alone. */
static void refuse(struct head *head, const struct notice *n, const char *why, double now) {
    char text[TEXT];

    order(head, (struct order){.kind = ORDER_REFUSE, .ticket = n->ticket, .status = EXIT_USAGE, .text = why});
    snprintf(text, sizeof text, "host %s (pid %d) cannot join: %s", n->text, n->pid, why);
    if (head->generation < 0)
        end_job(head, EXIT_USAGE, text, now);
    else
        say(head, "%s", text);
}

/* As the command line has it. */
static const char *show_nodes(int min, int max, char out[32]) {
    snprintf(out, 32, min == max ? "%d" : "%d:%d", min, max);
    return out;
}

static bool fits(struct head *head, const struct notice *n, double now) {
    const struct head_options *o = &head->options;
    const struct node *first = head->nodes,
                      *same = n->node_rank >= 0 ? node_find_rank(head, n->node_rank) : NULL;
    char why[TEXT] = "", who[NODE_HOST_MAX + 64], theirs[32], ours[32];

    if (n->min != o->min || n->max != o->max)
        snprintf(why, sizeof why, "it was started with --nnodes %s, and the head with --nnodes %s",
                 show_nodes(n->min, n->max, theirs), show_nodes(o->min, o->max, ours));
    else if (n->node_rank >= o->max)
        snprintf(why, sizeof why, "it has --node-rank %d, and there are %d nodes", n->node_rank, o->max);
    else if (first != NULL && (first->node_rank < 0) != (n->node_rank < 0))
        snprintf(why, sizeof why, "it has %s --node-rank, and %s has %s", n->node_rank < 0 ? "no" : "a",
                 node_show(first, who, sizeof who), n->node_rank < 0 ? "one" : "none");
    else if (same != NULL && head->generation < 0)
        snprintf(why, sizeof why, "it has --node-rank %d, as has %s", n->node_rank,
                 node_show(same, who, sizeof who));
    else if (node_count_ranks(head) > NODE_RANKS_MOST - n->n)
        snprintf(why, sizeof why, "there would be more than %d ranks", NODE_RANKS_MOST);
    if (why[0] == '\0') return true;
    refuse(head, n, why, now);
    return false;
}

static void join(struct head *head, const struct notice *n, double now) {
    char who[NODE_HOST_MAX + 64], text[TEXT];
    int n_now = node_count(head, node_takes_part);

    if (head->state == OVER || node_find(head, n->ticket) != NULL || !fits(head, n, now)) return;
    const struct node *node = node_add(head, n);
    if (node == NULL) return;
    node_show(node, who, sizeof who);
    if (head->state == GATHERING) {
        look_who_is_here(head, now);
    } else if (head->state == RUNNING && n_now < head->options.max && node_has_a_place(head, node) &&
               node_count(head, node_is_through) ==
                   0) { /* what some have done already is not done again for a newcomer */
        snprintf(text, sizeof text, "%s joins; starting all ranks again with %d nodes", who, n_now + 1);
        say(head, "%s", text);
        stop(head, SIGTERM, text, now);
    } else {
        say(head, "%s has come, and waits for a place", who);
    }
}

static void node_is_gone(struct head *head, struct node *node, double now) {
    char who[NODE_HOST_MAX + 64], text[TEXT];

    snprintf(text, sizeof text, "%s %s", node_show(node, who, sizeof who),
             node->lost ? "was lost" : "leaves");
    bool was_through = node->stopped;
    if (node->lost) node->stopped = true;
    if (head->state == RUNNING && node->takes_part && !was_through) {
        head->cause = node;
        say(head, "%s; ending all ranks", text);
        stop(head, 0, text, now);
    } else if (head->state == GATHERING) {
        say(head, "%s", text);
        node_forget_the_gone(head);
        look_who_is_here(head, now);
    } else if (head->state == STOPPING) {
        look_who_is_stopped(head, now);
    }
}

static void node_failed(struct head *head, struct node *node, const char *text, double now) {
    if (head->state != RUNNING || !node->takes_part || (node->stopped && !node_has_failed(node))) return;
    head->cause = node;
    stop(head, 0, text, now);
}

static void node_stopped(struct head *head, struct node *node, const struct notice *n, double now) {
    char who[NODE_HOST_MAX + 64], text[TEXT];

    if (!node->takes_part || node->stopped) return;
    node->stopped = true;
    node->rank = n->rank;
    node->status = n->status;
    node->culprit = n->culprit;
    node->final = n->final;
    if (n->text[0] != '\0') node->report = strdup(n->text);
    if (n->rank >= 0) {
        snprintf(text, sizeof text, "rank %d failed on %s", n->rank, node_show(node, who, sizeof who));
        node_failed(head, node, text, now);
    }
    look_who_is_stopped(head, now);
}

void head_hear(struct head *head, const struct notice *n, double now) {
    struct node *node = node_find(head, n->ticket);

    if (n->kind == NOTICE_JOIN) join(head, n, now);
    if (node == NULL || node->lost || head->state == OVER) return;
    if (n->kind == NOTICE_FAILED && n->generation == head->generation) node_failed(head, node, n->text, now);
    if (n->kind == NOTICE_STOPPED && n->generation == head->generation) node_stopped(head, node, n, now);
    if (n->kind == NOTICE_LEAVE && !node->leaving) {
        node->leaving = true;
        node_is_gone(head, node, now);
    }
    if (n->kind == NOTICE_DIED) {
        node->lost = true;
        node_is_gone(head, node, now);
    }
}

void head_interrupt(struct head *head, int signal, double now) {
    if (head->state == OVER) return;
    if (head->signal == 0) head->signal = signal;
    head->insisted |= signal == SIGKILL;
    if (head->state == GATHERING)
        conclude(head, now);
    else
        stop(head, signal, "the job was told to end", now);
}

void head_fail(struct head *head, int status, const char *text, double now) {
    if (head->state == OVER || head->failed != 0) return;
    head->failed = status;
    snprintf(head->failure, sizeof head->failure, "%s", text);
    if (head->state == GATHERING)
        conclude(head, now);
    else if (head->state == RUNNING)
        stop(head, SIGTERM, text, now);
}

/* Whoever does not end its ranks in time is not waited for. */
static void give_up_the_stuck(struct head *head, double now) {
    char who[NODE_HOST_MAX + 64];

    for (struct node *node = head->nodes; node != NULL; node = node->next) {
        if (!node_is_stuck(node)) continue;
        say(head, "%s has not ended its ranks in %g s; going on without it", node_show(node, who, sizeof who),
            head->options.stop_seconds);
        order(head, (struct order){.kind = ORDER_REFUSE,
                                   .ticket = node->ticket,
                                   .status = EXIT_FAILED,
                                   .text = "this node took too long to end its ranks"});
        node->stopped = node->lost = true;
        if (head->cause == NULL && head->signal == 0) head->cause = node;
    }
    conclude(head, now);
}

static void tell_progress(struct head *head, double now) {
    char text[TEXT];

    node_describe(head, text);
    say(head, "waiting: %s", text);
    head->progress = now + 2 * (now - head->since);
}

void head_tick(struct head *head, double now) {
    if (head->state == GATHERING && now >= head->progress) tell_progress(head, now);
    if (head->state == GATHERING) look_who_is_here(head, now);
    if (head->state == STOPPING && now >= head_due(head)) give_up_the_stuck(head, now);
}

double head_due(const struct head *head) {
    const struct head_options *o = &head->options;
    double due = never;

    if (head->state == STOPPING) /* after an interrupt it is the user who says when it is enough */
        return head->signal == SIGINT && !head->insisted ? never : head->since + o->stop_seconds;
    if (head->state != GATHERING) return due;
    due = head->enough < never ? head->enough + o->last_call_seconds : head->since + o->join_seconds;
    return head->progress < due ? head->progress : due;
}

struct head *head_open(const struct head_options *options, double now) {
    struct head *head = calloc(1, sizeof *head);

    if (head == NULL) return NULL;
    head->options = *options;
    head->generation = -1;
    enter(head, GATHERING, now);
    return head;
}

void head_free(struct head *head) {
    if (head == NULL) return;
    while (head->nodes != NULL) {
        struct node *next = head->nodes->next;
        node_free(head->nodes);
        head->nodes = next;
    }
    free(head);
}
