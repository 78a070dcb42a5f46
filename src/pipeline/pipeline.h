/*
 * pipeline.h - runs a stage's list of a schedule (schedule.h): messages over the pair groups (pairs.h),
 * computes by callbacks. One thread at a time. msi_pipeline_new allocates everything; a run allocates
 * nothing.
 */
#ifndef MSI_PIPELINE_PIPELINE_H
#define MSI_PIPELINE_PIPELINE_H

#include "pipeline/pairs.h"
#include "pipeline/schedule/schedule.h"

#include <muster/pipeline.h>

/* Before the first run; see agree.c and blame.h. */
enum { MSI_PIPELINE_AGREEMENTS = 3 };

/* A buffer for messages, with the message in flight. */
struct msi_buffer {
    void *memory;
    mst_work *work;                  /* NULL: none */
    const struct msi_action *action; /* the message */
};

/* The shapes of a stage's outputs. */
struct msi_outputs {
    mst_shape out, prompt, ids;
};

struct mst_pipeline {
    mst_pipeline_options options;
    struct msi_schedule_spec spec;
    struct msi_stage_list list;
    int stage, rank;   /* this stage, and its global rank */
    int before, after; /* global ranks of the neighbours */
    int timeout_ms;
    mst_group *whole; /* of all stages: for agreements, and for messages of a ring of one */
    struct msi_pairs pairs;
    struct msi_outputs own, previous;          /* previous: of the stage before */
    struct msi_buffer *slots[MSI_CHANNELS][2]; /* by direction: MSI_IN_SLOT, MSI_OUT_SLOT */
    int agreements;                            /* that succeeded, of MSI_PIPELINE_AGREEMENTS */
    bool failed, running;
    mst_run_options run; /* of the current run */
    mst_pipeline_times times;
    mst_pipeline *handle; /* what programs use */
};

/* All ranks of the group call it. */
mst_status msi_pipeline_new(mst_group *stages, const mst_pipeline_options *options, mst_pipeline **pipeline);
void msi_pipeline_free(mst_pipeline *pipeline);
/* Connects with the neighbours, before the first run and after an exchange of backends. */
mst_status msi_pipeline_join(const mst_pipeline *pipeline, const struct msi_wait *wait);
mst_status msi_pipeline_run(mst_pipeline *pipeline);
/* After a failure: ends the pipeline on all stages, with the failure of the first one. */
mst_status msi_pipeline_end(mst_pipeline *pipeline, mst_status status);

/* agree.c: compares the schedule with the other stages' and publishes this stage's outputs. own: this
 * stage's status so far. */
mst_status msi_pipeline_exchange(mst_pipeline *pipeline, const struct msi_wait *wait, mst_status own);
/* Deletes the published outputs, if no stage may have read them. */
void msi_pipeline_withdraw(mst_pipeline *pipeline, const struct msi_wait *wait);
/* Reads the outputs of the stage before. */
mst_status msi_pipeline_read_previous(mst_pipeline *pipeline, const struct msi_wait *wait);
/* A barrier that fails on all stages or on none. own: this stage's status so far. */
mst_status msi_pipeline_agree(mst_pipeline *pipeline, const struct msi_wait *wait, mst_status own);

/* The number of elements; 0 without dimensions. */
size_t msi_shape_count(const mst_shape *shape);
/* Fails if the shape is invalid. what: begins the message. */
mst_status msi_shape_check(const mst_shape *shape, const char *what);

/* The shape of a message on a channel, to this stage (in) or from it. */
const mst_shape *msi_pipeline_shape(const mst_pipeline *pipeline, int channel, bool in, bool prompt);

#endif
