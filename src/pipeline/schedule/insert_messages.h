/* insert_messages.h - inserts messages between the steps of a stage and assigns buffers. */
#ifndef MSI_PIPELINE_SCHEDULE_INSERT_MESSAGES_H
#define MSI_PIPELINE_SCHEDULE_INSERT_MESSAGES_H

#include "pipeline/schedule/schedule.h"

enum { MSI_NO_CHANNEL = -1 };

/* The channel that a step (FORWARD, BACKWARD, TAKE) reads and the one it writes; MSI_NO_CHANNEL: none. */
int msi_step_reads(const struct msi_schedule_spec *spec, int stage, const struct msi_action *step);
int msi_step_writes(const struct msi_schedule_spec *spec, int stage, const struct msi_action *step);

/* The stage that receives a stage's messages of a channel, and the one that sends them; -1: none. */
int msi_stage_channel_to(const struct msi_schedule_spec *spec, int channel, int stage);
int msi_stage_channel_from(const struct msi_schedule_spec *spec, int channel, int stage);

/* Makes the list from the n ordered steps and frees the old list. MST_ERR_MEMORY: list is unchanged. */
mst_status msi_insert_messages(const struct msi_schedule_spec *spec, int stage,
                               const struct msi_action *steps, size_t n, struct msi_stage_list *list);

#endif
