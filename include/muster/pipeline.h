/*
 * pipeline.h - a sequential model in stages, one on each rank: the ring of pair groups, which layers a stage has, and who computes
 * what when.
 *
 *     static mst_status forward(const mst_pipeline_step *turn, void *model);   reads turn->in, writes turn->out
 *     static mst_status backward(const mst_pipeline_step *turn, void *model);
 *
 *     mst_pipeline *pipeline;
 *     mst_pipeline_new(&pipeline, .schedule = "1f1b", .micros = 8, .out = {MST_F32, 3, {1, 128, 256}}, .forward = forward,
 *                      .backward = backward, .arg = &model);
 *     for (int step = 0; step < steps; step++) mst_pipeline_run(pipeline);
 *     mst_pipeline_free(pipeline);
 *
 *  1. A pipeline belongs to the ranks of its group: group rank s is stage s. All of them make it, alike, with the same schedule and
 *     numbers; each says itself what it passes on. It succeeds on all of them or on none.
 *  2. Each run does the whole schedule once, on the thread that calls. What is received and sent meanwhile travels by itself:
 *     while a micro-batch is computed, the next one comes and the last one goes. There is no barrier.
 *  3. Where a rank fails, is killed, or its callback returns an error, the runs of all others end with an error that names it, also
 *     where it is not their neighbour: the run that is going on, or the next where that needed nothing more. A pipeline that failed
 *     can only be freed.
 *  4. A callback may call anything but mst_pipeline_run and mst_pipeline_free of this pipeline. It returns MST_OK, the status of a call
 *     that failed, whose words are then those of the run, or MST_ERR_CALLBACK where it fails for reasons of its own.
 *  5. One thread at a time uses a pipeline. It has groups of its own and needs the one it was made of no more. Free it before its
 *     world is ended.
 */
#ifndef MUSTER_PIPELINE_H
#define MUSTER_PIPELINE_H

#include <muster/comm.h>
#include <muster/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * FlexLLMGen's way to begin: opens the default world at tcp://head_ip:port, makes and joins the pair groups (i, (i+1) mod world_size),
 * and lets rank 0 alone print from then on (mst_suppress_output). comm_device is "cpu" (native) or "gpu" (nccl, on the GPU local_rank,
 * unless MUSTER_CUDA_DEVICE names another). Again, with the same world, it is harmless; where
 * it failed on a rank, all end the world first.
 */
mst_status mst_initialize_distributed(const char *head_ip, int port, int world_size, int rank, int local_rank,
                                      const char *comm_device);
/*
 * The groups with the rank before, from which this one receives, and with the rank behind, to which it sends; FlexLLMGen calls them the
 * other way round. With two ranks they have the same members. NULL where there is none: with one rank, and before
 * mst_initialize_distributed.
 */
mst_group *mst_get_pipeline_parallel_pred_group(void);
mst_group *mst_get_pipeline_parallel_succ_group(void);
/* "cpu" or "gpu", as mst_initialize_distributed was told; NULL before, and after the world's end. */
const char *mst_get_comm_device(void);

/* How a model's layers are spread over parts. */
typedef struct mst_partition_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(const double *costs); /* of each layer, in any unit; NULL: all the same */
    MST_OPTION(double first);        /* what the first part has besides: an embedding */
    MST_OPTION(double last);         /* what the last part has besides: a head */
} mst_partition_options;

/*
 * Part k gets the layers from starts[k] up to, but without, starts[k + 1]; starts has parts + 1 entries. Each has one at
 * least. Without costs the first parts have one more where it does not divide; with costs the dearest part is as cheap as it can be.
 */
mst_status mst_partition_layers_with(int layers, int parts, int *starts,
                                     const mst_partition_options *options);

typedef struct mst_pipeline mst_pipeline;

enum { MST_SHAPE_DIMS = 6 };

/* A tensor: n sizes. n 0: none. */
typedef struct mst_shape {
    mst_dtype dtype;
    int n;
    size_t sizes[MST_SHAPE_DIMS];
} mst_shape;

/* What a callback is to compute. Buffers are valid until it returns; in also until the backward that belongs to a forward. */
typedef struct mst_pipeline_step {
    int micro;        /* micro-batch, from 0; of a part, each direction's come in this order */
    int chunk, part;  /* which part of the model: the stage's chunk-th, and of all */
    bool first, last; /* it is the model's first part, or its last */
    int batch, token; /* streaming: which batch, and which new token; 0 is the one that follows the prompt */
    /* 0 … mst_pipeline_keeps - 1: a place for what the forward leaves for its backward; streaming: for the keys and values of these
       sequences, not in take. Chunks share the places. */
    int keep;
    /* forward: what the part before passed on; NULL: there is none, the data is the program's. Streaming, first part: the ids of the
       tokens before. backward: the gradient of what the forward wrote; NULL: the loss is next. take: the ids. */
    const void *in;
    const mst_shape *in_shape;
    /* What is passed on; NULL: nothing. forward: activations, or on the last part, streaming, the ids of new tokens; backward: the
       gradient of what the forward read. */
    void *out;
    const mst_shape *out_shape;
} mst_pipeline_step;

typedef mst_status (*mst_pipeline_callback)(const mst_pipeline_step *turn, void *arg);

typedef struct mst_pipeline_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_group *group);     /* the stages; NULL: the default world */
    MST_OPTION(const char *schedule); /* "1f1b" (default), "gpipe", "interleaved", "forward", "stream" */
    MST_OPTION(int micros);           /* micro-batches (default 1); streaming: of each batch */
    MST_OPTION(int chunks);           /* interleaved: parts of the model on each stage (default 2) */
    MST_OPTION(int batches);          /* streaming (default: inner) */
    MST_OPTION(int tokens);           /* streaming: new tokens of each batch (default 1) */
    MST_OPTION(int inner);            /* streaming: batches that take turns (default: one for each stage) */
    /* What this stage's parts pass on for a micro-batch; the last part's need not be said. */
    MST_OPTION(mst_shape out);
    MST_OPTION(mst_shape prompt); /* streaming: the same for the prompt; none: as out */
    MST_OPTION(mst_shape ids);    /* streaming, last stage: the ids of new tokens of a micro-batch */
    MST_OPTION(mst_pipeline_callback forward);
    MST_OPTION(mst_pipeline_callback backward); /* of schedules that train */
    MST_OPTION(mst_pipeline_callback take); /* streaming, stage 0: a micro-batch's last tokens are there */
    MST_OPTION(void *arg);                  /* for the callbacks */
    MST_OPTION(int timeout_ms);             /* the longest wait for another stage; 0: the group's */
    /* Memory for messages, such as a device's; NULL: the host's. Both or none. */
    MST_OPTION(void *(*alloc)(size_t bytes, void *arg));
    MST_OPTION(void (*release)(void *memory, void *arg));
} mst_pipeline_options;

/* Makes it, with the other ranks of the group; what each passes on is told to its neighbours here, once. */
mst_status mst_pipeline_new_with(mst_pipeline **pipeline, const mst_pipeline_options *options);
/* NULL is fine. In the callback of a work it is refused. */
mst_status mst_pipeline_free(mst_pipeline *pipeline);

typedef struct mst_run_options {
    MST_OPTION(size_t size);
    MST_OPTION(mst_site site);
    MST_OPTION(mst_cancel *cancel); /* what waits ends, and the pipeline with it */
} mst_run_options;

/* Runs the schedule once. */
mst_status mst_pipeline_run_with(mst_pipeline *pipeline, const mst_run_options *options);

/* The calls below return -1, or nothing but zeros, where there is no such pipeline; mst_error() then says why. */
int mst_pipeline_stage(const mst_pipeline *pipeline);
int mst_pipeline_stages(const mst_pipeline *pipeline);
/* Places that a turn's keep names. */
int mst_pipeline_keeps(const mst_pipeline *pipeline);
/* What the part before passes on; n 0 where there is none: on the first stage, unless it has several chunks. */
mst_shape mst_pipeline_in(const mst_pipeline *pipeline);

/* What the last run took on this stage, in seconds. */
typedef struct mst_pipeline_times {
    double whole, computing, waiting; /* in callbacks; for messages */
} mst_pipeline_times;
mst_pipeline_times mst_pipeline_last_times(const mst_pipeline *pipeline);

#ifdef __cplusplus
}
inline mst_status mst_partition_layers(int layers, int parts, int *starts, mst_partition_options options = {},
                                       MST_SITE_PARAMETERS) {
    return mst_partition_layers_with(layers, parts, starts, MST_FILL_OPTIONS(options));
}
inline mst_status mst_pipeline_new(mst_pipeline **pipeline, mst_pipeline_options options = {},
                                   MST_SITE_PARAMETERS) {
    return mst_pipeline_new_with(pipeline, MST_FILL_OPTIONS(options));
}
inline mst_status mst_pipeline_run(mst_pipeline *pipeline, mst_run_options options = {},
                                   MST_SITE_PARAMETERS) {
    return mst_pipeline_run_with(pipeline, MST_FILL_OPTIONS(options));
}
#else
#define mst_partition_layers(layers, parts, ...)                                                             \
    mst_partition_layers_with(layers, parts, MST_LAST_POSITIONAL(__VA_ARGS__),                               \
                              MST_OPTIONS_AFTER(mst_partition_options, __VA_ARGS__))
#define mst_pipeline_new(...)                                                                                \
    mst_pipeline_new_with(MST_LAST_POSITIONAL(__VA_ARGS__),                                                  \
                          MST_OPTIONS_AFTER(mst_pipeline_options, __VA_ARGS__))
#define mst_pipeline_run(...)                                                                                \
    mst_pipeline_run_with(MST_LAST_POSITIONAL(__VA_ARGS__), MST_OPTIONS_AFTER(mst_run_options, __VA_ARGS__))
#endif
#endif
