/*
 * mesh.h - the processes that share a model, this process's coordinates in their mesh, and what they
 * exchange. A single process is a mesh of one: then the functions below do nothing.
 *
 *   dp   data parallel: replicas of the model, each with its own sequences; gradients are summed
 *   tp   tensor parallel: slices of the wide matrices; partial products are summed
 *   pp   pipeline parallel: stages, each with some layers; they exchange activations and gradients
 *   cp   context parallel: parts of each sequence; keys and values travel around a ring
 *
 * One thread calls. Functions return 0, or -1 after gpt_fail, with the library's error message where a call
 * failed.
 */
#ifndef GPT_PARALLEL_MESH_H
#define GPT_PARALLEL_MESH_H

#include "nn/model.h"

#include <muster/muster.h>

enum gpt_dim { GPT_DP, GPT_TP, GPT_PP, GPT_CP, GPT_DIMS };

/* Sums the gradients of a model. */
struct gpt_reducer {
    const struct gpt_model *model;
    mst_bucket_reducer *reducer;
    size_t left; /* parameters whose gradients are not ready in this step: the first ones */
};

/* Buffers of ring attention: keys and values on their way around the ring, and their gradients. */
struct gpt_ring {
    float *block; /* all of the following lie here */
    size_t capacity;
    float *keys[2], *gradients[2], *received;
};

struct gpt_mesh {
    size_t size[GPT_DIMS], coordinate[GPT_DIMS];
    int rank, ranks; /* of the world */
    bool deterministic;
    mst_mesh *device_mesh;        /* NULL: a single process, which has not called mst_init */
    mst_group *group[GPT_DIMS];   /* NULL where the size is 1 */
    mst_group *replicas;          /* ranks with the same parameters, over dp and cp; NULL: this one alone */
    mst_group *embedding_group;   /* first and last stage, which both hold the embedding; NULL elsewhere */
    mst_work *tp_work;            /* all-reduce between gpt_tp_reduce_backward and gpt_tp_wait_backward */
    struct gpt_reducer *reducers; /* of each model; NULL without replicas */
    size_t n_reducers;
    struct gpt_reducer *reducing; /* of the model in the backward pass */
    struct gpt_ring ring;
    double comm_seconds; /* spent in communication so far */
    bool joins;          /* this process has joined a world that ran already */
};

/*
 * For a failure that every process detects before mst_init: mutes all but the first, as the launcher numbers
 * them.
 */
void gpt_mute_unless_first(void);
/*
 * Fails if a launcher started several processes without --mesh: each would do the same work and overwrite the
 * checkpoints of the others. has_mesh: the command accepts --mesh.
 */
int gpt_check_alone(bool has_mesh);
/* How processes go on when others die: with new processes in their places, if they come in time. */
struct gpt_survival {
    int ranks; /* of a complete world */
    double join_seconds;
};
/*
 * shape as in "dp=2,tp=2"; NULL: a single process. survival is for a process that joins a world that runs
 * already; NULL: it never does.
 */
int gpt_mesh_open(struct gpt_mesh *mesh, const char *shape, bool deterministic,
                  const struct gpt_survival *survival);
/*
 * After gpt_mesh_lost: replaces the world by one of the processes that live and of new ones, and
 * opens a mesh of dp over it. Call gpt_dp_free before.
 */
int gpt_mesh_recover(struct gpt_mesh *mesh, const struct gpt_survival *survival);
/* Has a call failed since the last time because a process died? */
bool gpt_mesh_lost(void);
/* Switches to a backend; all processes call it. */
int gpt_mesh_set_backend(struct gpt_mesh *mesh, const char *backend);
/* failed: does not wait for other processes, because they may be gone. */
void gpt_mesh_close(struct gpt_mesh *mesh, bool failed);
/* Whether this process writes its slices to checkpoints: one process of each set of replicas does. */
bool gpt_mesh_saves(const struct gpt_mesh *mesh);

/* This process's layers and slice. With several chunks per stage, those of one chunk. */
int gpt_mesh_shard(const struct gpt_mesh *mesh, const struct gpt_config *config, size_t chunk, size_t chunks,
                   struct gpt_shard *shard);

/* The hooks of the model's passes. gradient_ready is not set: only a step's last micro-batch has it. */
struct gpt_hooks gpt_mesh_hooks(struct gpt_mesh *mesh);

/* 0 for MST_OK; else -1 with the library's error message. */
int gpt_check(mst_status status);
double gpt_now(void);

/* Sums over all processes; deterministic. */
int gpt_mesh_sum(struct gpt_mesh *mesh, double *numbers, size_t count);
/*
 * Called by all processes, each with its own status: 0 if all statuses are 0. Otherwise all fail, and the
 * lowest rank that failed prints its message.
 */
int gpt_mesh_agree(const struct gpt_mesh *mesh, int st);

/* tensor_parallel.c: hooks; context is the mesh */
int gpt_tp_reduce_forward(void *context, float *x, size_t count);
int gpt_tp_reduce_backward(void *context, float *dx, size_t count);
int gpt_tp_wait_backward(void *context);

/*
 * data_parallel.c: for all models of this process; before the last backward pass of a model in a step; its
 * hook; waits for the sums of all models; before the models are freed
 */
int gpt_dp_open(struct gpt_mesh *mesh, struct gpt_model *const *models, size_t n);
void gpt_dp_begin(struct gpt_mesh *mesh, size_t model);
int gpt_dp_gradient_ready(void *context, size_t offset, size_t count);
int gpt_dp_wait(struct gpt_mesh *mesh);
void gpt_dp_free(struct gpt_mesh *mesh);
/* Sums the gradients of the two copies of the embedding; table is NULL in a process without a copy. */
int gpt_pp_sum_embedding(struct gpt_mesh *mesh, float *table, size_t count);

/* context_parallel.c: the position in the sequence of one of this process's columns; hooks */
size_t gpt_cp_position(const struct gpt_mesh *mesh, size_t column, size_t time);
int gpt_cp_attend(void *context, const struct gpt_attention *a, const struct gpt_keys *own);
int gpt_cp_attend_back(void *context, const struct gpt_attention *a, const struct gpt_keys *own,
                       struct gpt_rows dout, struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv);

#endif
