/* plan.c - makes a plan: calls the planner, then turns the dependency edges into a list per step. */
#include "coll/plan.h"

#include "base/error.h"
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

#include <stdlib.h>
#include <string.h>

const char *msi_coll_name(enum msi_kind kind) {
    const char *call = msi_kind_name(kind), *prefix = "mst_";
    return strncmp(call, prefix, strlen(prefix)) ? call : call + strlen(prefix);
}

bool msi_coll_reduces(enum msi_kind kind) {
    return kind == MSI_KIND_ALL_REDUCE || kind == MSI_KIND_REDUCE || kind == MSI_KIND_REDUCE_SCATTER ||
           kind == MSI_KIND_SCAN || kind == MSI_KIND_EXSCAN;
}

/* Writes where blocks of the given sizes begin, and where the last block ends. */
static void prefix_sum(size_t *starts, const size_t *sizes, size_t each, int n) {
    starts[0] = 0;
    for (int i = 0; i < n; i++) starts[i + 1] = starts[i] + (sizes ? sizes[i] : each);
}

static bool prepare(struct msi_plan *plan) {
    const struct msi_request *request = &plan->request;
    size_t n = (size_t)request->size;
    if (!msi_grow(&plan->starts, &plan->starts_cap, 2 * (n + 1), sizeof *plan->starts, &plan->failed))
        return false;
    if (!msi_grow(&plan->last, &plan->last_cap, 2 * n, sizeof *plan->last, &plan->failed)) return false;
    for (size_t i = 0; i < 2 * n; i++) plan->last[i] = MSI_NO_STEP;
    if (request->kind == MSI_KIND_ALL_TO_ALL) {
        prefix_sum(plan->starts, request->to, request->count, request->size);
        prefix_sum(plan->starts + n + 1, request->from, request->count, request->size);
    } else {
        prefix_sum(plan->starts, request->counts, request->count, request->size);
        for (size_t i = 0; request->counts && request->unit && i <= n; i++) plan->starts[i] /= request->unit;
    }
    return true;
}

struct msi_span msi_plan_shares(const struct msi_plan *plan, int first, int end) {
    const struct msi_request *request = &plan->request;
    switch (request->kind) {
    case MSI_KIND_ALL_REDUCE:
    case MSI_KIND_REDUCE:
    case MSI_KIND_BROADCAST:
        return msi_parts(request->count, request->size, first, end);
    default:
        return (struct msi_span){plan->starts[first], plan->starts[end] - plan->starts[first]};
    }
}

struct msi_span msi_plan_share(const struct msi_plan *plan, int rank) {
    return msi_plan_shares(plan, rank, rank + 1);
}

struct msi_span msi_plan_from(const struct msi_plan *plan, int rank) {
    const size_t *starts = plan->starts + plan->request.size + 1;
    return (struct msi_span){starts[rank], starts[rank + 1] - starts[rank]};
}

/* One rank: copies its input; reductions still scale and round. */
static void plan_alone(struct msi_plan *plan) {
    const struct msi_request *request = &plan->request;
    struct msi_ref in = msi_ref(MSI_IN, 0), out = msi_ref(MSI_OUT, 0);
    if (request->kind == MSI_KIND_BARRIER || request->kind == MSI_KIND_EXSCAN) return;
    if (msi_coll_reduces(request->kind)) {
        msi_emit_reduce_local(plan, out, &in, 1, msi_plan_share(plan, 0).count);
        return;
    }
    msi_emit(plan, MSI_COPY, out, in, msi_plan_share(plan, 0).count);
}

/* Counting sort of the edges by their first step. */
static void link_steps(struct msi_plan *plan) {
    if (!msi_grow(&plan->after, &plan->after_cap, plan->n_edges, sizeof *plan->after, &plan->failed)) return;
    for (uint32_t i = 0; i < plan->n_edges; i++) plan->steps[plan->edges[i].from].n_after++;
    uint32_t at = 0;
    for (uint32_t i = 0; i < plan->n; i++) {
        plan->steps[i].after = at;
        at += plan->steps[i].n_after;
        plan->steps[i].n_after = 0;
    }
    for (uint32_t i = 0; i < plan->n_edges; i++) {
        struct msi_step *from = &plan->steps[plan->edges[i].from];
        plan->after[from->after + from->n_after++] = plan->edges[i].to;
    }
}

mst_status msi_plan_make(struct msi_plan *plan, const struct msi_planner *planner,
                         const struct msi_request *request) {
    plan->request = *request;
    if (plan->request.radix < 2) plan->request.radix = planner->radix;
    plan->algorithm = planner->name;
    plan->n = plan->n_edges = plan->n_sources = 0;
    plan->failed = false;
    memset(plan->scratch, 0, sizeof plan->scratch);
    msi_hazards_reset(&plan->hazards);
    if (prepare(plan)) {
        if (request->size == 1)
            plan_alone(plan);
        else
            planner->plan(plan);
        if (!plan->failed && !plan->hazards.failed) link_steps(plan);
    }
    plan->request.counts = plan->request.to = plan->request.from = NULL;
    plan->request.hosts.of = NULL;
    if (!plan->failed && !plan->hazards.failed) return MST_OK;
    plan->n = 0;
    return msi_fail_memory();
}

void msi_plan_free(struct msi_plan *plan) {
    msi_hazards_free(&plan->hazards);
    free(plan->steps);
    free(plan->after);
    free(plan->sources);
    free(plan->edges);
    free(plan->last);
    free(plan->starts);
    free(plan->reduce_local);
    free(plan->ranks);
    memset(plan, 0, sizeof *plan);
}
