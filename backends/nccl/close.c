/*
 * close.c - aborts and closes an engine. A separate thread destroys the communicators and is abandoned if it
 * takes too long: NCCL may wait for dead ranks, and close must return.
 */
#include "engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { END_LIMIT_MS = 10000 };

/* Shared by the thread and the waiting caller; the last holder frees it. */
struct teardown {
    atomic_int holders;
    int device;
    bool abort;
    size_t n;
    struct ending {
        int device;
        mnc_comm comm;
        mnc_result result; /* of ncclCommFinalize */
        bool finalized;
        bool has_thread; /* which aborts it */
        pthread_t thread;
    } comms[]; /* nonblocking communicators first */
};

static void release(struct teardown *teardown) {
    /* Pairs with itself and with await_end. */
    if (atomic_fetch_sub_explicit(&teardown->holders, 1, memory_order_acq_rel) == 1) free(teardown);
}

/* Waits until the communicator is finalized. Returns false on failure. */
static bool await_final(mnc_comm comm, mnc_result result) {
    mnc_result state = MNC_SUCCESS;
    for (unsigned round = 1000; mnc_begun(result); round++) {
        result = mnc_nccl.CommGetAsyncError(comm, &state);
        if (result != MNC_SUCCESS || state != MNC_IN_PROGRESS) break;
        mnc_backoff(round);
    }
    return result == MNC_SUCCESS && state == MNC_SUCCESS;
}

/*
 * Completes all sends: other ranks may still be receiving. Starts to finalize all communicators before it
 * waits for one, because ranks may have them in different orders.
 */
static void finalize(struct teardown *teardown) {
    for (size_t i = 0; i < teardown->n; i++)
        teardown->comms[i].result = mnc_nccl.CommFinalize(teardown->comms[i].comm);
    for (size_t i = 0; i < teardown->n; i++)
        teardown->comms[i].finalized = await_final(teardown->comms[i].comm, teardown->comms[i].result);
}

static void *end_comm(void *argument) {
    struct ending *ending = argument;
    mnc_cuda.SetDevice(ending->device);
    if (ending->finalized)
        mnc_nccl.CommDestroy(ending->comm);
    else
        mnc_nccl.CommAbort(ending->comm);
    return NULL;
}

/*
 * Aborts all communicators at the same time: NCCL frees memory of one, which waits for the whole device, and
 * so for operations of those that are not aborted yet.
 */
static void *end_comms(void *argument) {
    struct teardown *teardown = argument;
    mnc_cuda.SetDevice(teardown->device);
    if (!teardown->abort) finalize(teardown);
    for (size_t i = 0; i < teardown->n; i++) {
        struct ending *ending = &teardown->comms[i];
        ending->device = teardown->device;
        ending->has_thread = !ending->finalized && !pthread_create(&ending->thread, NULL, end_comm, ending);
    }
    for (size_t i = 0; i < teardown->n; i++) {
        struct ending *ending = &teardown->comms[i];
        if (ending->has_thread)
            pthread_join(ending->thread, NULL);
        else
            end_comm(ending);
    }
    release(teardown);
    return NULL;
}

static struct teardown *new_teardown(mst_backend_engine *engine, bool abort) {
    size_t n = 2;
    for (struct mnc_channel *channel = &engine->main; channel; channel = channel->next) n++;
    struct teardown *teardown = calloc(1, sizeof *teardown + n * sizeof *teardown->comms);
    if (!teardown) return NULL;
    atomic_init(&teardown->holders, 2);
    teardown->abort = abort;
    teardown->device = engine->device;
    for (struct mnc_channel *channel = &engine->main; channel; channel = channel->next)
        if (channel->comm) teardown->comms[teardown->n++].comm = channel->comm;
    if (engine->nonblocking) teardown->comms[teardown->n++].comm = engine->nonblocking;
    if (engine->blocking) teardown->comms[teardown->n++].comm = engine->blocking;
    return teardown;
}

/* Returns false if the thread has not released the teardown in time. */
static bool await_end(struct teardown *teardown) {
    int64_t deadline = mnc_now() + END_LIMIT_MS * MNC_MS;
    bool done = false;
    for (unsigned round = 0; !done && mnc_now() < deadline; round++) {
        mnc_backoff(round);
        done = atomic_load_explicit(&teardown->holders, memory_order_acquire) == 1;
    }
    release(teardown);
    return done;
}

/* Returns false if communicators were abandoned; the memory that they may use must not be freed then. */
static bool end_engine(mst_backend_engine *engine, bool abort) {
    pthread_t thread;
    if (engine->ended) return !engine->abandoned;
    engine->ended = true;
    struct teardown *teardown = new_teardown(engine, abort);
    if (teardown && !pthread_create(&thread, NULL, end_comms, teardown)) {
        pthread_detach(thread);
        if (await_end(teardown)) return true;
    } else {
        free(teardown);
    }
    engine->abandoned = true;
    engine->host->log(engine->host, 'W',
                      "NCCL did not destroy its communicators in time; they are abandoned");
    return false;
}

static bool has_jobs(const mst_backend_engine *engine) {
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
        if (job->begin) mnc_cuda.EventDestroy(job->begin);
        if (job->timed_begin) mnc_cuda.EventDestroy(job->timed_begin);
        if (job->timed_end) mnc_cuda.EventDestroy(job->timed_end);
        free(job);
    }
}

/* Not called if kernels may hang: cudaFree waits for the whole device. */
static void free_device_resources(mst_backend_engine *engine) {
    for (struct mnc_channel *channel = &engine->main; channel; channel = channel->next)
        if (channel->stream) mnc_cuda.StreamDestroy(channel->stream);
    free_jobs(engine);
    if (engine->order) mnc_cuda.EventDestroy(engine->order);
    mnc_blocks_end(engine);
    if (engine->small) mnc_cuda.Free(engine->small);
}

void mnc_close(mst_backend_engine *engine) {
    bool abort = engine->failed || has_jobs(engine);
    mnc_use_device(engine);
    if (!abort) mnc_premul_end(engine);
    if (end_engine(engine, abort)) free_device_resources(engine);
    for (struct mnc_channel *channel; (channel = engine->main.next);) {
        engine->main.next = channel->next;
        free(channel);
    }
    free(engine);
}
