/*
 * ops.c - the life of an operation, as engines see it: the queue, and the end. See comm_internal.h. comm/run
 * submits operations and waits for them.
 */
#include "base/error.h"
#include "comm/comm_internal.h"
#include "prof/flight/dump.h"

void msi_comm_sign(struct mst_work *work) {
    msi_op_sign(&work->op, &work->comm->tail, work->comm->size);
}

void msi_comm_finish_op(struct mst_work *work) {
    struct msi_comm *comm = work->comm;
    work->done = true;
    msi_list_push(work->abandoned ? &comm->ops.spare : &comm->ops.kept, &work->node);
    if (comm->threaded) msi_condition_tell(&comm->changed); /* else each thread looks for itself */
}

/* Fills in what is known only at the end. */
static void complete_record(struct mst_work *work) {
    struct msi_record *record = &work->op_trace.record;
    work->comm->engine->describe(work, record);
    if (record->end && !record->device) record->bytes = 0; /* captured into a graph: none were seen to move */
    if (!msi_op_is_message(&work->op)) return;
    record->peer = msi_comm_global(work->comm, msi_comm_peer(work));
    if (work->op.bytes && work->failure.status == MST_OK) record->bytes = work->op.bytes->len;
}

void msi_comm_trace_end(struct mst_work *work) {
    if (!work->op_trace.on) return;
    if (work->op_trace.on & MSI_SINK_RECORD) complete_record(work);
    msi_op_trace_end(&work->op_trace, work->failure.status);
}

/* The flight recorder is written to a file after a failure that ends a group. */
static void note_failure(const struct mst_work *work) {
    const struct msi_failure *f = &work->failure;
    if (work->comm->failure.status != MST_OK || mst_status_scope(f->status) >= MST_SCOPE_GROUP)
        msi_flight_note(f->status, f->message, f->global);
}

void msi_comm_end(struct mst_work *work) {
    msi_list_remove(&work->node);
    msi_comm_trace_end(work);
    if (work->failure.status != MST_OK) note_failure(work);
    if (work->callbacks)
        msi_list_push(&work->comm->ops.ended, &work->node);
    else
        msi_comm_finish_op(work);
}

bool msi_comm_advance_queue(struct msi_comm *comm, enum msi_advance (*step)(struct mst_work *),
                            void (*leave)(struct mst_work *)) {
    bool moved = false;
    for (; !msi_list_empty(&comm->ops.queue); moved = true) {
        struct mst_work *work = msi_container(comm->ops.queue.next, struct mst_work, node);
        if (comm->failure.status != MST_OK && work->failure.status == MST_OK) work->failure = comm->failure;
        if (work->failure.status != MST_OK) {
            if (work->begun && comm->failure.status == MST_OK) leave(work);
            msi_comm_end(work);
            continue;
        }
        if (msi_op_is_rejected(&work->op)) {
            comm->engine->skip(comm, &work->op);
            msi_comm_end(work);
            continue;
        }
        if (!work->begun) msi_op_trace_start(&work->op_trace);
        enum msi_advance got = step(work);
        work->begun = true;
        if (got == MSI_FAILED) msi_comm_fail_fault(work);
        if (got == MSI_DONE) msi_comm_end(work);
        if (got == MSI_BLOCKED) break;
    }
    return moved;
}

mst_status msi_comm_explain(const struct mst_work *work) {
    const struct msi_comm_hooks *hooks = &work->comm->hooks;
    if (work->failure.status == MST_OK) return MST_OK;
    hooks->reported(hooks->context, work->failure.global);
    return msi_comm_repeat(&work->failure);
}

struct mst_work *msi_comm_next_active(struct msi_comm *comm, const struct mst_work *work) {
    const struct msi_comm_lists *ops = &comm->ops;
    struct msi_list *at = ops->messages.next;
    if (!work && !msi_list_empty(&ops->queue)) return msi_container(ops->queue.next, struct mst_work, node);
    if (work && msi_op_is_message(&work->op)) at = work->node.next;
    return at == &ops->messages ? NULL : msi_container(at, struct mst_work, node);
}
