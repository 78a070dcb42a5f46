/*
 * queue.c - submit and progress: jobs wait in their lane, are launched in order, and are over when the event behind them is.
 *
 * What a call costs beside NCCL's own: unwatched, with a stream and with nothing held back, a few comparisons; else an event record
 * (about half a microsecond), and without a stream two more calls that put the work behind the default stream.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { LOOKS = 64 }; /* at an event, before NCCL is asked whether something went wrong */

static struct mnc_job *new_job(mst_backend_engine *engine) {
    struct mnc_job *job = engine->pool;
    if (job) {
        engine->pool = job->next;
        job->next = NULL;
        return job;
    }
    job = calloc(1, sizeof *job);
    if (!job) return NULL;
    if (mnc_cuda.EventCreateWithFlags(&job->end, MNC_EVENT_DISABLE_TIMING) != MNC_CUDA_OK) {
        free(job);
        return NULL;
    }
    job->older = engine->all;
    engine->all = job;
    return job;
}

static void free_job(mst_backend_engine *engine, struct mnc_job *job) {
    job->op = NULL;
    job->launched = false;
    job->group = 0;
    job->next = engine->pool;
    engine->pool = job;
}

void mnc_append(struct mnc_lane *lane, struct mnc_job *job) {
    job->next = NULL;
    if (lane->first)
        lane->last->next = job;
    else
        lane->first = job;
    lane->last = job;
}

struct mnc_job *mnc_take(struct mnc_job **first) {
    struct mnc_job *job = *first;
    if (job) *first = job->next;
    if (job) job->next = NULL;
    return job;
}

mst_status mnc_order(mst_backend_engine *engine, mnc_stream from, mnc_stream to) {
    mnc_error error = mnc_cuda.EventRecord(engine->order, from);
    if (error == MNC_CUDA_OK) error = mnc_cuda.StreamWaitEvent(to, engine->order, 0);
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaStreamWaitEvent");
}

mst_status mnc_mark(mst_backend_engine *engine, struct mnc_job *job) {
    mnc_error error = MNC_CUDA_OK;
    job->launched = true;
    if (job->op->unwatched && !job->op->timed) {
        job->op->request = NULL;
        free_job(engine, job);
        return MST_OK;
    }
    if (job->op->timed) error = mnc_cuda.EventRecord(job->timed_end, job->stream);
    if (error == MNC_CUDA_OK)
        error = mnc_cuda.EventRecord(job->end, job->stream); /* the last: it says that all are over */
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaEventRecord");
}

static mst_status mark_all(mst_backend_engine *engine, struct mnc_job *jobs) {
    mst_status st = MST_OK;
    for (struct mnc_job *job; st == MST_OK && (job = mnc_take(&jobs));) st = mnc_mark(engine, job);
    return st;
}

static mnc_comm comm_of(const struct mnc_lane *lane, const struct mnc_job *job) {
    if (lane->comm) return lane->comm;
    return mnc_is_direct(job->op) ? lane->engine->direct : lane->engine->patient;
}

/* The jobs at the front that can be launched in one group of NCCL's: one, or those of a group that share a communicator. */
static struct mnc_job *take_batch(struct mnc_lane *lane, mnc_comm *comm) {
    struct mnc_job *batch = mnc_take(&lane->first), *last = batch;
    *comm = comm_of(lane, batch);
    while (batch->group && lane->first && lane->first->group == batch->group &&
           comm_of(lane, lane->first) == *comm) {
        last->next = mnc_take(&lane->first);
        last = last->next;
    }
    return batch;
}

static mst_status prepare(mst_backend_engine *engine, struct mnc_job *job) {
    if (!job->op->stream) {
        mst_status st = mnc_order(engine, NULL, job->stream);
        if (st != MST_OK) return st;
    }
    if (!job->op->timed) return MST_OK;
    mnc_error error = mnc_cuda.EventRecord(job->timed_begin, job->stream);
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaEventRecord");
}

static mst_status launch_batch(struct mnc_lane *lane) {
    mst_backend_engine *engine = lane->engine;
    mnc_comm comm;
    struct mnc_job *batch = take_batch(lane, &comm);
    mnc_result result = MNC_SUCCESS;
    for (struct mnc_job *job = batch; job; job = job->next) {
        mst_status st = prepare(engine, job);
        if (st != MST_OK) return st;
    }
    if (batch->next) mnc_nccl.GroupStart();
    for (struct mnc_job *job = batch; job && (result == MNC_SUCCESS || result == MNC_IN_PROGRESS);
         job = job->next)
        result = mnc_launch(engine, job->op, comm, job->stream);
    if (batch->next) {
        mnc_result ended = mnc_nccl.GroupEnd();
        if (result == MNC_SUCCESS || result == MNC_IN_PROGRESS) result = ended;
    }
    if (result == MNC_SUCCESS) return mark_all(engine, batch);
    lane->launching = batch;
    lane->launching_on = comm;
    return result == MNC_IN_PROGRESS ? MST_OK : mnc_fail_nccl(engine, comm, result, "launching an operation");
}

static mst_status advance_lane(struct mnc_lane *lane) {
    mst_status st = MST_OK;
    while (st == MST_OK && (lane->first || lane->launching)) {
        if (lane->state != MNC_LANE_READY) {
            st = mnc_lane_join(lane);
            if (st != MST_OK || lane->state != MNC_LANE_READY) return st;
        }
        if (lane->launching) {
            bool busy = false;
            st = mnc_look(lane->engine, lane->launching_on, "launching an operation", &busy);
            if (st != MST_OK || busy) return st;
            struct mnc_job *jobs = lane->launching;
            lane->launching = NULL;
            st = mark_all(lane->engine, jobs);
        } else {
            st = launch_batch(lane);
        }
    }
    return st;
}

mst_status mnc_advance(mst_backend_engine *engine) {
    mst_status st = advance_lane(&engine->main);
    for (struct mnc_lane *lane = engine->lanes; lane && st == MST_OK; lane = lane->next)
        st = advance_lane(lane);
    return st;
}

static bool is_idle(const struct mnc_lane *lane) {
    return !lane->first && !lane->launching;
}

/* Until the lane has launched all; what the program does next on its stream counts on that. */
static mst_status await_launch(struct mnc_lane *lane, int64_t deadline) {
    mst_backend_engine *engine = lane->engine;
    mst_status st = MST_OK;
    unsigned round = 0;
    if (!deadline) deadline = mnc_now() + 300 * 1000 * MNC_MS;
    while (st == MST_OK && !is_idle(lane)) {
        if (mnc_now() > deadline)
            return engine->host->fail(
                engine->host, MST_ERR_TIMEOUT, lane->peer,
                "with a stream, the first call between two ranks returns when both have called",
                "NCCL could not launch the operation in time");
        mnc_nap(round++);
        st = mnc_advance(engine);
    }
    return st;
}

static bool make_timed(struct mnc_job *job) {
    if (!job->timed_begin && mnc_cuda.EventCreateWithFlags(&job->timed_begin, 0) != MNC_CUDA_OK) return false;
    return job->timed_end || mnc_cuda.EventCreateWithFlags(&job->timed_end, 0) == MNC_CUDA_OK;
}

static mst_status submit_job(mst_backend_engine *engine, mst_backend_op *op) {
    struct mnc_lane *lane;
    mst_status st = mnc_lane_of(engine, op, &lane);
    if (st != MST_OK) return st;
    struct mnc_job *job = new_job(engine);
    if (!job || (op->timed && !make_timed(job)))
        return engine->host->fail(engine->host, MST_ERR_MEMORY, -1, NULL, "no memory for a CUDA event");
    job->op = op;
    job->lane = lane;
    job->group = engine->group;
    job->stream = op->stream ? (mnc_stream)op->stream : lane ? lane->stream : engine->main.stream;
    op->request = job;
    if (!lane) return mnc_self(engine, job);
    mnc_append(lane, job);
    if (engine->group) return MST_OK;
    st = advance_lane(lane);
    return st == MST_OK && op->stream ? await_launch(lane, op->deadline) : st;
}

/* What is captured into a graph does not run now, and nobody may ask its events. */
static bool is_captured(mnc_stream stream) {
    unsigned capturing = 0;
    return mnc_cuda.StreamIsCapturing(stream, &capturing) != MNC_CUDA_OK || capturing;
}

mst_status mnc_submit(mst_backend_engine *engine, mst_backend_op *op) {
    if (op->timed && op->stream && is_captured((mnc_stream)op->stream)) op->timed = false;
    bool at_once = op->stream && op->unwatched && !op->timed && !engine->group && mnc_is_direct(op);
    mnc_use_device(engine);
    if (!at_once || !is_idle(&engine->main)) return submit_job(engine, op);
    mnc_result result = mnc_launch(engine, op, engine->direct, (mnc_stream)op->stream);
    return result == MNC_SUCCESS ? MST_OK
                                 : mnc_fail_nccl(engine, engine->direct, result, "launching an operation");
}

mst_status mnc_group_begin(mst_backend_engine *engine) {
    engine->group = ++engine->groups ? engine->groups : ++engine->groups;
    return MST_OK;
}

/* The deadline of the jobs with a stream that are not launched yet; -1: there are none. */
static int64_t stream_deadline(const struct mnc_lane *lane) {
    const struct mnc_job *lists[] = {lane->launching, lane->first};
    int64_t deadline = -1;
    for (int i = 0; i < 2; i++)
        for (const struct mnc_job *job = lists[i]; job; job = job->next)
            if (job->op->stream) deadline = job->op->deadline;
    return deadline;
}

mst_status mnc_group_end(mst_backend_engine *engine) {
    engine->group = 0;
    mnc_use_device(engine);
    mst_status st = mnc_advance(engine);
    int64_t deadline = stream_deadline(&engine->main);
    if (st == MST_OK && deadline >= 0) st = await_launch(&engine->main, deadline);
    for (struct mnc_lane *lane = engine->lanes; lane && st == MST_OK; lane = lane->next) {
        deadline = stream_deadline(lane);
        if (deadline >= 0) st = await_launch(lane, deadline);
    }
    return st;
}

static mst_status check_comms(mst_backend_engine *engine, const struct mnc_lane *lane) {
    bool busy;
    mst_status st = mnc_look(engine, engine->direct, "an operation", &busy);
    if (st == MST_OK) st = mnc_look(engine, engine->patient, "an operation", &busy);
    if (st == MST_OK && lane && lane->comm) st = mnc_look(engine, lane->comm, "a message", &busy);
    return st;
}

static mst_status finish(mst_backend_engine *engine, struct mnc_job *job) {
    mst_backend_op *op = job->op;
    if (op->kind == MST_KIND_RECV) op->sender = op->peer;
    if (op->timed) {
        float milliseconds = 0;
        mnc_error error = mnc_cuda.EventElapsedTime(&milliseconds, job->timed_begin, job->timed_end);
        double seconds = (double)milliseconds / 1e3;
        if (error != MNC_CUDA_OK) return mnc_fail_cuda(engine, error, "cudaEventElapsedTime");
        memcpy(&op->word[1], &seconds, sizeof seconds);
    }
    op->request = NULL;
    free_job(engine, job);
    return MST_OK;
}

mst_status mnc_progress(mst_backend_engine *engine, mst_backend_op *op, bool *done) {
    struct mnc_job *job = op->request;
    mnc_use_device(engine);
    *done = false;
    mst_status st = mnc_advance(engine);
    if (st != MST_OK) return st;
    if (!job) {
        *done = true;
        return MST_OK;
    }
    if (job->launched) {
        mnc_error error = mnc_cuda.EventQuery(job->end);
        if (error == MNC_CUDA_OK) {
            *done = true;
            return finish(engine, job);
        }
        if (error != MNC_CUDA_NOT_READY) return mnc_fail_cuda(engine, error, "an operation");
    }
    return ++engine->looks % LOOKS ? MST_OK : check_comms(engine, job->lane);
}

mst_status mnc_elapsed(mst_backend_engine *engine, const mst_backend_op *op, double *seconds) {
    if (!op->timed || op->request)
        return engine->host->fail(engine->host, MST_ERR_STATE, -1, NULL,
                                  "the time of an operation that was not timed, or is not over");
    memcpy(seconds, &op->word[1], sizeof *seconds);
    return MST_OK;
}
