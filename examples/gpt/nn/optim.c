/* optim.c - AdamW; Loshchilov and Hutter, "Decoupled weight decay regularization". */
#include "nn/optim.h"

#include "app/fail.h"
#include "nn/vec.h"

#include <math.h>
#include <stdlib.h>

int gpt_adam_init(const struct gpt_model *model, struct gpt_adam *adam) {
    float *first = calloc(model->count + 1, sizeof *first),
          *second = calloc(model->count + 1, sizeof *second);
    if (!first || !second) {
        free(first);
        free(second);
        return gpt_fail("no memory for the moments of %zu parameters", model->count);
    }
    *adam = (struct gpt_adam){
        .beta1 = 0.9f, .beta2 = 0.98f, .epsilon = 1e-8f, .decay = 0.1f, .first = first, .second = second};
    return 0;
}

void gpt_adam_free(struct gpt_adam *adam) {
    free(adam->first);
    free(adam->second);
    *adam = (struct gpt_adam){0};
}

static void step_param(const struct gpt_adam *a, size_t count, float *restrict x,
                       const float *restrict gradient, float *restrict first, float *restrict second,
                       float rate, float scale, float decay) {
    float beta1 = a->beta1, beta2 = a->beta2, epsilon = a->epsilon;
    float whole1 = 1 / (1 - powf(beta1, (float)a->step)), whole2 = 1 / (1 - powf(beta2, (float)a->step));
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        first[i] = beta1 * first[i] + (1 - beta1) * g;
        second[i] = beta2 * second[i] + (1 - beta2) * g * g;
        x[i] -= rate * (first[i] * whole1 / (sqrtf(second[i] * whole2) + epsilon) + decay * x[i]);
    }
}

void gpt_adam_step(struct gpt_adam *a, struct gpt_model *m, float rate, float scale) {
    a->step++;
    for (size_t i = 0; i < m->params; i++) {
        const struct gpt_param *p = &m->param[i];
        size_t at = p->offset;
        step_param(a, p->count, m->values + at, m->gradients + at, a->first + at, a->second + at, rate, scale,
                   p->rows ? a->decay : 0);
    }
}

struct gpt_squares gpt_gradient_squares(const struct gpt_model *m) {
    struct gpt_squares squares = {0, 0};
    for (size_t i = 0; i < m->params; i++) {
        const struct gpt_param *p = &m->param[i];
        const float *g = m->gradients + p->offset;
        double *sum = p->split == GPT_WHOLE ? &squares.whole : &squares.split;
        if (!p->second) *sum += vec_squares(g, p->count);
    }
    return squares;
}

float gpt_clip(double length, double limit) {
    return limit > 0 && length > limit ? (float)(limit / length) : 1;
}

float gpt_rate(float most, size_t step, size_t warmup, size_t steps) {
    if (step < warmup) return most * (float)(step + 1) / (float)warmup;
    if (step >= steps) return most / 10;
    float share = (float)(step - warmup) / (float)(steps - warmup);
    return most * (0.1f + 0.45f * (1 + cosf(3.14159265f * share)));
}
