/* exit.c - see exit.h. */
#include "os/exit.h"
#include "os/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static _Atomic int64_t not_before; /* orders nothing else */
static pid_t process;              /* a forked child does not wait */

static void wait_until_then(void) {
    int64_t left = atomic_load_explicit(&not_before, memory_order_relaxed) - msi_now();
    if (left > 0 && process == getpid()) usleep((useconds_t)(left / 1000));
}

static void register_once(void) {
    process = getpid();
    atexit(wait_until_then); /* without memory for it, it does not wait */
}

void msi_exit_not_before(int64_t moment) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    atomic_store_explicit(&not_before, moment, memory_order_relaxed);
    pthread_once(&once, register_once);
}
