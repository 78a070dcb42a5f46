/* thread.h - threads of the library's own, and the clock of their timed waits. */
#ifndef MSI_OS_THREAD_H
#define MSI_OS_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* A thread that takes none of the program's signals; 0, or an error as errno has them. */
int msi_thread_start(pthread_t *thread, void *(*run)(void *), void *context);

/* A condition whose timed waits are on the monotonic clock (os/clock.h), which nobody sets. */
void msi_cond_init(pthread_cond_t *cond);
/* Waits until it is signalled, or until a deadline of msi_deadline. */
void msi_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline);

#endif
