/*
 * select.h - selects the algorithm of a request: estimates the time of every algorithm that supports it and
 * takes the fastest. Pure functions; the caller provides the cost model. The estimates serve to compare
 * algorithms, not to predict.
 */
#ifndef MSI_COLL_COST_SELECT_H
#define MSI_COLL_COST_SELECT_H

#include "coll/algorithms/planners.h"
#include "coll/cost/model.h"

/* The algorithm that the user requested for each kind, or NULL. */
struct msi_algo {
    const struct msi_planner *of[MSI_KIND_COUNT];
};

/*
 * Reads "all_reduce:ring,broadcast:tree". Spaces around names are allowed; the last entry of an operation
 * counts. MST_ERR_CONFIG names the unknown name and lists the known ones. NULL and "" request nothing.
 */
mst_status msi_algo_parse(const char *text, struct msi_algo *algo);

/* What the selection depends on besides the request; the same on all ranks. */
struct msi_tuning {
    struct msi_algo algo;
    struct msi_model model;
};

/* Differs between tunings that may select different algorithms. */
uint64_t msi_tuning_hash(const struct msi_tuning *tuning);

/* What an estimate needs besides the request. */
struct msi_cost_input {
    const struct msi_tuning *tuning;
    size_t raw_size, acc_size; /* bytes of an element */
    bool deterministic;        /* select only algorithms that reduce in rank order */
};

struct msi_candidate {
    const struct msi_planner *planner;
    const char *unsupported; /* why it cannot be selected, or NULL */
    struct msi_formula formula;
    size_t chunk; /* elements */
    double seconds;
};

struct msi_selection {
    const struct msi_planner *planner;
    size_t chunk; /* elements; for the request */
    double seconds;
    const char *why; /* "fastest estimate", "requested", … */
};

/* Estimates one planner. Ignores the request's chunk. */
void msi_estimate(const struct msi_cost_input *input, const struct msi_request *request,
                  const struct msi_planner *planner, struct msi_candidate *candidate);

/* Computes the amount of each cost term in a formula. */
void msi_cost_amounts(const struct msi_cost_input *input, const struct msi_request *request,
                      const struct msi_formula *formula, double amounts[MSI_COST_TERMS]);

/* Always selects an algorithm. If the requested one does not support the request, why says so. */
void msi_select(const struct msi_cost_input *input, const struct msi_request *request,
                struct msi_selection *selection);

#endif
