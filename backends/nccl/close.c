/*
 * end.c - the end of an engine. Communicators are ended on a thread of their own, which is left alone if it takes too long: NCCL may
 * wait for ranks that are gone, and close must return.
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { END_LIMIT_MS = 10000 };

/* Freed by the last of the two that hold it: the thread, and who waits for it. */
struct ending {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    atomic_int holders;
    int device;
    bool abort;
    size_t n;
    struct {
        mnc_comm comm;
        mnc_result result; /* of finalizing it */
        bool final;
    } ends[]; /* those that block behind those that do not */
};

static void let_go(struct ending *ending) {
    if (atomic_fetch_sub_explicit(&ending->holders, 1, memory_order_acq_rel) != 1) return; /* meets itself */
    pthread_cond_destroy(&ending->changed);
    pthread_mutex_destroy(&ending->lock);
    free(ending);
}

static bool is_fine(mnc_result result) {
    return result == MNC_SUCCESS || result == MNC_IN_PROGRESS;
}

/* Until NCCL is through with it; false: it failed. */
static bool await_final(mnc_comm comm, mnc_result result) {
    mnc_result state = MNC_SUCCESS;
    for (unsigned round = 1000; is_fine(result); round++) {
        result = mnc_nccl.CommGetAsyncError(comm, &state);
        if (result != MNC_SUCCESS || state != MNC_IN_PROGRESS) break;
        mnc_nap(round);
    }
    return result == MNC_SUCCESS && state == MNC_SUCCESS;
}

/*
 * What was sent must have left before the communicator does: others may still be receiving it. All are told before one is waited for,
 * since ranks may have them in different orders.
 */
static void finalize(struct ending *ending) {
    for (size_t i = 0; i < ending->n; i++)
        ending->ends[i].result = mnc_nccl.CommFinalize(ending->ends[i].comm);
    for (size_t i = 0; i < ending->n; i++)
        ending->ends[i].final = await_final(ending->ends[i].comm, ending->ends[i].result);
}

static void *end_comms(void *argument) {
    struct ending *ending = argument;
    mnc_cuda.SetDevice(ending->device);
    if (!ending->abort) finalize(ending);
    for (size_t i = 0; i < ending->n; i++) {
        if (ending->ends[i].final)
            mnc_nccl.CommDestroy(ending->ends[i].comm);
        else
            mnc_nccl.CommAbort(ending->ends[i].comm);
    }
    pthread_mutex_lock(&ending->lock);
    ending->over = true;
    pthread_cond_signal(&ending->changed);
    pthread_mutex_unlock(&ending->lock);
    let_go(ending);
    return NULL;
}

static struct ending *new_ending(mst_backend_engine *engine, bool abort) {
    size_t n = 2;
    for (struct mnc_lane *lane = engine->lanes; lane; lane = lane->next) n++;
    struct ending *ending = calloc(1, sizeof *ending + n * sizeof *ending->ends);
    if (!ending) return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&ending->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&ending->lock, NULL);
    atomic_init(&ending->holders, 2);
    ending->abort = abort;
    ending->device = engine->device;
    for (struct mnc_lane *lane = engine->lanes; lane; lane = lane->next)
        if (lane->comm) ending->ends[ending->n++].comm = lane->comm;
    if (engine->patient) ending->ends[ending->n++].comm = engine->patient;
    if (engine->direct) ending->ends[ending->n++].comm = engine->direct;
    return ending;
}

/* False: it was not over in time. */
static bool await_end(struct ending *ending) {
    int64_t deadline = mnc_now() + END_LIMIT_MS * MNC_MS;
    struct timespec until = {(time_t)(deadline / (1000 * MNC_MS)), (long)(deadline % (1000 * MNC_MS))};
    int error = 0;
    pthread_mutex_lock(&ending->lock);
    while (!ending->over && !error) error = pthread_cond_timedwait(&ending->changed, &ending->lock, &until);
    bool over = ending->over;
    pthread_mutex_unlock(&ending->lock);
    let_go(ending);
    return over;
}

/* False: communicators are left behind, and with them what they may still use. */
static bool end_engine(mst_backend_engine *engine, bool abort) {
    pthread_t thread;
    if (engine->ended) return !engine->left_behind;
    engine->ended = true;
    struct ending *ending = new_ending(engine, abort);
    if (ending && !pthread_create(&thread, NULL, end_comms, ending)) {
        pthread_detach(thread);
        if (await_end(ending)) return true;
    } else if (ending) {
        let_go(ending);
        let_go(ending);
    }
    engine->left_behind = true;
    engine->host->log(engine->host, 'W', "NCCL did not end its communicators in time; they are left behind");
    return false;
}

static bool is_under_way(const mst_backend_engine *engine) {
    for (const struct mnc_job *job = engine->all; job; job = job->older)
        if (job->op) return true;
    return false;
}

void mnc_abort(mst_backend_engine *engine) {
    engine->failed = true;
    mnc_use_device(engine);
    end_engine(engine, true);
}

static void free_jobs(mst_backend_engine *engine) {
    for (struct mnc_job *job; (job = engine->all);) {
        engine->all = job->older;
        mnc_cuda.EventDestroy(job->end);
        if (job->timed_begin) mnc_cuda.EventDestroy(job->timed_begin);
        if (job->timed_end) mnc_cuda.EventDestroy(job->timed_end);
        free(job);
    }
}

/* What waits for the whole device, as to free memory does, is left out where kernels may hang. */
static void free_device_things(mst_backend_engine *engine) {
    if (engine->main.stream) mnc_cuda.StreamDestroy(engine->main.stream);
    for (struct mnc_lane *lane = engine->lanes; lane; lane = lane->next) mnc_cuda.StreamDestroy(lane->stream);
    free_jobs(engine);
    if (engine->order) mnc_cuda.EventDestroy(engine->order);
    mnc_blocks_end(engine);
    if (engine->small) mnc_cuda.Free(engine->small);
}

void mnc_close(mst_backend_engine *engine) {
    bool abort = engine->failed || is_under_way(engine);
    mnc_use_device(engine);
    if (!abort) mnc_premul_end(engine);
    if (end_engine(engine, abort)) free_device_things(engine);
    for (struct mnc_lane *lane; (lane = engine->lanes);) {
        engine->lanes = lane->next;
        free(lane);
    }
    free(engine);
}
