/* schedule_kit.h - what the tests of schedules share. */
#ifndef TESTS_SCHEDULE_KIT_H
#define TESTS_SCHEDULE_KIT_H

#include "harness.h"

#include "pipeline/check.h"

#include <math.h>

/* What a sweep has seen. */
struct seen {
    long schedules, actions, played;
    int wrong;
};

static inline void say_seen(const char *what, const struct seen *seen) {
    print_message("%s: %ld schedules, %ld actions, %ld times played through\n", what, seen->schedules,
                  seen->actions, seen->played);
    assert_int_equal(seen->wrong, 0);
}

static inline const char *spec_words(const struct msi_schedule_spec *s) {
    static char text[160];
    snprintf(text, sizeof text, "%s stages %d micros %d chunks %d batches %d tokens %d inner %d",
             msi_schedule_name(s->kind), s->stages, s->micros, s->chunks, s->batches, s->tokens, s->inner);
    return text;
}

/* Costs of all parts alike. */
struct even_costs {
    double forward[1024], backward[1024];
    struct msi_costs costs;
};

static inline void set_even(struct even_costs *c, double forward, double backward) {
    for (size_t i = 0; i < COUNT_OF(c->forward); i++) {
        c->forward[i] = forward;
        c->backward[i] = backward;
    }
    c->costs = (struct msi_costs){.forward = c->forward, .backward = c->backward};
}

#endif
