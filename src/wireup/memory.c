/* memory.c - see memory.h. */
#include "wireup/memory.h"
#include "comm/comm_internal.h"
#include "wireup/endpoint.h"

void msi_memory_init(struct msi_memory *memory) {
    *memory = (struct msi_memory){.limit = SIZE_MAX};
    pthread_mutex_init(&memory->lock, NULL);
    msi_list_init(&memory->held);
}

void msi_memory_close(struct msi_memory *memory) {
    pthread_mutex_destroy(&memory->lock);
}

void msi_memory_keep(struct msi_memory *memory, size_t bytes) {
    pthread_mutex_lock(&memory->lock);
    memory->used += bytes;
    pthread_mutex_unlock(&memory->lock);
}

void msi_memory_unkeep(struct msi_memory *memory, size_t bytes) {
    pthread_mutex_lock(&memory->lock);
    memory->used -= bytes;
    pthread_mutex_unlock(&memory->lock);
}

static void remove_locked(struct msi_memory *memory, struct msi_held *held) {
    memory->used -= held->bytes;
    held->bytes = 0;
    msi_list_remove(&held->node);
}

/* A group whose lock another thread has is in use. */
static void free_locked(struct msi_memory *memory, const struct msi_held *except, size_t most) {
    for (struct msi_list *at = memory->held.next, *next; at != &memory->held && memory->used > most;
         at = next) {
        struct msi_held *held = msi_container(at, struct msi_held, node);
        bool own = held->comm == except->comm;
        next = at->next;
        if (held == except || (!own && !msi_lock_try(&held->comm->lock))) continue;
        if (held->empty(held)) remove_locked(memory, held);
        if (!own) msi_comm_unlock(held->comm);
    }
}

bool msi_memory_hold(struct msi_held *held, size_t bytes, bool must) {
    struct msi_memory *memory = &held->comm->config.endpoint->memory;
    size_t more = bytes - held->bytes;
    pthread_mutex_lock(&memory->lock);
    bool fits = memory->used + more <= memory->limit;
    if (!fits && must) free_locked(memory, held, memory->limit > more ? memory->limit - more : 0);
    if (fits || must) {
        if (held->bytes == 0) msi_list_push(&memory->held, &held->node);
        memory->used += more;
        held->bytes = bytes;
    }
    pthread_mutex_unlock(&memory->lock);
    return fits || must;
}

void msi_memory_release(struct msi_held *held) {
    if (!held->comm) return;
    struct msi_memory *memory = &held->comm->config.endpoint->memory;
    pthread_mutex_lock(&memory->lock);
    if (held->bytes) remove_locked(memory, held);
    pthread_mutex_unlock(&memory->lock);
}
