/*
 * blame.h - who ended a pipeline, as all its ranks say it. Each has links to its neighbours alone, and would blame these for what
 * happened further away. So the first to fail leaves its words in the store, and the others repeat them.
 *
 * Keys, under those of the pipeline's own group: gave_up.N, how it ended after N meetings, "ok" or the first failure; waits/R, the rank
 * that rank R has waited for longer than a second or half of what it may.
 */
#ifndef MSI_PIPELINE_BLAME_H
#define MSI_PIPELINE_BLAME_H

#include "pipeline/pipeline.h"

/*
 * How a meeting or a run ends is what the first says of it. status: how it stands with this stage, with the thread's words where it
 * failed; becomes how it ends. False: the store could not be asked, so others may think otherwise.
 */
bool msi_blame_settle(mst_pipeline *p, mst_status *status);
/* This stage has waited for a neighbour for some time; -1: it has come. */
void msi_blame_wait(mst_pipeline *p, int neighbour);
/* The stage that keeps this one waiting for a neighbour, both by global rank: the neighbour, or one that keeps that waiting too. */
int msi_blame_late(mst_pipeline *p, int neighbour);
/* Takes what this stage wrote for others out of the store; the ends go with the group. */
void msi_blame_forget(mst_pipeline *p);

#endif
