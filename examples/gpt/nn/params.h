/*
 * params.h - the parameters of a stage, this process's slice of each, and their initial values. Stages
 * (pipeline parallel) split the layers; slices (tensor parallel) split the wide matrices:
 *
 *   attn.c_attn, mlp.c_fc      by columns: a slice has some heads (of q, k and v each), some inner columns
 *   attn.c_proj, mlp.c_proj    by rows; their biases are whole, and added after the sum over the slices
 *   norms, embeddings, head    whole in every slice
 */
#ifndef GPT_NN_PARAMS_H
#define GPT_NN_PARAMS_H

#include "nn/config.h"

#include <stdbool.h>
#include <stdint.h>

/* The part of a model that a process holds. */
struct gpt_shard {
    size_t first, last;   /* layers [first, last) */
    size_t slice, slices; /* of the wide matrices */
};

/* The whole model. */
struct gpt_shard gpt_shard_whole(const struct gpt_config *config);
/* 0 if the model has these layers, and the slices divide its heads and its inner width. */
int gpt_shard_check(const struct gpt_config *config, const struct gpt_shard *shard);

enum gpt_split { GPT_WHOLE, GPT_BY_COLUMNS, GPT_BY_ROWS };
enum gpt_init { GPT_ZEROS, GPT_ONES, GPT_NORMAL };

struct gpt_param {
    char name[96];        /* of GPT-2 in the transformers library */
    size_t rows, columns; /* of the whole parameter; rows is 0 for a vector */
    enum gpt_split split;
    size_t blocks; /* number of matrices side by side (3 for q, k and v); each is split */
    enum gpt_init init;
    float deviation; /* of GPT_NORMAL; 0.02 at a width of 768, as in GPT-2 */
    /*
     * The last stage's copy of the embedding, which is tied to the head. The first stage saves and counts its
     * own.
     */
    bool tied_copy;
    size_t layer;                     /* its layer; 0 for the embedding, config->layers for the head */
    size_t local_rows, local_columns; /* of the slice; rows is 1 for a vector */
    size_t offset, count;             /* of the slice, in the stage's values, gradients and averages */
};

/* An upper bound for the number of parameters of a stage. */
size_t gpt_params_max(const struct gpt_config *config);
/* Fills list, in the order of the forward pass, and returns the number of parameters. */
size_t gpt_params_list(const struct gpt_config *config, const struct gpt_shard *shard,
                       struct gpt_param *list);

/* A range of elements that is contiguous in the slice and in the whole parameter. */
struct gpt_run {
    size_t local, whole, count; /* offset in the slice, offset in the whole, count */
};
size_t gpt_param_runs(const struct gpt_param *param);
struct gpt_run gpt_param_run(const struct gpt_param *param, const struct gpt_shard *shard, size_t index);

/* Initial values; those of an element do not depend on the split. */
void gpt_param_init(const struct gpt_param *param, const struct gpt_shard *shard, uint64_t seed,
                    float *values);

#endif
