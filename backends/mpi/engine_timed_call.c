/*
 * engine_timed_call.c - MPI calls without a non-blocking form, with a deadline. See engine.h.
 *
 * The call runs on its own thread. MPI cannot cancel it, so if it does not return in time, the thread stays
 * in the call and the waiting thread continues.
 */
#include "engine.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { CHECK_EVERY_NS = 200000000, CHECK_NS = 1000000 }; /* for lost ranks */

struct timed_call {
    msm_call call;
    void *argument;
    int rc;
    atomic_flag left; /* set by the thread and, if it gives up, by the waiter: the second one frees */
};

static void *run_call(void *given) {
    struct timed_call *t = given;
    t->rc = t->call(t->argument);
    if (atomic_flag_test_and_set(&t->left)) {
        free(t->argument);
        free(t);
    }
    return NULL;
}

/* Waits for a key that is never set: the wait fails if a rank is lost. */
static mst_status look_for_losses(const mst_backend_host *host) {
    mst_bytes none = {NULL, 0};
    mst_status st = host->get(host, "nothing", msm_now() + CHECK_NS, &none);
    free(none.data);
    return st == MST_ERR_TIMEOUT ? MST_OK : st;
}

/* Joins the thread, unless it fails. */
static mst_status wait_for(const mst_backend_host *host, pthread_t thread, const char *what,
                           const char *remedy) {
    for (;;) {
        int64_t next = msm_now() + CHECK_EVERY_NS, at = next < host->deadline ? next : host->deadline;
        struct timespec until = {at / 1000000000, at % 1000000000};
        if (!pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until)) return MST_OK;
        if (msm_now() >= host->deadline) return host->fail(host, MST_ERR_TIMEOUT, -1, remedy, what);
        mst_status st = look_for_losses(host);
        if (st != MST_OK) return st;
    }
}

mst_status msm_timed_call(const mst_backend_host *host, msm_call call, void *argument, const char *what,
                          const char *remedy, int *rc) {
    struct timed_call *t = malloc(sizeof *t);
    pthread_t thread;
    if (t) *t = (struct timed_call){call, argument, MPI_SUCCESS, ATOMIC_FLAG_INIT};
    if (!t || pthread_create(&thread, NULL, run_call, t)) {
        free(argument);
        free(t);
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "cannot start a thread");
    }
    mst_status st = wait_for(host, thread, what, remedy);
    if (st != MST_OK && !atomic_flag_test_and_set(&t->left)) {
        msm_leave_unfinalised();
        pthread_detach(thread);
        return st;
    }
    if (st != MST_OK) pthread_join(thread, NULL); /* the call has returned meanwhile */
    *rc = t->rc;
    free(t);
    return MST_OK;
}
