/* schedule.c - makes a schedule as the library does, checks and prints it. Nothing runs. See schedule.h. */
#include "info/schedule/schedule.h"

#include "base/error.h"
#include "base/nearest.h"
#include "cli/output_file.h"
#include "commands.h"

#include <muster/muster.h>
#include <stdlib.h>
#include <string.h>

enum { SVG_UNITS_MOST = 2000, COMPUTES_MOST = 1 << 22 };

static void describe_cell(const struct msi_schedule_spec *spec, const struct msi_action *a,
                          struct schedule_cell *cell) {
    bool stream = spec->kind == MSI_STREAM, prompt = stream && a->token == 0,
         backward = a->kind == MSI_ACT_BACKWARD;
    char letter = prompt ? 'P' : stream ? 'T' : backward ? 'B' : 'F';
    char chunk[2] = {(char)('a' + a->chunk % 26), '\0'};
    cell->colour =
        prompt ? SCHEDULE_PROMPT : (backward ? SCHEDULE_BACKWARD : SCHEDULE_FORWARD) + a->chunk % 2;
    snprintf(cell->text, sizeof cell->text, "%c%d%s", letter, a->batch * spec->micros + a->micro,
             spec->chunks > 1 ? chunk : "");
}

bool schedule_next_cell(const struct schedule_view *view, int stage, uint32_t *at,
                        struct schedule_cell *cell) {
    const struct msi_stage_list *list = &view->schedule.stages[stage];
    for (uint32_t i = *at; i < list->n; i++) {
        const struct msi_action *a = &list->actions[i];
        if (a->kind != MSI_ACT_FORWARD && a->kind != MSI_ACT_BACKWARD) continue;
        cell->start = (long)view->timing.start[stage][i];
        cell->end = (long)view->timing.end[stage][i];
        describe_cell(&view->schedule.spec, a, cell);
        *at = i + 1;
        return true;
    }
    return false;
}

void schedule_add_title(const struct schedule_view *view, struct msi_buf *to) {
    const struct msi_schedule_spec *s = &view->schedule.spec;
    msi_buf_add_format(to, "%s: %d stage%s, ", msi_schedule_name(s->kind), s->stages,
                       s->stages == 1 ? "" : "s");
    if (s->kind == MSI_STREAM)
        msi_buf_add_format(to, "%d batch%s of ", s->batches, s->batches == 1 ? "" : "es");
    msi_buf_add_format(to, "%d micro-batch%s", s->micros, s->micros == 1 ? "" : "es");
    if (s->kind == MSI_STREAM)
        msi_buf_add_format(to, ", %d in turn, %d token%s each", s->inner, s->tokens,
                           s->tokens == 1 ? "" : "s");
    if (s->chunks > 1) msi_buf_add_format(to, ", %d chunks on each", s->chunks);
    if (msi_schedule_trains(s->kind) && view->backward > 1)
        msi_buf_add_format(to, "; a backward takes %d forwards' time", view->backward);
}

void schedule_add_bubble(const struct schedule_view *view, struct msi_buf *to) {
    const struct msi_schedule_spec *s = &view->schedule.spec;
    msi_buf_add_format(to, "bubble %.1f %%", 100 * view->timing.bubble);
    if (s->kind != MSI_STREAM && s->micros >= s->stages && s->stages > 1)
        msi_buf_add_format(to, " = (p-1)/(%sm+p-1) = %d/%d", s->chunks > 1 ? "v·" : "", s->stages - 1,
                           s->chunks * s->micros + s->stages - 1);
}

/* The number of messages that a stage receives or sends on a channel. */
static long count_messages(const struct msi_stage_list *list, int kind, int channel) {
    long n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        n += list->actions[i].kind == kind && list->actions[i].channel == channel;
    return n;
}

static double busy_time(const struct schedule_view *view, int stage) {
    struct schedule_cell cell;
    double busy = 0;
    for (uint32_t at = 0; schedule_next_cell(view, stage, &at, &cell);)
        busy += (double)(cell.end - cell.start);
    return busy;
}

static int count_buffers(const struct msi_stage_list *list) {
    int n = 0;
    for (int c = 0; c < MSI_CHANNELS; c++) n += list->slots[c][MSI_IN_SLOT] + list->slots[c][MSI_OUT_SLOT];
    return n;
}

/* Does the schedule use the channel? */
static bool used_channel(const struct msi_schedule_spec *s, int channel) {
    if (channel == MSI_TOKENS) return s->kind == MSI_STREAM;
    if (channel == MSI_GRADIENTS && !msi_schedule_trains(s->kind)) return false;
    return s->stages > 1 || s->chunks > 1;
}

static void print_stages(const struct schedule_view *view) {
    const struct msi_schedule *s = &view->schedule;
    bool keeps = msi_schedule_trains(s->spec.kind);
    printf("%-7s %6s %12s %8s", "stage", "idle",
           keeps                        ? "kept at most"
           : s->spec.kind == MSI_STREAM ? "sequences"
                                        : "",
           "buffers");
    for (int c = 0; c < MSI_CHANNELS; c++)
        if (used_channel(&s->spec, c)) printf("  %15s", msi_stage_channel_name(c));
    printf("\n");
    for (int k = 0; k < s->spec.stages; k++) {
        const struct msi_stage_list *list = &s->stages[k];
        double makespan = view->timing.makespan, idle = makespan - busy_time(view, k);
        printf("%-7d %4.1f %% ", k, makespan > 0 ? 100 * idle / makespan : 0);
        if (keeps || s->spec.kind == MSI_STREAM)
            printf("%12d", list->keeps);
        else
            printf("%12s", "");
        printf(" %8d", count_buffers(list));
        for (int c = 0; c < MSI_CHANNELS; c++)
            if (used_channel(&s->spec, c))
                printf("  %4ld in %4ld out", count_messages(list, MSI_ACT_RECEIVE, c),
                       count_messages(list, MSI_ACT_SEND, c));
        printf("\n");
    }
}

static void print_summary(const struct schedule_view *view) {
    const struct msi_schedule *s = &view->schedule;
    struct msi_buf bubble = {0};
    size_t actions = 0;
    for (int k = 0; k < s->spec.stages; k++) actions += s->stages[k].n;
    schedule_add_bubble(view, &bubble);
    printf("\ntakes %.0f forwards' time; %s\n", view->timing.makespan, msi_buf_text(&bubble));
    msi_buf_free(&bubble);
    printf("checked: %zu actions; every micro-batch passes every stage in order, and no stage deadlocks\n\n",
           actions);
    print_stages(view);
}

static void print_list(const struct schedule_view *view, int stage) {
    const struct msi_stage_list *list = &view->schedule.stages[stage];
    char text[200];
    printf("\nstage %d: %u actions\n", stage, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        const struct msi_action *a = &list->actions[i];
        printf("%5u %6.0f  %s", i, view->timing.start[stage][i],
               msi_action_text(&view->schedule.spec, a, text, sizeof text));
        if (a->input != MSI_NO_ACTION) printf(", reads %u", a->input);
        if (a->reuses != MSI_NO_ACTION) printf(", after %u has ended", a->reuses);
        printf("\n");
    }
}

static int write_svg(const struct opt_command *command, const struct schedule_view *view, const char *path) {
    FILE *out;
    if (view->timing.makespan > SVG_UNITS_MOST)
        return opt_mistake(command, "a picture of %.0f forwards is too wide; the maximum is %d",
                           view->timing.makespan, SVG_UNITS_MOST);
    mst_status st = output_file_open(path, &out);
    if (st == MST_OK) {
        schedule_write_svg(view, out);
        st = output_file_commit(out, path);
    }
    if (st == MST_OK) return EXIT_DONE;
    opt_failed(command);
    return EXIT_FAILED;
}

static int unknown_kind(const struct opt_command *command, const char *name) {
    const char *names[MSI_SCHEDULE_KINDS];
    for (int kind = 0; kind < MSI_SCHEDULE_KINDS; kind++) names[kind] = msi_schedule_name(kind);
    const char *near = msi_nearest(name, names, MSI_SCHEDULE_KINDS, sizeof *names);
    if (near) return opt_unknown(command->name, "schedule", name, near);
    return opt_mistake(command, "unknown schedule '%s'; use stream, forward, gpipe, 1f1b or interleaved",
                       name);
}

/* The default is twice as many micro-batches as stages; streaming counts them per batch. */
static struct msi_schedule_spec spec_of(const struct schedule_options *wanted, int kind) {
    bool stream = kind == MSI_STREAM;
    struct msi_schedule_spec spec = {.kind = kind, .stages = wanted->stages ? (int)wanted->stages : 4};
    spec.micros = wanted->micros ? (int)wanted->micros : stream ? 1 : 2 * spec.stages;
    spec.tokens = wanted->tokens || !stream ? (int)wanted->tokens : 4;
    spec.chunks = (int)wanted->chunks;
    spec.batches = (int)wanted->batches;
    spec.inner = (int)wanted->inner;
    return spec;
}

static mst_status set_times(struct schedule_view *view) {
    const struct msi_schedule *s = &view->schedule;
    size_t parts = (size_t)s->spec.stages * (size_t)s->spec.chunks;
    double *backward = malloc(parts * sizeof *backward);
    if (!backward) return msi_fail_memory();
    for (size_t i = 0; i < parts; i++) backward[i] = view->backward;
    struct msi_costs costs = {.backward = backward};
    mst_status st = msi_schedule_time(s, MSI_SENDS_START, &costs, &view->timing);
    free(backward);
    return st;
}

static int show(const struct opt_command *command, const struct schedule_options *wanted,
                struct schedule_view *view) {
    struct msi_buf title = {0};
    if (wanted->svg) return write_svg(command, view, wanted->svg);
    if (wanted->json) return schedule_print_json(view);
    schedule_add_title(view, &title);
    puts(msi_buf_text(&title));
    msi_buf_free(&title);
    schedule_print_chart(view);
    print_summary(view);
    if (wanted->stage >= 0) print_list(view, (int)wanted->stage);
    return EXIT_DONE;
}

static mst_status make(struct schedule_view *view, const struct msi_schedule_spec *spec) {
    mst_status st = msi_schedule_make(spec, &view->schedule);
    if (st == MST_OK) st = msi_schedule_check(&view->schedule);
    return st == MST_OK ? set_times(view) : st;
}

int info_schedule(const struct opt_command *command, const struct schedule_options *wanted) {
    struct schedule_view view = {.backward = (int)wanted->backward};
    int kind = msi_schedule_kind(wanted->kind), exit_status = EXIT_FAILED;
    if (kind < 0) return unknown_kind(command, wanted->kind);
    struct msi_schedule_spec spec = spec_of(wanted, kind);
    if (kind != MSI_STREAM && wanted->inner)
        return opt_mistake(command, "--inner needs --schedule stream, not %s", wanted->kind);
    if (!msi_schedule_trains(kind) && wanted->backward > 1)
        return opt_mistake(command, "--backward needs a schedule for training, not %s", wanted->kind);
    if (wanted->json && wanted->svg) return opt_mistake(command, "--json and --svg cannot be combined");
    if (wanted->stage >= 0 && (wanted->json || wanted->svg))
        return opt_mistake(command, "--stage lists actions as text and cannot be combined with --%s",
                           wanted->json ? "json" : "svg");
    if (wanted->stage >= spec.stages)
        return opt_mistake(command, "with %d stages, the last stage is %d", spec.stages, spec.stages - 1);
    if (msi_schedule_settle(&spec) != MST_OK) return opt_failed(command);
    double computes = (double)msi_schedule_units(&spec) * spec.chunks * spec.stages;
    if (computes > COMPUTES_MOST)
        return opt_mistake(command, "%.0f forwards are too many to draw; the maximum is %d", computes,
                           COMPUTES_MOST);
    if (make(&view, &spec) == MST_OK)
        exit_status = show(command, wanted, &view);
    else
        fprintf(stderr, "%s: %s\n", command->name, mst_error());
    msi_timing_free(&view.timing);
    msi_schedule_free(&view.schedule);
    return exit_status;
}
