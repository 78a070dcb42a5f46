/* choose.c - see choose.h. */
#include "coll/choose.h"

#include <string.h>

/* Shared memory of a present-day server, and 25 Gbit/s between servers. */
const struct msi_model msi_model_default = {
    .local = {.latency = 1e-6, .message = 2e-7, .byte = 1 / 8e9},
    .remote = {.latency = 15e-6, .message = 1e-6, .byte = 1 / 3e9},
    .combine = 1 / 10e9,
    .copy = 1 / 12e9,
    .chunk = 128 * 1024,
    .cores = 0,
};

/* A plan's length is bounded: larger messages are cut into larger pieces. */
enum { MOST_MESSAGES = 8192 };

static double seconds(const struct msi_question *question, const struct msi_request *request,
                      const struct msi_formula *f) {
    const struct msi_model *m = question->model;
    double raw = (double)question->raw_size, acc = (double)question->acc_size;
    bool remote = request->hosts.n > 1;
    double crowd = m->cores > 0 ? (double)request->hosts.largest / m->cores : 1;
    double per_message = remote ? m->remote.message : m->local.message;
    double per_fill = remote ? m->remote.byte : m->local.byte;
    double here = (f->rounds - f->remote_rounds) * m->local.latency + f->messages * per_message +
                  (f->raw * raw + f->acc * acc) * m->local.byte + f->combined * acc * m->combine +
                  f->copied * acc * m->copy;
    double between = f->remote_rounds * m->remote.latency +
                     (f->host_raw * raw + f->host_acc * acc) * m->remote.byte + f->fill * raw * per_fill;
    return here * (crowd > 1 ? crowd : 1) + between;
}

void msi_price(const struct msi_question *question, const struct msi_request *request,
               const struct msi_planner *planner, struct msi_candidate *candidate) {
    struct msi_request cut = *request;
    size_t chunk = question->raw_size ? question->model->chunk / question->raw_size : 0;
    memset(candidate, 0, sizeof *candidate);
    candidate->planner = planner;
    candidate->refuses = msi_planner_refuses(planner, request);
    if (question->deterministic && msi_coll_reduces(request->kind) && !planner->rank_ordered)
        candidate->refuses = "does not add up in rank order";
    if (request->size < 2) candidate->refuses = NULL;
    if (candidate->refuses || request->size < 2) return;
    cut.chunk = question->model->chunk && chunk == 0 ? 1 : chunk;
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
    candidate->seconds = seconds(question, request, &candidate->formula);
}

static void take(const struct msi_candidate *candidate, const char *why, struct msi_choice *choice) {
    *choice = (struct msi_choice){candidate->planner, candidate->chunk, candidate->seconds, why};
}

void msi_choose(const struct msi_question *question, const struct msi_request *request,
                struct msi_choice *choice) {
    struct msi_candidate candidate;
    const struct msi_planner *asked = question->algo ? question->algo->of[request->kind] : NULL;
    const char *why = question->deterministic && msi_coll_reduces(request->kind)
                          ? "cheapest of those that add up in rank order"
                          : "cheapest";
    if (asked) {
        msi_price(question, request, asked, &candidate);
        if (!candidate.refuses) {
            take(&candidate, "asked for", choice);
            return;
        }
        why = "cheapest; what was asked for cannot do this";
    }
    choice->planner = NULL;
    for (size_t i = 0; i < msi_planner_count; i++) {
        if (msi_planners[i].kind != request->kind) continue;
        msi_price(question, request, &msi_planners[i], &candidate);
        if (candidate.refuses) continue;
        if (!choice->planner || candidate.seconds < choice->seconds) take(&candidate, why, choice);
    }
}
