/*
 * model.h - a stage of a model: layers [first, last) with this process's slice of each, the embedding where first is 0,
 * the head where last is the last. The whole model is one stage.
 *
 * Forward and back, for each micro-batch:
 *
 *   first stage        gpt_forward(model, acts, tokens, hooks)
 *   a later one        fill gpt_acts_input(acts), then gpt_forward(model, acts, NULL, hooks)
 *   not the last one   pass gpt_acts_output(acts) on; later fill gpt_acts_gradient(acts), then gpt_backward
 *   last stage         gpt_loss, which makes the logits their own gradient, then gpt_backward
 *   not the first one  after gpt_backward, pass gpt_acts_gradient(acts) back
 *
 * A struct gpt_acts holds what one micro-batch needs on its way back, so as many may be on their way as there are acts.
 * One thread runs a model.
 */
#ifndef GPT_NN_MODEL_H
#define GPT_NN_MODEL_H

#include "nn/attention.h"
#include "nn/layers.h"
#include "nn/params.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the processes that share a model do between its layers. Any may be NULL: then a slice is taken for the whole.
 * Each returns 0, or what the pass then ends with.
 */
struct gpt_hooks {
    void *context;
    /* Sums x over the slices; it is the product of a matrix split by rows. */
    int (*reduce_forward)(void *context, float *x, size_t count);
    /* Begins to sum dx over the slices, the gradient of what went into a matrix split by columns... */
    int (*reduce_backward)(void *context, float *dx, size_t count);
    /* ... and returns when it is done. Gradients of weights are computed in between. */
    int (*wait_backward)(void *context);
    /* Attention in place of gpt_attend, for sequences that are split: own holds this process's keys and values. */
    int (*attend)(void *context, const struct gpt_attention *a, const struct gpt_keys *own);
    /* In place of the way back; dq, dk and dv are zero, and dk and dv are of this process's keys. */
    int (*attend_back)(void *context, const struct gpt_attention *a, const struct gpt_keys *own,
                       struct gpt_rows dout, struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv);
    /* The gradients of [offset, offset + count) have got this micro-batch's share. Called from the end to the beginning;
       all calls of a pass cover every parameter once. */
    int (*gradient_ready)(void *context, size_t offset, size_t count);
};

/* Where a layer's weights lie, and its gradients in the same order. */
struct gpt_layer {
    float *norm1, *norm1_bias, *qkv, *qkv_bias, *proj, *proj_bias;
    float *norm2, *norm2_bias, *in, *in_bias, *out, *out_bias;
};

struct gpt_model {
    struct gpt_config config;
    struct gpt_part part;
    size_t params, count; /* parameters, and elements of all together */
    struct gpt_param *param;
    float *values, *gradients;        /* count elements each; gradients may be NULL, see gpt_model_blank */
    struct gpt_layer *layer, *dlayer; /* last - first of them: into values, into gradients */
    /* NULL where the stage lacks them; the table is the head's too. */
    float *table, *positions, *dtable, *dpositions;
    float *norm, *norm_bias, *dnorm, *dnorm_bias; /* before the head */
    float *head; /* for generation: the table as it was, [width][vocabulary]; NULL until a cache is made */
    size_t reserved; /* floats of what follows */
    /* For one layer at a time: rows by inner or 3 width, rows by width, attention's. */
    float *wide, *narrow, *scores;
};

/* What a layer keeps of a micro-batch. */
struct gpt_layer_acts {
    float *x; /* what went in: rows by width */
    float *norm1, *qkv, *attention, *lse, *sum, *middle, *norm2, *in, *act;
    struct gpt_norm_row *kept1, *kept2;
};

struct gpt_acts {
    size_t batch, time, rows;
    int *place; /* the position of each column of a sequence; 0, 1, 2, ... unless set otherwise */
    struct gpt_layer_acts *layer;
    float *input; /* of the stage: its first layer's x, or x where it has no layer */
    float *x;     /* what came out of the last layer */
    float *norm;  /* before the head */
    struct gpt_norm_row *kept;
    float *logits; /* rows by vocabulary; last stage only */
    float *gradient;
    void *block; /* all of the above lie here */
};

/* A model with parameters as they begin. NULL, and words, where the part is not one of the model or memory lacks. */
struct gpt_model *gpt_model_new(const struct gpt_config *config, const struct gpt_part *part, uint64_t seed);
/* One that is to be filled from a file and goes forward alone: it has zeros, and no gradients. */
struct gpt_model *gpt_model_blank(const struct gpt_config *config, const struct gpt_part *part);
void gpt_model_free(struct gpt_model *model);
bool gpt_model_is_first(const struct gpt_model *model);
bool gpt_model_is_last(const struct gpt_model *model);
void gpt_zero_gradients(struct gpt_model *model);
/* Slices are so wide. */
size_t gpt_local_heads(const struct gpt_model *model);
size_t gpt_local_width(const struct gpt_model *model);
size_t gpt_local_inner(const struct gpt_model *model);

/* Room for a micro-batch of `batch` sequences of `time` tokens, of which time <= config.context. NULL and words. */
struct gpt_acts *gpt_acts_new(struct gpt_model *model, size_t batch, size_t time);
void gpt_acts_free(struct gpt_acts *acts);
/* All are rows by width. */
float *gpt_acts_input(struct gpt_acts *acts);
const float *gpt_acts_output(const struct gpt_acts *acts);
float *gpt_acts_gradient(struct gpt_acts *acts);

/* tokens: [batch][time], for the first stage. The last one leaves acts->logits. */
int gpt_forward(struct gpt_model *model, struct gpt_acts *acts, const int *tokens,
                const struct gpt_hooks *hooks);
/* Adds the tokens' losses to *loss; see gpt_cross_entropy for scale. */
void gpt_loss(struct gpt_model *model, struct gpt_acts *acts, const int *targets, float scale, double *loss);
/* Adds to the gradients of the stage's parameters. */
int gpt_backward(struct gpt_model *model, struct gpt_acts *acts, const int *tokens,
                 const struct gpt_hooks *hooks);

/* Makes, or makes again, the head's copy of the table, where the stage has a head. */
int gpt_model_turn_head(struct gpt_model *model);

/* 0 if the model knows all of the tokens. */
int gpt_tokens_check(const struct gpt_config *config, const int *tokens, size_t count);

/* One layer; block.c. dout becomes the gradient of what went in. */
int gpt_block_forward(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *out,
                      const struct gpt_hooks *hooks);
int gpt_block_backward(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *dout,
                       const struct gpt_hooks *hooks);
/* Makes room for passes of so many rows and so many keys of a sequence. */
int gpt_model_reserve(struct gpt_model *model, size_t rows, size_t keys);

#endif
