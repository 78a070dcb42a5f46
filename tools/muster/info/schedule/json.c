/* json.c - prints a schedule with all its actions as one JSON object. */
#include "info/info.h"
#include "info/schedule/schedule.h"

/* Without spaces, unlike msi_stage_channel_name. */
static const char *const channels[MSI_CHANNELS] = {"activations", "gradients", "tokens"};

static void add_index(struct msi_json_out *out, const char *name, uint32_t index) {
    if (index != MSI_NO_ACTION) msi_json_member_int(out, name, index);
}

static void add_action(struct msi_json_out *out, const struct schedule_view *view, int stage, uint32_t i) {
    const struct msi_schedule_spec *spec = &view->schedule.spec;
    const struct msi_action *a = &view->schedule.stages[stage].actions[i];
    msi_json_put_object(out);
    msi_json_member_string(out, "kind", msi_action_name(a->kind));
    msi_json_member_int(out, "micro", a->micro);
    if (spec->chunks > 1) msi_json_member_int(out, "chunk", a->chunk);
    if (spec->kind == MSI_STREAM) {
        msi_json_member_int(out, "batch", a->batch);
        msi_json_member_int(out, "token", a->token);
    }
    if (a->kind == MSI_ACT_SEND || a->kind == MSI_ACT_RECEIVE) {
        msi_json_member_string(out, "channel", channels[a->channel]);
        msi_json_member_int(out, "peer", a->peer);
        msi_json_member_int(out, "number", a->number);
        msi_json_member_int(out, "slot", a->slot);
    } else if (a->kind != MSI_ACT_TAKE) {
        msi_json_member_int(out, "keep", a->keep);
    }
    add_index(out, "input", a->input);
    add_index(out, "output", a->output);
    add_index(out, "reuses", a->reuses);
    msi_json_member_double(out, "start", view->timing.start[stage][i], 0);
    msi_json_member_double(out, "end", view->timing.end[stage][i], 0);
    msi_json_put_object_end(out);
}

static void add_stage(struct msi_json_out *out, const struct schedule_view *view, int stage) {
    const struct msi_stage_list *list = &view->schedule.stages[stage];
    msi_json_put_object(out);
    msi_json_member_int(out, "keeps", list->keeps);
    msi_json_member_object(out, "slots");
    for (int c = 0; c < MSI_CHANNELS; c++) {
        msi_json_member_array(out, channels[c]);
        for (int i = 0; i < 2; i++) msi_json_put_int(out, list->slots[c][i]);
        msi_json_put_array_end(out);
    }
    msi_json_put_object_end(out);
    msi_json_member_array(out, "actions");
    for (uint32_t i = 0; i < list->n; i++) add_action(out, view, stage, i);
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

int schedule_print_json(const struct schedule_view *view) {
    const struct msi_schedule_spec *s = &view->schedule.spec;
    struct msi_buf text = {0};
    struct msi_json_out out = msi_json_to(&text);
    msi_json_put_object(&out);
    msi_json_member_string(&out, "schedule", msi_schedule_name(s->kind));
    msi_json_member_int(&out, "microbatches", s->micros);
    msi_json_member_int(&out, "chunks", s->chunks);
    msi_json_member_int(&out, "batches", s->batches);
    msi_json_member_int(&out, "tokens", s->tokens);
    msi_json_member_int(&out, "inner", s->inner);
    msi_json_member_int(&out, "backward", view->backward);
    msi_json_member_double(&out, "makespan", view->timing.makespan, 0);
    msi_json_member_double(&out, "bubble", view->timing.bubble, 15);
    msi_json_member_array(&out, "stages");
    for (int k = 0; k < s->stages; k++) add_stage(&out, view, k);
    msi_json_put_array_end(&out);
    msi_json_put_object_end(&out);
    return info_print_json(&text);
}
