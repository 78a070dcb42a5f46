/*
 * partition.h - which layers of a sequential model belong to which part of a pipeline. Pure but for memory. Parts are runs of
 * consecutive layers: part k has the layers from starts[k] up to, without it, starts[k + 1]. With chunks there are
 * stages x chunks parts, and part k is chunk k / stages of stage k % stages (schedule.h).
 */
#ifndef MSI_PIPELINE_SCHEDULE_PARTITION_H
#define MSI_PIPELINE_SCHEDULE_PARTITION_H

#include <muster/status.h>

/* layers / parts each, and one more for the first layers % parts. starts has parts + 1 entries. No part may be left empty. */
mst_status msi_partition_even(int layers, int parts, int *starts);

/* What layers cost, in any unit; none is negative, and all together are finite. */
struct msi_layer_costs {
    const double *layers; /* NULL: 1 each */
    double first;         /* what the first part has besides: the embedding */
    double last;          /* what the last part has besides: norm and head */
};

/*
 * Exact: no other partition has a cheaper largest part, and among those that have the same, none a smaller sum of squares;
 * of what is then left, that whose first parts have more layers. Layers that cost the same are so partitioned evenly.
 * Takes some layers² steps, with costs of which most are 0 parts times as many, and 2 x parts x layers bytes.
 */
mst_status msi_partition_weighted(const struct msi_layer_costs *costs, int layers, int parts, int *starts);

/* The cost of the largest part. */
double msi_partition_largest(const struct msi_layer_costs *costs, int parts, const int *starts);

#endif
