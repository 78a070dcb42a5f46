/*
 * tune.h - what the parts of "muster tune" share.
 *
 *   tune.c          the command line, and the ranks of a single machine
 *   measure.c  what each rank does: every algorithm at every size, in turn
 *   fit.c      the prices that choose best
 *   report.c   what was found, for people
 *
 * The ranks measure together, rank 0 reckons and writes.
 */
#ifndef MUSTER_TOOL_TUNE_TUNE_H
#define MUSTER_TOOL_TUNE_TUNE_H

#include "coll/cost/select.h"

#include <muster/muster.h>

enum { TUNE_SIZES = 5, TUNE_ROUNDS_MOST = 15, TUNE_POINTS_MOST = 256 };
extern const size_t tune_sizes[TUNE_SIZES]; /* bytes of the whole buffer */

/* One algorithm at one size. */
struct tune_point {
    const struct msi_planner *planner;
    int size;     /* in tune_sizes */
    size_t count; /* elements, as a request has them */
    double amounts[MSI_COST_TERMS];
    double samples[TUNE_ROUNDS_MOST];
    double seconds; /* the middle one of the samples */
};

struct tune {
    mst_group *world;
    int rank, size;
    struct msi_hosts hosts;
    double budget; /* seconds of one measurement */
    int rounds;
    void *in, *out;
    struct tune_point points[TUNE_POINTS_MOST];
    int n;
};

/* Fills the table, on all ranks; leaves the world's tuning as it was. */
mst_status tune_measure(struct tune *tune, const struct msi_model *model);

/* Sets the prices such that what they choose takes least time; what nothing was measured about stays. */
void tune_fit(const struct tune *tune, struct msi_model *model);

/* What the model says that it takes. */
double tune_price(const struct tune_point *point, const struct msi_model *model);

/* What the algorithm that a model chooses took, over what the best took; *chosen is the point. */
double tune_regret(const struct tune *tune, const struct msi_model *model, enum msi_kind kind, int size,
                   const struct tune_point **chosen, const struct tune_point **best);
/* The geometric mean of that over all operations and sizes. */
double tune_mean_regret(const struct tune *tune, const struct msi_model *model);

void tune_report(const struct tune *tune, const struct msi_model *before, const struct msi_model *after,
                 bool all);

#endif
