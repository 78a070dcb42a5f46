/*
 * engine_errand.c - calls of MPI that have no non-blocking form, with a way out. See engine.h.
 *
 * The call runs on a thread of its own. MPI has nothing that would end it, so where it does not come back the thread stays in it,
 * and whoever waited goes on.
 */
#include "engine.h"

#include <stdlib.h>

enum { PATIENCE_NS = 200000000, LOOK_NS = 1000000 };

struct msm_errand {
    msm_errand_run run;
    void *argument;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, left; /* left: nobody waits any more */
    int rc;
};

static void drop(struct msm_errand *e) {
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->ended);
    free(e);
}

static void *carry_out(void *given) {
    struct msm_errand *e = given;
    int rc = e->run(e->argument);
    pthread_mutex_lock(&e->lock);
    e->rc = rc;
    e->done = true;
    bool left = e->left;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->lock);
    if (left) {
        free(e->argument);
        drop(e);
    }
    return NULL;
}

static struct msm_errand *new_errand(msm_errand_run run, void *argument) {
    struct msm_errand *e = calloc(1, sizeof *e);
    pthread_condattr_t clock;
    if (!e) return NULL;
    e->run = run;
    e->argument = argument;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&e->ended, &clock);
    pthread_condattr_destroy(&clock);
    return e;
}

/* Under the lock. */
static bool wait_until(struct msm_errand *e, int64_t at) {
    struct timespec t = {at / 1000000000, at % 1000000000};
    while (!e->done)
        if (pthread_cond_timedwait(&e->ended, &e->lock, &t)) break;
    return e->done;
}

/* Waiting for a key that nobody sets tells whether a rank was lost. */
static mst_status look_for_losses(const mst_backend_host *host) {
    mst_bytes none = {NULL, 0};
    mst_status st = host->get(host, "nothing", msm_now() + LOOK_NS, &none);
    free(none.data);
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

static mst_status wait_for(const mst_backend_host *host, struct msm_errand *e, const char *what,
                           const char *remedy) {
    for (;;) {
        int64_t next = msm_now() + PATIENCE_NS;
        if (wait_until(e, next < host->deadline ? next : host->deadline)) return MST_OK;
        if (msm_now() >= host->deadline) return host->fail(host, MST_ERR_TIMEOUT, -1, remedy, what);
        pthread_mutex_unlock(&e->lock);
        mst_status st = look_for_losses(host);
        pthread_mutex_lock(&e->lock);
        if (st != MST_OK && !e->done) return st;
    }
}

mst_status msm_errand(const mst_backend_host *host, msm_errand_run run, void *argument, const char *what,
                      const char *remedy, int *rc) {
    struct msm_errand *e = new_errand(run, argument);
    pthread_t thread;
    if (!e) {
        free(argument);
        return host->fail(host, MST_ERR_MEMORY, -1, NULL, "no memory for a thread");
    }
    if (pthread_create(&thread, NULL, carry_out, e)) {
        free(argument);
        drop(e);
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "no thread could be started");
    }
    pthread_mutex_lock(&e->lock);
    mst_status st = wait_for(host, e, what, remedy);
    e->left = st != MST_OK;
    *rc = e->rc;
    pthread_mutex_unlock(&e->lock);
    if (st != MST_OK) {
        msm_leave_unfinalised();
        pthread_detach(thread);
        return st;
    }
    pthread_join(thread, NULL);
    drop(e);
    return MST_OK;
}
