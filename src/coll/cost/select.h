/*
 * select.h - which algorithm: prices all that can do a request by their formulas, and takes the cheapest.
 *
 * Pure: the model comes from the caller. Prices are good for comparing, not for promising.
 */
#ifndef MSI_COLL_COST_SELECT_H
#define MSI_COLL_COST_SELECT_H

#include "coll/algorithms/planners.h"
#include "coll/cost/model.h"

/* Algorithms that somebody asked for: of each kind one, or NULL. */
struct msi_algo {
    const struct msi_planner *of[MSI_KIND_COUNT];
};

/*
 * Reads "all_reduce:ring,broadcast:tree"; spaces are allowed around names, and the last word on an operation counts.
 * MST_ERR_CONFIG names what is unknown and lists what is known. NULL and "" ask for nothing.
 */
mst_status msi_algo_parse(const char *text, struct msi_algo *algo);

/* What choices depend on, besides the request: alike on all ranks. */
struct msi_tuning {
    struct msi_algo algo;
    struct msi_model model;
};

/* Different where ranks would choose differently. */
uint64_t msi_tuning_hash(const struct msi_tuning *tuning);

/* What a request is about, besides itself. */
struct msi_cost_input {
    const struct msi_tuning *tuning;
    size_t raw_size, acc_size; /* bytes of an element */
    bool deterministic;        /* reductions: in rank order only */
};

struct msi_candidate {
    const struct msi_planner *planner;
    const char *refuses; /* why it is out of the input; NULL if it is not */
    struct msi_formula formula;
    size_t chunk; /* elements */
    double seconds;
};

struct msi_choice {
    const struct msi_planner *planner;
    size_t chunk; /* to be put into the request */
    double seconds;
    const char *why; /* "cheapest", "asked for", … */
};

/* Prices one planner. The request's own chunk is not looked at. */
void msi_price(const struct msi_cost_input *input, const struct msi_request *request,
               const struct msi_planner *planner, struct msi_candidate *candidate);

/* How much of what has a price the formula asks for. */
void msi_amounts(const struct msi_cost_input *input, const struct msi_request *request,
                 const struct msi_formula *formula, double amounts[MSI_PRICES]);

/* There is always an answer: what was asked for gives way where it cannot be done, and why says so. */
void msi_select(const struct msi_cost_input *input, const struct msi_request *request,
                struct msi_choice *choice);

#endif
