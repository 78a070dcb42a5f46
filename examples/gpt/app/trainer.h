/*
 * trainer.h - trains a model over a mesh of processes, or in one process. Each process holds a shard of the
 * model (or several chunks, with the interleaved schedule), takes its share of a step's sequences, and
 * updates its own parameters.
 */
#ifndef GPT_APP_TRAINER_H
#define GPT_APP_TRAINER_H

#include "app/options.h"
#include "io/dataset.h"
#include "nn/optim.h"
#include "parallel/mesh.h"

struct gpt_trainer {
    const struct gpt_options *options;
    const char *from; /* the directory that the model was loaded from; NULL: a new model */
    struct gpt_config config;
    struct gpt_mesh mesh;
    struct gpt_survival survival;
    struct gpt_dataset dataset;
    size_t chunks;
    struct gpt_model **model;              /* of each chunk */
    struct gpt_adam *adam;                 /* of each chunk */
    size_t first;                          /* sequence of a step that this process takes */
    size_t micro_batches, sequences, time; /* of this process; of a micro-batch; of a sequence */
    size_t keeps;                          /* micro-batches in flight, at most */
    struct gpt_acts **acts;                /* [chunk][keep], allocated on first use */
    int *tokens, *targets;                 /* of a micro-batch */
    int *sequence;                         /* tokens of a whole sequence, then its targets */
    mst_pipeline *pipeline;                /* NULL: a single stage */
    double loss;                           /* sum over this process's tokens in this step */
    bool failed;                           /* a pipeline step failed and called gpt_fail */
    bool valid;                            /* model and adam are those of the step, not partly received */
    double last_step;                      /* when this process completed a step */
};

/* Close *t even after a failure. */
int gpt_trainer_open(const struct gpt_options *options, struct gpt_trainer *t);
void gpt_trainer_close(struct gpt_trainer *t, bool failed);

/*
 * With --survive, after gpt_mesh_lost: continues with the processes that live, and with new ones. All of them
 * get the newest model from the memory of a process that has it. Prints how long the pause was.
 */
int gpt_trainer_recover(struct gpt_trainer *t);

/* Steps done, of the whole training. */
size_t gpt_trainer_steps(const struct gpt_trainer *t);
/* One more step; *loss: mean over the tokens of all processes. */
int gpt_trainer_step(struct gpt_trainer *t, double *loss);
/* All processes together write one checkpoint. */
int gpt_trainer_save(struct gpt_trainer *t, const char *directory);

/* trainer_step.c: callbacks of the pipeline, for one micro-batch and chunk. arg: the trainer. */
mst_status gpt_step_forward(const mst_pipeline_step *step, void *arg);
mst_status gpt_step_backward(const mst_pipeline_step *step, void *arg);

#endif
