/* coordinator_nodes.c - the nodes that a head knows: who is here, who has a place, and how they are called. See coordinator_internal.h. */
#include "run/nodes/coordinator_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMED_MOST = 8 };

struct node *node_find(const struct head *head, int ticket) {
    for (struct node *node = head->nodes; node != NULL; node = node->next)
        if (node->ticket == ticket) return node;
    return NULL;
}

const struct node *node_find_rank(const struct head *head, int node_rank) {
    for (struct node *node = head->nodes; node != NULL; node = node->next)
        if (node->node_rank == node_rank && !node->lost && !node->leaving) return node;
    return NULL;
}

int node_count(const struct head *head, bool (*holds)(const struct node *)) {
    int n = 0;

    for (const struct node *node = head->nodes; node != NULL; node = node->next) n += holds(node);
    return n;
}

bool node_is_here(const struct node *node) {
    return !node->lost && !node->leaving;
}

bool node_takes_part(const struct node *node) {
    return node->takes_part;
}

bool node_is_through(const struct node *node) {
    return node->takes_part && node->stopped;
}

bool node_is_stuck(const struct node *node) {
    return node->takes_part && !node->stopped;
}

bool node_has_failed(const struct node *node) {
    return node->takes_part && node->rank >= 0;
}

/* Of nodes with the same rank the first to come has it; others wait until that one is gone. */
bool node_has_a_place(const struct head *head, const struct node *node) {
    if (!node_is_here(node)) return false;
    return node->node_rank < 0 || head->generation < 0 || node_find_rank(head, node->node_rank) == node;
}

/* How many could begin a generation. */
int node_count_ready(const struct head *head) {
    int n = 0;

    for (const struct node *node = head->nodes; node != NULL; node = node->next)
        n += node_has_a_place(head, node);
    return n < head->options.max ? n : head->options.max;
}

int node_count_ranks(const struct head *head) {
    int n = 0;

    for (const struct node *node = head->nodes; node != NULL; node = node->next) n += node->n;
    return n;
}

void node_free(struct node *node) {
    free(node->report);
    free(node);
}

/* Forgets who is gone, once nothing refers to them any more. */
void node_forget_the_gone(struct head *head) {
    for (struct node **at = &head->nodes; *at != NULL;) {
        struct node *node = *at;

        if (node_is_here(node)) {
            at = &node->next;
            continue;
        }
        *at = node->next;
        node_free(node);
    }
}

/* Nodes with a rank stand in its order, others in that of their coming. */
static bool comes_before(const struct node *a, const struct node *b) {
    return a->node_rank != b->node_rank ? a->node_rank < b->node_rank : a->ticket < b->ticket;
}

int node_by_place(const void *a, const void *b) {
    return comes_before(*(struct node *const *)a, *(struct node *const *)b) ? -1 : 1;
}

void node_begin(struct node *node) {
    node->takes_part = true;
    node->stopped = node->final = false;
    node->rank = node->culprit = -1;
    node->status = 0;
    free(node->report);
    node->report = NULL;
}

struct node *node_add(struct head *head, const struct notice *n) {
    struct node *node = calloc(1, sizeof *node), **end = &head->nodes;

    if (node == NULL) return NULL;
    while (*end != NULL) end = &(*end)->next;
    *node = (struct node){.ticket = n->ticket,
                          .node_rank = n->node_rank,
                          .n = n->n,
                          .pid = n->pid,
                          .stopped = true,
                          .rank = -1,
                          .culprit = -1};
    snprintf(node->host, sizeof node->host, "%s", n->text);
    *end = node;
    return node;
}

/* "host b (pid 12)", with its node rank where nodes have one. */
const char *node_show(const struct node *node, char *out, size_t size) {
    if (node->node_rank < 0)
        snprintf(out, size, "host %s (pid %d)", node->host, node->pid);
    else
        snprintf(out, size, "node %d, host %s (pid %d)", node->node_rank, node->host, node->pid);
    return out;
}

/* Appends to a list "a, b and 3 more". */
static void list_one(char *list, int i, int n, const char *name) {
    size_t used = strlen(list);

    if (i < NAMED_MOST)
        snprintf(list + used, TEXT / 2 - used, "%s%s", i > 0 ? ", " : "", name);
    else if (i == NAMED_MOST)
        snprintf(list + used, TEXT / 2 - used, " and %d more", n - i);
}

static void list_missing(const struct head *head, char list[TEXT / 2]) {
    int n = 0, missing = head->options.min - node_count_ready(head);
    bool ranked = head->nodes != NULL ? head->nodes->node_rank >= 0 : head->options.names != NULL;
    char name[NODE_HOST_MAX + 32];

    for (int i = 0; i < head->options.max && ranked && n < missing; i++) {
        if (node_find_rank(head, i) != NULL) continue;
        if (head->options.names != NULL)
            snprintf(name, sizeof name, "node %d, host %s", i, head->options.names[i]);
        else
            snprintf(name, sizeof name, "node %d", i);
        list_one(list, n++, missing, name);
    }
}

/* "2 of 3 nodes have come: …; missing: …" */
void node_describe(const struct head *head, char text[TEXT]) {
    char here[TEXT / 2] = "", missing[TEXT / 2] = "", who[NODE_HOST_MAX + 64];
    int i = 0, n = node_count_ready(head);

    for (const struct node *node = head->nodes; node != NULL; node = node->next)
        if (node_has_a_place(head, node)) list_one(here, i++, n, node_show(node, who, sizeof who));
    list_missing(head, missing);
    snprintf(text, TEXT, "%d of %d node%s here%s%.480s%s%.480s", n, head->options.min,
             head->options.min == 1 ? " is" : "s are", n > 0 ? ": " : "", here,
             missing[0] != '\0' ? "; missing: " : "", missing);
}
