/*
 * insert_messages.c - see insert_messages.h. Each step becomes the receives that are due before it, the step
 * itself, and the send of its result.
 *
 *   RECEIVE a0                 before the first step: the first message of each channel
 *   RECEIVE a1  FORWARD 0      the message for the next step travels during this step
 *   SEND b0
 *   RECEIVE a2  FORWARD 1 …
 */
#include "pipeline/schedule/insert_messages.h"

#include "base/error.h"

#include <stdlib.h>

enum { SEND_SLOTS = 2 };

static int part_of(const struct msi_schedule_spec *spec, int stage, const struct msi_action *step) {
    return step->chunk * spec->stages + stage;
}

static int last_part(const struct msi_schedule_spec *spec) {
    return spec->chunks * spec->stages - 1;
}

int msi_step_reads(const struct msi_schedule_spec *spec, int stage, const struct msi_action *step) {
    int part = part_of(spec, stage, step);
    if (step->kind == MSI_ACT_TAKE) return MSI_TOKENS;
    if (step->kind == MSI_ACT_BACKWARD) return part < last_part(spec) ? MSI_GRADIENTS : MSI_NO_CHANNEL;
    if (part > 0) return MSI_ACTIVATIONS;
    return step->token > 0 ? MSI_TOKENS : MSI_NO_CHANNEL;
}

int msi_step_writes(const struct msi_schedule_spec *spec, int stage, const struct msi_action *step) {
    int part = part_of(spec, stage, step);
    if (step->kind == MSI_ACT_TAKE) return MSI_NO_CHANNEL;
    if (step->kind == MSI_ACT_BACKWARD) return part > 0 ? MSI_GRADIENTS : MSI_NO_CHANNEL;
    if (part < last_part(spec)) return MSI_ACTIVATIONS;
    return spec->kind == MSI_STREAM ? MSI_TOKENS : MSI_NO_CHANNEL;
}

int msi_stage_channel_to(const struct msi_schedule_spec *spec, int channel, int stage) {
    int stages = spec->stages;
    if (channel == MSI_ACTIVATIONS) return (stage + 1) % stages;
    if (channel == MSI_GRADIENTS) return (stage + stages - 1) % stages;
    return stage == stages - 1 ? 0 : -1;
}

int msi_stage_channel_from(const struct msi_schedule_spec *spec, int channel, int stage) {
    int stages = spec->stages;
    if (channel == MSI_ACTIVATIONS) return (stage + stages - 1) % stages;
    if (channel == MSI_GRADIENTS) return (stage + 1) % stages;
    return stage == 0 ? stages - 1 : -1;
}

/* Indices that are allocated and freed; n: the most that were in use at once. */
struct pool {
    int *free;
    int n_free, n;
};

static int alloc_index(struct pool *pool) {
    return pool->n_free ? pool->free[--pool->n_free] : pool->n++;
}

static void free_index(struct pool *pool, int index) {
    pool->free[pool->n_free++] = index;
}

struct inserter {
    const struct msi_schedule_spec *spec;
    int stage;
    const struct msi_action *steps;
    size_t n_steps;
    struct msi_stage_list list;
    size_t reader[MSI_CHANNELS]; /* the next step whose message must be received */
    uint32_t received[MSI_CHANNELS], sent[MSI_CHANNELS];
    uint32_t last_sends[MSI_CHANNELS][SEND_SLOTS];
    struct pool slots[MSI_CHANNELS], keeps;
    uint32_t *receive_of; /* by step: the RECEIVE of its message */
    uint32_t *forward_of; /* by micro-batch and chunk, in training: the FORWARD */
};

static struct msi_action *add(struct inserter *w, const struct msi_action *step, int kind) {
    struct msi_action *a = &w->list.actions[w->list.n++];
    *a = *step;
    a->kind = (uint8_t)kind;
    a->input = a->output = a->reuses = a->forward = MSI_NO_ACTION;
    return a;
}

static int reads(const struct inserter *w, size_t step) {
    return msi_step_reads(w->spec, w->stage, &w->steps[step]);
}

/* Adds the RECEIVE for the next step that reads from a channel, if any. */
static void receive_next(struct inserter *w, int channel) {
    size_t *reader = &w->reader[channel];
    while (*reader < w->n_steps && reads(w, *reader) != channel) ++*reader;
    if (*reader == w->n_steps) return;
    const struct msi_action *step = &w->steps[*reader];
    w->receive_of[*reader] = w->list.n;
    struct msi_action *a = add(w, step, MSI_ACT_RECEIVE);
    a->channel = (uint8_t)channel;
    a->peer = msi_stage_channel_from(w->spec, channel, w->stage);
    a->number = w->received[channel]++;
    a->slot = alloc_index(&w->slots[channel]);
    if (channel == MSI_TOKENS && step->kind == MSI_ACT_FORWARD)
        a->token--; /* the result of the token before */
    ++*reader;
}

static uint32_t add_send(struct inserter *w, const struct msi_action *step, int channel) {
    uint32_t at = w->list.n, number = w->sent[channel]++;
    struct msi_action *a = add(w, step, MSI_ACT_SEND);
    a->channel = (uint8_t)channel;
    a->peer = msi_stage_channel_to(w->spec, channel, w->stage);
    a->number = number;
    a->slot = (int32_t)(number % SEND_SLOTS);
    w->last_sends[channel][a->slot] = at;
    return at;
}

static uint32_t *forward_of(struct inserter *w, const struct msi_action *step) {
    return &w->forward_of[(size_t)step->chunk * (size_t)w->spec->micros + (size_t)step->micro];
}

/* Sets the keep index, and frees buffers that are not needed after the action. */
static void keep(struct inserter *w, uint32_t at, int channel) {
    struct msi_action *a = &w->list.actions[at];
    bool trains = msi_schedule_trains(w->spec->kind);
    if (a->kind == MSI_ACT_BACKWARD) {
        const struct msi_action *forward = &w->list.actions[a->forward = *forward_of(w, a)];
        free_index(&w->keeps, a->keep = forward->keep);
        if (forward->input != MSI_NO_ACTION)
            free_index(&w->slots[MSI_ACTIVATIONS], w->list.actions[forward->input].slot);
    } else if (trains) {
        *forward_of(w, a) = at;
        a->keep = alloc_index(&w->keeps);
    } else {
        bool cached = a->kind == MSI_ACT_FORWARD && w->spec->kind == MSI_STREAM;
        a->keep = cached ? a->batch % w->spec->inner * w->spec->micros + a->micro : 0;
    }
    bool kept = trains && channel == MSI_ACTIVATIONS;
    if (channel != MSI_NO_CHANNEL && !kept) free_index(&w->slots[channel], w->list.actions[a->input].slot);
}

static void insert_step(struct inserter *w, size_t i) {
    const struct msi_action *step = &w->steps[i];
    int in = reads(w, i), out = msi_step_writes(w->spec, w->stage, step);
    if (in == MSI_ACTIVATIONS || in == MSI_GRADIENTS) receive_next(w, in);
    bool first = w->spec->kind == MSI_STREAM && w->stage == 0 && step->kind == MSI_ACT_FORWARD;
    if (first) receive_next(w, MSI_TOKENS);
    uint32_t at = w->list.n;
    struct msi_action *a = add(w, step, step->kind);
    if (in != MSI_NO_CHANNEL) a->input = w->receive_of[i];
    if (out != MSI_NO_CHANNEL) {
        a->reuses = w->last_sends[out][w->sent[out] % SEND_SLOTS];
        a->output = add_send(w, step, out);
    }
    keep(w, at, in);
}

/*
 * The number of messages of a channel that may be in flight to this stage during a step. Messages that wrap
 * around the ring arrive earlier: by the difference between the size of a group and of the ring.
 */
static int ahead(const struct inserter *w, int channel) {
    const struct msi_schedule_spec *s = w->spec;
    int extra = msi_interleaved_group_size(s, 0) - s->stages;
    bool wraps = w->stage == (channel == MSI_ACTIVATIONS ? 0 : s->stages - 1);
    return s->kind == MSI_INTERLEAVED && wraps && extra > 0 ? 1 + extra : 1;
}

static void insert_all(struct inserter *w) {
    for (int c = 0; c < MSI_CHANNELS; c++)
        for (int i = 0; i < SEND_SLOTS; i++) w->last_sends[c][i] = MSI_NO_ACTION;
    for (int i = ahead(w, MSI_ACTIVATIONS); i > 0; i--) receive_next(w, MSI_ACTIVATIONS);
    for (int i = ahead(w, MSI_GRADIENTS); i > 0; i--) receive_next(w, MSI_GRADIENTS);
    for (size_t i = 0; i < w->n_steps; i++) insert_step(w, i);
    for (int c = 0; c < MSI_CHANNELS; c++) {
        w->list.slots[c][MSI_IN_SLOT] = w->slots[c].n;
        w->list.slots[c][MSI_OUT_SLOT] = (int)(w->sent[c] < SEND_SLOTS ? w->sent[c] : SEND_SLOTS);
    }
    w->list.keeps = w->keeps.n;
    if (!msi_schedule_trains(w->spec->kind)) w->list.keeps = msi_schedule_keeps_bound(w->spec, w->stage);
}

/* Each step has at most one receive and one send. */
static bool get_memory(struct inserter *w) {
    size_t n = w->n_steps;
    w->list.actions = malloc(3 * n * sizeof *w->list.actions);
    w->receive_of = malloc(n * sizeof *w->receive_of);
    w->forward_of = malloc(n * sizeof *w->forward_of);
    bool ok = w->list.actions && w->receive_of && w->forward_of;
    for (int c = 0; c < MSI_CHANNELS; c++) ok = (w->slots[c].free = malloc(n * sizeof(int))) && ok;
    return (w->keeps.free = malloc(n * sizeof(int))) && ok;
}

mst_status msi_insert_messages(const struct msi_schedule_spec *spec, int stage,
                               const struct msi_action *steps, size_t n, struct msi_stage_list *list) {
    struct inserter w = {.spec = spec, .stage = stage, .steps = steps, .n_steps = n};
    bool ok = get_memory(&w);
    if (ok) insert_all(&w);
    for (int c = 0; c < MSI_CHANNELS; c++) free(w.slots[c].free);
    free(w.keeps.free);
    free(w.receive_of);
    free(w.forward_of);
    if (!ok) {
        free(w.list.actions);
        return msi_fail_memory();
    }
    struct msi_action *fitting = realloc(w.list.actions, w.list.n * sizeof *fitting);
    if (fitting) w.list.actions = fitting;
    msi_schedule_stage_free(list);
    *list = w.list;
    return MST_OK;
}
