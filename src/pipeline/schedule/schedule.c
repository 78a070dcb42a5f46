/* schedule.c - makes the list of one stage or of all. See schedule.h. */
#include "pipeline/schedule/schedule.h"

#include "base/error.h"
#include "pipeline/schedule/insert_messages.h"
#include "pipeline/schedule/order.h"

#include <stdlib.h>

void msi_schedule_stage_free(struct msi_stage_list *list) {
    free(list->actions);
    *list = (struct msi_stage_list){0};
}

mst_status msi_schedule_stage(const struct msi_schedule_spec *spec, int stage, struct msi_stage_list *list) {
    size_t n = msi_order_length(spec, stage);
    struct msi_action *steps = malloc(n * sizeof *steps);
    if (!steps) return msi_fail_memory();
    msi_order(spec, stage, steps);
    mst_status st = msi_insert_messages(spec, stage, steps, n, list);
    free(steps);
    return st;
}

void msi_schedule_free(struct msi_schedule *schedule) {
    for (int s = 0; schedule->stages && s < schedule->spec.stages; s++)
        msi_schedule_stage_free(&schedule->stages[s]);
    free(schedule->stages);
    *schedule = (struct msi_schedule){0};
}

mst_status msi_schedule_make(const struct msi_schedule_spec *spec, struct msi_schedule *schedule) {
    struct msi_schedule made = {.spec = *spec};
    mst_status st = msi_schedule_settle(&made.spec);
    if (st != MST_OK) return st;
    made.stages = calloc((size_t)made.spec.stages, sizeof *made.stages);
    if (!made.stages) return msi_fail_memory();
    for (int s = 0; s < made.spec.stages && st == MST_OK; s++)
        st = msi_schedule_stage(&made.spec, s, &made.stages[s]);
    if (st != MST_OK) {
        msi_schedule_free(&made);
        return st;
    }
    msi_schedule_free(schedule);
    *schedule = made;
    return MST_OK;
}
