/*
 * choose.h - which algorithm: prices all that can do a request by their formulas, and takes the cheapest.
 *
 * Pure: the model comes from the caller (measured, or msi_model_default), and all ranks must come with the same one, so
 * that they choose alike. Prices are good for comparing, not for promising.
 */
#ifndef MSI_COLL_CHOOSE_H
#define MSI_COLL_CHOOSE_H

#include "coll/planners.h"

/* Messages between two ranks, in seconds. */
struct msi_price_class {
    double latency; /* from posting to arrival, of an empty one */
    double message; /* work for each, at either side */
    double byte;    /* local: each byte that a rank moves; remote: each that leaves a host */
};

struct msi_model {
    struct msi_price_class local, remote;
    double combine; /* a byte, op another */
    double copy;    /* a byte */
    size_t chunk;   /* bytes of a piece; 0: nothing is cut */
    int cores;      /* of a host; with more ranks than that, all local work takes longer */
};

extern const struct msi_model msi_model_default;

/* Algorithms that somebody asked for: of each kind one, or NULL. */
struct msi_algo {
    const struct msi_planner *of[MSI_KIND_COUNT];
};

/*
 * Reads "all_reduce:ring,broadcast:tree"; spaces are allowed around names, and the last word on an operation counts.
 * MST_ERR_CONFIG names what is unknown and lists what is known. NULL and "" ask for nothing.
 */
mst_status msi_algo_parse(const char *text, struct msi_algo *algo);

/* What a request is about, besides itself. */
struct msi_question {
    const struct msi_model *model;
    const struct msi_algo *algo; /* or NULL */
    size_t raw_size, acc_size;   /* bytes of an element */
    bool deterministic;          /* reductions: in rank order only */
};

struct msi_candidate {
    const struct msi_planner *planner;
    const char *refuses; /* why it is out of the question; NULL if it is not */
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
void msi_price(const struct msi_question *question, const struct msi_request *request,
               const struct msi_planner *planner, struct msi_candidate *candidate);

/* There is always an answer: what was asked for gives way where it cannot be done, and why says so. */
void msi_choose(const struct msi_question *question, const struct msi_request *request,
                struct msi_choice *choice);

#endif
