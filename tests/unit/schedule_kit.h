/* schedule_kit.h - what the tests of schedules share: a look at one schedule, and the sum of a sweep over
 * many. */
#ifndef TESTS_SCHEDULE_KIT_H
#define TESTS_SCHEDULE_KIT_H

#include "harness.h"

#include "pipeline/schedule/check.h"
#include "pipeline/schedule/text.h"
#include "pipeline/schedule/time.h"
#include "schedule_formula.h"

#include <math.h>

enum { WRONG_MOST = 20 }; /* a sweep that goes wrong need not say it a thousand times */

/* What a sweep has seen. */
struct seen {
    long schedules, actions, played;
    int wrong;
};

static inline void say_seen(const char *what, const struct seen *seen) {
    print_message("%s: %ld schedules, %ld actions, %ld times played through\n", what, seen->schedules,
                  seen->actions, seen->played);
    assert_true(seen->schedules > 0);
    assert_int_equal(seen->wrong, 0);
}

static inline void say_wrong(struct seen *seen, const struct msi_schedule_spec *s, const char *what) {
    print_error("%s stages %d micros %d chunks %d batches %d tokens %d inner %d: %s\n",
                msi_schedule_name(s->kind), s->stages, s->micros, s->chunks, s->batches, s->tokens, s->inner,
                what);
    seen->wrong++;
}

/* Costs of all parts alike. */
struct even_costs {
    double forward[64], backward[64];
    struct msi_costs costs;
};

static inline const struct msi_costs *set_even(struct even_costs *c, double forward, double backward) {
    for (size_t i = 0; i < COUNT_OF(c->forward); i++) {
        c->forward[i] = forward;
        c->backward[i] = backward;
    }
    c->costs = (struct msi_costs){.forward = c->forward, .backward = c->backward};
    return &c->costs;
}

/* The formula's time and bubble. */
static inline void check_time(const struct msi_schedule *s, const struct msi_message_matches *matches,
                              double backward, enum msi_send_mode mode, struct seen *seen) {
    struct even_costs even;
    struct msi_timing timing = {0};
    double formula = schedule_formula(&s->spec, 1, backward);
    double work = (double)(msi_schedule_units(&s->spec) * (size_t)s->spec.chunks) *
                  (msi_schedule_trains(s->spec.kind) ? 1 + backward : 1);
    char text[100];
    assert_ok(msi_schedule_simulate(s, matches, mode, set_even(&even, 1, backward), &timing));
    seen->played++;
    if (fabs(timing.makespan - formula) > 1e-9 * formula ||
        fabs(timing.bubble - (1 - work / formula)) > 1e-9) {
        snprintf(text, sizeof text, "mode %d: takes %g, not %g", (int)mode, timing.makespan, formula);
        say_wrong(seen, &s->spec, text);
    }
    msi_timing_free(&timing);
}

/* The buffers that schedule.h promises to do with. */
static inline bool memory_is_bounded(const struct msi_schedule *s, int stage) {
    const struct msi_schedule_spec *q = &s->spec;
    const struct msi_stage_list *list = &s->stages[stage];
    int larger = q->chunks > 1 ? msi_interleaved_group_size(q, 0) - q->stages : 0,
        flying = q->inner * q->micros;
    int wrapped[] = {stage == 0 && larger > 0 ? larger : 0,
                     stage == q->stages - 1 && larger > 0 ? larger : 0};
    int kept = msi_schedule_trains(q->kind) ? list->keeps : 1;
    for (int c = 0; c < MSI_CHANNELS; c++)
        if (list->slots[c][MSI_OUT_SLOT] > 2) return false;
    return list->keeps == msi_schedule_keeps_bound(q, stage) &&
           list->slots[MSI_ACTIVATIONS][MSI_IN_SLOT] <= kept + 1 + wrapped[0] &&
           list->slots[MSI_GRADIENTS][MSI_IN_SLOT] <= 2 + wrapped[1] &&
           list->slots[MSI_TOKENS][MSI_IN_SLOT] <= 1 + (flying > q->stages ? flying : q->stages);
}

static inline void look_at_memory(const struct msi_schedule *s, struct seen *seen) {
    for (int k = 0; k < s->spec.stages; k++) {
        seen->actions += s->stages[k].n;
        if (!memory_is_bounded(s, k)) say_wrong(seen, &s->spec, "more memory than there may be");
    }
}

static inline void look(const struct msi_schedule_spec *spec, struct seen *seen) {
    struct msi_schedule schedule = {0};
    struct msi_message_matches matches;
    assert_ok(msi_schedule_make(spec, &schedule));
    seen->schedules++;
    look_at_memory(&schedule, seen);
    if (msi_schedule_check(&schedule) != MST_OK) {
        say_wrong(seen, &schedule.spec, mst_error());
    } else {
        seen->played += MSI_SEND_MODES;
        assert_ok(msi_match_messages(&schedule, &matches));
        for (int i = 0; i < MSI_SEND_MODES; i++) /* all alike: receives are posted early enough */
            check_time(&schedule, &matches, 2, (enum msi_send_mode)i, seen);
        if (msi_schedule_trains(spec->kind)) check_time(&schedule, &matches, 1, MSI_SENDS_START, seen);
        msi_message_matches_free(&matches);
    }
    msi_schedule_free(&schedule);
}

/* Every one up to 16 stages and 64 micro-batches. */
static inline void sweep(int kind, int chunks) {
    struct seen seen = {0};
    char what[40];
    for (int stages = 1; stages <= 16; stages++)
        for (int micros = 1; micros <= 64 && seen.wrong < WRONG_MOST; micros++) {
            struct msi_schedule_spec spec = {
                .kind = kind, .stages = stages, .micros = micros, .chunks = chunks};
            look(&spec, &seen);
        }
    snprintf(what, sizeof what, "%s, %d chunk%s", msi_schedule_name(kind), chunks, chunks == 1 ? "" : "s");
    say_seen(what, &seen);
}

/* A stage's computes as text: "F0 F1 B0"; with chunks "F0a F0b", streaming "0.1.2" for batch, token,
 * micro-batch. */
static inline const char *turns_of(const struct msi_schedule *s, int stage) {
    static char text[8192];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < s->stages[stage].n; i++) {
        const struct msi_action *a = &s->stages[stage].actions[i];
        if (a->kind == MSI_ACT_RECEIVE || a->kind == MSI_ACT_SEND) continue;
        const char *letter = a->kind == MSI_ACT_FORWARD ? "F" : a->kind == MSI_ACT_BACKWARD ? "B" : "T";
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", letter);
        if (s->spec.kind == MSI_STREAM)
            used += (size_t)snprintf(text + used, sizeof text - used, "%d.%d.", a->batch, a->token);
        used += (size_t)snprintf(text + used, sizeof text - used, "%d", a->micro);
        if (s->spec.chunks > 1)
            used += (size_t)snprintf(text + used, sizeof text - used, "%c", 'a' + a->chunk);
        assert_true(used < sizeof text);
    }
    return text;
}

#endif
