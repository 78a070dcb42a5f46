/* match_messages.c - matches the sends and receives of all stages. See match_messages.h. */
#include "pipeline/schedule/match_messages.h"

#include "base/error.h"
#include "pipeline/schedule/insert_messages.h"
#include "pipeline/schedule/text.h"

#include <stdlib.h>

static bool is_message(const struct msi_action *a) {
    return a->kind == MSI_ACT_SEND || a->kind == MSI_ACT_RECEIVE;
}

static struct msi_messages *messages_of(const struct msi_message_matches *matches,
                                        const struct msi_schedule *schedule, int stage,
                                        const struct msi_action *a) {
    size_t i = (size_t)a->channel * (size_t)schedule->spec.stages + (size_t)stage;
    return a->kind == MSI_ACT_SEND ? &matches->sends[i] : &matches->receives[i];
}

static mst_status check_message(const struct msi_schedule *schedule, int stage, uint32_t i) {
    const struct msi_action *a = &schedule->stages[stage].actions[i];
    if (a->channel >= MSI_CHANNELS)
        return msi_schedule_fault(schedule, stage, i, "the channel does not exist");
    int peer = a->kind == MSI_ACT_SEND ? msi_stage_channel_to(&schedule->spec, a->channel, stage)
                                       : msi_stage_channel_from(&schedule->spec, a->channel, stage);
    if (a->peer != peer || peer < 0)
        return msi_schedule_fault(schedule, stage, i, "the channel does not connect these stages");
    return MST_OK;
}

/* Counts the messages of each stage and channel. */
static mst_status count(const struct msi_schedule *schedule, struct msi_message_matches *matches,
                        size_t *total) {
    for (int s = 0; s < schedule->spec.stages; s++)
        for (uint32_t i = 0; i < schedule->stages[s].n; i++) {
            const struct msi_action *a = &schedule->stages[s].actions[i];
            if (!is_message(a)) continue;
            mst_status st = check_message(schedule, s, i);
            if (st != MST_OK) return st;
            messages_of(matches, schedule, s, a)->n++;
            ++*total;
        }
    return MST_OK;
}

static mst_status fill(const struct msi_schedule *schedule, struct msi_message_matches *matches) {
    for (int s = 0; s < schedule->spec.stages; s++)
        for (uint32_t i = 0; i < schedule->stages[s].n; i++) {
            const struct msi_action *a = &schedule->stages[s].actions[i];
            if (!is_message(a)) continue;
            struct msi_messages *m = messages_of(matches, schedule, s, a);
            if (a->number != m->n)
                return msi_schedule_fault(schedule, s, i, "message %u must come next", m->n);
            m->at[m->n++] = i;
        }
    return MST_OK;
}

static void lay_out(struct msi_messages *messages, size_t n, uint32_t **memory) {
    for (size_t i = 0; i < n; i++) {
        messages[i].at = *memory;
        *memory += messages[i].n;
        messages[i].n = 0;
    }
}

/* Are a send and the receive of the same number about the same message? */
static mst_status compare(const struct msi_schedule *schedule, int from, uint32_t i, int to, uint32_t k) {
    const struct msi_action *s = &schedule->stages[from].actions[i], *r = &schedule->stages[to].actions[k];
    int stages = schedule->spec.stages;
    int ahead = r->chunk * stages + to - s->chunk * stages - from;
    bool neighbours = s->channel == MSI_TOKENS ? r->chunk == 0 && s->chunk == 0
                                               : ahead == (s->channel == MSI_ACTIVATIONS ? 1 : -1);
    if (s->batch == r->batch && s->token == r->token && s->micro == r->micro && neighbours) return MST_OK;
    char text[200];
    return msi_schedule_fault(schedule, from, i, "stage %d matches it with: %s", to,
                              msi_action_text(&schedule->spec, r, text, sizeof text));
}

static mst_status match(const struct msi_schedule *schedule, const struct msi_message_matches *matches) {
    int stages = schedule->spec.stages;
    for (int c = 0; c < MSI_CHANNELS; c++)
        for (int from = 0; from < stages; from++) {
            int to = msi_stage_channel_to(&schedule->spec, c, from);
            if (to < 0) continue;
            const struct msi_messages *s = &matches->sends[c * stages + from],
                                      *r = &matches->receives[c * stages + to];
            for (uint32_t i = 0; i < s->n && i < r->n; i++) {
                mst_status st = compare(schedule, from, s->at[i], to, r->at[i]);
                if (st != MST_OK) return st;
            }
            if (s->n > r->n) return msi_schedule_fault(schedule, from, s->at[r->n], "no stage receives it");
            if (r->n > s->n) return msi_schedule_fault(schedule, to, r->at[s->n], "no stage sends it");
        }
    return MST_OK;
}

mst_status msi_match_messages(const struct msi_schedule *schedule, struct msi_message_matches *matches) {
    size_t n = (size_t)schedule->spec.stages * MSI_CHANNELS, total = 0;
    *matches = (struct msi_message_matches){calloc(n, sizeof *matches->sends),
                                            calloc(n, sizeof *matches->receives), NULL};
    mst_status st = matches->sends && matches->receives ? MST_OK : msi_fail_memory();
    if (st == MST_OK) st = count(schedule, matches, &total);
    if (st == MST_OK && !(matches->memory = malloc((total + 1) * sizeof *matches->memory)))
        st = msi_fail_memory();
    if (st == MST_OK) {
        uint32_t *memory = matches->memory;
        lay_out(matches->sends, n, &memory);
        lay_out(matches->receives, n, &memory);
        st = fill(schedule, matches);
    }
    if (st == MST_OK) st = match(schedule, matches);
    if (st != MST_OK) msi_message_matches_free(matches);
    return st;
}

void msi_message_matches_free(struct msi_message_matches *matches) {
    free(matches->sends);
    free(matches->receives);
    free(matches->memory);
    *matches = (struct msi_message_matches){0};
}

uint32_t msi_message_partner(const struct msi_message_matches *matches, const struct msi_schedule *schedule,
                             const struct msi_action *message) {
    size_t i = (size_t)message->channel * (size_t)schedule->spec.stages + (size_t)message->peer;
    return (message->kind == MSI_ACT_SEND ? matches->receives : matches->sends)[i].at[message->number];
}
