/* planners.c - look-up in the table of algorithms, and what some of them do not support. */
#include "coll/algorithms/planners.h"

static const char *needs_hosts(const struct msi_request *request) {
    return request->hosts.n > 1 && request->hosts.of ? NULL : "needs several hosts";
}

static const char *needs_quantize(const struct msi_request *request) {
    return request->quantize ? needs_hosts(request) : "needs .quantize";
}

static const char *needs_power_of_two(const struct msi_request *request) {
    return request->size & (request->size - 1) ? "needs a power of two of ranks" : NULL;
}

static const char *needs_equal_blocks(const struct msi_request *request) {
    return request->to || request->from ? "needs blocks of one size" : NULL;
}

/* The root of two would send and receive as much as with "oneshot", and more besides. */
static const char *needs_three_ranks(const struct msi_request *request) {
    return request->size > 2 ? NULL : "needs three ranks";
}

#define ROW(kind, name, suffix, ordered, radix, unsupported)                                                 \
    {name, msi_plan_##suffix, msi_estimate_##suffix, unsupported, MSI_KIND_##kind, ordered, radix},
const struct msi_planner msi_planners[] = {MSI_PLANNER_TABLE(ROW)};
const size_t msi_planner_count = sizeof msi_planners / sizeof *msi_planners;

const struct msi_planner *msi_planner_find(enum msi_kind kind, struct msi_str name) {
    for (size_t i = 0; i < msi_planner_count; i++)
        if (msi_planners[i].kind == kind && msi_str_equal(name, msi_cstr(msi_planners[i].name)))
            return &msi_planners[i];
    return NULL;
}

bool msi_planner_any(enum msi_kind kind) {
    for (size_t i = 0; i < msi_planner_count; i++)
        if (msi_planners[i].kind == kind) return true;
    return false;
}

const char *msi_planner_unsupported_reason(const struct msi_planner *planner,
                                           const struct msi_request *request) {
    if (request->quantize && planner->unsupported_reason != needs_quantize) return "does not quantise";
    return planner->unsupported_reason ? planner->unsupported_reason(request) : NULL;
}

void msi_planner_estimate(const struct msi_planner *planner, const struct msi_request *request,
                          struct msi_formula *formula) {
    struct msi_request with_radix = *request;
    if (request->radix < 2) with_radix.radix = planner->radix;
    *formula = (struct msi_formula){0};
    planner->estimate(&with_radix, formula);
}
