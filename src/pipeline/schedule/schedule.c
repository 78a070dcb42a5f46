/*
 * schedule.c - makes the list of one stage or of all: the order of the steps, then the messages between them
 * (insert_messages.h). See schedule.h. F and B are forward and backward, two stages, m = 4:
 *
 *   gpipe   stage 0  F0 F1 F2 F3 .  .  B0 B1 B2 B3      1f1b   F0 F1 .  B0 F2 B1 F3 B2 .  B3
 *           stage 1  .  F0 F1 F2 F3 B0 B1 B2 B3 .              .  F0 B0 F1 B1 F2 B2 F3 B3 .
 */
#include "pipeline/schedule/schedule.h"

#include "base/error.h"
#include "pipeline/schedule/insert_messages.h"

#include <stdlib.h>

struct cursor {
    const struct msi_schedule_spec *spec;
    struct msi_action *steps;
    size_t n;
};

static int least(int a, int b) {
    return a < b ? a : b;
}

static void put(struct cursor *at, int kind, int micro, int chunk) {
    at->steps[at->n++] = (struct msi_action){.kind = (uint8_t)kind, .micro = micro, .chunk = (int16_t)chunk};
}

static void order_forward(struct cursor *at) {
    for (int i = 0; i < at->spec->micros; i++) put(at, MSI_ACT_FORWARD, i, 0);
}

static void order_gpipe(struct cursor *at) {
    order_forward(at);
    for (int i = 0; i < at->spec->micros; i++) put(at, MSI_ACT_BACKWARD, i, 0);
}

/* The next forward or backward: the k-th of its group, which begins with micro-batch first. */
struct walk {
    int group, first, k;
};

static void put_next(struct cursor *at, struct walk *w, int kind) {
    int size = msi_interleaved_group_size(at->spec, w->group), chunk = w->k / size;
    put(at, kind, w->first + w->k % size, kind == MSI_ACT_BACKWARD ? at->spec->chunks - 1 - chunk : chunk);
    if (++w->k == size * at->spec->chunks) *w = (struct walk){w->group + 1, w->first + size, 0};
}

/* Warm-up forwards, then one forward and one backward in turn, then backwards. 1F1B: one chunk. */
static void order_interleaved(struct cursor *at, int stage) {
    int total = at->spec->micros * at->spec->chunks;
    int ahead = msi_schedule_keeps_bound(at->spec, stage) - 1;
    struct walk forward = {0}, backward = {0};
    for (int i = 0; i < ahead; i++) put_next(at, &forward, MSI_ACT_FORWARD);
    for (int i = ahead; i < total; i++) {
        put_next(at, &forward, MSI_ACT_FORWARD);
        put_next(at, &backward, MSI_ACT_BACKWARD);
    }
    for (int i = 0; i < ahead; i++) put_next(at, &backward, MSI_ACT_BACKWARD);
}

static void put_token(struct cursor *at, int kind, int batch, int token, int micro) {
    put(at, kind, micro, 0);
    at->steps[at->n - 1].batch = batch;
    at->steps[at->n - 1].token = token;
}

/*
 * Stage 0 also takes the ids of each batch's last token, in order of arrival: after so many forwards that
 * they have arrived, or before a forward that waits for later ids.
 */
struct takes {
    struct cursor *at;
    size_t forwards;  /* so far */
    int batch, micro; /* the next to take */
    size_t source;    /* the number of the forward that computes it */
};

/* The number of forwards for some tokens of the group that begins with a batch. */
static size_t group_forwards(const struct msi_schedule_spec *s, int first, int tokens) {
    return (size_t)least(s->inner, s->batches - first) * (size_t)s->micros * (size_t)tokens;
}

static void take_one(struct takes *t) {
    const struct msi_schedule_spec *s = t->at->spec;
    put_token(t->at, MSI_ACT_TAKE, t->batch, s->tokens - 1, t->micro);
    t->source++;
    if (++t->micro < s->micros) return;
    t->micro = 0;
    if (++t->batch % s->inner == 0 && t->batch < s->batches)
        t->source += group_forwards(s, t->batch, s->tokens - 1);
}

/* Takes the ids of earlier groups before a token is read, and ids that have passed around the ring. */
static void take_ready(struct takes *t, int group_first, bool reads) {
    const struct msi_schedule_spec *s = t->at->spec;
    int round = s->inner * s->micros > s->stages ? s->inner * s->micros : s->stages;
    while (t->batch < s->batches && t->source + (size_t)round <= t->forwards) take_one(t);
    while (reads && t->batch < group_first) take_one(t);
}

static void order_stream(struct cursor *at, int stage) {
    const struct msi_schedule_spec *s = at->spec;
    struct takes takes = {.at = at, .source = group_forwards(s, 0, s->tokens - 1)};
    for (int first = 0; first < s->batches; first += s->inner)
        for (int token = 0; token < s->tokens; token++)
            for (int batch = first; batch < least(first + s->inner, s->batches); batch++)
                for (int micro = 0; micro < s->micros; micro++) {
                    if (stage == 0) take_ready(&takes, first, token > 0);
                    put_token(at, MSI_ACT_FORWARD, batch, token, micro);
                    takes.forwards++;
                }
    while (stage == 0 && takes.batch < s->batches) take_one(&takes);
}

/* The number of computes and TAKEs of a stage. */
static size_t count_steps(const struct msi_schedule_spec *spec, int stage) {
    size_t computes = msi_schedule_units(spec) * (size_t)spec->chunks;
    if (msi_schedule_trains(spec->kind)) return 2 * computes;
    bool takes = spec->kind == MSI_STREAM && stage == 0;
    return computes + (takes ? (size_t)spec->batches * (size_t)spec->micros : 0);
}

/* Sets kind, chunk, batch, token and micro of all steps. */
static void order_steps(const struct msi_schedule_spec *spec, int stage, struct msi_action *steps) {
    struct cursor at = {spec, steps, 0};
    switch (spec->kind) {
    case MSI_STREAM:
        order_stream(&at, stage);
        break;
    case MSI_FORWARD_ALL:
        order_forward(&at);
        break;
    case MSI_GPIPE:
        order_gpipe(&at);
        break;
    default:
        order_interleaved(&at, stage);
    }
}

void msi_schedule_stage_free(struct msi_stage_list *list) {
    free(list->actions);
    *list = (struct msi_stage_list){0};
}

mst_status msi_schedule_stage(const struct msi_schedule_spec *spec, int stage, struct msi_stage_list *list) {
    size_t n = count_steps(spec, stage);
    struct msi_action *steps = malloc(n * sizeof *steps);
    if (!steps) return msi_fail_memory();
    order_steps(spec, stage, steps);
    mst_status st = msi_insert_messages(spec, stage, steps, n, list);
    free(steps);
    return st;
}

void msi_schedule_free(struct msi_schedule *schedule) {
    for (int s = 0; schedule->stages && s < schedule->spec.stages; s++)
        msi_schedule_stage_free(&schedule->stages[s]);
    free(schedule->stages);
    *schedule = (struct msi_schedule){0};
}

mst_status msi_schedule_make(const struct msi_schedule_spec *spec, struct msi_schedule *schedule) {
    struct msi_schedule made = {.spec = *spec};
    mst_status st = msi_schedule_settle(&made.spec);
    if (st != MST_OK) return st;
    made.stages = calloc((size_t)made.spec.stages, sizeof *made.stages);
    if (!made.stages) return msi_fail_memory();
    for (int s = 0; s < made.spec.stages && st == MST_OK; s++)
        st = msi_schedule_stage(&made.spec, s, &made.stages[s]);
    if (st != MST_OK) {
        msi_schedule_free(&made);
        return st;
    }
    msi_schedule_free(schedule);
    *schedule = made;
    return MST_OK;
}
