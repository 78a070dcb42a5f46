/* optim.c - AdamW, after Loshchilov and Hutter, "Decoupled weight decay regularization". */
#include "nn/optim.h"

#include "base/fail.h"
#include "nn/vec.h"

#include <math.h>
#include <stdlib.h>

int gpt_adam_init(const struct gpt_model *model, struct gpt_adam *adam) {
    float *exp_avg = calloc(model->count + 1, sizeof *exp_avg),
          *exp_avg_sq = calloc(model->count + 1, sizeof *exp_avg_sq);
    if (!exp_avg || !exp_avg_sq) {
        free(exp_avg);
        free(exp_avg_sq);
        return gpt_fail("no memory for the optimizer of %zu parameters", model->count);
    }
    *adam = (struct gpt_adam){.beta1 = 0.9f,
                              .beta2 = 0.98f,
                              .epsilon = 1e-8f,
                              .decay = 0.1f,
                              .exp_avg = exp_avg,
                              .exp_avg_sq = exp_avg_sq};
    return 0;
}

void gpt_adam_free(struct gpt_adam *adam) {
    free(adam->exp_avg);
    free(adam->exp_avg_sq);
    *adam = (struct gpt_adam){0};
}

static void step_param(const struct gpt_adam *a, size_t count, float *restrict x,
                       const float *restrict gradient, float *restrict exp_avg, float *restrict exp_avg_sq,
                       float rate, float scale, float decay) {
    float beta1 = a->beta1, beta2 = a->beta2, epsilon = a->epsilon;
    float correction1 = 1 / (1 - powf(beta1, (float)a->step)),
          correction2 = 1 / (1 - powf(beta2, (float)a->step));
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] * scale;
        exp_avg[i] = beta1 * exp_avg[i] + (1 - beta1) * g;
        exp_avg_sq[i] = beta2 * exp_avg_sq[i] + (1 - beta2) * g * g;
        x[i] -=
            rate * (exp_avg[i] * correction1 / (sqrtf(exp_avg_sq[i] * correction2) + epsilon) + decay * x[i]);
    }
}

void gpt_adam_step(struct gpt_adam *a, struct gpt_model *m, float rate, float scale) {
    a->step++;
    for (size_t i = 0; i < m->params; i++) {
        const struct gpt_param *p = &m->param[i];
        size_t at = p->offset;
        step_param(a, p->count, m->values + at, m->gradients + at, a->exp_avg + at, a->exp_avg_sq + at, rate,
                   scale, p->rows ? a->decay : 0);
    }
}

struct gpt_squares gpt_gradient_squares(const struct gpt_model *m) {
    struct gpt_squares squares = {0, 0};
    for (size_t i = 0; i < m->params; i++) {
        const struct gpt_param *p = &m->param[i];
        const float *g = m->gradients + p->offset;
        double *sum = p->split == GPT_WHOLE ? &squares.whole : &squares.split;
        if (!p->tied_copy) *sum += vec_squares(g, p->count);
    }
    return squares;
}

float gpt_clip_factor(double norm, double limit) {
    return limit > 0 && norm > limit ? (float)(limit / norm) : 1;
}

float gpt_learning_rate(float max, size_t step, size_t warmup, size_t steps) {
    if (step < warmup) return max * (float)(step + 1) / (float)warmup;
    if (step >= steps) return max / 10;
    float progress = (float)(step - warmup) / (float)(steps - warmup);
    return max * (0.1f + 0.45f * (1 + cosf(3.14159265f * progress)));
}
