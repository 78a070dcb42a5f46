/* thread.c - see thread.h. */
#include "os/thread.h"

#include <signal.h>
#include <time.h>

int msi_thread_start(pthread_t *thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void msi_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void msi_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline) {
    struct timespec at = {deadline / 1000000000, (long)(deadline % 1000000000)};
    pthread_cond_timedwait(cond, lock, &at);
}
