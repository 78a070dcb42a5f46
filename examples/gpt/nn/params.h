/*
 * params.h - the parameters of a stage: which there are, which slice of each this process holds, and what they begin
 * with. Layers are split over stages (pipeline), the wide matrices over slices (tensor parallel):
 *
 *   attn.c_attn, mlp.c_fc      by columns: a slice has some heads, some inner columns (of q, k and v each)
 *   attn.c_proj, mlp.c_proj    by rows; their biases, added once the slices' products are summed, are whole
 *   norms, embeddings, head    whole in every slice
 */
#ifndef GPT_NN_PARAMS_H
#define GPT_NN_PARAMS_H

#include "nn/config.h"

#include <stdbool.h>
#include <stdint.h>

/* What of a model a process holds. */
struct gpt_part {
    size_t first, last;   /* layers [first, last) */
    size_t slice, slices; /* of the wide matrices */
};

/* The whole model. */
struct gpt_part gpt_part_whole(const struct gpt_config *config);
/* 0 if the part is of this model, and the slices divide its heads and its inner width. */
int gpt_part_check(const struct gpt_config *config, const struct gpt_part *part);

enum gpt_split { GPT_WHOLE, GPT_BY_COLUMNS, GPT_BY_ROWS };
enum gpt_start { GPT_ZEROS, GPT_ONES, GPT_NORMAL };

struct gpt_param {
    char name[96];        /* as GPT-2's in the transformers library */
    size_t rows, columns; /* of the whole; a vector has rows = 0 */
    enum gpt_split split;
    size_t blocks; /* the columns are this many matrices side by side (q, k, v: 3), each split alike */
    enum gpt_start start;
    float deviation; /* of GPT_NORMAL; at GPT-2's width of 768 it is GPT-2's 0.02 */
    /* The head's own copy of the embedding: a stage before has the one that is saved and counted. */
    bool second;
    size_t layer; /* for which it is: 0 with the embedding, config->layers with the head */
    size_t local_rows, local_columns; /* of the slice; rows = 1 for a vector */
    size_t offset, count;             /* of the slice, in the stage's values, gradients and moments */
};

/* The most parameters a stage has. */
size_t gpt_params_most(const struct gpt_config *config);
/* Fills list and returns how many there are, in the order in which a forward pass uses them. */
size_t gpt_params_list(const struct gpt_config *config, const struct gpt_part *part, struct gpt_param *list);

/* A stretch that lies together in the slice and in the whole. */
struct gpt_run {
    size_t local, whole, count; /* offsets and count, in elements */
};
size_t gpt_param_runs(const struct gpt_param *param);
struct gpt_run gpt_param_run(const struct gpt_param *param, const struct gpt_part *part, size_t index);

/* What the parameter begins with: the same number for an element whatever the slices. */
void gpt_param_start(const struct gpt_param *param, const struct gpt_part *part, uint64_t seed,
                     float *values);

#endif
