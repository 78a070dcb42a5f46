/*
 * time.c - plays a schedule through. Each stage's clock moves from action to action; a stage that needs what is not there
 * yet is come back to. Who is looked at first makes no difference, since nobody chooses: all that waits for a message waits
 * for a certain one. See time.h.
 */
#include "pipeline/schedule/time.h"

#include "base/error.h"
#include "pipeline/schedule/text.h"

#include <math.h>
#include <stdlib.h>

struct player {
    const struct msi_schedule *schedule;
    const struct msi_costs *costs;
    enum msi_sending sending;
    const struct msi_message_matches *book;
    struct msi_timing *timing;
    uint32_t *at;  /* of each stage: the next action */
    double *clock; /* of each stage */
};

static double later(double a, double b) {
    return a > b ? a : b;
}

/* Has a stage come past an action? */
static bool past(const struct player *p, int stage, uint32_t action) {
    return p->at[stage] > action;
}

/* When a message of this stage is there, or at least where it has no influence any more on its sender; NAN: not yet known. */
static double arrival(const struct player *p, int stage, uint32_t message) {
    const struct msi_action *a = &p->schedule->stages[stage].actions[message];
    uint32_t partner = msi_message_partner(p->book, p->schedule, a);
    if (!past(p, a->peer, partner) || !past(p, stage, message)) return NAN;
    double mine = p->timing->start[stage][message], theirs = p->timing->start[a->peer][partner];
    double sent = a->kind == MSI_ACT_SEND ? mine : theirs;
    if (p->sending == MSI_SENDS_BUFFER) return sent + p->costs->message;
    return later(mine, theirs) + p->costs->message;
}

static double cost_of(const struct player *p, int stage, const struct msi_action *a) {
    size_t part = (size_t)a->chunk * (size_t)p->schedule->spec.stages + (size_t)stage;
    if (a->kind == MSI_ACT_TAKE) return 0;
    if (a->kind == MSI_ACT_BACKWARD) return p->costs->backward ? p->costs->backward[part] : 1;
    double cost = p->costs->forward ? p->costs->forward[part] : 1;
    bool prompt = p->schedule->spec.kind == MSI_STREAM && a->token == 0 && p->costs->prompt > 0;
    return prompt ? cost * p->costs->prompt : cost;
}

/* When a send that blocks is over; NAN: not before others go on. */
static double blocking_send(const struct player *p, int stage, const struct msi_action *a) {
    uint32_t partner = msi_message_partner(p->book, p->schedule, a);
    if (!past(p, a->peer, partner)) return NAN;
    return later(p->clock[stage], p->timing->start[a->peer][partner]) + p->costs->message;
}

/* When a compute can begin; NAN: not before others go on. */
static double beginning(const struct player *p, int stage, const struct msi_action *a) {
    double when = p->clock[stage];
    if (a->input != MSI_NO_ACTION) {
        double there = arrival(p, stage, a->input);
        if (isnan(there)) return NAN;
        when = later(when, there);
    }
    if (a->reuses != MSI_NO_ACTION && p->sending == MSI_SENDS_START) {
        double over = arrival(p, stage, a->reuses);
        if (isnan(over)) return NAN;
        when = later(when, over);
    }
    return when;
}

/* Does the stage's next action, if it can be done. */
static bool advance(struct player *p, int stage) {
    uint32_t i = p->at[stage];
    const struct msi_action *a = &p->schedule->stages[stage].actions[i];
    double *start = &p->timing->start[stage][i], *end = &p->timing->end[stage][i];
    if (a->kind == MSI_ACT_SEND && p->sending == MSI_SENDS_BLOCK) {
        double over = blocking_send(p, stage, a);
        if (isnan(over)) return false;
        *start = p->clock[stage];
        *end = p->clock[stage] = over;
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

static mst_status stuck(const struct player *p, int stage) {
    static const char *const sendings[] = {"block", "only start", "are buffered"};
    return msi_schedule_fault(p->schedule, stage, p->at[stage], "waits for ever, where sends %s",
                              sendings[p->sending]);
}

static mst_status play(struct player *p) {
    int stages = p->schedule->spec.stages;
    bool moved = true;
    while (moved) {
        moved = false;
        for (int s = 0; s < stages; s++)
            while (p->at[s] < p->schedule->stages[s].n && advance(p, s)) moved = true;
    }
    for (int s = 0; s < stages; s++) {
        if (p->at[s] < p->schedule->stages[s].n) return stuck(p, s);
        p->timing->makespan = later(p->timing->makespan, p->clock[s]);
    }
    double all = p->timing->makespan * stages;
    p->timing->bubble = all > 0 ? 1 - p->timing->busy / all : 0;
    return MST_OK;
}

/* One block: the pointers to each stage's times, then the times. */
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

mst_status msi_schedule_play(const struct msi_schedule *schedule, const struct msi_message_matches *book,
                             enum msi_sending sending, const struct msi_costs *costs,
                             struct msi_timing *timing) {
    static const struct msi_costs one = {0};
    struct player p = {schedule, costs ? costs : &one, sending, book, timing, NULL, NULL};
    p.at = calloc((size_t)schedule->spec.stages, sizeof *p.at);
    p.clock = calloc((size_t)schedule->spec.stages, sizeof *p.clock);
    mst_status st = p.at && p.clock && get_times(schedule, timing) ? play(&p) : msi_fail_memory();
    free(p.at);
    free(p.clock);
    return st;
}

mst_status msi_schedule_time(const struct msi_schedule *schedule, enum msi_sending sending,
                             const struct msi_costs *costs, struct msi_timing *timing) {
    struct msi_message_matches book;
    mst_status st = msi_match_messages(schedule, &book);
    if (st != MST_OK) return st;
    st = msi_schedule_play(schedule, &book, sending, costs, timing);
    msi_message_matches_free(&book);
    return st;
}

void msi_timing_free(struct msi_timing *timing) {
    free(timing->start);
    *timing = (struct msi_timing){0};
}
