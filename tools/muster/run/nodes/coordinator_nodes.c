/* coordinator_nodes.c - the nodes that a coordinator knows; see coordinator_internal.h. */
#include "run/nodes/coordinator_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MOST = 8 };

struct node *node_find(const struct coordinator *c, int ticket) {
    struct node *node = c->nodes;
    while (node && node->ticket != ticket) node = node->next;
    return node;
}

const struct node *node_find_rank(const struct coordinator *c, int node_rank) {
    const struct node *node = c->nodes;
    while (node && (node->node_rank != node_rank || !node_is_present(node))) node = node->next;
    return node;
}

bool node_is_present(const struct node *node) {
    return !node->lost && !node->leaving;
}

bool node_is_done(const struct node *node) {
    return node->takes_part && node->stopped;
}

bool node_has_ranks(const struct node *node) {
    return node->takes_part && !node->stopped;
}

bool node_has_failed(const struct node *node) {
    return node->takes_part && node->outcome.rank >= 0;
}

bool node_is_eligible(const struct coordinator *c, const struct node *node) {
    if (!node_is_present(node)) return false;
    return node->node_rank < 0 || c->generation < 0 || node_find_rank(c, node->node_rank) == node;
}

int node_count(const struct coordinator *c, bool (*holds)(const struct node *)) {
    int n = 0;
    for (const struct node *node = c->nodes; node; node = node->next) n += holds(node);
    return n;
}

int node_count_eligible(const struct coordinator *c) {
    int n = 0;
    for (const struct node *node = c->nodes; node; node = node->next) n += node_is_eligible(c, node);
    return n < c->options.max ? n : c->options.max;
}

void node_free(struct node *node) {
    free(node->report);
    free(node);
}

void node_drop_absent(struct coordinator *c) {
    for (struct node **at = &c->nodes; *at;) {
        struct node *node = *at;
        if (node_is_present(node)) {
            at = &node->next;
            continue;
        }
        *at = node->next;
        node_free(node);
    }
}

/* By node rank; nodes without one in order of arrival. */
int node_compare(const void *a, const void *b) {
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
    if (x->node_rank != y->node_rank) return x->node_rank < y->node_rank ? -1 : 1;
    return x->ticket < y->ticket ? -1 : 1;
}

void node_begin(struct node *node) {
    node->takes_part = true;
    node->stopped = false;
    node->running = node->n;
    node->waiting = node->events = 0;
    node->outcome = (struct notice){.rank = -1, .culprit = -1};
    free(node->report);
    node->report = NULL;
}

struct node *node_add(struct coordinator *c, const struct notice *n) {
    struct node *node = calloc(1, sizeof *node), **end = &c->nodes;
    if (!node) return NULL;
    while (*end) end = &(*end)->next;
    *node = (struct node){.ticket = n->ticket,
                          .node_rank = n->node_rank,
                          .n = n->n,
                          .pid = n->pid,
                          .stopped = true,
                          .outcome = {.rank = -1, .culprit = -1}};
    snprintf(node->host, sizeof node->host, "%s", n->text);
    *end = node;
    return node;
}

const char *node_name(const struct node *node, char out[NODE_NAME]) {
    char rank[32] = "";
    if (node->node_rank >= 0) snprintf(rank, sizeof rank, "node %d, ", node->node_rank);
    snprintf(out, NODE_NAME, "%shost %s (pid %d)", rank, node->host, node->pid);
    return out;
}

/* Appends item i of n to a list "a, b and 3 more". */
static void add_to_list(char list[TEXT / 2], int i, int n, const char *name) {
    size_t used = strlen(list);
    if (i < NAMED_MOST)
        snprintf(list + used, TEXT / 2 - used, "%s%s", i > 0 ? ", " : "", name);
    else if (i == NAMED_MOST)
        snprintf(list + used, TEXT / 2 - used, " and %d more", n - i);
}

static void list_missing(const struct coordinator *c, char list[TEXT / 2]) {
    int n = 0, missing = c->options.min - node_count_eligible(c);
    bool ranked = c->nodes ? c->nodes->node_rank >= 0 : c->options.hosts != NULL;
    char name[NODE_NAME];
    for (int i = 0; i < c->options.max && ranked && n < missing; i++) {
        if (node_find_rank(c, i)) continue;
        if (c->options.hosts)
            snprintf(name, sizeof name, "node %d, host %s", i, c->options.hosts[i].name);
        else
            snprintf(name, sizeof name, "node %d", i);
        add_to_list(list, n++, missing, name);
    }
}

void node_describe(const struct coordinator *c, char text[TEXT]) {
    char present[TEXT / 2] = "", missing[TEXT / 2] = "", name[NODE_NAME];
    int i = 0, n = node_count_eligible(c);
    for (const struct node *node = c->nodes; node; node = node->next)
        if (node_is_eligible(c, node)) add_to_list(present, i++, n, node_name(node, name));
    list_missing(c, missing);
    snprintf(text, TEXT, "%d of %d node%s here%s%.480s%s%.480s", n, c->options.min,
             c->options.min == 1 ? " is" : "s are", n > 0 ? ": " : "", present,
             missing[0] ? "; missing: " : "", missing);
}
