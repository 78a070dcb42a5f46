/* json.c - a schedule with all its actions as one JSON object, for other programs. */
#include "info/schedule/schedule.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

/* Without spaces, for programs. */
static const char *const channels[MSI_CHANNELS] = {"activations", "gradients", "tokens"};

static void add_index(cJSON *object, const char *name, uint32_t index) {
    if (index != MSI_NO_ACTION) cJSON_AddNumberToObject(object, name, index);
}

static cJSON *make_action(const struct schedule_view *view, int stage, uint32_t i) {
    const struct msi_schedule_spec *spec = &view->schedule.spec;
    const struct msi_action *a = &view->schedule.stages[stage].actions[i];
    bool message = a->kind == MSI_ACT_SEND || a->kind == MSI_ACT_RECEIVE;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", msi_action_name(a->kind));
    cJSON_AddNumberToObject(object, "micro", a->micro);
    if (spec->chunks > 1) cJSON_AddNumberToObject(object, "chunk", a->chunk);
    if (spec->kind == MSI_STREAM) {
        cJSON_AddNumberToObject(object, "batch", a->batch);
        cJSON_AddNumberToObject(object, "token", a->token);
    }
    if (message) {
        cJSON_AddStringToObject(object, "channel", channels[a->channel]);
        cJSON_AddNumberToObject(object, "peer", a->peer);
        cJSON_AddNumberToObject(object, "number", a->number);
        cJSON_AddNumberToObject(object, "slot", a->slot);
    } else if (a->kind != MSI_ACT_TAKE) {
        cJSON_AddNumberToObject(object, "keep", a->keep);
    }
    add_index(object, "input", a->input);
    add_index(object, "output", a->output);
    add_index(object, "reuses", a->reuses);
    cJSON_AddNumberToObject(object, "start", view->timing.start[stage][i]);
    cJSON_AddNumberToObject(object, "end", view->timing.end[stage][i]);
    return object;
}

static cJSON *make_stage(const struct schedule_view *view, int stage) {
    const struct msi_stage_list *list = &view->schedule.stages[stage];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "keeps", list->keeps);
    cJSON *slots = cJSON_AddObjectToObject(object, "slots");
    for (int c = 0; c < MSI_CHANNELS; c++)
        cJSON_AddItemToObject(slots, channels[c], cJSON_CreateIntArray(list->slots[c], 2));
    cJSON *actions = cJSON_AddArrayToObject(object, "actions");
    for (uint32_t i = 0; i < list->n; i++) cJSON_AddItemToArray(actions, make_action(view, stage, i));
    return object;
}

void schedule_print_json(const struct schedule_view *view) {
    const struct msi_schedule_spec *s = &view->schedule.spec;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schedule", msi_schedule_name(s->kind));
    cJSON_AddNumberToObject(root, "microbatches", s->micros);
    cJSON_AddNumberToObject(root, "chunks", s->chunks);
    cJSON_AddNumberToObject(root, "batches", s->batches);
    cJSON_AddNumberToObject(root, "tokens", s->tokens);
    cJSON_AddNumberToObject(root, "inner", s->inner);
    cJSON_AddNumberToObject(root, "backward", view->backward);
    cJSON_AddNumberToObject(root, "makespan", view->timing.makespan);
    cJSON_AddNumberToObject(root, "bubble", view->timing.bubble);
    cJSON *stages = cJSON_AddArrayToObject(root, "stages");
    for (int k = 0; k < s->stages; k++) cJSON_AddItemToArray(stages, make_stage(view, k));
    char *text = cJSON_PrintUnformatted(root);
    puts(text ? text : "{}");
    free(text);
    cJSON_Delete(root);
}
