/* lock.c - see lock.h. */
#include "os/lock.h"
#include "os/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 100, MISSED_MS = 1 };

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
    while (!spin(lock)) sleep_while(&lock->held, 1, msi_deadline(MISSED_MS));
    atomic_fetch_sub_explicit(&lock->waiters, 1, memory_order_relaxed);
}

void msi_lock_wake(struct msi_lock *lock) {
    syscall(SYS_futex, &lock->held, FUTEX_WAKE_PRIVATE, 1);
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
