/*
 * check.h - proves a schedule. Pure: nothing runs, whatever the schedule says is checked before it is used, so that it may be any
 * bytes of the right lengths.
 *
 * msi_schedule_check finds, in this order, that
 *   - every micro-batch (of each batch, each token) passes every part once forward and, in training, once backward after
 *     it, micro-batches in ascending order, tokens one after the other; ids of last tokens are taken once;
 *   - each compute reads the message that was received for it and writes the one that is sent after it, from and to the
 *     right stages; no buffer is written while it is still needed; no more is kept than the schedule's keeps and
 *     msi_schedule_keeps_bound;
 *   - the k-th send of a channel and the k-th receive are of the same micro-batch, from a part to its neighbour, and
 *     there are as many of one as of the other;
 *   - no stage waits for ever, whatever sends do (time.h).
 * Each failure is MST_ERR_INVALID; mst_error names the stage, the action and what is wrong with it.
 */
#ifndef MSI_PIPELINE_SCHEDULE_CHECK_H
#define MSI_PIPELINE_SCHEDULE_CHECK_H

#include "pipeline/schedule/schedule.h"

mst_status msi_schedule_check(const struct msi_schedule *schedule);

#endif
