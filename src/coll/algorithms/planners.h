/*
 * planners.h - the algorithms: for each a planner, and a formula that prices it without making the plan.
 *
 * A formula speaks of the whole collective with equal shares. An element counts once for each rank that it leaves or
 * reaches; the busiest rank is the one that sends or receives most. Tests hold every formula to the plans.
 */
#ifndef MSI_COLL_ALGORITHMS_PLANNERS_H
#define MSI_COLL_ALGORITHMS_PLANNERS_H

#include "coll/plan.h"

struct msi_formula {
    double
        rounds; /* messages, one behind the other, on the longest way through the plan, if nothing is cut */
    double remote_rounds;      /* those of them that leave a host */
    double messages;           /* sent, or received, by the busiest rank */
    double remote_messages;    /* those of them that leave a host, or reach it */
    double raw, acc;           /* elements that the busiest rank sends or receives, by type */
    double host_raw, host_acc; /* elements that leave, or reach, the busiest host; 0 on one host */
    double combined;           /* elements that the busiest rank combines with others */
    double copied;             /* elements that it copies, scales or rounds */
    double fill;               /* elements that pass before a pipeline of several hops is full */
};

struct msi_planner {
    const char *name; /* "ring" */
    void (*plan)(struct msi_plan *plan);
    void (*price)(const struct msi_request *request, struct msi_formula *formula);
    /* Why it cannot do this request, as "needs …"; NULL if it can. Where the function is NULL, it always can. */
    const char *(*refuses)(const struct msi_request *request);
    enum msi_kind kind;
    bool
        rank_ordered; /* combines as ((r0 op r1) op r2) …: the bits of the result depend on the inputs alone */
};

extern const struct msi_planner msi_planners[];
extern const size_t msi_planner_count;

/* NULL where there is none of that name. */
const struct msi_planner *msi_planner_find(enum msi_kind kind, const char *name);
/* Is there any for this kind? */
bool msi_planner_any(enum msi_kind kind);
/* Why not; NULL if it can. */
const char *msi_planner_unsupported_reason(const struct msi_planner *planner,
                                           const struct msi_request *request);

/* Messages that a block makes. */
static inline double msi_pieces(const struct msi_request *request, double block) {
    if (block <= 0) return 0;
    double chunk = (double)request->chunk;
    return chunk <= 0 || block <= chunk ? 1 : (double)(size_t)((block + chunk - 1) / chunk);
}

/* Each file's own, for the table in planners.c. */
#define MSI_PLANNER(name)                                                                                    \
    void msi_plan_##name(struct msi_plan *plan);                                                             \
    void msi_estimate_##name(const struct msi_request *request, struct msi_formula *formula)

MSI_PLANNER(ring_all_reduce);
MSI_PLANNER(ring_reduce);
MSI_PLANNER(ring_reduce_scatter);
MSI_PLANNER(ring_broadcast);
MSI_PLANNER(ring_all_gather);
MSI_PLANNER(doubling_all_reduce);
MSI_PLANNER(halving_all_reduce);
MSI_PLANNER(halving_reduce_scatter);
MSI_PLANNER(doubling_all_gather);
MSI_PLANNER(dissemination);
MSI_PLANNER(tree_broadcast);
MSI_PLANNER(tree_reduce);
MSI_PLANNER(tree_gather);
MSI_PLANNER(tree_scatter);
MSI_PLANNER(wide_tree_broadcast);
MSI_PLANNER(wide_tree_reduce);
MSI_PLANNER(pairwise);
MSI_PLANNER(bruck_all_gather);
MSI_PLANNER(bruck_all_to_all);
MSI_PLANNER(direct_all_reduce);
MSI_PLANNER(direct_reduce);
MSI_PLANNER(direct_reduce_scatter);
MSI_PLANNER(direct_broadcast);
MSI_PLANNER(direct_all_gather);
MSI_PLANNER(direct_gather);
MSI_PLANNER(direct_scatter);
MSI_PLANNER(direct_all_to_all);
MSI_PLANNER(oneshot_all_reduce);
MSI_PLANNER(oneshot_reduce);
MSI_PLANNER(hierarchical_all_reduce);
MSI_PLANNER(hierarchical_reduce_scatter);
MSI_PLANNER(hierarchical_all_gather);
MSI_PLANNER(hierarchical_broadcast);
MSI_PLANNER(hierarchical_reduce);
MSI_PLANNER(hierarchical_barrier);
#undef MSI_PLANNER

#endif
