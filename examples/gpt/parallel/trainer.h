/*
 * trainer.h - training a model over a mesh of processes, or in one: each has some parts of the model (one, or several chunks where
 * the pipeline is interleaved), takes its share of a step's sequences, and steps its own parameters.
 */
#ifndef GPT_PARALLEL_TRAINER_H
#define GPT_PARALLEL_TRAINER_H

#include "app/options.h"
#include "io/data.h"
#include "nn/optim.h"
#include "parallel/mesh.h"

struct gpt_trainer {
    const struct gpt_options *options;
    const char *from; /* the directory of the model that it began with; NULL: a new one */
    struct gpt_config config;
    struct gpt_parallel parallel;
    struct gpt_text text;
    size_t chunks;
    struct gpt_model **model; /* one for each chunk, and all that follows too */
    struct gpt_adam *adam;
    /* Micro-batches of this process's share; sequences of each; columns of each. */
    size_t micros, sequences, time;
    size_t keeps;
    struct gpt_acts **acts; /* [chunk][keep], made when first used */
    int *tokens, *targets;  /* of a micro-batch */
    int *line;              /* a whole sequence, and what follows each of its tokens */
    mst_pipeline *pipeline; /* NULL: one stage */
    double loss;            /* the sum of this process's tokens' losses in this step */
    bool failed;            /* in a turn, with words of its own */
};

/* *t is filled from the options; close it in any case. */
int gpt_trainer_open(const struct gpt_options *options, struct gpt_trainer *t);
void gpt_trainer_close(struct gpt_trainer *t, bool failed);

/* Steps taken. */
size_t gpt_trainer_steps(const struct gpt_trainer *t);
/* One more; the mean loss of all processes' tokens. */
int gpt_trainer_step(struct gpt_trainer *t, double *loss);
/* All processes write one checkpoint. */
int gpt_trainer_save(struct gpt_trainer *t, const char *directory);

/* trainer_step.c: a part of the model on a micro-batch; forward, and back. arg is the trainer. */
mst_status gpt_turn_forward(const mst_pipeline_step *turn, void *arg);
mst_status gpt_turn_backward(const mst_pipeline_step *turn, void *arg);

#endif
