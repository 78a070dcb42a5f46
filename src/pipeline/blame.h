/*
 * blame.h - finds the rank that caused the failure of a pipeline. A rank is connected only to its neighbours
 * and would blame them for failures of other stages. So the first rank that fails writes its failure into the
 * store, and the others report the same.
 *
 * Keys, under those of the pipeline's group: gave_up.N, the result after N agreements, "ok" or the first
 * failure; waits/R, the rank that rank R has waited for longer than a second or half of its timeout.
 */
#ifndef MSI_PIPELINE_BLAME_H
#define MSI_PIPELINE_BLAME_H

#include "pipeline/pipeline.h"

/*
 * The first rank decides the result of an agreement or a run. status: this stage's result, with the thread's
 * last failure; becomes the common result. False: the store is not available, so the results of other ranks
 * may differ.
 */
bool msi_blame_settle(mst_pipeline *p, mst_status *status);
/* Publishes that this stage has waited for a neighbour for some time; -1: no longer. */
void msi_blame_wait(mst_pipeline *p, int neighbour);
/* The global rank that causes the wait for a neighbour: the end of the chain of waits. */
int msi_blame_late(mst_pipeline *p, int neighbour);
/* Deletes this stage's keys from the store; the group deletes gave_up.N. */
void msi_blame_forget(mst_pipeline *p);

#endif
