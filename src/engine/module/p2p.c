/*
 * p2p.c - messages of a backend, all under way at a time. See module.h.
 *
 * A receive of variable length first looks for its message, as probes do. If the backend cannot do that, the
 * message travels as two messages of the same tag: its length, and then, unless that is 0, its body. Calls
 * with such messages are blocking, so that a rank sends no other message in between.
 */
#include "base/error.h"
#include "engine/module/module.h"

#include <stdlib.h>

static const char *missing_form(unsigned forms) {
    return forms & MST_FORM_ANY_SOURCE ? "messages from any source"
           : forms & MST_FORM_ANY_TAG  ? "receives with any tag"
                                       : "tags";
}

static mst_status check(const struct msi_module *m, const mst_backend_op *job) {
    const mst_backend_capability *rows = m->table->rows();
    unsigned forms = msi_op_forms(job, m->comm->rank, m->comm->size);
    if (msi_rows_have(rows, job->kind, job->dtype, MST_SUM, job->memory, forms)) return MST_OK;
    if (!msi_rows_have(rows, job->kind, job->dtype, MST_SUM, job->memory, 0))
        return msi_fail(MST_ERR_UNSUPPORTED,
                        "choose another backend for this group, or buffers that it can use",
                        "backend '%s' has no %s for this memory", m->table->name, msi_kind_text(job->kind));
    bool tags = msi_rows_have(rows, job->kind, job->dtype, MST_SUM, job->memory, MST_FORM_TAG);
    return msi_fail(MST_ERR_UNSUPPORTED,
                    tags ? "name the sender and the tag, or use the native backend for this group"
                         : "messages match by their order there: leave .tag out and name the sender",
                    "backend '%s' has no %s", m->table->name, missing_form(forms));
}

static struct msi_module_op *state_of(const struct mst_work *work) {
    return work->state;
}

static mst_status submit(struct msi_module *m, struct mst_work *work, void *buf, size_t bytes) {
    mst_backend_op *d = &work->op.desc;
    bool send = d->kind == MST_KIND_SEND;
    d->in = send ? buf : NULL;
    d->out = send ? NULL : buf;
    d->count = bytes / d->element;
    d->request = NULL;
    d->word[0] = d->word[1] = 0;
    return m->table->submit(m->made, d);
}

static mst_status fail_no_probes(const struct msi_module *m) {
    return msi_fail(MST_ERR_UNSUPPORTED,
                    "use the native backend for this group, or send the length in a message of its own",
                    "backend '%s' has no probes", m->table->name);
}

/* A message that is refused has not begun. */
static mst_status begin(struct msi_module *m, struct mst_work *work) {
    struct msi_module_op *state = state_of(work);
    mst_backend_op *d = &work->op.desc;
    if (work->op.variable) d->memory = MST_MEMORY_HOST; /* as byte strings are */
    mst_status st = work->op.probe && !m->table->find ? fail_no_probes(m) : check(m, d);
    if (st != MST_OK) return st;
    bool waits_for_length = work->op.variable && (d->kind == MST_KIND_RECV || !m->table->find);
    d->timed = msi_module_times(m, work);
    *state = (struct msi_module_op){.length = msi_op_bytes(&work->op),
                                    .body = !waits_for_length,
                                    .looking = work->op.probe || (waits_for_length && m->table->find),
                                    .buf = d->kind == MST_KIND_SEND ? (void *)(uintptr_t)d->in : d->out};
    if (!state->looking)
        st = state->body ? submit(m, work, state->buf, (size_t)state->length)
                         : submit(m, work, &state->length, sizeof state->length);
    work->begun = st == MST_OK;
    work->enqueued = work->begun && d->stream && state->body;
    return st;
}

/* Begins the body once the length is known: a receive takes it from the rank that sent the length. */
static mst_status begin_body(struct msi_module *m, struct mst_work *work, bool *done) {
    struct msi_module_op *state = state_of(work);
    mst_backend_op *d = &work->op.desc;
    state->body = true;
    if (d->kind == MST_KIND_RECV) {
        char *data = state->length < SIZE_MAX / 2 ? malloc((size_t)state->length + 1) : NULL;
        if (!data) return msi_fail_memory();
        data[state->length] = '\0';
        *work->op.bytes = (mst_bytes){data, (size_t)state->length};
        state->buf = data;
        if (d->sender >= 0) d->peer = d->sender;
    }
    *done = state->length == 0 && !m->table->find;
    return *done ? MST_OK : submit(m, work, state->buf, (size_t)state->length);
}

static mst_status look(struct msi_module *m, struct mst_work *work, bool *done) {
    struct msi_module_op *state = state_of(work);
    bool found = false;
    mst_status st = m->table->find(m->made, &work->op.desc, &found);
    if (st != MST_OK || !found) return st;
    *done = work->op.probe;
    if (work->op.probe) return MST_OK;
    state->looking = false;
    state->length = work->op.desc.count;
    return begin_body(m, work, done);
}

static mst_status advance(struct msi_module *m, struct mst_work *work, bool *done) {
    *done = false;
    if (!work->begun) {
        mst_status st = begin(m, work);
        if (st != MST_OK || !state_of(work)->looking) return st;
    }
    if (state_of(work)->looking) return look(m, work, done);
    mst_status st = m->table->progress(m->made, &work->op.desc, done);
    if (st != MST_OK || !*done || state_of(work)->body) return st;
    return begin_body(m, work, done);
}

static void tell_sender(struct mst_work *work) {
    mst_backend_op *d = &work->op.desc;
    int from = d->sender >= 0 ? d->sender : d->peer;
    msi_comm_tell_message(work, from);
    if (from >= 0) msi_comm_matched(work, from, d->tag);
}

/* Cancels a message that failed alone, for example at its deadline, if the backend can. Not after the length
 * was transferred: the other rank expects the body. */
static void withdraw(struct msi_module *m, struct mst_work *work) {
    bool half = work->op.variable && state_of(work)->body && !m->table->find;
    bool begun = work->begun && !state_of(work)->looking;
    if (begun && (half || !m->table->cancel || !m->table->cancel(m->made, &work->op.desc)))
        msi_comm_give_up(m->comm, work);
    else
        msi_comm_unnumber(work);
}

/* A message that the backend refuses to begin fails alone; another failure ends the communicator. */
static void fail(struct msi_module *m, struct mst_work *work, mst_status status) {
    int culprit = -1;
    bool begun = work->begun && !state_of(work)->looking;
    bool refused = !begun && (status == MST_ERR_UNSUPPORTED || status == MST_ERR_INVALID);
    mst_status st = refused ? status : msi_module_say(m->comm, status, &culprit);
    msi_comm_fail(m->comm, work, st, culprit);
    if (refused)
        msi_comm_unnumber(work);
    else
        msi_comm_give_up(m->comm, work);
}

/* Messages of a batch begin together, once all were submitted: then none of them can block another. */
static void begin_batch(struct msi_module *m) {
    struct msi_comm *comm = m->comm;
    struct mst_work *last = NULL;
    mst_status began = m->table->group_begin(m->made), ended = MST_OK;
    for (struct msi_list *at = comm->ops.messages.next;
         at != &comm->ops.messages && comm->failure.status == MST_OK; at = at->next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        if (work->begun || !work->batch || work->failure.status != MST_OK) continue;
        mst_status st = began == MST_OK ? begin(m, work) : began;
        if (st != MST_OK) fail(m, work, st);
        if (work->begun) last = work;
    }
    if (began == MST_OK) ended = m->table->group_end(m->made);
    if (ended != MST_OK && last) fail(m, last, ended);
}

bool msi_module_advance_messages(struct msi_module *m) {
    struct msi_comm *comm = m->comm;
    bool moved = false;
    if (comm->batch.messages && !comm->batch.current && comm->failure.status == MST_OK) {
        comm->batch.messages = false;
        if (m->table->group_begin) begin_batch(m);
    }
    for (struct msi_list *at = comm->ops.messages.next, *next; at != &comm->ops.messages; at = next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        next = at->next;
        bool done = false;
        if (!work->begun && work->batch && work->batch == comm->batch.current && m->table->group_begin)
            continue;
        if (comm->failure.status != MST_OK) {
            msi_module_abort(m);
            if (work->failure.status == MST_OK) work->failure = comm->failure;
        } else if (work->failure.status != MST_OK) {
            withdraw(m, work);
            if (comm->failure.status != MST_OK) msi_module_abort(m);
        } else {
            mst_status st = advance(m, work, &done);
            if (st != MST_OK) fail(m, work, st);
            if (st == MST_OK && !done) continue;
            if (st != MST_OK && comm->failure.status != MST_OK) msi_module_abort(m);
        }
        if (done && work->op.desc.kind == MST_KIND_RECV) tell_sender(work);
        msi_comm_end(work);
        moved = true;
    }
    return moved;
}
