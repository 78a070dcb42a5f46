/* kit.h - shared by the tests of examples/gpt: random inputs, small models, comparisons. */
#ifndef TESTS_GPT_KIT_H
#define TESTS_GPT_KIT_H

#include "harness.h"

#include "base/fail.h"
#include "base/random.h"
#include "nn/model.h"

#include <math.h>

#define assert_well(call)                                                                                    \
    do {                                                                                                     \
        if (call) fail_msg("%s", gpt_error());                                                               \
    } while (0)

static inline void kit_fill(float *x, size_t count, const char *name, float deviation) {
    uint64_t stream = gpt_random_stream(7, name);
    for (size_t i = 0; i < count; i++) x[i] = deviation * (float)gpt_random_normal(stream, i);
}

static inline float *kit_new(size_t count, const char *name, float deviation) {
    float *x = calloc(count + 1, sizeof *x);
    assert_non_null(x);
    kit_fill(x, count, name, deviation);
    return x;
}

static inline double kit_dot(const float *x, const float *y, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

static inline double kit_max_difference(const float *x, const float *y, size_t count) {
    double max = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)x[i] - (double)y[i]);
        if (!(difference <= max)) max = difference; /* also if it is NaN */
    }
    return max;
}

/*
 * Compares the gradient of f, which reads x, with finite differences of f: at most `count` elements, spread
 * over x. f sums in double, so only the rounding of single results remains.
 */
static inline void kit_check_gradient(const char *what, double (*f)(void *context), void *context, float *x,
                                      size_t n, const float *gradient, size_t count) {
    const float h = 4e-3f;
    size_t step = n > count ? n / count : 1;
    double largest = 1e-2;
    for (size_t i = 0; i < n; i++)
        if (fabs((double)gradient[i]) > largest) largest = fabs((double)gradient[i]);
    for (size_t i = 0; i < n; i += step) {
        float old = x[i];
        x[i] = old + h;
        double up = f(context), above = (double)x[i];
        x[i] = old - h;
        double down = f(context), below = (double)x[i];
        x[i] = old;
        double wanted = (up - down) / (above - below);
        if (!(fabs(wanted - (double)gradient[i]) <= 4e-3 * largest))
            fail_msg("%s: element %zu has gradient %g, finite differences give %g", what, i,
                     (double)gradient[i], wanted);
    }
}

static inline struct gpt_config kit_config(void) {
    return (struct gpt_config){
        .vocabulary = 40, .context = 24, .layers = 3, .width = 32, .heads = 4, .inner = 64, .epsilon = 1e-5f};
}

/* A model whose weights, including biases, are large enough to affect the result. */
static inline struct gpt_model *kit_model(const struct gpt_config *config, const struct gpt_shard *shard) {
    struct gpt_shard whole = gpt_shard_whole(config);
    struct gpt_model *m = gpt_model_new(config, shard ? shard : &whole, 3);
    if (!m) fail_msg("%s", gpt_error());
    for (size_t i = 0; i < m->params; i++) {
        struct gpt_param p = m->param[i];
        float *values = m->values + p.offset;
        bool ones = p.init == GPT_ONES;
        p.init = GPT_NORMAL;
        p.deviation = 0.15f;
        gpt_param_init(&p, &m->shard, 5, values);
        for (size_t k = 0; k < p.count && ones; k++) values[k] += 1;
    }
    return m;
}

static inline void kit_tokens(const struct gpt_config *config, size_t count, const char *name, int *tokens) {
    uint64_t stream = gpt_random_stream(11, name);
    for (size_t i = 0; i < count; i++) tokens[i] = (int)(gpt_random_bits(stream, i) % config->vocabulary);
}

#endif
