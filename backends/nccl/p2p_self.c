/* p2p_self.c - messages of a rank to itself: matches sends and receives by tag; the later one copies. */
#include "engine.h"

/* Removes and returns the first job of the list with the same tag, or NULL. */
static struct mnc_job *take_match(struct mnc_job **list, const mst_backend_op *op) {
    for (; *list; list = &(*list)->next) {
        struct mnc_job *job = *list;
        if (job->op->tag != op->tag) continue;
        *list = job->next;
        job->next = NULL;
        return job;
    }
    return NULL;
}

static void append(struct mnc_job **list, struct mnc_job *job) {
    while (*list) list = &(*list)->next;
    job->next = NULL;
    *list = job;
}

/* Copies on the receiver's stream and orders it with the sender's stream before and after. */
static mst_status copy(mst_backend_engine *engine, struct mnc_job *send, struct mnc_job *receive) {
    size_t bytes = send->op->count * send->op->element;
    if (bytes != receive->op->count * receive->op->element)
        return engine->host->fail(engine->host, MST_ERR_MISMATCH, engine->host->rank, NULL,
                                  "a message of this rank to itself and its receive differ in length");
    mnc_stream streams[] = {NULL, send->stream, receive->stream};
    mst_status st = MST_OK;
    for (int i = send->op->stream && receive->op->stream ? 1 : 0; i < 2 && st == MST_OK; i++)
        st = mnc_stream_wait(engine, streams[i], receive->stream);
    if (st != MST_OK) return st;
    mnc_error error = MNC_CUDA_OK;
    if (send->op->timed) error = mnc_cuda.EventRecord(send->timed_begin, receive->stream);
    if (error == MNC_CUDA_OK && receive->op->timed)
        error = mnc_cuda.EventRecord(receive->timed_begin, receive->stream);
    if (error == MNC_CUDA_OK && bytes)
        error =
            mnc_cuda.MemcpyAsync(receive->op->out, send->op->in, bytes, MNC_COPY_DEFAULT, receive->stream);
    if (error != MNC_CUDA_OK) return mnc_fail_cuda(engine, error, "cudaMemcpyAsync");
    st = mnc_stream_wait(engine, receive->stream, send->stream);
    if (st == MST_OK) st = mnc_record_end(engine, send);
    return st == MST_OK ? mnc_record_end(engine, receive) : st;
}

mst_status mnc_p2p_self(mst_backend_engine *engine, struct mnc_job *job) {
    bool sends = job->op->kind == MST_KIND_SEND;
    struct mnc_job **mine = sends ? &engine->self_sends : &engine->self_receives;
    struct mnc_job *other = take_match(sends ? &engine->self_receives : &engine->self_sends, job->op);
    if (!other) {
        append(mine, job);
        return MST_OK;
    }
    return sends ? copy(engine, job, other) : copy(engine, other, job);
}
