/* lock.c - see lock.h. */
#include "os/lock.h"
#include "base/fence.h"
#include "os/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 100, MISSED_MS = 1, FORBIDDEN_US = 10000 };

/* Sleeps while *word is value, until the deadline at the latest. */
static void sleep_while(_Atomic uint32_t *word, uint32_t value, int64_t deadline) {
    struct timespec until = {deadline / 1000000000, deadline % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline == INT64_MAX ? NULL : &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static bool spin(struct msi_lock *lock) {
    for (int i = 0; i < SPINS; i++)
        if (msi_lock_try(lock)) return true;
    return false;
}

/* A thread that leaves without a look at the new number of waiters does so within the time of a spin. If it
 * takes longer, the sleep ends by itself. */
void msi_lock_wait(struct msi_lock *lock) {
    if (spin(lock)) return;
    atomic_fetch_add_explicit(&lock->waiters, 1, memory_order_seq_cst);
    while (!spin(lock)) {
        bool busy = atomic_load_explicit(&lock->busy, memory_order_relaxed);
        sleep_while(busy ? &lock->busy : &lock->held, 1, msi_deadline(MISSED_MS));
    }
    atomic_fetch_sub_explicit(&lock->waiters, 1, memory_order_relaxed);
}

void msi_lock_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

static bool has_membarrier;

static void find_membarrier(void) {
#ifndef MSI_WITH_TSAN /* it does not know membarrier */
    has_membarrier = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
#endif
}

/* A fence in all threads of the process that run; the others have executed one. */
static void fence_all(void) {
    while (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)) {
        bool again = errno == ENOMEM;
        usleep(
            FORBIDDEN_US); /* if a filter forbids it now, the stores of the other thread arrive meanwhile */
        if (!again) return;
    }
}

bool msi_lock_share(struct msi_lock *lock) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uintptr_t first = atomic_load_explicit(&lock->first, memory_order_relaxed); /* changes under held only */
    pthread_once(&once, find_membarrier);
    if (!first && has_membarrier) {
        atomic_store_explicit(&lock->first, (uintptr_t)__builtin_thread_pointer(), memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(&lock->shared, 1, memory_order_relaxed);
    if (first) fence_all();
    if (!atomic_load_explicit(&lock->busy, memory_order_acquire)) return true;
    atomic_store_explicit(&lock->held, 0, memory_order_release);
    return false;
}

void msi_condition_wait(struct msi_condition *condition, struct msi_lock *lock, int64_t deadline) {
    uint32_t seen = atomic_load_explicit(&condition->count, memory_order_relaxed); /* under the lock */
    condition->sleepers++;
    msi_lock_leave(lock);
    sleep_while(&condition->count, seen, deadline);
    msi_lock_enter(lock);
    condition->sleepers--;
}

void msi_condition_tell(struct msi_condition *condition) {
    if (condition->sleepers == 0) return;
    atomic_fetch_add_explicit(&condition->count, 1, memory_order_relaxed); /* under the lock */
    syscall(SYS_futex, &condition->count, FUTEX_WAKE_PRIVATE, INT_MAX);
}
