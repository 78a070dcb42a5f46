/* insert_messages.h - puts the messages between what a stage computes, and finds buffers for them. Pure but for memory. */
#ifndef MSI_PIPELINE_SCHEDULE_INSERT_MESSAGES_H
#define MSI_PIPELINE_SCHEDULE_INSERT_MESSAGES_H

#include "pipeline/schedule/schedule.h"

enum { MSI_NO_CHANNEL = -1 };

/* What a turn of a stage (FORWARD, BACKWARD, TAKE) reads, and what it writes; NO_CHANNEL: nothing from or to elsewhere. */
int msi_turn_reads(const struct msi_schedule_spec *spec, int stage, const struct msi_action *turn);
int msi_turn_writes(const struct msi_schedule_spec *spec, int stage, const struct msi_action *turn);

/* Who receives what a stage sends on a channel, and who sends what it receives; -1: nobody. */
int msi_stage_channel_to(const struct msi_schedule_spec *spec, int channel, int stage);
int msi_stage_channel_from(const struct msi_schedule_spec *spec, int channel, int stage);

/* The whole list of n turns that msi_order made; frees what list had. MST_ERR_MEMORY leaves it alone. */
mst_status msi_insert_messages(const struct msi_schedule_spec *spec, int stage,
                               const struct msi_action *turns, size_t n, struct msi_stage_list *list);

#endif
