/*
 * blame.h - who ended a pipeline, as all its ranks say it. Each has links to its neighbours alone, and would blame these for what
 * happened further away. So the first to fail leaves its words in the store, and the others repeat them.
 *
 * Keys, under those of the pipeline's own group: gave_up.N, the first failure after N meetings; waits/R, the rank that rank R has waited
 * for longer than a second or half of what it may.
 */
#ifndef MSI_PIPELINE_BLAME_H
#define MSI_PIPELINE_BLAME_H

#include "pipeline/pipeline.h"

/* This stage has failed with status, and the thread's words for it: tells the others, unless one was before; fails as the first did. */
mst_status msi_blame_first(mst_pipeline *p, mst_status status);
/* Fails as one did that has given up; MST_OK: none has. */
mst_status msi_blame_heard(mst_pipeline *p);
/* This stage has waited for a neighbour for some time; -1: it has come. */
void msi_blame_wait(mst_pipeline *p, int neighbour);
/* The stage that keeps this one waiting for a neighbour, both by global rank: the neighbour, or one that keeps that waiting too. */
int msi_blame_late(mst_pipeline *p, int neighbour);

#endif
