/*
 * p2p.c - messages of an engine. All are under way at a time. See module.h.
 *
 * A byte string whose length its receiver does not know travels as two messages of the same tag: its length, and then, where there
 * is any, itself. Calls that send or receive one block, so no other message of theirs comes in between.
 */
#include "base/error.h"
#include "engine/module/module.h"

#include <stdlib.h>

static mst_status check(const struct msi_engine *e, const mst_backend_op *job) {
    const mst_backend_capability *rows = e->table->rows();
    unsigned forms = msi_op_forms(job, e->comm->rank, e->comm->size);
    if (msi_rows_have(rows, job->kind, job->dtype, MST_SUM, job->memory, forms)) return MST_OK;
    if (!msi_rows_have(rows, job->kind, job->dtype, MST_SUM, job->memory, 0))
        return msi_fail(MST_ERR_UNSUPPORTED,
                        "choose another backend for this group, or buffers that it can use",
                        "backend '%s' has no %s for this memory", e->table->name, msi_kind_text(job->kind));
    return msi_fail(MST_ERR_UNSUPPORTED,
                    "messages meet by their order there: leave .tag out and name the sender",
                    "backend '%s' has no %s", e->table->name,
                    forms & MST_FORM_ANY_SOURCE ? "messages from any source" : "tags");
}

static mst_status submit(struct msi_engine *e, struct mst_work *op, void *buf, size_t bytes) {
    mst_backend_op *job = &op->job;
    job->in = op->message.send ? buf : NULL;
    job->out = op->message.send ? NULL : buf;
    job->count = bytes / job->element;
    job->request = NULL;
    job->word[0] = job->word[1] = 0;
    return e->table->submit(e->made, job);
}

/* One that is refused has not begun. */
static mst_status begin(struct msi_engine *e, struct mst_work *op) {
    struct msi_message *m = &op->message;
    msi_engine_describe(op, &op->job);
    mst_status st = check(e, &op->job);
    if (st != MST_OK) return st;
    op->job.timed = msi_engine_times(e, op);
    m->length = m->bytes;
    m->body = !m->measured;
    st = m->measured ? submit(e, op, &m->length, sizeof m->length) : submit(e, op, m->buf, m->bytes);
    op->begun = st == MST_OK;
    return st;
}

/* The length is through: now the rest, from the rank that it came from. */
static mst_status begin_body(struct msi_engine *e, struct mst_work *op, bool *done) {
    struct msi_message *m = &op->message;
    m->body = true;
    if (!m->send) {
        char *data = m->length < SIZE_MAX / 2 ? malloc((size_t)m->length + 1) : NULL;
        if (!data) return msi_fail_memory();
        data[m->length] = '\0';
        *m->allocate = (mst_bytes){data, (size_t)m->length};
        m->buf = data;
        op->job.peer = op->job.sender >= 0 ? op->job.sender : m->peer;
    }
    *done = m->length == 0;
    return *done ? MST_OK : submit(e, op, m->buf, (size_t)m->length);
}

static mst_status advance(struct msi_engine *e, struct mst_work *op, bool *done) {
    *done = false;
    if (!op->begun) return begin(e, op);
    mst_status st = e->table->progress(e->made, &op->job, done);
    if (st != MST_OK || !*done || op->message.body) return st;
    return begin_body(e, op, done);
}

static void tell_sender(struct msi_comm *comm, struct mst_work *op) {
    int from = op->job.sender >= 0 ? op->job.sender : op->message.peer;
    if (op->message.sender) *op->message.sender = comm->hooks.global(comm->hooks.context, from);
    if (op->message.peer >= 0 || from < 0) return;
    op->message.met = true;
    op->message.from = from;
    msi_comm_number_any(op, from);
}

/*
 * It failed alone, as at its deadline; the engine may be able to forget it. Not a byte string whose length is through: the other rank
 * counts on the rest.
 */
static void withdraw(struct msi_engine *e, struct mst_work *op) {
    bool half = op->message.measured && op->message.body;
    if (op->begun && (half || !e->table->cancel || !e->table->cancel(e->made, &op->job)))
        msi_comm_give_up(e->comm, op);
    else
        msi_comm_unnumber(op);
}

/* What the engine refuses to begin harms nobody else; what it fails at does. */
static void fail(struct msi_engine *e, struct mst_work *op, mst_status status) {
    int culprit = -1;
    bool refused = !op->begun && (status == MST_ERR_UNSUPPORTED || status == MST_ERR_INVALID);
    mst_status st = refused ? status : msi_engine_say(e->comm, status, &culprit);
    msi_comm_fail(e->comm, op, st, culprit);
    if (refused)
        msi_comm_unnumber(op);
    else
        msi_comm_give_up(e->comm, op);
}

/* Messages of a batch begin together, once all were submitted: then none of them can block another. */
static void begin_batch(struct msi_engine *e) {
    struct msi_comm *comm = e->comm;
    struct mst_work *last = NULL;
    mst_status began = e->table->group_begin(e->made), ended = MST_OK;
    for (struct msi_list *at = comm->messages.next; at != &comm->messages && comm->failure.status == MST_OK;
         at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        if (op->begun || !op->batch || op->failure.status != MST_OK) continue;
        mst_status st = began == MST_OK ? begin(e, op) : began;
        if (st != MST_OK) fail(e, op, st);
        if (op->begun) last = op;
    }
    if (began == MST_OK) ended = e->table->group_end(e->made);
    if (ended != MST_OK && last) fail(e, last, ended);
}

bool msi_engine_advance_messages(struct msi_comm *comm) {
    struct msi_engine *e = comm->engine;
    bool moved = false;
    if (comm->batched_messages && !comm->batch && comm->failure.status == MST_OK) {
        comm->batched_messages = false;
        if (e->table->group_begin) begin_batch(e);
    }
    for (struct msi_list *at = comm->messages.next, *next; at != &comm->messages; at = next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        next = at->next;
        bool done = false;
        if (!op->begun && op->batch && op->batch == comm->batch && e->table->group_begin) continue;
        if (comm->failure.status != MST_OK) {
            msi_engine_abort(e);
            if (op->failure.status == MST_OK) op->failure = comm->failure;
        } else if (op->failure.status != MST_OK) {
            withdraw(e, op);
            if (comm->failure.status != MST_OK) msi_engine_abort(e);
        } else {
            mst_status st = advance(e, op, &done);
            if (st != MST_OK) fail(e, op, st);
            if (st == MST_OK && !done) continue;
            if (st != MST_OK && comm->failure.status != MST_OK) msi_engine_abort(e);
        }
        if (done) tell_sender(comm, op);
        msi_comm_end(op);
        moved = true;
    }
    return moved;
}
