/*
 * tune.h - shared by the parts of "muster tune".
 *
 *   tune.c     parses the command line and starts ranks
 *   measure.c  measures every algorithm at every size, on all ranks together
 *   fit.c      fits the cost model to the measurements, on rank 0
 *   report.c   prints the results, on rank 0
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
    int size;     /* index in tune_sizes */
    size_t count; /* elements, as in a request */
    double amounts[MSI_COST_TERMS];
    double samples[TUNE_ROUNDS_MOST];
    double seconds; /* median of the samples */
};

struct tune_options {
    const char *output;
    bool all;
    long hosts, ranks, rounds;
    double budget; /* seconds of one measurement */
};

struct tune {
    struct tune_options o;
    mst_group *world;
    struct msi_hosts hosts; /* of its ranks; borrowed */
    void *in, *out;
    struct tune_point points[TUNE_POINTS_MOST];
    int n;
    /* Of the busiest machine: the load before the measurements and the ranks, per processor. */
    double load, crowd;
};

/* Measures all points; collective. Restores the tuning of the world afterwards. */
mst_status tune_measure(struct tune *tune, const struct msi_model *model);

/*
 * Fits the prices so that the selected algorithms take the least time. kept marks those that the measurements
 * do not determine and that have their defaults. Returns the number of the others.
 */
int tune_fit(const struct tune *tune, struct msi_model *model, bool kept[MSI_COST_TERMS]);

/* How much longer the longest sample of a point is than the shortest, as a share; the median of all. */
double tune_spread(const struct tune *tune);

/* The time that the model predicts, in seconds. */
double tune_estimate(const struct tune_point *point, const struct msi_model *model);

/* The measured time of the algorithm that the model selects, divided by that of the best one. */
double tune_regret(const struct tune *tune, const struct msi_model *model, enum msi_kind kind, int size,
                   const struct tune_point **selected, const struct tune_point **best);
/* The geometric mean of the regret over all operations and sizes. */
double tune_mean_regret(const struct tune *tune, const struct msi_model *model);

/* Prints to stderr. */
void tune_report(const struct tune *tune, const struct msi_model *before, const struct msi_model *after);

/*
 * Reasons why the results are not reliable, as sentences; the next one of each call, NULL after the last. *at
 * is 0 at first.
 */
enum { TUNE_TEXT = 240 };
const char *tune_doubt(const struct tune *tune, int *at, char text[TUNE_TEXT]);

#endif
