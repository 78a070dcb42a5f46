/*
 * queue.c - submit and progress: a channel launches its jobs in order; a job is done when its end event is.
 *
 * Overhead of a call beyond NCCL's: a few comparisons for an unwatched operation with a stream and no waiting
 * jobs; otherwise an event record (about 0.5 us), and without a stream two more calls that order it after the
 * default stream.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { POLLS = 64 }; /* of an event between two checks of the communicators */

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
    job->launched = job->waits = false;
    job->group = 0;
    job->next = engine->pool;
    engine->pool = job;
}

void mnc_append(struct mnc_channel *channel, struct mnc_job *job) {
    job->next = NULL;
    if (channel->first)
        channel->last->next = job;
    else
        channel->first = job;
    channel->last = job;
}

struct mnc_job *mnc_take(struct mnc_job **first) {
    struct mnc_job *job = *first;
    if (job) *first = job->next;
    if (job) job->next = NULL;
    return job;
}

mst_status mnc_stream_wait(mst_backend_engine *engine, mnc_stream from, mnc_stream to) {
    mnc_error error = mnc_cuda.EventRecord(engine->order, from);
    if (error == MNC_CUDA_OK) error = mnc_cuda.StreamWaitEvent(to, engine->order, 0);
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaStreamWaitEvent");
}

mst_status mnc_record_end(mst_backend_engine *engine, struct mnc_job *job) {
    mnc_error error = MNC_CUDA_OK;
    job->launched = true;
    if (job->op->unwatched && !job->op->timed) {
        job->op->request = NULL;
        free_job(engine, job);
        return MST_OK;
    }
    if (job->op->timed) error = mnc_cuda.EventRecord(job->timed_end, job->stream);
    if (error == MNC_CUDA_OK)
        error = mnc_cuda.EventRecord(job->end, job->stream); /* last, because it signals completion */
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaEventRecord");
}

static mst_status record_ends(mst_backend_engine *engine, struct mnc_job *jobs) {
    mst_status st = MST_OK;
    for (struct mnc_job *job; st == MST_OK && (job = mnc_take(&jobs));) st = mnc_record_end(engine, job);
    return st;
}

static mnc_comm comm_of(const struct mnc_channel *channel, const struct mnc_job *job) {
    if (channel->comm) return channel->comm;
    return mnc_is_blocking(job->op) ? channel->engine->blocking : channel->engine->nonblocking;
}

/*
 * Removes the jobs at the front that one NCCL group can launch: one, or those of a group on one communicator.
 */
static struct mnc_job *take_batch(struct mnc_channel *channel, mnc_comm *comm) {
    struct mnc_job *batch = mnc_take(&channel->first), *last = batch;
    *comm = comm_of(channel, batch);
    while (batch->group && channel->first && channel->first->group == batch->group &&
           comm_of(channel, channel->first) == *comm) {
        last->next = mnc_take(&channel->first);
        last = last->next;
    }
    return batch;
}

/* A job without a stream of the program starts after what is on the default stream when it is submitted. */
static mst_status note_begin(mst_backend_engine *engine, struct mnc_job *job) {
    mnc_error error = MNC_CUDA_OK;
    if (!job->begin) error = mnc_cuda.EventCreateWithFlags(&job->begin, MNC_EVENT_DISABLE_TIMING);
    if (error == MNC_CUDA_OK) error = mnc_cuda.EventRecord(job->begin, NULL);
    job->waits = true;
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaEventRecord");
}

static mst_status await_begin(mst_backend_engine *engine, const struct mnc_job *job) {
    if (!job->waits) return mnc_stream_wait(engine, NULL, job->stream);
    mnc_error error = mnc_cuda.StreamWaitEvent(job->stream, job->begin, 0);
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaStreamWaitEvent");
}

static mst_status prepare(mst_backend_engine *engine, struct mnc_job *job) {
    mst_status st = job->op->stream ? MST_OK : await_begin(engine, job);
    if (st != MST_OK || !job->op->timed) return st;
    mnc_error error = mnc_cuda.EventRecord(job->timed_begin, job->stream);
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaEventRecord");
}

static mst_status launch_batch(struct mnc_channel *channel) {
    mst_backend_engine *engine = channel->engine;
    mnc_comm comm;
    struct mnc_job *batch = take_batch(channel, &comm);
    mnc_result result = MNC_SUCCESS;
    for (struct mnc_job *job = batch; job; job = job->next) {
        mst_status st = prepare(engine, job);
        if (st != MST_OK) return st;
    }
    if (batch->next) mnc_nccl.GroupStart();
    for (struct mnc_job *job = batch; job && mnc_begun(result); job = job->next)
        result = mnc_launch(engine, job->op, comm, job->stream);
    if (batch->next) {
        mnc_result ended = mnc_nccl.GroupEnd();
        if (mnc_begun(result)) result = ended;
    }
    if (result == MNC_SUCCESS) return record_ends(engine, batch);
    channel->launching = batch;
    channel->launching_on = comm;
    return result == MNC_IN_PROGRESS ? MST_OK : mnc_fail_nccl(engine, comm, result, "launching an operation");
}

static mst_status advance_channel(struct mnc_channel *channel) {
    mst_status st = MST_OK;
    while (st == MST_OK && (channel->first || channel->launching)) {
        if (channel->state != MNC_CHANNEL_READY) {
            st = mnc_channel_connect(channel);
            if (st != MST_OK || channel->state != MNC_CHANNEL_READY) return st;
        }
        if (channel->launching) {
            bool busy = false;
            st = mnc_check_comm(channel->engine, channel->launching_on, "launching an operation", &busy);
            if (st != MST_OK || busy) return st;
            struct mnc_job *jobs = channel->launching;
            channel->launching = NULL;
            st = record_ends(channel->engine, jobs);
        } else {
            st = launch_batch(channel);
        }
    }
    return st;
}

mst_status mnc_advance(mst_backend_engine *engine) {
    mst_status st = MST_OK;
    for (struct mnc_channel *channel = &engine->main; channel && st == MST_OK; channel = channel->next)
        st = advance_channel(channel);
    return st;
}

static bool is_idle(const struct mnc_channel *channel) {
    return !channel->first && !channel->launching;
}

/* Waits until the channel has launched all jobs: later work on the program's stream depends on that. */
static mst_status await_launch(struct mnc_channel *channel, int64_t deadline) {
    mst_backend_engine *engine = channel->engine;
    mst_status st = MST_OK;
    unsigned round = 0;
    if (!deadline) deadline = mnc_now() + 300 * 1000 * MNC_MS;
    while (st == MST_OK && !is_idle(channel)) {
        if (mnc_now() > deadline)
            return engine->host->fail(
                engine->host, MST_ERR_TIMEOUT, channel->peer,
                "with a stream, the first call between two ranks returns only after both ranks have called",
                "NCCL did not launch the operation before the deadline");
        mnc_backoff(round++);
        st = mnc_advance(engine);
    }
    return st;
}

static bool make_timed(struct mnc_job *job) {
    if (!job->timed_begin && mnc_cuda.EventCreateWithFlags(&job->timed_begin, 0) != MNC_CUDA_OK) return false;
    return job->timed_end || mnc_cuda.EventCreateWithFlags(&job->timed_end, 0) == MNC_CUDA_OK;
}

static mst_status submit_job(mst_backend_engine *engine, mst_backend_op *op) {
    struct mnc_channel *channel;
    mst_status st = mnc_channel_of(engine, op, &channel);
    if (st != MST_OK) return st;
    struct mnc_job *job = new_job(engine);
    if (!job || (op->timed && !make_timed(job)))
        return engine->host->fail(engine->host, MST_ERR_MEMORY, -1, NULL,
                                  "out of memory or CUDA events for an operation");
    job->op = op;
    job->channel = channel;
    job->group = engine->group;
    job->stream = op->stream ? (mnc_stream)op->stream : channel ? channel->stream : engine->main.stream;
    op->request = job;
    if (!channel) return mnc_p2p_self(engine, job);
    bool later = channel->state != MNC_CHANNEL_READY || !is_idle(channel);
    if (!op->stream && later) st = note_begin(engine, job);
    if (st != MST_OK) return st;
    mnc_append(channel, job);
    if (engine->group) return MST_OK;
    st = advance_channel(channel);
    return st == MST_OK && op->stream ? await_launch(channel, op->deadline) : st;
}

/* Work captured into a CUDA graph does not run now, and its events must not be queried. */
static bool is_captured(mnc_stream stream) {
    unsigned capturing = 0;
    return mnc_cuda.StreamIsCapturing(stream, &capturing) != MNC_CUDA_OK || capturing;
}

mst_status mnc_submit(mst_backend_engine *engine, mst_backend_op *op) {
    if (op->timed && op->stream && is_captured((mnc_stream)op->stream)) op->timed = false;
    bool fast = op->stream && op->unwatched && !op->timed && !engine->group && mnc_is_blocking(op);
    mnc_use_device(engine);
    if (!fast || !is_idle(&engine->main)) return submit_job(engine, op);
    mnc_result result = mnc_launch(engine, op, engine->blocking, (mnc_stream)op->stream);
    return result == MNC_SUCCESS ? MST_OK
                                 : mnc_fail_nccl(engine, engine->blocking, result, "launching an operation");
}

mst_status mnc_group_begin(mst_backend_engine *engine) {
    engine->group = ++engine->groups ? engine->groups : ++engine->groups;
    return MST_OK;
}

/* The deadline of the unlaunched jobs with a stream; -1: none. */
static int64_t stream_deadline(const struct mnc_channel *channel) {
    const struct mnc_job *lists[] = {channel->launching, channel->first};
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
    for (struct mnc_channel *channel = &engine->main; channel && st == MST_OK; channel = channel->next) {
        int64_t deadline = stream_deadline(channel);
        if (deadline >= 0) st = await_launch(channel, deadline);
    }
    return st;
}

static mst_status check_comms(mst_backend_engine *engine, const struct mnc_channel *channel) {
    bool busy;
    mst_status st = mnc_check_comm(engine, engine->blocking, "an operation", &busy);
    if (st == MST_OK) st = mnc_check_comm(engine, engine->nonblocking, "an operation", &busy);
    if (st == MST_OK && channel && channel->comm)
        st = mnc_check_comm(engine, channel->comm, "a message", &busy);
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
    return ++engine->polls % POLLS ? MST_OK : check_comms(engine, job->channel);
}

mst_status mnc_elapsed(mst_backend_engine *engine, const mst_backend_op *op, double *seconds) {
    if (!op->timed || op->request)
        return engine->host->fail(engine->host, MST_ERR_STATE, -1, NULL,
                                  "the operation was not timed, or is not complete");
    memcpy(seconds, &op->word[1], sizeof *seconds);
    return MST_OK;
}
