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

enum { MSI_LOCK_FREE, MSI_LOCK_HELD, MSI_LOCK_AWAITED };

/* All zeros: free. */
struct msi_lock {
    _Atomic uint32_t state; /* AWAITED: held, and threads may sleep until it is free */
};

void msi_lock_wait(struct msi_lock *lock);
void msi_lock_wake(struct msi_lock *lock);

/* Does not wait; false: another thread holds it. */
static inline bool msi_lock_try(struct msi_lock *lock) {
    uint32_t free = MSI_LOCK_FREE;
    /* Pairs with msi_lock_leave: what was done under the lock before is seen. */
    return atomic_compare_exchange_strong_explicit(&lock->state, &free, MSI_LOCK_HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void msi_lock_enter(struct msi_lock *lock) {
    if (!msi_lock_try(lock)) msi_lock_wait(lock);
}

static inline void msi_lock_leave(struct msi_lock *lock) {
    if (atomic_exchange_explicit(&lock->state, MSI_LOCK_FREE, memory_order_release) == MSI_LOCK_AWAITED)
        msi_lock_wake(lock);
}

/* For the holder: does another thread wait, or did one until recently? */
static inline bool msi_lock_is_awaited(const struct msi_lock *lock) {
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == MSI_LOCK_AWAITED;
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
