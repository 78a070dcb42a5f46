/* planners.c - the table of all algorithms. */
#include "coll/algorithms/planners.h"

#include <string.h>

static const char *needs_hosts(const struct msi_request *request) {
    return request->hosts.n > 1 && request->hosts.of ? NULL : "needs several hosts";
}

static const char *needs_power_of_two(const struct msi_request *request) {
    return request->size & (request->size - 1) ? "needs a power of two of ranks" : NULL;
}

static const char *needs_equal_blocks(const struct msi_request *request) {
    return request->to || request->from ? "needs blocks of one size" : NULL;
}

#define ROW(kind, name, ordered, function, refuses)                                                          \
    { name, msi_plan_##function, msi_estimate_##function, refuses, MSI_KIND_##kind, ordered }

const struct msi_planner msi_planners[] = {
    ROW(ALL_REDUCE, "ring", false, ring_all_reduce, NULL),
    ROW(ALL_REDUCE, "halving", false, halving_all_reduce, NULL),
    ROW(ALL_REDUCE, "doubling", false, doubling_all_reduce, NULL),
    ROW(ALL_REDUCE, "direct", true, direct_all_reduce, NULL),
    ROW(ALL_REDUCE, "oneshot", true, oneshot_all_reduce, NULL),
    ROW(ALL_REDUCE, "hierarchical", false, hierarchical_all_reduce, needs_hosts),
    ROW(REDUCE, "tree", false, tree_reduce, NULL),
    ROW(REDUCE, "wide_tree", false, wide_tree_reduce, NULL),
    ROW(REDUCE, "ring", false, ring_reduce, NULL),
    ROW(REDUCE, "direct", true, direct_reduce, NULL),
    ROW(REDUCE, "oneshot", true, oneshot_reduce, NULL),
    ROW(REDUCE, "hierarchical", false, hierarchical_reduce, needs_hosts),
    ROW(REDUCE_SCATTER, "ring", false, ring_reduce_scatter, NULL),
    ROW(REDUCE_SCATTER, "halving", false, halving_reduce_scatter, needs_power_of_two),
    ROW(REDUCE_SCATTER, "direct", true, direct_reduce_scatter, NULL),
    ROW(REDUCE_SCATTER, "hierarchical", false, hierarchical_reduce_scatter, needs_hosts),
    ROW(BROADCAST, "tree", false, tree_broadcast, NULL),
    ROW(BROADCAST, "wide_tree", false, wide_tree_broadcast, NULL),
    ROW(BROADCAST, "ring", false, ring_broadcast, NULL),
    ROW(BROADCAST, "direct", false, direct_broadcast, NULL),
    ROW(BROADCAST, "hierarchical", false, hierarchical_broadcast, needs_hosts),
    ROW(ALL_GATHER, "ring", false, ring_all_gather, NULL),
    ROW(ALL_GATHER, "doubling", false, doubling_all_gather, NULL),
    ROW(ALL_GATHER, "bruck", false, bruck_all_gather, NULL),
    ROW(ALL_GATHER, "direct", false, direct_all_gather, NULL),
    ROW(ALL_GATHER, "hierarchical", false, hierarchical_all_gather, needs_hosts),
    ROW(GATHER, "tree", false, tree_gather, NULL),
    ROW(GATHER, "direct", false, direct_gather, NULL),
    ROW(SCATTER, "tree", false, tree_scatter, NULL),
    ROW(SCATTER, "direct", false, direct_scatter, NULL),
    ROW(ALL_TO_ALL, "pairwise", false, pairwise, NULL),
    ROW(ALL_TO_ALL, "bruck", false, bruck_all_to_all, needs_equal_blocks),
    ROW(ALL_TO_ALL, "direct", false, direct_all_to_all, NULL),
    ROW(BARRIER, "dissemination", false, dissemination, NULL),
    ROW(BARRIER, "hierarchical", false, hierarchical_barrier, needs_hosts),
};
const size_t msi_planner_count = sizeof msi_planners / sizeof *msi_planners;

const struct msi_planner *msi_planner_find(enum msi_kind kind, const char *name) {
    for (size_t i = 0; i < msi_planner_count; i++)
        if (msi_planners[i].kind == kind && !strcmp(msi_planners[i].name, name)) return &msi_planners[i];
    return NULL;
}

bool msi_planner_any(enum msi_kind kind) {
    for (size_t i = 0; i < msi_planner_count; i++)
        if (msi_planners[i].kind == kind) return true;
    return false;
}

const char *msi_planner_unsupported_reason(const struct msi_planner *planner,
                                           const struct msi_request *request) {
    return planner->refuses ? planner->refuses(request) : NULL;
}
