/*
 * check.c - see check.h. Walks through each stage's list and tracks computed units and buffers in use. Then
 * matches the messages of all stages (match_messages.c) and simulates the schedule (time.c) to find
 * deadlocks.
 */
#include "pipeline/schedule/check.h"

#include "base/error.h"
#include "pipeline/schedule/insert_messages.h"
#include "pipeline/schedule/text.h"
#include "pipeline/schedule/time.h"

#include <stdlib.h>
#include <string.h>

/* State of one stage. Entries are actions; MSI_NO_ACTION: none. */
struct checker {
    const struct msi_schedule *schedule;
    int stage;
    const struct msi_stage_list *list;
    uint32_t *forwards, *backwards; /* by unit and chunk; TAKEs count as backwards */
    size_t n_computes;              /* units x chunks */
    uint32_t *in[MSI_CHANNELS];     /* by buffer: its RECEIVE */
    uint32_t *out[MSI_CHANNELS];    /* by buffer: its writer, or its SEND */
    uint32_t *keeps;                /* by keep index: the forward */
    bool *read;                     /* by action: a RECEIVE that was read */
    size_t done[MSI_ACT_KINDS];
    int alive;
};

#define fault(c, i, ...) msi_schedule_fault((c)->schedule, (c)->stage, i, __VA_ARGS__)

static const struct msi_schedule_spec *spec_of(const struct checker *c) {
    return &c->schedule->spec;
}

static bool in_range(const struct msi_schedule_spec *s, const struct msi_action *a) {
    return a->kind < MSI_ACT_KINDS && a->chunk >= 0 && a->chunk < s->chunks && a->batch >= 0 &&
           a->batch < s->batches && a->token >= 0 && a->token < s->tokens && a->micro >= 0 &&
           a->micro < s->micros;
}

static size_t index_of(const struct msi_schedule_spec *s, const struct msi_action *a) {
    size_t unit =
        ((size_t)a->batch * (size_t)s->tokens + (size_t)a->token) * (size_t)s->micros + (size_t)a->micro;
    return (size_t)a->chunk * msi_schedule_units(s) + unit;
}

/* Are message and step about the same unit? */
static bool same_unit(const struct msi_action *message, const struct msi_action *step) {
    int token = step->token;
    if (message->channel == MSI_TOKENS && message->kind == MSI_ACT_RECEIVE && step->kind == MSI_ACT_FORWARD)
        token--;
    return message->batch == step->batch && message->token == token && message->micro == step->micro &&
           message->chunk == step->chunk;
}

static mst_status check_message(struct checker *c, uint32_t i) {
    const struct msi_action *a = &c->list->actions[i];
    bool in = a->kind == MSI_ACT_RECEIVE;
    if (a->channel >= MSI_CHANNELS) return fault(c, i, "the channel does not exist");
    if (a->slot < 0 || a->slot >= c->list->slots[a->channel][in ? MSI_IN_SLOT : MSI_OUT_SLOT])
        return fault(c, i, "the buffer does not exist");
    uint32_t *holds = &(in ? c->in : c->out)[a->channel][a->slot];
    if (in && *holds != MSI_NO_ACTION)
        return fault(c, i, "the buffer still holds the message of action %u", *holds);
    if (!in && (*holds == MSI_NO_ACTION || c->list->actions[*holds].output != i))
        return fault(c, i, "the buffer does not hold data for this send");
    *holds = i;
    return MST_OK;
}

/* The buffer of a RECEIVE is free again. */
static void release(struct checker *c, uint32_t receive) {
    const struct msi_action *a = &c->list->actions[receive];
    c->in[a->channel][a->slot] = MSI_NO_ACTION;
}

static mst_status check_input(struct checker *c, uint32_t i) {
    const struct msi_action *a = &c->list->actions[i];
    int channel = msi_step_reads(spec_of(c), c->stage, a);
    if (channel == MSI_NO_CHANNEL)
        return a->input == MSI_NO_ACTION ? MST_OK : fault(c, i, "it must not have an input");
    if (a->input >= i) return fault(c, i, "its input is not received before it");
    const struct msi_action *r = &c->list->actions[a->input];
    if (r->kind != MSI_ACT_RECEIVE || r->channel != channel || !same_unit(r, a) || c->read[a->input])
        return fault(c, i, "action %u does not receive its input", a->input);
    c->read[a->input] = true;
    bool kept = channel == MSI_ACTIVATIONS && msi_schedule_trains(spec_of(c)->kind);
    if (!kept) release(c, a->input);
    return MST_OK;
}

static mst_status check_output(struct checker *c, uint32_t i) {
    const struct msi_action *a = &c->list->actions[i];
    int channel = msi_step_writes(spec_of(c), c->stage, a);
    if (channel == MSI_NO_CHANNEL)
        return a->output == MSI_NO_ACTION && a->reuses == MSI_NO_ACTION
                   ? MST_OK
                   : fault(c, i, "it must not have an output");
    if (a->output <= i || a->output >= c->list->n) return fault(c, i, "its output is not sent after it");
    const struct msi_action *s = &c->list->actions[a->output];
    if (s->kind != MSI_ACT_SEND || s->channel != channel || !same_unit(s, a))
        return fault(c, i, "action %u does not send its output", a->output);
    if (s->slot < 0 || s->slot >= c->list->slots[channel][MSI_OUT_SLOT])
        return fault(c, i, "its output buffer does not exist");
    uint32_t *before = &c->out[channel][s->slot];
    if (*before != a->reuses)
        return fault(c, i, "its output buffer was last used by action %u, but it waits for %u", *before,
                     a->reuses);
    if (*before != MSI_NO_ACTION && c->list->actions[*before].kind != MSI_ACT_SEND)
        return fault(c, i, "its output buffer was not sent yet");
    *before = i;
    return MST_OK;
}

/* Each unit occurs once, after the micro-batch before it or, in streaming, the token before it. */
static mst_status check_once(struct checker *c, uint32_t i, uint32_t *all) {
    const struct msi_schedule_spec *s = spec_of(c);
    const struct msi_action *a = &c->list->actions[i];
    uint32_t *seen = &all[index_of(s, a)];
    bool stream = s->kind == MSI_STREAM;
    if (*seen != MSI_NO_ACTION) return fault(c, i, "action %u has already done it", *seen);
    if (!stream && a->micro > 0 && seen[-1] == MSI_NO_ACTION)
        return fault(c, i, "micro-batch %d must come first", a->micro - 1);
    if (stream && a->kind == MSI_ACT_FORWARD && a->token > 0 && seen[-s->micros] == MSI_NO_ACTION)
        return fault(c, i, "token %d must come first", a->token - 1);
    *seen = i;
    return MST_OK;
}

static mst_status check_forward(struct checker *c, uint32_t i) {
    const struct msi_schedule_spec *s = spec_of(c);
    const struct msi_action *a = &c->list->actions[i];
    mst_status st = check_once(c, i, c->forwards);
    if (st != MST_OK) return st;
    if (a->keep < 0 || a->keep >= c->list->keeps) return fault(c, i, "keep index %d does not exist", a->keep);
    if (s->kind == MSI_STREAM && a->keep != a->batch % s->inner * s->micros + a->micro)
        return fault(c, i, "keep index %d belongs to another sequence", a->keep);
    if (!msi_schedule_trains(s->kind)) return MST_OK;
    if (c->keeps[a->keep] != MSI_NO_ACTION)
        return fault(c, i, "action %u still uses its keep index", c->keeps[a->keep]);
    c->keeps[a->keep] = i;
    if (++c->alive > msi_schedule_keeps_bound(s, c->stage))
        return fault(c, i, "more than %d are kept", msi_schedule_keeps_bound(s, c->stage));
    return MST_OK;
}

static mst_status check_backward(struct checker *c, uint32_t i) {
    const struct msi_schedule_spec *s = spec_of(c);
    const struct msi_action *a = &c->list->actions[i];
    if (!msi_schedule_trains(s->kind)) return fault(c, i, "this schedule has no backwards");
    uint32_t forward = c->forwards[index_of(s, a)];
    mst_status st = check_once(c, i, c->backwards);
    if (st != MST_OK) return st;
    if (forward == MSI_NO_ACTION) return fault(c, i, "its forward does not come before it");
    if (a->forward != forward) return fault(c, i, "its forward is action %u, not %u", forward, a->forward);
    const struct msi_action *f = &c->list->actions[forward];
    if (a->keep != f->keep) return fault(c, i, "its forward has keep index %d, not %d", f->keep, a->keep);
    c->keeps[a->keep] = MSI_NO_ACTION;
    c->alive--;
    if (f->input != MSI_NO_ACTION) release(c, f->input);
    return MST_OK;
}

static mst_status check_take(struct checker *c, uint32_t i) {
    const struct msi_schedule_spec *s = spec_of(c);
    const struct msi_action *a = &c->list->actions[i];
    if (s->kind != MSI_STREAM || c->stage != 0 || a->token != s->tokens - 1)
        return fault(c, i, "only stage 0 takes token ids, and only those of the last token");
    return check_once(c, i, c->backwards);
}

static mst_status check_step(struct checker *c, uint32_t i) {
    mst_status st = check_input(c, i);
    if (st == MST_OK) st = check_output(c, i);
    if (st != MST_OK) return st;
    switch (c->list->actions[i].kind) {
    case MSI_ACT_FORWARD:
        return check_forward(c, i);
    case MSI_ACT_BACKWARD:
        return check_backward(c, i);
    default:
        return check_take(c, i);
    }
}

static mst_status check_action(struct checker *c, uint32_t i) {
    const struct msi_action *a = &c->list->actions[i];
    if (!in_range(spec_of(c), a)) return fault(c, i, "its unit does not exist");
    c->done[a->kind]++;
    return a->kind == MSI_ACT_RECEIVE || a->kind == MSI_ACT_SEND ? check_message(c, i) : check_step(c, i);
}

/* Each unit was seen at most once, so the counts decide. */
static mst_status check_end(const struct checker *c) {
    const struct msi_schedule_spec *s = spec_of(c);
    bool trains = msi_schedule_trains(s->kind), takes = s->kind == MSI_STREAM && c->stage == 0;
    size_t n_takes = takes ? (size_t)s->batches * (size_t)s->micros : 0;
    if (c->done[MSI_ACT_FORWARD] != c->n_computes || c->done[MSI_ACT_TAKE] != n_takes ||
        c->done[MSI_ACT_BACKWARD] != (trains ? c->n_computes : 0))
        return fault(c, c->list->n, "%zu forwards, %zu backwards and %zu takes; expected %zu, %zu and %zu",
                     c->done[MSI_ACT_FORWARD], c->done[MSI_ACT_BACKWARD], c->done[MSI_ACT_TAKE],
                     c->n_computes, trains ? c->n_computes : 0, n_takes);
    for (uint32_t i = 0; i < c->list->n; i++)
        if (c->list->actions[i].kind == MSI_ACT_RECEIVE && !c->read[i])
            return fault(c, i, "no step reads it");
    return MST_OK;
}

static uint32_t *empty(size_t n) {
    uint32_t *all = malloc((n + 1) * sizeof *all);
    if (all) memset(all, 0xff, n * sizeof *all);
    return all;
}

static void free_checker(struct checker *c) {
    free(c->forwards);
    free(c->backwards);
    free(c->keeps);
    free(c->read);
    for (int i = 0; i < MSI_CHANNELS; i++) {
        free(c->in[i]);
        free(c->out[i]);
    }
}

static bool get_checker(struct checker *c) {
    c->forwards = empty(c->n_computes);
    c->backwards = empty(c->n_computes);
    c->keeps = empty((size_t)c->list->keeps);
    c->read = calloc((size_t)c->list->n + 1, sizeof *c->read);
    bool ok = c->forwards && c->backwards && c->keeps && c->read;
    for (int i = 0; i < MSI_CHANNELS; i++) {
        c->in[i] = empty((size_t)c->list->slots[i][MSI_IN_SLOT]);
        c->out[i] = empty((size_t)c->list->slots[i][MSI_OUT_SLOT]);
        ok = ok && c->in[i] && c->out[i];
    }
    return ok;
}

/* Rejects counts that are too large for the list, before memory is allocated. */
static bool sane(const struct msi_schedule *schedule, int stage) {
    const struct msi_stage_list *list = &schedule->stages[stage];
    if (list->n == MSI_NO_ACTION || list->keeps < 0) return false;
    for (int i = 0; i < MSI_CHANNELS; i++)
        for (int k = 0; k < 2; k++)
            if (list->slots[i][k] < 0 || (uint32_t)list->slots[i][k] > list->n) return false;
    return list->keeps <= msi_schedule_keeps_bound(&schedule->spec, stage);
}

static mst_status check_stage(const struct msi_schedule *schedule, int stage) {
    struct checker c = {.schedule = schedule, .stage = stage, .list = &schedule->stages[stage]};
    c.n_computes = msi_schedule_units(&schedule->spec) * (size_t)schedule->spec.chunks;
    if (!sane(schedule, stage))
        return fault(&c, c.list->n, "it has more buffers or keep indices than it can use");
    mst_status st = get_checker(&c) ? MST_OK : msi_fail_memory();
    for (uint32_t i = 0; i < c.list->n && st == MST_OK; i++) st = check_action(&c, i);
    if (st == MST_OK) st = check_end(&c);
    free_checker(&c);
    return st;
}

/* Does the schedule complete in every send mode? */
static mst_status check_deadlock(const struct msi_schedule *schedule) {
    struct msi_timing timing = {0};
    struct msi_message_matches matches;
    mst_status st = msi_match_messages(schedule, &matches);
    if (st != MST_OK) return st;
    for (int i = 0; i < MSI_SEND_MODES && st == MST_OK; i++)
        st = msi_schedule_simulate(schedule, &matches, (enum msi_send_mode)i, NULL, &timing);
    msi_message_matches_free(&matches);
    msi_timing_free(&timing);
    return st;
}

mst_status msi_schedule_check(const struct msi_schedule *schedule) {
    for (int s = 0; s < schedule->spec.stages; s++) {
        mst_status st = check_stage(schedule, s);
        if (st != MST_OK) return st;
    }
    return check_deadlock(schedule);
}
