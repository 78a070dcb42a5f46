/* list.h - an intrusive doubly linked list; a node that is in no list points to itself. */
#ifndef MSI_BASE_LIST_H
#define MSI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msi_list {
    struct msi_list *next, *prev;
};

#define msi_container(pointer, type, member) ((type *)((uintptr_t)(pointer)-offsetof(type, member)))

static inline void msi_list_init(struct msi_list *node) {
    node->next = node->prev = node;
}

static inline bool msi_list_empty(const struct msi_list *head) {
    return head->next == head;
}

static inline void msi_list_push(struct msi_list *head, struct msi_list *node) {
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void msi_list_remove(struct msi_list *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    msi_list_init(node);
}

#endif
