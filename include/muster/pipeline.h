/*
 * pipeline.h - pipeline parallelism: a sequential model in stages, one per rank. Pair groups, the partition
 * of layers, and schedules of micro-batches.
 *
 *     static mst_status forward(const mst_pipeline_step *step, void *model); reads step->in, writes step->out
 *     static mst_status backward(const mst_pipeline_step *step, void *model);
 *
 *     mst_pipeline_new(&pipeline, .schedule = "1f1b", .micros = 8, .out = {MST_F32, 3, {1, 128, 256}},
 *                      .forward = forward, .backward = backward, .arg = &model);
 *     for (int step = 0; step < steps; step++) mst_pipeline_run(pipeline);
 *     mst_pipeline_free(pipeline);
 *
 *  1. A pipeline belongs to the ranks of its group: group rank s is stage s. All of them create it, with the
 *     same schedule and numbers; each specifies its own output shape. Creation succeeds on all ranks or on
 *     none.
 *  2. Each run executes the schedule once, on the calling thread. Communication overlaps with computation:
 *     while a micro-batch is computed, the next one is received and the previous one is sent. There is no
 *     barrier.
 *  3. If a rank fails, is killed, or its callback returns an error, the runs of all other ranks fail with an
 *     error that names it: the current run, or the next one if the current needs nothing more. A failed
 *     pipeline can only be freed.
 *  4. A callback may call anything but mst_pipeline_run and mst_pipeline_free of this pipeline. It returns
 *     MST_OK, the status of a failed call, whose message becomes that of the run, or MST_ERR_CALLBACK for its
 *     own errors.
 *  5. One thread at a time uses a pipeline. It has its own groups and does not need the group that it was
 *     created from. Free it before its world is closed.
 */
#ifndef MUSTER_PIPELINE_H
#define MUSTER_PIPELINE_H

#include <muster/comm.h>
#include <muster/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * FlexLLMGen's initialization: opens the default world at tcp://head_ip:port, creates the pair groups (i,
 * (i+1) mod world_size), and suppresses the output of all ranks but 0 (mst_suppress_output). comm_device is
 * "cpu" (native) or "gpu" (nccl, on the GPU of the buffer of a group's first call, or GPU local_rank if it
 * has none, unless MUSTER_CUDA_DEVICE names another). Blocks until all ranks have joined. A repeated call
 * with the same world does nothing. If it fails on a rank, all ranks must destroy the world before a retry.
 */
mst_status mst_initialize_distributed(const char *head_ip, int port, int world_size, int rank, int local_rank,
                                      const char *comm_device);
/*
 * Return the group with the previous rank, from which this rank receives, and with the next rank, to which it
 * sends. FlexLLMGen uses the opposite names. With two ranks both have the same members. NULL with one rank,
 * and before mst_initialize_distributed.
 */
mst_group *mst_get_pipeline_parallel_pred_group(void);
mst_group *mst_get_pipeline_parallel_succ_group(void);
/* Returns the comm_device of mst_initialize_distributed; NULL without a world. */
const char *mst_get_comm_device(void);

/* Costs for mst_partition_layers. */
#define mst_partition_options_fields                                                                         \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(const double *costs); /* of each layer, in any unit; NULL: equal */                           \
    MST_OPTION(double first);        /* additional cost of the first part: an embedding */                   \
    MST_OPTION(double last);         /* additional cost of the last part: a head */
typedef struct mst_partition_options {
    mst_partition_options_fields
} mst_partition_options;

/*
 * Divides layers into parts of at least one layer. Part k has the layers starts[k] … starts[k + 1] - 1;
 * starts has parts + 1 entries. Without costs the first parts get the remainder. With costs the cost of the
 * most expensive part is minimal.
 */
mst_status mst_partition_layers_with(int layers, int parts, int *starts,
                                     const mst_partition_options *options);

typedef struct mst_pipeline mst_pipeline;

enum { MST_SHAPE_DIMS = 6 };

/* The shape of a tensor with n dimensions. n 0: no tensor. */
typedef struct mst_shape {
    mst_dtype dtype;
    int n;
    size_t sizes[MST_SHAPE_DIMS];
} mst_shape;

/* The arguments of a callback. Buffers are valid until it returns, in until the matching backward. */
typedef struct mst_pipeline_step {
    int micro;        /* micro-batch, from 0; each part processes them in this order */
    int chunk, part;  /* part of the model: its index on this stage, and in the model */
    bool first, last; /* the first or last part of the model */
    int batch, token; /* streaming: batch and new token; token 0 follows the prompt */
    /* 0 … mst_pipeline_keeps - 1: a slot for data that forward keeps for backward; streaming: for the
       key-value cache of these sequences, not valid in take. Chunks share the slots. */
    int keep;
    /* forward: the output of the previous part; NULL on the first part, which has its own data; streaming,
       first part: the ids of the previous tokens. backward: the gradient of forward's output; NULL: compute
       the loss. take: the ids. */
    const void *in;
    const mst_shape *in_shape;
    /* Output; NULL: none. forward: activations; streaming, last part: the ids of new tokens. backward: the
       gradient of forward's input. */
    void *out;
    const mst_shape *out_shape;
} mst_pipeline_step;

typedef mst_status (*mst_pipeline_callback)(const mst_pipeline_step *step, void *arg);

#define mst_pipeline_options_fields                                                                          \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_group *group);     /* the stages; NULL: the default world */                              \
    MST_OPTION(const char *schedule); /* "1f1b" (default), "gpipe", "interleaved", "forward", "stream" */    \
    MST_OPTION(int micros);           /* micro-batches (default 1); streaming: of each batch */              \
    MST_OPTION(int chunks);           /* interleaved: parts of the model on each stage (default 2) */        \
    MST_OPTION(int batches);          /* streaming (default: inner) */                                       \
    MST_OPTION(int tokens);           /* streaming: new tokens of each batch (default 1) */                  \
    MST_OPTION(int inner);            /* streaming: interleaved batches (default: one per stage) */          \
    /* The output of this stage's parts for a micro-batch; not needed for the last part. */                  \
    MST_OPTION(mst_shape out);                                                                               \
    MST_OPTION(mst_shape prompt); /* streaming: the same for the prompt; default: out */                     \
    MST_OPTION(mst_shape ids);    /* streaming, last stage: the ids of new tokens of a micro-batch */        \
    MST_OPTION(mst_pipeline_callback forward);                                                               \
    MST_OPTION(mst_pipeline_callback backward); /* for training schedules */                                 \
    MST_OPTION(                                                                                              \
        mst_pipeline_callback take); /* streaming, stage 0: receives the last tokens of a micro-batch */     \
    MST_OPTION(void *arg);           /* passed to the callbacks */                                           \
    MST_OPTION(int timeout_ms);      /* limit of a wait for another stage; 0: the group's */                 \
    /* Allocate and free message buffers, for example in device memory; NULL: host memory. Both or none. */  \
    MST_OPTION(void *(*alloc)(size_t bytes, void *arg));                                                     \
    MST_OPTION(void (*release)(void *memory, void *arg));
typedef struct mst_pipeline_options {
    mst_pipeline_options_fields
} mst_pipeline_options;

/* Creates a pipeline together with the other ranks of the group, and exchanges output shapes. */
mst_status mst_pipeline_new_with(mst_pipeline **pipeline, const mst_pipeline_options *options);
/* Accepts NULL. Returns MST_ERR_STATE in a callback of a work. */
mst_status mst_pipeline_free(mst_pipeline *pipeline);

#define mst_run_options_fields                                                                               \
    MST_OPTIONS_HEAD                                                                                         \
    MST_OPTION(mst_cancel *cancel); /* ends the run; the pipeline has failed then */
typedef struct mst_run_options {
    mst_run_options_fields
} mst_run_options;

/* Runs the schedule once; blocks until this stage is done. */
mst_status mst_pipeline_run_with(mst_pipeline *pipeline, const mst_run_options *options);

/* The calls below return -1 or zeros and set mst_error() if the pipeline is invalid. */
int mst_pipeline_stage(const mst_pipeline *pipeline);
int mst_pipeline_stages(const mst_pipeline *pipeline);
/* The number of slots for mst_pipeline_step.keep. */
int mst_pipeline_keeps(const mst_pipeline *pipeline);
/* The input shape; n is 0 on the first stage unless it has several chunks. */
mst_shape mst_pipeline_in(const mst_pipeline *pipeline);

/* Times of the last run on this stage, in seconds. */
typedef struct mst_pipeline_times {
    double whole, computing, waiting; /* total; in callbacks; for messages */
} mst_pipeline_times;
mst_pipeline_times mst_pipeline_last_times(const mst_pipeline *pipeline);

#ifdef __cplusplus
}
#endif

MST_WRAP_3(mst_partition_layers, mst_partition_options, int, int, int *)
MST_WRAP_1(mst_pipeline_new, mst_pipeline_options, mst_pipeline **)
MST_WRAP_1(mst_pipeline_run, mst_run_options, mst_pipeline *)

#define mst_partition_layers(...) MST_CALL_3(mst_partition_layers, mst_partition_options, __VA_ARGS__)
#define mst_pipeline_new(...)     MST_CALL_1(mst_pipeline_new, mst_pipeline_options, __VA_ARGS__)
#define mst_pipeline_run(...)     MST_CALL_1(mst_pipeline_run, mst_run_options, __VA_ARGS__)
#endif
