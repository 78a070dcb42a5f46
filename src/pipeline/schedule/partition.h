/*
 * partition.h - assigns the layers of a sequential model to the parts of a pipeline. Pure except for memory.
 * Part k has the layers from starts[k] to starts[k + 1] - 1. With chunks there are stages x chunks parts, and
 * part k is chunk k / stages of stage k % stages (schedule.h).
 */
#ifndef MSI_PIPELINE_SCHEDULE_PARTITION_H
#define MSI_PIPELINE_SCHEDULE_PARTITION_H

#include <muster/status.h>

/* layers / parts each, and one more for the first layers % parts. starts has parts + 1 entries. */
mst_status msi_partition_even(int layers, int parts, int *starts);

/* Costs in any unit: not negative, with a finite sum. */
struct msi_layer_costs {
    const double *layers; /* NULL: 1 each */
    double first;         /* additional cost of the first part: the embedding */
    double last;          /* additional cost of the last part: norm and head */
};

/*
 * Exact: minimizes the largest part, then the sum of squares; of equal results it takes the one whose first
 * parts have more layers. Layers of equal cost are partitioned evenly. Takes about layers² steps (parts x
 * layers² if most costs are 0) and 2 x parts x layers bytes.
 */
mst_status msi_partition_weighted(const struct msi_layer_costs *costs, int layers, int parts, int *starts);

#endif
