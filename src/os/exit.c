/* exit.c - see exit.h. */
#include "os/exit.h"

#include "os/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int64_t earliest; /* relaxed: the time orders nothing */
static _Atomic pid_t owner;      /* a forked child has none of the threads */

static void wait_until_earliest(void) {
    if (getpid() != owner) return;
    for (int64_t left; (left = atomic_load_explicit(&earliest, memory_order_relaxed) - msi_now()) > 0;) {
        struct timespec time = {left / 1000000000, left % 1000000000};
        nanosleep(&time, NULL);
    }
}

static void set_up(void) {
    atexit(wait_until_earliest); /* if that fails, the exit is not delayed */
}

void msi_exit_not_before(int64_t moment) {
    int64_t known = atomic_load_explicit(&earliest, memory_order_relaxed);
    owner = getpid();
    pthread_once(&once, set_up);
    while (known < moment && !atomic_compare_exchange_weak_explicit(
                                 &earliest, &known, moment, memory_order_relaxed, memory_order_relaxed))
        ;
}
