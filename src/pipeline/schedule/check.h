/*
 * check.h - verifies a schedule. Pure. It checks every value before its use, so the schedule may hold
 * arbitrary bytes of the right lengths.
 *
 * msi_schedule_check verifies, in this order:
 *   - Every micro-batch (of each batch, each token) passes every part once forward and, in training, once
 *     backward after that. Micro-batches and tokens are in ascending order. The ids of last tokens are taken
 *     once.
 *   - Each compute reads the message that was received for it and writes the one that is sent after it, from
 *     and to the right stages. No buffer is overwritten while it is in use. The number of keeps stays within
 *     the schedule's keeps and msi_schedule_keeps_bound.
 *   - The k-th send and the k-th receive of a channel are about the same micro-batch, from a part to its
 *     neighbour, and their numbers are equal.
 *   - No stage waits forever, in any send mode (time.h).
 * Each failure is MST_ERR_INVALID; mst_error names the stage, the action and the fault.
 */
#ifndef MSI_PIPELINE_SCHEDULE_CHECK_H
#define MSI_PIPELINE_SCHEDULE_CHECK_H

#include "pipeline/schedule/schedule.h"

mst_status msi_schedule_check(const struct msi_schedule *schedule);

#endif
