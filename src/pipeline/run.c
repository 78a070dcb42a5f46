/* run.c - runs a stage's list. See pipeline.h; rule 3 of schedule.h describes the waits. */
#include "base/error.h"
#include "base/handles.h"
#include "group/call.h"
#include "group/choice.h"
#include "os/clock.h"
#include "pipeline/blame.h"
#include "pipeline/schedule/text.h"

#include <limits.h>
#include <stdio.h>

enum { REPORT_WAIT_MS = 1000 };

static struct msi_buffer *slot_of(const mst_pipeline *p, const struct msi_action *a) {
    return &p->slots[a->channel][a->kind == MSI_ACT_RECEIVE ? MSI_IN_SLOT : MSI_OUT_SLOT][a->slot];
}

/* Activations and ids go forward on the ring, gradients backward. */
static mst_group *pair_of(const mst_pipeline *p, const struct msi_action *a) {
    bool after = (a->kind == MSI_ACT_SEND) == (a->channel != MSI_GRADIENTS);
    mst_group *pair = after ? p->pairs.succ : p->pairs.pred;
    return pair ? pair : p->whole; /* a ring of one */
}

static bool is_prompt(const mst_pipeline *p, const struct msi_action *a) {
    return p->spec.kind == MSI_STREAM && a->channel == MSI_ACTIVATIONS && a->token == 0;
}

static int peer_of(const mst_pipeline *p, const struct msi_action *a) {
    return a->peer == (p->stage + 1) % p->spec.stages ? p->after : p->before;
}

static mst_status begin_message(mst_pipeline *p, const struct msi_action *a) {
    struct msi_buffer *slot = slot_of(p, a);
    bool in = a->kind == MSI_ACT_RECEIVE;
    const mst_shape *shape = msi_pipeline_shape(p, a->channel, in, is_prompt(p, a));
    slot->action = a;
    mst_call options = {.size = sizeof options,
                        .site = p->run.site,
                        .tag = p->pairs.succ ? 0 : a->channel, /* a ring of one has no pairs */
                        .group = pair_of(p, a),
                        .timeout_ms = INT_MAX, /* it begins early; wait_for has the limit */
                        .work = &slot->work,
                        .log_name = msi_stage_channel_name(a->channel)};
    struct msi_call call;
    mst_status st =
        msi_call_open_as(in ? "mst_irecv" : "mst_isend", in ? MSI_KIND_RECV : MSI_KIND_SEND, &options, &call);
    if (st == MST_OK)
        st = msi_call_peer(&call, "the neighbour", msi_group_rank_of(call.group, peer_of(p, a)));
    if (st == MST_OK) st = msi_call_tensor(&call, 1, msi_shape_count(shape), shape->dtype);
    if (st != MST_OK) return st;
    struct msi_op op = {.desc = {.kind = in ? MST_KIND_RECV : MST_KIND_SEND,
                                 .dtype = shape->dtype,
                                 .element = call.element,
                                 .count = call.count,
                                 .peer = call.root,
                                 .tag = options.tag,
                                 .in = in ? NULL : slot->memory,
                                 .out = in ? slot->memory : NULL}};
    call.op = &op;
    return msi_call_submit_message(&call, &op);
}

/* The message did not arrive, or was not received, in time. Its work ends with the group. */
static mst_status fail_late(mst_pipeline *p, const struct msi_action *a) {
    char neighbour[MSI_RANK_SHOW_MAX], other[MSI_RANK_SHOW_MAX], late[MSI_RANK_SHOW_MAX + 40] = "";
    int peer = peer_of(p, a), culprit = msi_blame_late(p, peer);
    if (!msi_handle_alive(p->whole)) return MST_ERR_STATE;
    const mst_group *whole = msi_handle_memory(p->whole);
    msi_rank_show(whole, peer, neighbour, sizeof neighbour);
    if (culprit != peer)
        snprintf(late, sizeof late,
                 "%s keeps the pipeline waiting: ", msi_rank_show(whole, culprit, other, sizeof other));
    msi_fail(MST_ERR_STALLED, "find out where that rank is, or raise .timeout_ms",
             a->kind == MSI_ACT_RECEIVE ? "%sno %s from %s arrived within %d ms"
                                        : "%sthe %s for %s were not received within %d ms",
             late, msi_stage_channel_name(a->channel), neighbour, p->timeout_ms);
    return msi_blame(MST_ERR_STALLED, culprit);
}

static mst_status wait_ms(const mst_pipeline *p, mst_work *work, int ms) {
    struct msi_wait wait = {msi_deadline(ms), p->run.cancel};
    msi_call_begin("mst_wait", &p->run.site, p->rank);
    uint64_t entered = msi_call_enter(0, 0, 0);
    return msi_call_leave(entered, msi_comm_finish(work, &wait, false));
}

/* After some time, publishes which rank this one waits for. */
static mst_status wait_for(mst_pipeline *p, struct msi_buffer *slot) {
    mst_work *work = slot->work;
    if (!work) return MST_OK;
    int64_t began = msi_now();
    int half = p->timeout_ms / 2, some = half < REPORT_WAIT_MS ? half : REPORT_WAIT_MS;
    slot->work = NULL;
    mst_status st = some ? wait_ms(p, work, some) : MST_ERR_TIMEOUT;
    if (st == MST_ERR_TIMEOUT) {
        msi_blame_wait(p, peer_of(p, slot->action));
        st = wait_ms(p, work, p->timeout_ms - some);
        if (st == MST_OK) msi_blame_wait(p, -1);
    }
    p->times.waiting += (double)(msi_now() - began) / 1e9;
    return st == MST_ERR_TIMEOUT ? fail_late(p, slot->action) : st;
}

static mst_status wait_for_message(mst_pipeline *p, uint32_t action) {
    return action == MSI_NO_ACTION ? MST_OK : wait_for(p, slot_of(p, &p->list.actions[action]));
}

static void describe(const mst_pipeline *p, const struct msi_action *a, mst_pipeline_step *step) {
    int part = p->stage + a->chunk * p->spec.stages, parts = p->spec.stages * p->spec.chunks;
    *step = (mst_pipeline_step){.micro = a->micro,
                                .chunk = a->chunk,
                                .part = part,
                                .first = part == 0,
                                .last = part == parts - 1,
                                .batch = a->batch,
                                .token = a->token,
                                .keep = a->keep};
    if (a->input != MSI_NO_ACTION) {
        const struct msi_action *input = &p->list.actions[a->input];
        step->in = slot_of(p, input)->memory;
        step->in_shape = msi_pipeline_shape(p, input->channel, true, is_prompt(p, input));
    }
    if (a->output != MSI_NO_ACTION) {
        const struct msi_action *output = &p->list.actions[a->output];
        step->out = slot_of(p, output)->memory;
        step->out_shape = msi_pipeline_shape(p, output->channel, false, is_prompt(p, output));
    }
}

static mst_pipeline_callback callback_of(const mst_pipeline *p, const struct msi_action *a) {
    return a->kind == MSI_ACT_FORWARD    ? p->options.forward
           : a->kind == MSI_ACT_BACKWARD ? p->options.backward
                                         : p->options.take;
}

/* Keeps the failure of a muster call inside the callback if it affects the group. */
static mst_status fail_callback(const mst_pipeline *p, const struct msi_action *a, mst_status st,
                                bool failed) {
    mst_status own = mst_last_error()->status;
    if (failed && (st == own || (st == MST_ERR_CALLBACK && mst_status_scope(own) >= MST_SCOPE_GROUP)))
        return own;
    return msi_fail(MST_ERR_CALLBACK, NULL, "the callback %s of stage %d returned %s for micro-batch %d",
                    msi_action_name(a->kind), p->stage, mst_status_name(st), a->micro);
}

static mst_status compute(mst_pipeline *p, const struct msi_action *a) {
    mst_pipeline_step step;
    mst_pipeline_callback callback = callback_of(p, a);
    mst_status st = wait_for_message(p, a->input);
    if (st == MST_OK && a->kind != MSI_ACT_TAKE) st = wait_for_message(p, a->reuses);
    if (st != MST_OK || !callback) return st;
    describe(p, a, &step);
    uint64_t failures = msi_failures();
    int64_t began = msi_now();
    st = callback(&step, p->options.arg);
    p->times.computing += (double)(msi_now() - began) / 1e9;
    return st == MST_OK ? MST_OK : fail_callback(p, a, st, msi_failures() != failures);
}

static mst_status wait_for_sends(mst_pipeline *p) {
    mst_status st = MST_OK;
    for (int c = 0; c < MSI_CHANNELS; c++)
        for (int i = 0; i < p->list.slots[c][MSI_OUT_SLOT] && st == MST_OK; i++)
            st = wait_for(p, &p->slots[c][MSI_OUT_SLOT][i]);
    return st;
}

mst_status msi_pipeline_run(mst_pipeline *p) {
    int64_t began = msi_now();
    struct msi_wait wait = {msi_deadline(p->timeout_ms), p->run.cancel};
    p->times = (mst_pipeline_times){0};
    mst_status st = msi_pipeline_join(p, &wait);
    for (uint32_t i = 0; i < p->list.n && st == MST_OK; i++) {
        const struct msi_action *a = &p->list.actions[i];
        st = a->kind == MSI_ACT_RECEIVE || a->kind == MSI_ACT_SEND ? begin_message(p, a) : compute(p, a);
    }
    if (st == MST_OK) st = wait_for_sends(p);
    p->times.whole = (double)(msi_now() - began) / 1e9;
    return st;
}

mst_status msi_pipeline_end(mst_pipeline *p, mst_status status) {
    p->failed = true;
    msi_blame_settle(p, &status);
    msi_pairs_report(&p->pairs, status);
    return msi_pairs_undo(&p->pairs, status);
}
