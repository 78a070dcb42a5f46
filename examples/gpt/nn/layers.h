/*
 * layers.h - the layers as pure functions: arguments name everything that they read and write. Rows are
 * tokens. A backward function adds to the gradients of weights, which accumulate over micro-batches, and
 * overwrites the gradients of inputs, unless its comment says otherwise.
 */
#ifndef GPT_NN_LAYERS_H
#define GPT_NN_LAYERS_H

#include "nn/config.h"

#include <stddef.h>

/*
 * x[row] = table[token] + positions[position]; `position` has `time` entries, one for each column of a
 * sequence.
 */
void gpt_embed(const struct gpt_config *config, const float *table, const float *positions, const int *tokens,
               const int *position, size_t batch, size_t time, float *x);
void gpt_embed_back(const struct gpt_config *config, const int *tokens, const int *position, size_t batch,
                    size_t time, const float *dx, float *dtable, float *dpositions);

/* The statistics of a row that a norm's backward pass needs. */
struct gpt_norm_stats {
    float mean, scale;
};

/* LayerNorm, or RMSNorm: no mean, and bias is NULL. */
void gpt_norm(const struct gpt_config *config, const float *weight, const float *bias, const float *x,
              size_t rows, float *y, struct gpt_norm_stats *stats);
/* Adds to dx. dbias may be NULL. */
void gpt_norm_back(const struct gpt_config *config, const float *weight, const float *x, const float *dy,
                   const struct gpt_norm_stats *stats, size_t rows, float *dx, float *dweight, float *dbias);

/* y = x W + bias, where W is in by out; bias may be NULL. */
void gpt_linear(const float *weight, const float *bias, const float *x, size_t rows, size_t in, size_t out,
                float *y);
/* dx = dy W^T */
void gpt_linear_back_input(const float *weight, const float *dy, size_t rows, size_t in, size_t out,
                           float *dx);
/* dW += x^T dy, dbias += the sum of dy's rows; dbias may be NULL. */
void gpt_linear_back_weight(const float *x, const float *dy, size_t rows, size_t in, size_t out,
                            float *dweight, float *dbias);

/* y += bias + from, row by row: completes a product split by rows after the all-reduce. */
void gpt_add_bias(const float *bias, const float *from, size_t rows, size_t width, float *y);

void gpt_activate(enum gpt_activation kind, const float *x, size_t count, float *y);
/* Replaces dy by the gradient of x. */
void gpt_activate_back(enum gpt_activation kind, const float *x, size_t count, float *dy);

/*
 * Adds -log p(target) of each row to *loss, in row order. Replaces the logits by their gradient times
 * `scale`, which is 1 / (tokens of the whole step) in training.
 */
void gpt_cross_entropy(float *logits, const int *targets, size_t rows, size_t vocabulary, float scale,
                       double *loss);

#endif
