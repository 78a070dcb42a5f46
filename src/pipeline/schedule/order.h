/* order.h - the order of a stage's steps, without messages (insert_messages.h). Pure. */
#ifndef MSI_PIPELINE_SCHEDULE_ORDER_H
#define MSI_PIPELINE_SCHEDULE_ORDER_H

#include "pipeline/schedule/schedule.h"

/* The number of computes and TAKEs of a stage. */
size_t msi_order_length(const struct msi_schedule_spec *spec, int stage);

/* Sets kind, chunk, batch, token and micro of msi_order_length actions. */
void msi_order(const struct msi_schedule_spec *spec, int stage, struct msi_action *steps);

#endif
