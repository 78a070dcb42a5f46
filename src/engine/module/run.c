/*
 * run.c - collectives of an engine: those that it has are submitted as they are, the others step by step. See module.h.
 *
 * In a composition operations that do not wait for anything before them are under way together.
 */
#include "base/error.h"
#include "base/log.h"
#include "engine/module/module.h"
#include "reduce/reduce.h"

#include <stdatomic.h>

/* May the engine run it on this thread? Messages may need each other. */
static bool runs_here(const struct msi_engine *e, const mst_backend_op *job) {
    return e->blocking && e->table->run && job->kind < MST_KIND_SEND;
}

/* Runs it or begins it. */
static mst_status start(struct msi_engine *e, const struct mst_work *op, mst_backend_op *job, bool *done) {
    *done = false;
    if (job->stream) job->deadline = msi_deadline(op->timeout_ms);
    if (!runs_here(e, job)) return e->table->submit(e->made, job);
    job->deadline = op->wait.deadline == MSI_NO_DEADLINE ? msi_deadline(op->timeout_ms) : op->wait.deadline;
    *done = true;
    return e->table->run(e->made, job);
}

/* On the device a fold takes a way through memory of the host. */
static mst_status fold(struct msi_engine *e, const struct msi_part *step) {
    const mst_backend_op *job = &step->op;
    const struct msi_reducer *reducer = msi_reducer_get(job->dtype, job->op);
    struct msi_reduce_scale scale = {job->factor, e->comm->size};
    size_t bytes = job->count * job->element;
    bool device = job->memory != MST_MEMORY_HOST;
    char *room = device ? msi_engine_scratch(e, MST_MEMORY_HOST, bytes * (size_t)step->blocks) : NULL;
    if (device && !room) return msi_fail_memory();
    mst_status st = MST_OK;
    for (int i = 0; i < step->blocks && st == MST_OK; i++) {
        const char *from = (const char *)step->from + (size_t)i * step->bytes;
        e->sources[i] = device ? room + (size_t)i * bytes : from;
        if (device) st = msi_engine_copy(e, room + (size_t)i * bytes, from, bytes);
    }
    if (st != MST_OK) return st;
    reducer->reduce_local(device ? room : step->to, NULL, e->sources, step->blocks, job->count, &scale);
    return device ? msi_engine_copy(e, step->to, room, bytes) : MST_OK;
}

static mst_status begin_step(struct msi_engine *e, struct mst_work *op, struct msi_part *step) {
    step->over = true;
    if (step->kind == MSI_PART_COPY) return msi_engine_copy(e, step->to, step->from, step->bytes);
    if (step->kind == MSI_PART_REDUCE_LOCAL) return fold(e, step);
    return start(e, op, &step->op, &step->over);
}

/* Looks after the steps that are under way. */
static mst_status progress_steps(struct msi_engine *e) {
    mst_status st = MST_OK;
    for (size_t i = e->over; i < e->begun && st == MST_OK; i++) {
        struct msi_part *step = &e->composer.steps[i];
        if (!step->over) st = e->table->progress(e->made, &step->op, &step->over);
    }
    while (e->over < e->begun && e->composer.steps[e->over].over) e->over++;
    return st;
}

static mst_status advance_steps(struct msi_engine *e, struct mst_work *op, bool *done) {
    struct msi_composer *c = &e->composer;
    mst_status st = progress_steps(e);
    while (st == MST_OK && e->begun < c->n) {
        struct msi_part *next = &c->steps[e->begun];
        bool waits = next->kind != MSI_PART_OP || next->after;
        if (waits && e->over < e->begun) break;
        st = begin_step(e, op, next);
        e->begun++;
        if (st == MST_OK && e->over + 1 == e->begun && next->over) e->over++;
    }
    *done = st == MST_OK && e->over == c->n;
    return st;
}

void msi_engine_warn(const struct msi_engine *e, const mst_backend_op *job) {
    static _Atomic uint32_t said; /* kinds; nothing is ordered by it */
    uint32_t bit = 1u << job->kind;
    if (atomic_fetch_or_explicit(&said, bit, memory_order_relaxed) & bit) return;
    bool reduces = msi_kind_reduces(job->kind);
    msi_log(backend, WARN, "backend '%s' lacks %s of %s%s%s as asked for; it is made of %s", e->table->name,
            msi_kind_text(job->kind), mst_dtype_name(job->dtype), reduces ? " with " : "",
            reduces ? mst_op_name(job->op) : "", e->composer.words ? e->composer.words : "what it has");
}

/* Describes the operation for the engine; true if that does it itself. */
static bool describe(const struct msi_engine *e, struct mst_work *op) {
    mst_backend_op *job = &op->job;
    msi_engine_describe(op, job);
    unsigned forms = msi_op_forms(job, e->comm->rank, e->comm->size);
    if (op->deterministic && msi_kind_reduces(job->kind)) forms |= MST_FORM_DETERMINISTIC;
    bool has = msi_compose_can_op(&e->composer, job, job->kind, job->op, forms);
    job->timed = has && msi_engine_times(e, op);
    return has;
}

static mst_status begin_own(struct msi_engine *e, struct mst_work *op, bool *done) {
    if (!e->heads) op->host.seq = ++e->seq;
    op->begun = true;
    msi_op_trace_start(&op->op_trace);
    return start(e, op, &op->job, done);
}

static mst_status begin_composed(struct msi_engine *e, struct mst_work *op, bool *done) {
    if (!e->heads) op->host.seq = ++e->seq; /* if it is refused, too: so it is on the other ranks */
    op->op_trace.record.algorithm = "composed";
    msi_op_trace_start(&op->op_trace);
    mst_status st = msi_compose(&e->composer, &op->job, op->deterministic);
    if (st != MST_OK) return st;
    op->begun = true;
    msi_engine_warn(e, &op->job);
    e->composed = op;
    e->begun = e->over = 0;
    return advance_steps(e, op, done);
}

/* What nothing of has begun harms nobody, if somebody hears of it: the last of several stands for all of them. */
static bool is_refused(const struct mst_work *op, mst_status status) {
    return !op->begun && !op->abandoned && (status == MST_ERR_UNSUPPORTED || status == MST_ERR_INVALID);
}

/* Rule 3. */
static void fail(struct msi_engine *e, struct mst_work *op, mst_status status) {
    int culprit = -1;
    if (is_refused(op, status)) {
        msi_comm_keep(e->comm, &op->failure, status, -1);
        msi_engine_scratch_reset(e);
        return;
    }
    mst_status st = status == MST_ERR_TIMEOUT && op->begin ? msi_comm_say_stalled(e->comm, op, &culprit)
                                                           : msi_engine_say(e->comm, status, &culprit);
    msi_comm_fail(e->comm, op, st, culprit);
}

mst_status msi_engine_enqueue(struct msi_engine *e, struct mst_work *op, bool *through) {
    struct msi_comm *comm = e->comm;
    bool two = !op->begin && op->message.measured; /* messages; the second waits for the first */
    *through = false;
    if (e->heads && op->begin) return MST_OK; /* it is checked in the queue */
    if (two || !msi_list_empty(&comm->queue) || !msi_list_empty(&comm->messages) || !describe(e, op))
        return MST_OK;
    if (op->begin) op->host.seq = ++e->seq;
    op->job.unwatched = true;
    op->job.deadline = msi_deadline(op->timeout_ms);
    *through = true;
    msi_op_trace_start(&op->op_trace);
    mst_status st = e->table->submit(e->made, &op->job);
    if (st == MST_OK) return MST_OK;
    fail(e, op, st);
    msi_engine_abort(e);
    return msi_comm_repeat(&op->failure);
}

/*
 * Begins a batch together: the operation and those behind it that belong to it and that the engine has. All ranks do so alike, whenever
 * each of them comes to it: engines may put what begins together into an order of their own.
 */
static mst_status begin_batch(struct msi_engine *e, struct mst_work *op) {
    struct msi_comm *comm = e->comm;
    unsigned batch = op->batch;
    bool done;
    mst_status st = e->table->group_begin(e->made);
    if (st != MST_OK) return st;
    for (struct msi_list *at = &op->node; at != &comm->queue && st == MST_OK; at = at->next) {
        struct mst_work *next = msi_container(at, struct mst_work, node);
        if (next->batch != batch || !describe(e, next)) break;
        st = begin_own(e, next, &done);
    }
    mst_status ended = e->table->group_end(e->made);
    return st == MST_OK ? ended : st;
}

/* It has come to its turn. One that is part of a batch waits until all of that was submitted. */
static mst_status begin(struct msi_engine *e, struct mst_work *op, bool *done) {
    bool batched = op->batch && e->table->group_begin && e->traits.ordered && !e->heads;
    if (batched && op->batch == e->comm->batch) return MST_OK;
    if (!describe(e, op)) return begin_composed(e, op, done);
    return batched ? begin_batch(e, op) : begin_own(e, op, done);
}

/* Have all ranks said what they call, and the same? */
static mst_status check(struct msi_engine *e, struct mst_work *op, bool *alike) {
    mst_status st = MST_OK;
    if (e->composed != op) {
        st = msi_engine_begin_check(e, op);
        e->composed = op;
        e->begun = e->over = 0;
    }
    if (st == MST_OK) st = advance_steps(e, op, alike);
    if (st != MST_OK || !*alike) return st;
    e->composed = NULL;
    msi_engine_scratch_reset(e);
    return msi_engine_compare(e, op);
}

static mst_status advance(struct msi_engine *e, struct mst_work *op, bool *done) {
    *done = false;
    if (e->heads && !op->begun) {
        bool alike = false;
        mst_status st = check(e, op, &alike);
        if (st != MST_OK || !alike) return st;
    }
    if (!op->begun) return begin(e, op, done);
    if (e->composed == op) return advance_steps(e, op, done);
    return e->table->progress(e->made, &op->job, done);
}

bool msi_engine_is_past(struct msi_engine *e, struct mst_work *op) {
    bool done = false;
    mst_status st = e->table->progress(e->made, &op->job, &done);
    if (st == MST_OK) return done;
    fail(e, op, st);
    msi_engine_abort(e);
    return true;
}

uint64_t msi_engine_elapsed(struct msi_engine *e, const struct mst_work *op) {
    double seconds = 0;
    if (!op->job.timed || op->failure.status != MST_OK) return 0;
    return e->table->elapsed(e->made, &op->job, &seconds) == MST_OK ? (uint64_t)(seconds * 1e9) : 0;
}

static void leave_composition(struct msi_engine *e, const struct mst_work *op) {
    if (e->composed != op) return;
    e->composed = NULL;
    msi_engine_scratch_reset(e);
}

static void give_up_all(struct msi_engine *e) {
    struct msi_comm *comm = e->comm;
    msi_engine_abort(e);
    while (!msi_list_empty(&comm->queue)) {
        struct mst_work *op = msi_container(comm->queue.next, struct mst_work, node);
        if (op->failure.status == MST_OK) op->failure = comm->failure;
        leave_composition(e, op);
        msi_comm_end(op);
    }
}

bool msi_engine_advance(struct msi_comm *comm) {
    struct msi_engine *e = comm->engine;
    bool moved = false, done;
    for (struct msi_list *at = comm->queue.next, *next; at != &comm->queue && comm->failure.status == MST_OK;
         at = next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        next = at->next;
        mst_status st = advance(e, op, &done);
        if (st != MST_OK) fail(e, op, st);
        if (st == MST_OK && !done && (e->composed == op || !op->begun || !e->traits.ordered)) break;
        bool refused = st != MST_OK && comm->failure.status == MST_OK;
        if (!refused && (st != MST_OK || !done)) continue;
        leave_composition(e, op);
        msi_comm_end(op);
        moved = true;
    }
    if (comm->failure.status == MST_OK || msi_list_empty(&comm->queue)) return moved;
    give_up_all(e);
    return true;
}
