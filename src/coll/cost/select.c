/* select.c - see select.h. */
#include "coll/cost/select.h"
#include "base/hash.h"

#include <string.h>

/* Bounds the length of a plan: larger messages are cut into larger pieces. */
enum { MOST_MESSAGES = 8192 };

void msi_cost_amounts(const struct msi_cost_input *input, const struct msi_request *request,
                      const struct msi_formula *f, double amounts[MSI_COST_TERMS]) {
    double raw = (double)input->raw_size, acc = (double)input->acc_size;
    bool remote = request->hosts.n > 1;
    memset(amounts, 0, MSI_COST_TERMS * sizeof *amounts);
    amounts[MSI_COST_LOCAL_LATENCY] = f->rounds - f->remote_rounds;
    amounts[MSI_COST_LOCAL_BYTE] = f->raw * raw + f->acc * acc;
    amounts[MSI_COST_REMOTE_LATENCY] = f->remote_rounds;
    amounts[MSI_COST_REMOTE_BYTE] = f->host_raw * raw + f->host_acc * acc;
    amounts[MSI_COST_LOCAL_MESSAGE] = f->messages - f->remote_messages;
    amounts[MSI_COST_REMOTE_MESSAGE] = f->remote_messages;
    amounts[remote ? MSI_COST_REMOTE_BYTE : MSI_COST_LOCAL_BYTE] += f->fill * raw;
    amounts[MSI_COST_COMBINE] = f->combined * acc;
    amounts[MSI_COST_COPY] = f->copied * acc;
}

static double seconds(const struct msi_cost_input *input, const struct msi_request *request,
                      const struct msi_formula *formula) {
    double amounts[MSI_COST_TERMS], sum = 0;
    msi_cost_amounts(input, request, formula, amounts);
    for (int i = 0; i < MSI_COST_TERMS; i++) sum += amounts[i] * input->tuning->model.costs[i];
    return sum;
}

void msi_estimate(const struct msi_cost_input *input, const struct msi_request *request,
                  const struct msi_planner *planner, struct msi_candidate *candidate) {
    struct msi_request cut = *request;
    size_t chunk = input->raw_size ? input->tuning->model.chunk / input->raw_size : 0;
    memset(candidate, 0, sizeof *candidate);
    candidate->planner = planner;
    candidate->unsupported = msi_planner_unsupported_reason(planner, request);
    if (input->deterministic && msi_coll_reduces(request->kind) && !planner->rank_ordered)
        candidate->unsupported = "does not reduce in rank order";
    if (request->size < 2) candidate->unsupported = NULL;
    if (candidate->unsupported || request->size < 2) return;
    cut.chunk = input->tuning->model.chunk && chunk == 0 ? 1 : chunk;
    msi_planner_estimate(planner, &cut, &candidate->formula);
    while (candidate->formula.messages > MOST_MESSAGES && cut.chunk && cut.chunk < SIZE_MAX / 2) {
        struct msi_formula again;
        cut.chunk *= 2;
        msi_planner_estimate(planner, &cut, &again);
        bool helps = again.messages < candidate->formula.messages;
        candidate->formula = again;
        if (!helps && cut.chunk > request->count) break;
    }
    candidate->chunk = cut.chunk;
    candidate->seconds = seconds(input, request, &candidate->formula);
}

static void set_selection(const struct msi_candidate *candidate, const char *why,
                          struct msi_selection *selection) {
    *selection = (struct msi_selection){candidate->planner, candidate->chunk, candidate->seconds, why};
}

void msi_select(const struct msi_cost_input *input, const struct msi_request *request,
                struct msi_selection *selection) {
    struct msi_candidate candidate;
    const struct msi_planner *requested = input->tuning->algo.of[request->kind];
    const char *why = input->deterministic && msi_coll_reduces(request->kind)
                          ? "fastest estimate of those that reduce in rank order"
                          : "fastest estimate";
    if (requested) {
        msi_estimate(input, request, requested, &candidate);
        if (!candidate.unsupported) {
            set_selection(&candidate, "requested", selection);
            return;
        }
        why = "fastest estimate; the requested algorithm does not support this";
    }
    selection->planner = NULL;
    for (size_t i = 0; i < msi_planner_count; i++) {
        if (msi_planners[i].kind != request->kind) continue;
        msi_estimate(input, request, &msi_planners[i], &candidate);
        if (candidate.unsupported) continue;
        if (!selection->planner || candidate.seconds < selection->seconds)
            set_selection(&candidate, why, selection);
    }
}

uint64_t msi_tuning_hash(const struct msi_tuning *tuning) {
    static const uint64_t key[2] = {5, 6};
    uint64_t words[MSI_KIND_COUNT + 1];
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++) {
        const struct msi_planner *requested = tuning->algo.of[kind];
        words[kind] = requested ? (uint64_t)(requested - msi_planners) + 1 : 0;
    }
    words[MSI_KIND_COUNT] = msi_model_hash(&tuning->model);
    return msi_hash(words, sizeof words, key);
}
