/* text.h - actions of a schedule and their faults as text. */
#ifndef MSI_PIPELINE_SCHEDULE_TEXT_H
#define MSI_PIPELINE_SCHEDULE_TEXT_H

#include "pipeline/schedule/schedule.h"

/* "forward", "token ids". */
const char *msi_action_name(int kind);
const char *msi_stage_channel_name(int channel);

/* "stage 2, action 7 (forward of micro-batch 3): …" */
mst_status msi_schedule_fault(const struct msi_schedule *schedule, int stage, uint32_t action,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* "receive activations 3 of micro-batch 3 from stage 1 into buffer 0" */
const char *msi_action_text(const struct msi_schedule_spec *spec, const struct msi_action *action, char *text,
                            size_t size);

#endif
