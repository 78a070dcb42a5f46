/*
 * watch.c - replaces malloc, free and the pthread locks: they count, then call the C library's functions.
 * Counts all threads, and also calls inside the C library.
 */
#include "steady.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
bool watch_works(void) {
    return false;
}
void watch_begin(void) {}
struct watched watch_end(void) {
    return (struct watched){0};
}
void watch_locks(struct locks *locks) {
    locks->n = 0;
}
#else

static _Atomic bool watching;
static _Atomic long allocations, frees, locked;
static _Atomic(const void *) taken[64];

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

static void count(_Atomic long *what) {
    if (atomic_load_explicit(&watching, memory_order_relaxed))
        atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

void *malloc(size_t bytes) {
    count(&allocations);
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    count(&allocations);
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    count(&allocations);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count(&allocations);
    return __libc_memalign(alignment, bytes);
}

void free(void *memory) {
    if (memory) count(&frees);
    __libc_free(memory);
}

/* Adds the lock to the list, once. */
static void note(const void *lock) {
    if (!atomic_load_explicit(&watching, memory_order_relaxed)) return;
    atomic_fetch_add_explicit(&locked, 1, memory_order_relaxed);
    for (int i = 0; i < 64; i++) {
        const void *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&taken[i], &there, lock, memory_order_relaxed,
                                                    memory_order_relaxed) ||
            there == lock)
            return;
    }
}

/* The C library's function. */
typedef int (*locker)(void *lock);
static locker find(_Atomic(locker) *known, const char *name) {
    locker found = atomic_load_explicit(known, memory_order_relaxed);
    if (found) return found;
    *(void **)(void *)&found = dlsym(RTLD_NEXT, name);
    atomic_store_explicit(known, found, memory_order_relaxed);
    return found;
}

int pthread_mutex_lock(pthread_mutex_t *lock) {
    static _Atomic(locker) real;
    note(lock);
    return find(&real, "pthread_mutex_lock")(lock);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    static _Atomic(locker) real;
    note(lock);
    return find(&real, "pthread_rwlock_rdlock")(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    static _Atomic(locker) real;
    note(lock);
    return find(&real, "pthread_rwlock_wrlock")(lock);
}

bool watch_works(void) {
    return true;
}

void watch_begin(void) {
    for (int i = 0; i < 64; i++) atomic_store_explicit(&taken[i], NULL, memory_order_relaxed);
    atomic_store_explicit(&allocations, 0, memory_order_relaxed);
    atomic_store_explicit(&frees, 0, memory_order_relaxed);
    atomic_store_explicit(&locked, 0, memory_order_relaxed);
    atomic_store_explicit(&watching, true, memory_order_seq_cst);
}

struct watched watch_end(void) {
    atomic_store_explicit(&watching, false, memory_order_seq_cst);
    return (struct watched){atomic_load_explicit(&allocations, memory_order_relaxed),
                            atomic_load_explicit(&frees, memory_order_relaxed),
                            atomic_load_explicit(&locked, memory_order_relaxed)};
}

void watch_locks(struct locks *locks) {
    locks->n = 0;
    for (int i = 0; i < 64; i++) {
        const void *lock = atomic_load_explicit(&taken[i], memory_order_relaxed);
        if (lock) locks->at[locks->n++] = lock;
    }
}
#endif
