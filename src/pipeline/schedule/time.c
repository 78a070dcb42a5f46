/*
 * time.c - simulates a schedule. Each stage's clock moves from action to action; a stage that waits is tried
 * again later. The order in which stages are tried does not change the result, because every wait is for one
 * particular message. See time.h.
 */
#include "pipeline/schedule/time.h"

#include "base/error.h"
#include "pipeline/schedule/text.h"

#include <math.h>
#include <stdlib.h>

struct simulation {
    const struct msi_schedule *schedule;
    const struct msi_costs *costs;
    enum msi_send_mode mode;
    const struct msi_message_matches *matches;
    struct msi_timing *timing;
    uint32_t *at;  /* by stage: the next action */
    double *clock; /* by stage */
};

static double later(double a, double b) {
    return a > b ? a : b;
}

/* Has a stage done an action? */
static bool past(const struct simulation *p, int stage, uint32_t action) {
    return p->at[stage] > action;
}

/* Arrival time of a message, after which its sender may reuse the buffer; NAN: not known yet. */
static double arrival(const struct simulation *p, int stage, uint32_t message) {
    const struct msi_action *a = &p->schedule->stages[stage].actions[message];
    uint32_t partner = msi_message_partner(p->matches, p->schedule, a);
    if (!past(p, a->peer, partner) || !past(p, stage, message)) return NAN;
    double mine = p->timing->start[stage][message], theirs = p->timing->start[a->peer][partner];
    double sent = a->kind == MSI_ACT_SEND ? mine : theirs;
    if (p->mode == MSI_SENDS_BUFFER) return sent + p->costs->message;
    return later(mine, theirs) + p->costs->message;
}

static double cost_of(const struct simulation *p, int stage, const struct msi_action *a) {
    size_t part = (size_t)a->chunk * (size_t)p->schedule->spec.stages + (size_t)stage;
    if (a->kind == MSI_ACT_TAKE) return 0;
    if (a->kind == MSI_ACT_BACKWARD) return p->costs->backward ? p->costs->backward[part] : 1;
    double cost = p->costs->forward ? p->costs->forward[part] : 1;
    bool prompt = p->schedule->spec.kind == MSI_STREAM && a->token == 0 && p->costs->prompt > 0;
    return prompt ? cost * p->costs->prompt : cost;
}

/* End of a blocking send; NAN: other stages must advance first. */
static double blocking_send(const struct simulation *p, int stage, const struct msi_action *a) {
    uint32_t partner = msi_message_partner(p->matches, p->schedule, a);
    if (!past(p, a->peer, partner)) return NAN;
    return later(p->clock[stage], p->timing->start[a->peer][partner]) + p->costs->message;
}

/* Begin of a compute; NAN: other stages must advance first. */
static double beginning(const struct simulation *p, int stage, const struct msi_action *a) {
    double when = p->clock[stage];
    if (a->input != MSI_NO_ACTION) {
        double there = arrival(p, stage, a->input);
        if (isnan(there)) return NAN;
        when = later(when, there);
    }
    if (a->reuses != MSI_NO_ACTION && p->mode == MSI_SENDS_START) {
        double done = arrival(p, stage, a->reuses);
        if (isnan(done)) return NAN;
        when = later(when, done);
    }
    return when;
}

/* Does the stage's next action, if it is possible. */
static bool advance(struct simulation *p, int stage) {
    uint32_t i = p->at[stage];
    const struct msi_action *a = &p->schedule->stages[stage].actions[i];
    double *start = &p->timing->start[stage][i], *end = &p->timing->end[stage][i];
    if (a->kind == MSI_ACT_SEND && p->mode == MSI_SENDS_BLOCK) {
        double done = blocking_send(p, stage, a);
        if (isnan(done)) return false;
        *start = p->clock[stage];
        *end = p->clock[stage] = done;
    } else if (a->kind == MSI_ACT_SEND || a->kind == MSI_ACT_RECEIVE) {
        *start = *end = p->clock[stage];
    } else {
        double begin = beginning(p, stage, a), cost = cost_of(p, stage, a);
        if (isnan(begin)) return false;
        *start = begin;
        *end = p->clock[stage] = begin + cost;
        p->timing->busy += cost;
    }
    p->at[stage]++;
    return true;
}

static mst_status fail_stuck(const struct simulation *p, int stage) {
    static const char *const modes[] = {"block", "only start", "are buffered"};
    return msi_schedule_fault(p->schedule, stage, p->at[stage], "waits forever if sends %s", modes[p->mode]);
}

static mst_status simulate(struct simulation *p) {
    int stages = p->schedule->spec.stages;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int s = 0; s < stages; s++)
            while (p->at[s] < p->schedule->stages[s].n && advance(p, s)) moved = true;
    }
    for (int s = 0; s < stages; s++) {
        if (p->at[s] < p->schedule->stages[s].n) return fail_stuck(p, s);
        p->timing->makespan = later(p->timing->makespan, p->clock[s]);
    }
    double all = p->timing->makespan * stages;
    p->timing->bubble = all > 0 ? 1 - p->timing->busy / all : 0;
    return MST_OK;
}

/* One block: pointers to each stage's times, then the times. */
static bool get_times(const struct msi_schedule *schedule, struct msi_timing *timing) {
    size_t stages = (size_t)schedule->spec.stages, n = 0;
    for (size_t s = 0; s < stages; s++) n += schedule->stages[s].n;
    msi_timing_free(timing);
    double **pointers = malloc(2 * stages * (sizeof *pointers) + 2 * n * sizeof(double));
    if (!pointers) return false;
    double *times = (double *)(pointers + 2 * stages);
    for (size_t s = 0; s < stages; s++) {
        pointers[s] = times;
        pointers[stages + s] = times + n;
        times += schedule->stages[s].n;
    }
    timing->start = pointers;
    timing->end = pointers + stages;
    return true;
}

mst_status msi_schedule_simulate(const struct msi_schedule *schedule,
                                 const struct msi_message_matches *matches, enum msi_send_mode mode,
                                 const struct msi_costs *costs, struct msi_timing *timing) {
    static const struct msi_costs one = {0};
    struct simulation p = {schedule, costs ? costs : &one, mode, matches, timing, NULL, NULL};
    p.at = calloc((size_t)schedule->spec.stages, sizeof *p.at);
    p.clock = calloc((size_t)schedule->spec.stages, sizeof *p.clock);
    mst_status st = p.at && p.clock && get_times(schedule, timing) ? simulate(&p) : msi_fail_memory();
    free(p.at);
    free(p.clock);
    return st;
}

mst_status msi_schedule_time(const struct msi_schedule *schedule, enum msi_send_mode mode,
                             const struct msi_costs *costs, struct msi_timing *timing) {
    struct msi_message_matches matches;
    mst_status st = msi_match_messages(schedule, &matches);
    if (st != MST_OK) return st;
    st = msi_schedule_simulate(schedule, &matches, mode, costs, timing);
    msi_message_matches_free(&matches);
    return st;
}

void msi_timing_free(struct msi_timing *timing) {
    free(timing->start);
    *timing = (struct msi_timing){0};
}
