/*
 * layers.h - the layers without memory: each function is given everything that it reads and writes. Rows are tokens.
 * A backward function adds to the gradients of weights (they gather over micro-batches) and writes those of inputs,
 * unless it says otherwise.
 */
#ifndef GPT_NN_LAYERS_H
#define GPT_NN_LAYERS_H

#include "nn/config.h"

#include <stddef.h>

/* x[row] = table[token] + positions[place of the row in its sequence]; place has `time` entries, one a column. */
void gpt_embed(const struct gpt_config *config, const float *table, const float *positions, const int *tokens,
               const int *place, size_t batch, size_t time, float *x);
void gpt_embed_back(const struct gpt_config *config, const int *tokens, const int *place, size_t batch,
                    size_t time, const float *dx, float *dtable, float *dpositions);

/* What a norm keeps of each row for its way back. */
struct gpt_norm_row {
    float mean, scale;
};

/* LayerNorm, or RMSNorm, which has neither mean nor bias (NULL). */
void gpt_norm(const struct gpt_config *config, const float *weight, const float *bias, const float *x,
              size_t rows, float *y, struct gpt_norm_row *kept);
/* Adds to dx. dbias may be NULL. */
void gpt_norm_back(const struct gpt_config *config, const float *weight, const float *x, const float *dy,
                   const struct gpt_norm_row *kept, size_t rows, float *dx, float *dweight, float *dbias);

/* y = x W + bias, W is in by out; without a bias where it is NULL. */
void gpt_linear(const float *weight, const float *bias, const float *x, size_t rows, size_t in, size_t out,
                float *y);
/* dx = dy W^T */
void gpt_linear_back_input(const float *weight, const float *dy, size_t rows, size_t in, size_t out,
                           float *dx);
/* dW += x^T dy, dbias += the sum of dy's rows; dbias may be NULL. */
void gpt_linear_back_weight(const float *x, const float *dy, size_t rows, size_t in, size_t out,
                            float *dweight, float *dbias);

/* y += bias + from, row by row: what follows a product that is split by rows, once its parts are summed. */
void gpt_add_bias(const float *bias, const float *from, size_t rows, size_t width, float *y);

void gpt_activate(enum gpt_activation kind, const float *x, size_t count, float *y);
/* dy becomes the gradient of x. */
void gpt_activate_back(enum gpt_activation kind, const float *x, size_t count, float *dy);

/*
 * Adds -log p(target) of each row to *loss, one after the other. Each row of logits becomes its own gradient times `scale`, which is
 * 1 / (tokens of the whole step) in training.
 */
void gpt_cross_entropy(float *logits, const int *targets, size_t rows, size_t vocabulary, float scale,
                       double *loss);

#endif
