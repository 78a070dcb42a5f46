/*
 * pipeline.h - runs a stage's part of a schedule (schedule.h): messages over the pair groups (pairs.h), computes by callbacks. One
 * thread at a time. Everything is made in msi_pipeline_new; a run allocates nothing.
 */
#ifndef MSI_PIPELINE_PIPELINE_H
#define MSI_PIPELINE_PIPELINE_H

#include "pipeline/pairs.h"
#include "pipeline/schedule/schedule.h"

#include <muster/pipeline.h>

/* Before the first run; how each ended stands in the store, see blame.h. */
enum { MSI_PIPELINE_MEETINGS = 3 };

/* A buffer for messages, and what is under way in it. */
struct msi_buffer {
    void *memory;
    mst_work *work;                  /* NULL: none */
    const struct msi_action *action; /* the message */
};

/* What a stage passes on; all ranks know their own, and after msi_pipeline_hear that of the stage before. */
struct msi_passes {
    mst_shape out, prompt, ids;
};

struct mst_pipeline {
    mst_pipeline_options options;
    struct msi_schedule_spec spec;
    struct msi_stage_list list;
    int stage, rank;    /* its own place, and as a rank of the world */
    int before, behind; /* the neighbours, likewise */
    int timeout_ms;
    mst_group *whole; /* of all stages, for what they tell each other; messages of a ring of one */
    struct msi_pairs pairs;
    struct msi_passes own, previous;
    struct msi_buffer *slots[MSI_CHANNELS][2]; /* by direction: MSI_IN_SLOT, MSI_OUT_SLOT */
    int meetings;                              /* that went well, of MSI_PIPELINE_MEETINGS */
    bool failed, running;
    mst_run_options run; /* of the run that is going on */
    mst_pipeline_times times;
    mst_pipeline *handle; /* what the program has of it */
};

/* All ranks of the group call it. */
mst_status msi_pipeline_new(mst_group *stages, const mst_pipeline_options *options, mst_pipeline **pipeline);
void msi_pipeline_free(mst_pipeline *pipeline);
/*
 * Meets the neighbours, before messages that have no limit of their own: in the making, and again in a run after the backends of the
 * groups were exchanged.
 */
mst_status msi_pipeline_join(const mst_pipeline *pipeline, const struct msi_wait *wait);
mst_status msi_pipeline_run(mst_pipeline *pipeline);
/* It failed: all others end with it. Fails as the first of them did. */
mst_status msi_pipeline_end(mst_pipeline *pipeline, mst_status status);

/* All stages find out whether they mean the same, and fail if they do not. own: how it stands with this one. See meet.c. */
mst_status msi_pipeline_meet(mst_pipeline *pipeline, const struct msi_wait *wait, mst_status own);
/* Takes back what it said there, where nobody may have come to hear it. */
void msi_pipeline_unsay(mst_pipeline *pipeline, const struct msi_wait *wait);
/* Then each learns what the one before passes on … */
mst_status msi_pipeline_hear(mst_pipeline *pipeline, const struct msi_wait *wait);
/* … and all come here, with how that went and what it led to, and again with how they met their neighbours. Fails for all or none. */
mst_status msi_pipeline_agree(mst_pipeline *pipeline, const struct msi_wait *wait, mst_status own);

/* Elements of it. */
size_t msi_shape_count(const mst_shape *shape);
size_t msi_shape_bytes(const mst_shape *shape);
/* Does it make sense? what: how messages call it. */
mst_status msi_shape_check(const mst_shape *shape, const char *what);

/* The shape of a message: what passes on the channel to this stage (in) or from it, for a prompt or not. */
const mst_shape *msi_pipeline_shape(const mst_pipeline *pipeline, int channel, bool in, bool prompt);

#endif
