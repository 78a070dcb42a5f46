/* schedule_formula.h - the duration of a schedule in closed form, with which tests compare simulations. */
#ifndef TESTS_SCHEDULE_FORMULA_H
#define TESTS_SCHEDULE_FORMULA_H

#include "pipeline/schedule/schedule.h"

static inline int formula_least(int a, int b) {
    return a < b ? a : b;
}

static inline int formula_most(int a, int b) {
    return a > b ? a : b;
}

static inline double stream_formula(const struct msi_schedule_spec *s) {
    double steps = s->stages - 1;
    for (int first = 0; first < s->batches; first += s->inner) {
        int q = formula_least(s->inner, s->batches - first) * s->micros;
        steps += (s->tokens - 1.0) * formula_most(s->stages, q) + q;
    }
    return steps;
}

/*
 * The duration if each part's forward takes forward, each backward backward, and messages 0. With p stages, m
 * micro-batches, v chunks and q = the group's batches x micro-batches:
 *   gpipe, 1f1b  (m + p - 1)·(f + b)
 *   interleaved  (v·m + p - 1)·(f + b) where m ≥ p, else (v·p + m - 1)·(f + b)
 *   stream       f·(p - 1 + the sum over groups of (tokens - 1)·max(p, q) + q)
 * This is the lower bound for such schedules, and the schedules reach it.
 */
static inline double schedule_formula(const struct msi_schedule_spec *spec, double forward, double backward) {
    int p = spec->stages, m = spec->micros;
    if (spec->kind == MSI_STREAM) return stream_formula(spec) * forward;
    if (spec->kind == MSI_FORWARD_ALL) return (m + p - 1.0) * forward;
    return ((double)spec->chunks * formula_most(m, p) + formula_least(m, p) - 1) * (forward + backward);
}

#endif
