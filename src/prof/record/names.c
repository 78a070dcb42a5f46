/* names.c - see names.h: a hash table that only grows. */
#include "prof/record/names.h"
#include "base/hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8192, MOST = SLOTS / 2 };

/* Stored (release) under the lock, loaded (acquire) by find. */
static _Atomic(const char *) slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int used;

static _Atomic(const char *) *find(const char *text) {
    static const uint64_t seeds[2] = {5, 6};
    size_t at = (size_t)msi_hash(text, strlen(text), seeds) % SLOTS;
    for (;; at = (at + 1) % SLOTS) {
        const char *kept = atomic_load_explicit(&slots[at], memory_order_acquire);
        if (!kept || !strcmp(kept, text)) return &slots[at];
    }
}

const char *msi_prof_keep(const char *text) {
    const char *kept = atomic_load_explicit(find(text), memory_order_acquire);
    if (kept) return kept;
    pthread_mutex_lock(&lock);
    _Atomic(const char *) *slot = find(text);
    kept = atomic_load_explicit(slot, memory_order_relaxed);
    if (!kept && used == MOST) kept = "other";
    if (!kept && (kept = strdup(text))) {
        used++;
        atomic_store_explicit(slot, kept, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return kept;
}
