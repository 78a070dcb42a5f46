/*
 * planners.h - the table of algorithms. Each has a planner, which emits the plan, and an estimate, which
 * computes the plan's cost formula without making the plan.
 *
 * A formula describes the whole collective for equal shares. An element counts once for each rank that sends
 * or receives it. The busiest rank is the one that sends or receives most. The tests compare every formula
 * with the plans.
 */
#ifndef MSI_COLL_ALGORITHMS_PLANNERS_H
#define MSI_COLL_ALGORITHMS_PLANNERS_H

#include "base/str.h"
#include "coll/plan.h"

struct msi_formula {
    double rounds;             /* dependent messages on the critical path of the uncut plan */
    double remote_rounds;      /* of these, between hosts */
    double messages;           /* sent, or received, by the busiest rank */
    double remote_messages;    /* of these, between hosts */
    double raw, acc;           /* elements that the busiest rank sends or receives, by type */
    double host_raw, host_acc; /* elements that leave, or reach, the busiest host; 0 on one host */
    double combined;           /* elements that the busiest rank reduces */
    double copied;             /* elements that it copies, scales or rounds */
    double fill;               /* elements that pass before a pipeline of several hops is full */
};

struct msi_planner {
    const char *name; /* "ring" */
    void (*plan)(struct msi_plan *plan);
    void (*estimate)(const struct msi_request *request, struct msi_formula *formula);
    /*
     * Returns "needs …" if it does not support the request, NULL if it does. NULL: it supports every request.
     */
    const char *(*unsupported_reason)(const struct msi_request *request);
    enum msi_kind kind;
    bool rank_ordered; /* reduces as ((r0 op r1) op r2) …: the result depends on the inputs alone */
    int radix;         /* used if the request names none; 0 for algorithms without trees */
};

extern const struct msi_planner msi_planners[];
extern const size_t msi_planner_count;

/* Returns NULL if the kind has no algorithm of that name. */
const struct msi_planner *msi_planner_find(enum msi_kind kind, struct msi_str name);
/* Does the kind have any algorithm? */
bool msi_planner_any(enum msi_kind kind);
/* Returns why the planner does not support the request, or NULL. */
const char *msi_planner_unsupported_reason(const struct msi_planner *planner,
                                           const struct msi_request *request);
/* Overwrites *formula. The planner must support the request. */
void msi_planner_estimate(const struct msi_planner *planner, const struct msi_request *request,
                          struct msi_formula *formula);

/* The number of messages that a block is cut into. */
static inline double msi_pieces(const struct msi_request *request, double block) {
    if (block <= 0) return 0;
    double chunk = (double)request->chunk;
    return chunk <= 0 || block <= chunk ? 1 : (double)(size_t)((block + chunk - 1) / chunk);
}

/* X(kind, name, suffix of msi_plan_ and msi_estimate_, rank_ordered, radix, unsupported_reason) */
#define MSI_PLANNER_TABLE(X)                                                                                 \
    X(ALL_REDUCE, "ring", ring_all_reduce, false, 0, NULL)                                                   \
    X(ALL_REDUCE, "halving", halving_all_reduce, false, 0, NULL)                                             \
    X(ALL_REDUCE, "doubling", doubling_all_reduce, false, 0, NULL)                                           \
    X(ALL_REDUCE, "direct", direct_all_reduce, true, 0, NULL)                                                \
    X(ALL_REDUCE, "oneshot", oneshot_all_reduce, true, 0, NULL)                                              \
    X(ALL_REDUCE, "hierarchical", hierarchical_all_reduce, false, 0, needs_hosts)                            \
    X(ALL_REDUCE, "quantized", quantized_all_reduce, false, 0, needs_quantize)                               \
    X(REDUCE, "tree", tree_reduce, false, 2, NULL)                                                           \
    X(REDUCE, "wide_tree", tree_reduce, false, 4, NULL)                                                      \
    X(REDUCE, "ring", ring_reduce, false, 0, NULL)                                                           \
    X(REDUCE, "direct", direct_reduce, true, 0, needs_three_ranks)                                           \
    X(REDUCE, "oneshot", oneshot_reduce, true, 0, NULL)                                                      \
    X(REDUCE, "hierarchical", hierarchical_reduce, false, 0, needs_hosts)                                    \
    X(REDUCE_SCATTER, "ring", ring_reduce_scatter, false, 0, NULL)                                           \
    X(REDUCE_SCATTER, "halving", halving_reduce_scatter, false, 0, needs_power_of_two)                       \
    X(REDUCE_SCATTER, "direct", direct_reduce_scatter, true, 0, NULL)                                        \
    X(REDUCE_SCATTER, "hierarchical", hierarchical_reduce_scatter, false, 0, needs_hosts)                    \
    X(BROADCAST, "tree", tree_broadcast, false, 2, NULL)                                                     \
    X(BROADCAST, "wide_tree", tree_broadcast, false, 4, NULL)                                                \
    X(BROADCAST, "ring", ring_broadcast, false, 0, NULL)                                                     \
    X(BROADCAST, "direct", direct_broadcast, false, 0, NULL)                                                 \
    X(BROADCAST, "hierarchical", hierarchical_broadcast, false, 0, needs_hosts)                              \
    X(ALL_GATHER, "ring", ring_all_gather, false, 0, NULL)                                                   \
    X(ALL_GATHER, "doubling", doubling_all_gather, false, 0, NULL)                                           \
    X(ALL_GATHER, "bruck", bruck_all_gather, false, 0, NULL)                                                 \
    X(ALL_GATHER, "direct", direct_all_gather, false, 0, NULL)                                               \
    X(ALL_GATHER, "hierarchical", hierarchical_all_gather, false, 0, needs_hosts)                            \
    X(GATHER, "tree", tree_gather, false, 2, NULL)                                                           \
    X(GATHER, "direct", direct_gather, false, 0, NULL)                                                       \
    X(SCATTER, "tree", tree_scatter, false, 2, NULL)                                                         \
    X(SCATTER, "direct", direct_scatter, false, 0, NULL)                                                     \
    X(ALL_TO_ALL, "pairwise", pairwise, false, 0, NULL)                                                      \
    X(ALL_TO_ALL, "bruck", bruck_all_to_all, false, 0, needs_equal_blocks)                                   \
    X(ALL_TO_ALL, "direct", direct_all_to_all, false, 0, NULL)                                               \
    X(SCAN, "linear", linear_scan, true, 0, NULL)                                                            \
    X(SCAN, "doubling", doubling_scan, false, 0, NULL)                                                       \
    X(EXSCAN, "linear", linear_exscan, true, 0, NULL)                                                        \
    X(EXSCAN, "doubling", doubling_exscan, false, 0, NULL)                                                   \
    X(BARRIER, "dissemination", dissemination, false, 0, NULL)                                               \
    X(BARRIER, "hierarchical", hierarchical_barrier, false, 0, needs_hosts)

#define MSI_PLANNER_DECLARE(kind, name, suffix, rank_ordered, radix, unsupported)                            \
    void msi_plan_##suffix(struct msi_plan *plan);                                                           \
    void msi_estimate_##suffix(const struct msi_request *request, struct msi_formula *formula);
MSI_PLANNER_TABLE(MSI_PLANNER_DECLARE)
#undef MSI_PLANNER_DECLARE

#endif
