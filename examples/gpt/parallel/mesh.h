/*
 * mesh.h - the processes that share a model: where this one is in their mesh, and what they do together. Everything here
 * works for one process too, which does nothing.
 *
 *   dp   copies of the model, each with its own sequences; gradients are summed
 *   tp   slices of the wide matrices; products are summed
 *   pp   stages, each with some layers; activations go on, gradients come back
 *   cp   parts of each sequence; keys and values go round
 *
 * One thread calls. A function returns 0, or -1 after gpt_fail with the library's words.
 */
#ifndef GPT_PARALLEL_MESH_H
#define GPT_PARALLEL_MESH_H

#include "nn/model.h"

#include <muster/muster.h>

enum gpt_way { GPT_DP, GPT_TP, GPT_PP, GPT_CP, GPT_WAYS };

/* Sums of gradients under way, begun in the order in which the backward pass finishes them. */
struct gpt_buckets {
    struct gpt_model *model;
    size_t end, begin; /* what is ready and not yet begun: [begin, end) */
    mst_work **works;
    size_t n, room;
};

/* Keys and values that go round, and their gradients. */
struct gpt_ring {
    float *block; /* all of the following lie here */
    size_t room;
    float *keys[2], *gradients[2], *came;
};

struct gpt_parallel {
    size_t size[GPT_WAYS], at[GPT_WAYS];
    int rank, ranks; /* of the world, if there is one: more than one process */
    bool deterministic;
    mst_mesh *mesh;             /* NULL: one process, which has not opened a world */
    mst_group *group[GPT_WAYS]; /* NULL where there is one */
    mst_group *copies;          /* those with the same parameters, over dp and cp; NULL: none but this */
    mst_group *ends; /* the first stage and the last, which both have the embedding; NULL elsewhere */
    mst_work *tensor_work;
    struct gpt_buckets buckets;
    struct gpt_ring ring;
    double waited; /* seconds in communication, up to now */
};

/* For a failure that every process meets before they know each other: all but the first are hushed. */
void gpt_hush_all_but_first(void);
/*
 * Fails where a launcher has started several processes, which would know nothing of each other, do the same work, and write over each
 * other's checkpoints. shared: the command has --mesh.
 */
int gpt_check_alone(bool shared);
/* mesh as in "dp=2,tp=2"; NULL: one process. */
int gpt_parallel_open(struct gpt_parallel *p, const char *mesh, bool deterministic);
/* Goes over to a backend; all processes call it. */
int gpt_parallel_use(struct gpt_parallel *p, const char *backend);
/* failed: others may be gone, so nobody is waited for. */
void gpt_parallel_close(struct gpt_parallel *p, bool failed);
/* This process is the one that saves its slices. */
bool gpt_parallel_saves(const struct gpt_parallel *p);

/* What this process has of the model as its chunk-th of so many chunks: layers by what they and the head cost. */
int gpt_parallel_part(const struct gpt_parallel *p, const struct gpt_config *config, size_t chunk,
                      size_t chunks, struct gpt_part *part);

/* What the model's passes call; without gradient_ready, which the last micro-batch alone is to have. */
struct gpt_hooks gpt_parallel_hooks(struct gpt_parallel *p);

/* 0, or -1 with the library's words. */
int gpt_check(mst_status status);
double gpt_now(void);

/* Sums over all processes; the same bits everywhere. */
int gpt_parallel_sum(struct gpt_parallel *p, double *numbers, size_t count);
/*
 * All processes call, st being what each has come to: 0 once all have come to 0. Otherwise none goes on, and the first of those
 * that failed alone says why.
 */
int gpt_parallel_agree(const struct gpt_parallel *p, int st);

/* tensor.c: hooks */
int gpt_tensor_forward(void *parallel, float *x, size_t count);
int gpt_tensor_backward(void *parallel, float *dx, size_t count);
int gpt_tensor_wait(void *parallel);

/* data.c: before a model's last backward of a step, its hook, and the end of all models' sums */
void gpt_data_begin(struct gpt_parallel *p, struct gpt_model *model);
int gpt_data_ready(void *parallel, size_t offset, size_t count);
int gpt_data_end(struct gpt_parallel *p);
/* Sums the gradients of the embedding's two copies; table is NULL where this process has none. */
int gpt_data_ends(struct gpt_parallel *p, float *table, size_t count);
void gpt_data_free(struct gpt_parallel *p);

/* context.c: the position of a column of this process's sequences, and hooks */
size_t gpt_context_place(const struct gpt_parallel *p, size_t column, size_t time);
int gpt_context_attend(void *parallel, const struct gpt_attention *a, const struct gpt_keys *own);
int gpt_context_attend_back(void *parallel, const struct gpt_attention *a, const struct gpt_keys *own,
                            struct gpt_rows dout, struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv);

#endif
