/* thread.h - threads of the library, and condition variables with deadlines. */
#ifndef MSI_OS_THREAD_H
#define MSI_OS_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Starts a thread with all signals blocked; returns 0 or an errno. */
int msi_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

/* A condition variable on the monotonic clock (os/clock.h). */
void msi_cond_init(pthread_cond_t *cond);
/* Waits until it is signalled, or until a deadline of msi_deadline. */
void msi_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline);

/* Pauses between two checks of a thread that polls. */
static inline void msi_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__("yield" ::: "memory");
#endif
}

#endif
