/*
 * engine_timed_call.c - MPI calls without a non-blocking form, with a deadline. See engine.h.
 *
 * The call runs on its own thread. MPI cannot cancel it, so if it does not return in time, the thread stays
 * in the call and the waiting thread continues.
 */
#include "engine.h"

#include <stdlib.h>

enum { CHECK_EVERY_NS = 200000000, CHECK_NS = 1000000 }; /* for lost ranks */

struct timed_call {
    msm_call call;
    void *argument;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, abandoned; /* abandoned: no thread waits for it */
    int rc;
};

static void free_call(struct timed_call *t) {
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->ended);
    free(t);
}

static void *run_call(void *given) {
    struct timed_call *t = given;
    int rc = t->call(t->argument);
    pthread_mutex_lock(&t->lock);
    t->rc = rc;
    t->done = true;
    bool abandoned = t->abandoned;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
    if (abandoned) {
        free(t->argument);
        free_call(t);
    }
    return NULL;
}

static struct timed_call *new_call(msm_call call, void *argument) {
    struct timed_call *t = calloc(1, sizeof *t);
    pthread_condattr_t clock;
    if (!t) return NULL;
    t->call = call;
    t->argument = argument;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&t->ended, &clock);
    pthread_condattr_destroy(&clock);
    return t;
}

/* Called with the lock held. Returns true if the call has returned. */
static bool wait_until(struct timed_call *t, int64_t at) {
    struct timespec until = {at / 1000000000, at % 1000000000};
    while (!t->done)
        if (pthread_cond_timedwait(&t->ended, &t->lock, &until)) break;
    return t->done;
}

/* Waits for a key that is never set: the wait fails if a rank is lost. */
static mst_status look_for_losses(const mst_backend_host *host) {
    mst_bytes none = {NULL, 0};
    mst_status st = host->get(host, "nothing", msm_now() + CHECK_NS, &none);
    free(none.data);
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

static mst_status wait_for(const mst_backend_host *host, struct timed_call *t, const char *what,
                           const char *remedy) {
    for (;;) {
        int64_t next = msm_now() + CHECK_EVERY_NS;
        if (wait_until(t, next < host->deadline ? next : host->deadline)) return MST_OK;
        if (msm_now() >= host->deadline) return host->fail(host, MST_ERR_TIMEOUT, -1, remedy, what);
        pthread_mutex_unlock(&t->lock);
        mst_status st = look_for_losses(host);
        pthread_mutex_lock(&t->lock);
        if (st != MST_OK && !t->done) return st;
    }
}

mst_status msm_timed_call(const mst_backend_host *host, msm_call call, void *argument, const char *what,
                          const char *remedy, int *rc) {
    struct timed_call *t = new_call(call, argument);
    pthread_t thread;
    if (!t) {
        free(argument);
        return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory for a thread");
    }
    if (pthread_create(&thread, NULL, run_call, t)) {
        free(argument);
        free_call(t);
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "cannot start a thread");
    }
    pthread_mutex_lock(&t->lock);
    mst_status st = wait_for(host, t, what, remedy);
    t->abandoned = st != MST_OK;
    *rc = t->rc;
    pthread_mutex_unlock(&t->lock);
    if (st != MST_OK) {
        msm_leave_unfinalised();
        pthread_detach(thread);
        return st;
    }
    pthread_join(thread, NULL);
    free_call(t);
    return MST_OK;
}
