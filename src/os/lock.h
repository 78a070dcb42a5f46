/*
 * lock.h - a lock that costs a few plain loads and stores while only one thread uses it, and a condition that
 * belongs to it. The thread that holds the lock can see that another one waits for it.
 *
 * The lock is biased to the first thread that takes it, which then sets busy, without an atomic exchange and
 * without ordering for the processor: these cost 5 to 10 % of a small call. A second thread first takes held,
 * then sets shared, makes the first thread execute a fence (membarrier) and looks at busy:
 *
 *   first thread:   busy = 1;                 if (!shared) it has the lock
 *   other thread:   shared = 1; membarrier;   if (!busy) it has the lock
 *
 * From then on all threads take held. Without membarrier the lock is shared from the beginning.
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
    _Atomic uint32_t busy;    /* the first thread has it without held, or looks whether it may */
    _Atomic uint32_t shared;  /* other threads have used it */
    _Atomic uintptr_t first;  /* the thread to which it is biased; 0: none */
};

void msi_lock_wait(struct msi_lock *lock);
void msi_lock_wake(_Atomic uint32_t *word);
/* For a thread that has held of a lock that is not shared, and is not the first one: may it have the lock? */
bool msi_lock_share(struct msi_lock *lock);

static inline bool msi_lock_is_first(const struct msi_lock *lock) {
    /* Set before by this thread, or irrelevant to it. */
    return atomic_load_explicit(&lock->first, memory_order_relaxed) == (uintptr_t)__builtin_thread_pointer();
}

/* Does not wait; false: another thread holds it. */
static inline bool msi_lock_try(struct msi_lock *lock) {
    uint32_t free = 0;
    if (msi_lock_is_first(lock) && !atomic_load_explicit(&lock->shared, memory_order_relaxed)) {
        /* Ordered by membarrier in msi_lock_share. */
        if (atomic_load_explicit(&lock->busy, memory_order_relaxed)) return false;
        atomic_store_explicit(&lock->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        if (!atomic_load_explicit(&lock->shared, memory_order_relaxed)) return true;
        atomic_store_explicit(&lock->busy, 0, memory_order_relaxed);
    }
    /* Pairs with msi_lock_leave: what was done under the lock before is seen. */
    if (!atomic_compare_exchange_strong_explicit(&lock->held, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    bool shared = atomic_load_explicit(&lock->shared, memory_order_relaxed); /* changes under held only */
    if (!shared) return msi_lock_share(lock);
    /* Pairs with msi_lock_leave in the first thread. */
    if (!atomic_load_explicit(&lock->busy, memory_order_acquire)) return true;
    atomic_store_explicit(&lock->held, 0, memory_order_release);
    return false;
}

static inline void msi_lock_enter(struct msi_lock *lock) {
    if (!msi_lock_try(lock)) msi_lock_wait(lock);
}

/*
 * A plain store: an exchange would wait until all stores of this thread have reached the other ranks. So the
 * processor may read waiters before others see that the lock is free, and miss one: see msi_lock_wait.
 */
static inline void msi_lock_leave(struct msi_lock *lock) {
    /* Only the first thread sets busy. */
    bool biased = msi_lock_is_first(lock) && atomic_load_explicit(&lock->busy, memory_order_relaxed);
    _Atomic uint32_t *word = biased ? &lock->busy : &lock->held;
    atomic_signal_fence(memory_order_seq_cst);
    if (biased && !atomic_load_explicit(&lock->shared, memory_order_relaxed))
        atomic_store_explicit(word, 0, memory_order_relaxed); /* ordered by membarrier in msi_lock_share */
    else
        atomic_store_explicit(word, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&lock->waiters, memory_order_relaxed)) msi_lock_wake(word);
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
