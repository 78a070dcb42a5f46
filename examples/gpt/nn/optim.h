/* optim.h - AdamW on a stage's parameters, the length of its gradient, and the rate of learning over the steps. */
#ifndef GPT_NN_OPTIM_H
#define GPT_NN_OPTIM_H

#include "nn/model.h"

struct gpt_adam {
    float beta1, beta2, epsilon, decay; /* decay: of matrices, not of vectors */
    size_t step;                        /* steps taken */
    float *first, *second;              /* moments, in the order of the model's values */
};

/* 0, with the usual constants and moments of zero; free what it allocated. */
int gpt_adam_init(const struct gpt_model *model, struct gpt_adam *adam);
void gpt_adam_free(struct gpt_adam *adam);
/* One step against the gradients times `scale`. */
void gpt_adam_step(struct gpt_adam *adam, struct gpt_model *model, float rate, float scale);

/*
 * Sums of squares of the stage's gradients: of parameters that every slice has whole, and of those that it has a slice
 * of. The square of the whole gradient's length is the sum over stages of whole (of one slice) and split (of all).
 */
struct gpt_squares {
    double whole, split;
};
struct gpt_squares gpt_gradient_squares(const struct gpt_model *model);
/* What to scale gradients by so that their length is at most `limit`; a limit of 0 is none. */
float gpt_clip(double length, double limit);

/* Rises over the first `warmup` steps, then falls to a tenth along half a cosine. */
float gpt_rate(float most, size_t step, size_t warmup, size_t steps);

#endif
