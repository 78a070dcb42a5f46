/*
 * run.c - collectives of a backend: those that it has are submitted as they are, the others are composed. See
 * module.h.
 *
 * Steps of a composition that do not depend on earlier ones are under way together.
 */
#include "base/error.h"
#include "base/log.h"
#include "engine/module/module.h"
#include "reduce/reduce.h"

#include <stdatomic.h>

/* May the backend run the operation on this thread? Not messages, which may depend on each other. */
static bool runs_here(const struct msi_module *m, const struct mst_work *work, const mst_backend_op *job) {
    bool message = job->kind == MST_KIND_SEND || job->kind == MST_KIND_RECV;
    return work->blocking && m->table->run && !message;
}

/* Runs the operation, or begins it. */
static mst_status start(struct msi_module *m, const struct mst_work *work, mst_backend_op *job, bool *done) {
    *done = false;
    if (job->stream) job->deadline = msi_deadline(work->timeout_ms);
    if (!runs_here(m, work, job)) return m->table->submit(m->made, job);
    job->deadline =
        work->wait.deadline == MSI_NO_DEADLINE ? msi_deadline(work->timeout_ms) : work->wait.deadline;
    *done = true;
    return m->table->run(m->made, job);
}

static const struct msi_reducer *reducer_of(const struct mst_work *work, const mst_backend_op *job) {
    return work->op.user ? work->op.reducer : msi_reducer_get(job->dtype, job->op);
}

/* Reduces m->sources: all to one result, or none to the identity. */
static void reduce_sources(struct msi_module *m, const struct mst_work *work, const struct msi_part *step,
                           void *to) {
    const mst_backend_op *job = &step->op;
    struct msi_reduce_scale scale = msi_op_scale(&work->op, m->comm->size);
    if (step->blocks)
        reducer_of(work, job)->reduce_local(to, NULL, m->sources, step->blocks, job->count, &scale);
    else
        msi_reduce_identity(job->dtype, job->op, to, job->count);
}

/* Memory of the device is copied to the host and back. */
static mst_status reduce_local(struct msi_module *m, const struct mst_work *work,
                               const struct msi_part *step) {
    const mst_backend_op *job = &step->op;
    size_t bytes = job->count * job->element;
    bool device = job->memory != MST_MEMORY_HOST;
    if (!step->blocks && work->op.user) return MST_OK; /* it has no identity */
    size_t blocks = step->blocks ? (size_t)step->blocks : 1;
    char *room = device ? msi_module_scratch(m, MST_MEMORY_HOST, bytes * blocks) : NULL;
    if (device && !room) return msi_fail_memory();
    mst_status st = MST_OK;
    for (int i = 0; i < step->blocks && st == MST_OK; i++) {
        const char *from = (const char *)step->from + (size_t)i * step->bytes;
        m->sources[i] = device ? room + (size_t)i * bytes : from;
        if (device) st = msi_module_copy(m, room + (size_t)i * bytes, from, bytes);
    }
    if (st != MST_OK) return st;
    reduce_sources(m, work, step, device ? room : step->to);
    return device ? msi_module_copy(m, step->to, room, bytes) : MST_OK;
}

/* Scans blocks in place. */
static mst_status scan_local(struct msi_module *m, const struct mst_work *work, const struct msi_part *step) {
    const mst_backend_op *job = &step->op;
    struct msi_reduce_scale scale = msi_op_scale(&work->op, m->comm->size);
    struct msi_prefix scan = {reducer_of(work, job), job->dtype, job->op, job->kind == MST_KIND_EXSCAN,
                              &scale};
    size_t all = step->bytes * (size_t)step->blocks;
    bool device = job->memory != MST_MEMORY_HOST;
    char *room = device ? msi_module_scratch(m, MST_MEMORY_HOST, all) : step->to;
    if (!room) return msi_fail_memory();
    mst_status st = device ? msi_module_copy(m, room, step->to, all) : MST_OK;
    for (int i = 0; i < step->blocks; i++) m->targets[i] = room + (size_t)i * step->bytes;
    if (st == MST_OK) msi_reduce_scan(&scan, m->targets, step->blocks, job->count);
    return device && st == MST_OK ? msi_module_copy(m, step->to, room, all) : st;
}

static mst_status begin_step(struct msi_module *m, struct mst_work *work, struct msi_part *step) {
    step->over = true;
    if (step->kind == MSI_PART_COPY) return msi_module_copy(m, step->to, step->from, step->bytes);
    if (step->kind == MSI_PART_REDUCE_LOCAL) return reduce_local(m, work, step);
    if (step->kind == MSI_PART_SCAN_LOCAL) return scan_local(m, work, step);
    return start(m, work, &step->op, &step->over);
}

/* Advances the steps that are under way. */
static mst_status progress_steps(struct msi_module *m) {
    mst_status st = MST_OK;
    for (size_t i = m->over; i < m->begun && st == MST_OK; i++) {
        struct msi_part *step = &m->composer.steps[i];
        if (!step->over) st = m->table->progress(m->made, &step->op, &step->over);
    }
    while (m->over < m->begun && m->composer.steps[m->over].over) m->over++;
    return st;
}

static mst_status advance_steps(struct msi_module *m, struct mst_work *work, bool *done) {
    struct msi_composer *c = &m->composer;
    mst_status st = progress_steps(m);
    while (st == MST_OK && m->begun < c->n) {
        struct msi_part *next = &c->steps[m->begun];
        bool waits = next->kind != MSI_PART_OP || next->after;
        if (waits && m->over < m->begun) break;
        st = begin_step(m, work, next);
        m->begun++;
        if (st == MST_OK && m->over + 1 == m->begun && next->over) m->over++;
    }
    *done = st == MST_OK && m->over == c->n;
    return st;
}

/* Logs once per process and kind that an operation is composed. */
static void warn(const struct msi_module *m, const mst_backend_op *job) {
    static _Atomic uint32_t said; /* kinds; no other memory depends on it */
    uint32_t bit = 1u << job->kind;
    if (atomic_fetch_or_explicit(&said, bit, memory_order_relaxed) & bit) return;
    bool reduces = msi_kind_reduces(job->kind);
    msi_log(backend, WARN, "backend '%s' lacks %s of %s%s%s in this form; composed of %s", m->table->name,
            msi_kind_text(job->kind), mst_dtype_name(job->dtype), reduces ? " with " : "",
            reduces ? mst_op_name(job->op) : "",
            m->composer.description ? m->composer.description : "what it has");
}

/* A barrier has no elements, and byte strings are in memory of the host. */
static void complete(struct msi_op *op) {
    mst_backend_op *d = &op->desc;
    if (!d->dtype) d->dtype = MST_U8;
    if (!d->element) d->element = mst_dtype_size(d->dtype);
    if (op->variable) d->memory = MST_MEMORY_HOST;
}

bool msi_module_has(const struct msi_module *m, struct mst_work *work) {
    mst_backend_op *d = &work->op.desc;
    complete(&work->op);
    unsigned forms = msi_op_forms(d, m->comm->rank, m->comm->size);
    if (work->op.deterministic && msi_kind_reduces(d->kind)) forms |= MST_FORM_DETERMINISTIC;
    bool has = msi_compose_can_op(&m->composer, d, d->kind, d->op, forms);
    d->timed = has && msi_module_times(m, work);
    return has;
}

static mst_status begin_own(struct msi_module *m, struct mst_work *work, bool *done) {
    if (!m->headers) msi_module_take_number(m, work);
    work->begun = true;
    msi_op_trace_start(&work->op_trace);
    mst_status st = start(m, work, &work->op.desc, done);
    work->enqueued = st == MST_OK && work->op.desc.stream;
    return st;
}

static mst_status begin_composed(struct msi_module *m, struct mst_work *work, bool *done) {
    if (!m->headers) msi_module_take_number(m, work); /* also if it is refused, as it is on the other ranks */
    work->op_trace.record.algorithm = "composed";
    msi_op_trace_start(&work->op_trace);
    m->composer.unit = msi_unit_of(work->op.user);
    mst_status st = msi_compose(&m->composer, &work->op.desc, work->op.deterministic);
    if (st != MST_OK) return st;
    work->begun = true;
    warn(m, &work->op.desc);
    m->composed = work;
    m->begun = m->over = 0;
    return advance_steps(m, work, done);
}

/* An operation that has not begun may fail alone, if the program waits for it. Of coalesced operations the
 * program waits for the last one only. */
static bool is_refused(const struct mst_work *work, mst_status status) {
    return !work->begun && !work->abandoned && (status == MST_ERR_UNSUPPORTED || status == MST_ERR_INVALID);
}

void msi_module_fail(struct msi_module *m, struct mst_work *work, mst_status status) {
    int culprit = -1;
    if (is_refused(work, status)) {
        msi_comm_keep(m->comm, &work->failure, status, -1);
        msi_module_scratch_reset(m);
        return;
    }
    struct msi_saved_error own;
    msi_error_save(&own, status);
    mst_status st = msi_comm_check_abort(m->comm); /* other ranks notice it in different ways */
    if (st != MST_OK)
        culprit = msi_comm_rank_of(m->comm, mst_last_error()->culprit);
    else if (msi_error_restore(&own) == MST_ERR_TIMEOUT && !msi_op_is_message(&work->op))
        st = msi_comm_say_stalled(m->comm, work, &culprit);
    else
        st = msi_module_say(m->comm, status, &culprit);
    msi_comm_fail(m->comm, work, st, culprit);
}

/*
 * Begins a batch together: the operation and those behind it that belong to it and that the backend has. All
 * ranks batch the same operations, since backends may reorder what begins together.
 */
static mst_status begin_batch(struct msi_module *m, struct mst_work *work) {
    struct msi_comm *comm = m->comm;
    unsigned batch = work->batch;
    bool done;
    mst_status st = m->table->group_begin(m->made);
    if (st != MST_OK) return st;
    for (struct msi_list *at = &work->node; at != &comm->ops.queue && st == MST_OK; at = at->next) {
        struct mst_work *next = msi_container(at, struct mst_work, node);
        if (next->batch != batch || !msi_module_has(m, next)) break;
        st = begin_own(m, next, &done);
    }
    mst_status ended = m->table->group_end(m->made);
    return st == MST_OK ? ended : st;
}

/* Begins the first operation. An operation of a batch waits until the whole batch was submitted. */
static mst_status begin(struct msi_module *m, struct mst_work *work, bool *done) {
    bool batched = work->batch && m->table->group_begin && m->traits.ordered && !m->headers;
    if (batched && work->batch == m->comm->batch.current) return MST_OK;
    if (!msi_module_has(m, work)) return begin_composed(m, work, done);
    return batched ? begin_batch(m, work) : begin_own(m, work, done);
}

/* Are all ranks about to call the same? */
static mst_status check(struct msi_module *m, struct mst_work *work, bool *same) {
    mst_status st = MST_OK;
    if (m->composed != work) {
        st = msi_module_begin_check(m, work);
        m->composed = work;
        m->begun = m->over = 0;
    }
    if (st == MST_OK) st = advance_steps(m, work, same);
    if (st != MST_OK || !*same) return st;
    m->composed = NULL;
    msi_module_scratch_reset(m);
    return msi_module_compare(m, work);
}

static mst_status advance(struct msi_module *m, struct mst_work *work, bool *done) {
    *done = false;
    if (m->headers && !work->begun) {
        bool same = false;
        mst_status st = check(m, work, &same);
        if (st != MST_OK || !same) return st;
    }
    if (!work->begun) return begin(m, work, done);
    if (m->composed == work) return advance_steps(m, work, done);
    return m->table->progress(m->made, &work->op.desc, done);
}

static void leave_composition(struct msi_module *m, const struct mst_work *work) {
    if (m->composed != work) return;
    m->composed = NULL;
    msi_module_scratch_reset(m);
}

static void give_up_all(struct msi_module *m) {
    struct msi_comm *comm = m->comm;
    msi_module_abort(m);
    while (!msi_list_empty(&comm->ops.queue)) {
        struct mst_work *work = msi_container(comm->ops.queue.next, struct mst_work, node);
        if (work->failure.status == MST_OK) work->failure = comm->failure;
        leave_composition(m, work);
        msi_comm_end(work);
    }
}

bool msi_module_advance(struct msi_module *m) {
    struct msi_comm *comm = m->comm;
    bool moved = false, done;
    for (struct msi_list *at = comm->ops.queue.next, *next;
         at != &comm->ops.queue && comm->failure.status == MST_OK; at = next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        next = at->next;
        mst_status st = advance(m, work, &done);
        if (st != MST_OK) msi_module_fail(m, work, st);
        if (st == MST_OK && !done && (m->composed == work || !work->begun || !m->traits.ordered)) break;
        bool refused = st != MST_OK && comm->failure.status == MST_OK;
        if (!refused && (st != MST_OK || !done)) continue;
        leave_composition(m, work);
        msi_comm_end(work);
        moved = true;
    }
    if (comm->failure.status == MST_OK || msi_list_empty(&comm->ops.queue)) return moved;
    give_up_all(m);
    return true;
}
