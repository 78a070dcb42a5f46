/*
 * handles.c - the set of valid handles: lists of nodes that are never removed. A node without a handle is
 * used for the next handle of its list, so there are never many more nodes than handles at a time.
 */
#include "base/handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_BITS = 8 };

struct node {
    _Atomic uintptr_t handle; /* 0: none. Stored (release) under the lock, loaded (acquire) by find */
    struct node *next;        /* constant once the node is in its list */
};

/* Stored (release) under the lock, loaded (acquire) by find. */
static _Atomic(struct node *) lists[1 << LIST_BITS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *msi_handle_alloc(size_t bytes) {
    size_t rounded = (bytes + MSI_HANDLE_GENERATIONS - 1) / MSI_HANDLE_GENERATIONS * MSI_HANDLE_GENERATIONS;
    void *memory = aligned_alloc(MSI_HANDLE_GENERATIONS, rounded);
    return memory ? memset(memory, 0, rounded) : NULL;
}

static _Atomic(struct node *) *list_of(uintptr_t handle) {
    return &lists[(uint64_t)handle * 0x9E3779B97F4A7C15u >> (64 - LIST_BITS)];
}

/* The node in the list of handle that holds wanted; wanted 0: a free node. */
static struct node *find(uintptr_t handle, uintptr_t wanted) {
    struct node *node = atomic_load_explicit(list_of(handle), memory_order_acquire);
    while (node && atomic_load_explicit(&node->handle, memory_order_acquire) != wanted) node = node->next;
    return node;
}

bool msi_handle_add(const void *handle) {
    uintptr_t word = (uintptr_t)handle;
    pthread_mutex_lock(&lock);
    struct node *node = find(word, 0);
    if (node) {
        atomic_store_explicit(&node->handle, word, memory_order_release);
    } else if ((node = malloc(sizeof *node))) {
        atomic_init(&node->handle, word);
        node->next = atomic_load_explicit(list_of(word), memory_order_relaxed);
        atomic_store_explicit(list_of(word), node, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return node != NULL;
}

void msi_handle_remove(const void *handle) {
    uintptr_t word = (uintptr_t)handle;
    pthread_mutex_lock(&lock);
    struct node *node = find(word, word);
    if (node) atomic_store_explicit(&node->handle, 0, memory_order_release);
    pthread_mutex_unlock(&lock);
}

bool msi_handle_alive(const void *handle) {
    return handle && find((uintptr_t)handle, (uintptr_t)handle) != NULL;
}
