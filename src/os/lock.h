/*
 * lock.h - a lock that costs a few instructions while no other thread wants it, and a condition that belongs
 * to it. The thread that holds the lock can see that another one waits for it.
 *
 * A pthread mutex would cost 70 instructions more in each call of the library.
 */
#ifndef MSI_OS_LOCK_H
#define MSI_OS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zeros: free. */
struct msi_lock {
    _Atomic uint32_t held;    /* 0 or 1 */
    _Atomic uint32_t waiters; /* threads that may sleep until it is free */
};

void msi_lock_wait(struct msi_lock *lock);
void msi_lock_wake(struct msi_lock *lock);

/* Does not wait; false: another thread holds it. */
static inline bool msi_lock_try(struct msi_lock *lock) {
    uint32_t free = 0;
    /* Pairs with msi_lock_leave: what was done under the lock before is seen. */
    return atomic_compare_exchange_strong_explicit(&lock->held, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void msi_lock_enter(struct msi_lock *lock) {
    if (!msi_lock_try(lock)) msi_lock_wait(lock);
}

/*
 * A plain store: an exchange would wait until all stores of this thread have reached the other ranks. So the
 * processor may read waiters before others see that the lock is free, and miss one: see msi_lock_wait.
 */
static inline void msi_lock_leave(struct msi_lock *lock) {
    atomic_store_explicit(&lock->held, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&lock->waiters, memory_order_relaxed)) msi_lock_wake(lock);
}

/* For the holder: does another thread wait? */
static inline bool msi_lock_is_awaited(const struct msi_lock *lock) {
    return atomic_load_explicit(&lock->waiters, memory_order_relaxed) != 0;
}

/* A condition. All zeros: ready for use. Both calls need the lock. */
struct msi_condition {
    _Atomic uint32_t count; /* of changes */
    int sleepers;
};

/* Lets go of the lock until the condition is told, a deadline of msi_deadline passes, or without a reason. */
void msi_condition_wait(struct msi_condition *condition, struct msi_lock *lock, int64_t deadline);
/* Wakes all that wait. */
void msi_condition_tell(struct msi_condition *condition);

#endif
