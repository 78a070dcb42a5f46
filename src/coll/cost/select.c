/* select.c - see select.h. */
#include "coll/cost/select.h"
#include "base/hash.h"

#include <string.h>

/* A plan's length is bounded: larger messages are cut into larger pieces. */
enum { MOST_MESSAGES = 8192 };

void msi_amounts(const struct msi_cost_input *input, const struct msi_request *request,
                 const struct msi_formula *f, double amounts[MSI_PRICES]) {
    double raw = (double)input->raw_size, acc = (double)input->acc_size;
    bool remote = request->hosts.n > 1;
    memset(amounts, 0, MSI_PRICES * sizeof *amounts);
    amounts[MSI_PRICE_LOCAL_LATENCY] = f->rounds - f->remote_rounds;
    amounts[MSI_PRICE_LOCAL_BYTE] = f->raw * raw + f->acc * acc;
    amounts[MSI_PRICE_REMOTE_LATENCY] = f->remote_rounds;
    amounts[MSI_PRICE_REMOTE_BYTE] = f->host_raw * raw + f->host_acc * acc;
    amounts[MSI_PRICE_LOCAL_MESSAGE] = f->messages - f->remote_messages;
    amounts[MSI_PRICE_REMOTE_MESSAGE] = f->remote_messages;
    amounts[remote ? MSI_PRICE_REMOTE_BYTE : MSI_PRICE_LOCAL_BYTE] += f->fill * raw;
    amounts[MSI_PRICE_COMBINE] = f->combined * acc;
    amounts[MSI_PRICE_COPY] = f->copied * acc;
}

static double seconds(const struct msi_cost_input *input, const struct msi_request *request,
                      const struct msi_formula *formula) {
    double amounts[MSI_PRICES], sum = 0;
    msi_amounts(input, request, formula, amounts);
    for (int i = 0; i < MSI_PRICES; i++) sum += amounts[i] * input->tuning->model.prices[i];
    return sum;
}

void msi_price(const struct msi_cost_input *input, const struct msi_request *request,
               const struct msi_planner *planner, struct msi_candidate *candidate) {
    struct msi_request cut = *request;
    size_t chunk = input->raw_size ? input->tuning->model.chunk / input->raw_size : 0;
    memset(candidate, 0, sizeof *candidate);
    candidate->planner = planner;
    candidate->refuses = msi_planner_unsupported_reason(planner, request);
    if (input->deterministic && msi_coll_reduces(request->kind) && !planner->rank_ordered)
        candidate->refuses = "does not add up in rank order";
    if (request->size < 2) candidate->refuses = NULL;
    if (candidate->refuses || request->size < 2) return;
    cut.chunk = input->tuning->model.chunk && chunk == 0 ? 1 : chunk;
    planner->price(&cut, &candidate->formula);
    while (candidate->formula.messages > MOST_MESSAGES && cut.chunk && cut.chunk < SIZE_MAX / 2) {
        struct msi_formula again = {0};
        cut.chunk *= 2;
        planner->price(&cut, &again);
        bool helps = again.messages < candidate->formula.messages;
        candidate->formula = again;
        if (!helps && cut.chunk > request->count) break;
    }
    candidate->chunk = cut.chunk;
    candidate->seconds = seconds(input, request, &candidate->formula);
}

static void take(const struct msi_candidate *candidate, const char *why, struct msi_choice *choice) {
    *choice = (struct msi_choice){candidate->planner, candidate->chunk, candidate->seconds, why};
}

void msi_select(const struct msi_cost_input *input, const struct msi_request *request,
                struct msi_choice *choice) {
    struct msi_candidate candidate;
    const struct msi_planner *asked = input->tuning->algo.of[request->kind];
    const char *why = input->deterministic && msi_coll_reduces(request->kind)
                          ? "cheapest of those that add up in rank order"
                          : "cheapest";
    if (asked) {
        msi_price(input, request, asked, &candidate);
        if (!candidate.refuses) {
            take(&candidate, "asked for", choice);
            return;
        }
        why = "cheapest; what was asked for cannot do this";
    }
    choice->planner = NULL;
    for (size_t i = 0; i < msi_planner_count; i++) {
        if (msi_planners[i].kind != request->kind) continue;
        msi_price(input, request, &msi_planners[i], &candidate);
        if (candidate.refuses) continue;
        if (!choice->planner || candidate.seconds < choice->seconds) take(&candidate, why, choice);
    }
}

uint64_t msi_tuning_hash(const struct msi_tuning *tuning) {
    static const uint64_t key[2] = {5, 6};
    uint64_t words[MSI_KIND_COUNT + 1];
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++) {
        const struct msi_planner *asked = tuning->algo.of[kind];
        words[kind] = asked ? (uint64_t)(asked - msi_planners) + 1 : 0;
    }
    words[MSI_KIND_COUNT] = msi_model_hash(&tuning->model);
    return msi_hash(words, sizeof words, key);
}
