/* text.c - actions and faults as text. See text.h. */
#include "pipeline/schedule/text.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[MSI_ACT_KINDS] = {"receive", "send", "forward", "backward", "take"};
static const char *const channels[MSI_CHANNELS] = {"activations", "gradients", "token ids"};

const char *msi_action_name(int kind) {
    return kinds[kind];
}

const char *msi_stage_channel_name(int channel) {
    return channels[channel];
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static void append_unit(const struct msi_schedule_spec *spec, const struct msi_action *a, char *text,
                        size_t size) {
    if (spec->kind == MSI_STREAM) append(text, size, "batch %d token %d ", a->batch, a->token);
    append(text, size, "micro-batch %d", a->micro);
    if (spec->chunks > 1) append(text, size, " chunk %d", a->chunk);
}

const char *msi_action_text(const struct msi_schedule_spec *spec, const struct msi_action *action, char *text,
                            size_t size) {
    bool sends = action->kind == MSI_ACT_SEND, receives = action->kind == MSI_ACT_RECEIVE;
    snprintf(text, size, "%s ", action->kind < MSI_ACT_KINDS ? kinds[action->kind] : "unknown action");
    if (sends || receives)
        append(text, size, "%s %u of ",
               action->channel < MSI_CHANNELS ? channels[action->channel] : "message", action->number);
    append_unit(spec, action, text, size);
    if (sends) append(text, size, " to stage %d from buffer %d", action->peer, action->slot);
    if (receives) append(text, size, " from stage %d into buffer %d", action->peer, action->slot);
    return text;
}

mst_status msi_schedule_fault(const struct msi_schedule *schedule, int stage, uint32_t action,
                              const char *format, ...) {
    char shown[200] = "after the last", what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (action < schedule->stages[stage].n)
        msi_action_text(&schedule->spec, &schedule->stages[stage].actions[action], shown, sizeof shown);
    return msi_fail(MST_ERR_INVALID, NULL, "%s, stage %d, action %u (%s): %s",
                    msi_schedule_name(schedule->spec.kind), stage, action, shown, what);
}
