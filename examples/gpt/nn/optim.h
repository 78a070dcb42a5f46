/* optim.h - AdamW for a stage's parameters, gradient clipping, and the learning rate schedule. */
#ifndef GPT_NN_OPTIM_H
#define GPT_NN_OPTIM_H

#include "nn/model.h"

struct gpt_adam {
    float beta1, beta2, epsilon, decay; /* decay: weight decay, of matrices only */
    size_t step;                        /* steps taken */
    float *exp_avg, *exp_avg_sq;        /* moving averages, in the order of the model's values */
};

/* Sets the usual constants, and averages of 0. */
int gpt_adam_init(const struct gpt_model *model, struct gpt_adam *adam);
void gpt_adam_free(struct gpt_adam *adam);
/* One step with the gradients times `scale`. */
void gpt_adam_step(struct gpt_adam *adam, struct gpt_model *model, float rate, float scale);

/*
 * Sums of squares of the stage's gradients: of parameters that every slice holds whole, and of parameters
 * that are split. The squared norm of the whole gradient is the sum, over stages, of whole (of one slice) and
 * split (of all slices).
 */
struct gpt_squares {
    double whole, split;
};
struct gpt_squares gpt_gradient_squares(const struct gpt_model *model);
/* The factor that limits a gradient norm to `limit`; 0 is no limit. */
float gpt_clip_factor(double norm, double limit);

/* Linear warmup to `max`, then cosine decay to a tenth of it. */
float gpt_learning_rate(float max, size_t step, size_t warmup, size_t steps);

#endif
