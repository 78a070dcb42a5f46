/*
 * model.h - a stage of a model: this process's slice of layers [first, last), the embedding if first is 0,
 * the head if last is the number of layers. The whole model is one stage.
 *
 * Forward and backward pass of a micro-batch:
 *
 *   first stage         gpt_forward(model, acts, tokens, hooks)
 *   later stages        fill gpt_acts_input(acts), then gpt_forward(model, acts, NULL, hooks)
 *   all but the last    send gpt_acts_output(acts); later fill gpt_acts_gradient(acts), then gpt_backward
 *   last stage          gpt_loss, which replaces the logits by their gradient, then gpt_backward
 *   all but the first   after gpt_backward, send gpt_acts_gradient(acts) to the previous stage
 *
 * A struct gpt_acts holds the activations of one micro-batch until its backward pass, so there can be as many
 * micro-batches in flight as there are acts. One thread runs a model.
 */
#ifndef GPT_NN_MODEL_H
#define GPT_NN_MODEL_H

#include "nn/attention.h"
#include "nn/layers.h"
#include "nn/params.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls of the passes to the processes that share a model. Any may be NULL: then a slice counts as the whole.
 * A hook returns 0, or a status with which the pass ends.
 */
struct gpt_hooks {
    void *context;
    /* Sums x, the partial product of a matrix split by rows, over the slices. */
    int (*reduce_forward)(void *context, float *x, size_t count);
    /* Starts to sum dx, the gradient of the input of a matrix split by columns, over the slices... */
    int (*reduce_backward)(void *context, float *dx, size_t count);
    /* ... and waits for the sum. The pass computes gradients of weights in between. */
    int (*wait_backward)(void *context);
    /* Replaces gpt_attend where sequences are split; own: this process's keys and values. */
    int (*attend)(void *context, const struct gpt_attention *a, const struct gpt_keys *own);
    /* Replaces its backward pass; dq, dk and dv are zero, and dk and dv belong to this process's keys. */
    int (*attend_back)(void *context, const struct gpt_attention *a, const struct gpt_keys *own,
                       struct gpt_rows dout, struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv);
    /* Gradients [offset, offset + count) include this micro-batch. Called from the end to the beginning; the
       calls of a pass cover every parameter once. */
    int (*gradient_ready)(void *context, size_t offset, size_t count);
};

/* Pointers to a layer's weights, or to their gradients. */
struct gpt_layer {
    float *norm1, *norm1_bias, *qkv, *qkv_bias, *proj, *proj_bias;
    float *norm2, *norm2_bias, *in, *in_bias, *out, *out_bias;
};

struct gpt_model {
    struct gpt_config config;
    struct gpt_shard shard;
    size_t params, count; /* number of parameters, and of their elements */
    struct gpt_param *param;
    float *values, *gradients;        /* count elements each; gradients are NULL after gpt_model_blank */
    struct gpt_layer *layer, *dlayer; /* last - first each: into values, into gradients */
    /* NULL in stages without them. The head uses the table too: they are tied. */
    float *table, *positions, *dtable, *dpositions;
    float *norm, *norm_bias, *dnorm, *dnorm_bias; /* before the head */
    float
        *head; /* for generation: the transposed table, [width][vocabulary]; NULL until there is a KV cache */
    size_t reserved; /* floats in the following buffers */
    /* Temporary buffers of one layer: rows by inner or 3 width, rows by width, scratch of attention. */
    float *wide, *narrow, *scores;
};

/* The activations of a layer. */
struct gpt_layer_acts {
    float *x; /* input: rows by width */
    float *norm1, *qkv, *attention, *lse, *sum, *middle, *norm2, *in, *act;
    struct gpt_norm_stats *stats1, *stats2;
};

struct gpt_acts {
    size_t batch, time, rows;
    int *position; /* of each column in its sequence; 0, 1, 2, ... unless the caller changes it */
    struct gpt_layer_acts *layer;
    float *input; /* of the stage: x of its first layer, or x if it has no layer */
    float *x;     /* output of the last layer */
    float *norm;  /* before the head */
    struct gpt_norm_stats *stats;
    float *logits; /* rows by vocabulary; last stage only */
    float *gradient;
    void *block; /* all of the above lie here */
};

/* A model with initial parameters; NULL after gpt_fail. */
struct gpt_model *gpt_model_new(const struct gpt_config *config, const struct gpt_shard *shard,
                                uint64_t seed);
/* A model with parameters of 0 and no gradients, to be loaded from a file for forward passes. */
struct gpt_model *gpt_model_blank(const struct gpt_config *config, const struct gpt_shard *shard);
void gpt_model_free(struct gpt_model *model);
bool gpt_model_is_first(const struct gpt_model *model);
bool gpt_model_is_last(const struct gpt_model *model);
void gpt_zero_gradients(struct gpt_model *model);
/* Sizes of this process's slice. */
size_t gpt_local_heads(const struct gpt_model *model);
size_t gpt_local_width(const struct gpt_model *model);
size_t gpt_local_inner(const struct gpt_model *model);

/*
 * Activations of a micro-batch of `batch` sequences of `time` <= config.context tokens; NULL after gpt_fail.
 */
struct gpt_acts *gpt_acts_new(struct gpt_model *model, size_t batch, size_t time);
void gpt_acts_free(struct gpt_acts *acts);
/* Each is rows by width. */
float *gpt_acts_input(struct gpt_acts *acts);
const float *gpt_acts_output(const struct gpt_acts *acts);
float *gpt_acts_gradient(struct gpt_acts *acts);

/* tokens: [batch][time], for the first stage. The last stage writes acts->logits. */
int gpt_forward(struct gpt_model *model, struct gpt_acts *acts, const int *tokens,
                const struct gpt_hooks *hooks);
/* Adds the losses of the tokens to *loss; gpt_cross_entropy explains scale. */
void gpt_loss(struct gpt_model *model, struct gpt_acts *acts, const int *targets, float scale, double *loss);
/* Adds to the gradients of the stage's parameters. */
int gpt_backward(struct gpt_model *model, struct gpt_acts *acts, const int *tokens,
                 const struct gpt_hooks *hooks);

/* Writes the transposed table to model->head, if the stage has a head. */
int gpt_model_transpose_head(struct gpt_model *model);

/* 0 if all tokens are in the vocabulary. */
int gpt_tokens_check(const struct gpt_config *config, const int *tokens, size_t count);

/* One layer (block.c). The backward pass replaces dout by the gradient of the layer's input. */
int gpt_block_forward(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *out,
                      const struct gpt_hooks *hooks);
int gpt_block_backward(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *dout,
                       const struct gpt_hooks *hooks);
/* Grows the temporary buffers for passes of `rows` rows and `keys` keys per sequence. */
int gpt_model_reserve(struct gpt_model *model, size_t rows, size_t keys);

#endif
