/* order.h - what a stage computes, in order; messages come later (insert_messages.h). Pure. */
#ifndef MSI_PIPELINE_SCHEDULE_ORDER_H
#define MSI_PIPELINE_SCHEDULE_ORDER_H

#include "pipeline/schedule/schedule.h"

/* How many computes and TAKEs a stage of a settled spec has. */
size_t msi_order_length(const struct msi_schedule_spec *spec, int stage);

/* Fills in kind, chunk, batch, token and micro of so many actions. */
void msi_order(const struct msi_schedule_spec *spec, int stage, struct msi_action *turns);

#endif
