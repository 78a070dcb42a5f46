/*
 * info_schedule_svg.c - a schedule as a picture, the same as the chart of text. It needs nothing but itself, and is readable
 * on light and on dark pages: its colours follow what the reader prefers, and it brings its own ground.
 */
#include "info_schedule.h"

#include <string.h>

enum { CELL = 26, ROW = 30, BAR = 26, LEFT = 76, TOP = 62, RIGHT = 20, BOTTOM = 46, LEAST_WIDTH = 560 };

static const char style[] =
    "<style>\n"
    "svg{font:12px system-ui,sans-serif;--ground:#fff;--ink:#1b2430;--soft:#667385;--idle:#edf0f3;"
    "--f0:#a6cbf3;--f1:#6fa8e6;--b0:#a5dcb2;--b1:#67bd7d;--p:#f4d08a}\n"
    "@media(prefers-color-scheme:dark){svg{--ground:#12171d;--ink:#e9eef4;--soft:#96a3b3;--idle:#1f262e;"
    "--f0:#1d5c9c;--f1:#123f70;--b0:#1f7038;--b1:#144d26;--p:#7d5a14}}\n"
    "text{fill:var(--ink);text-anchor:middle}.t{font-size:15px;font-weight:600;text-anchor:start}"
    ".n{fill:var(--soft);text-anchor:start}.k{fill:var(--soft)}.s{font-size:9px}\n"
    ".g{fill:var(--ground)}.i{fill:var(--idle)}.f0{fill:var(--f0)}.f1{fill:var(--f1)}.b0{fill:var(--b0)}"
    ".b1{fill:var(--b1)}.p{fill:var(--p)}\n"
    "</style>\n";

static const char *class_of(const struct schedule_view *view, const struct msi_action *a) {
    if (a->kind == MSI_ACT_BACKWARD) return a->chunk % 2 ? "b1" : "b0";
    if (view->schedule.spec.kind == MSI_STREAM && a->token == 0) return "p";
    return a->chunk % 2 ? "f1" : "f0";
}

static void draw_cell(const struct schedule_view *view, const struct schedule_cell *cell, int y, FILE *out) {
    long x = LEFT + cell->start * CELL, width = (cell->end - cell->start) * CELL;
    const char *small = strlen(cell->text) > 3 ? " class=\"s\"" : "";
    fprintf(out, "<rect class=\"%s\" x=\"%ld\" y=\"%d\" width=\"%ld\" height=\"%d\" rx=\"3\"/>",
            class_of(view, cell->action), x + 1, y, width - 2, BAR);
    fprintf(out, "<text%s x=\"%ld\" y=\"%d\">%s</text>\n", small, x + width / 2, y + BAR / 2 + 4, cell->text);
}

static void draw_stage(const struct schedule_view *view, int stage, FILE *out) {
    struct schedule_cell cell;
    int y = TOP + stage * ROW;
    fprintf(out, "<text class=\"n\" x=\"16\" y=\"%d\">stage %d</text>", y + BAR / 2 + 4, stage);
    fprintf(out, "<rect class=\"i\" x=\"%d\" y=\"%d\" width=\"%ld\" height=\"%d\" rx=\"3\"/>\n", LEFT, y,
            (long)view->timing.makespan * CELL, BAR);
    for (uint32_t at = 0; schedule_next_cell(view, stage, &at, &cell);) draw_cell(view, &cell, y, out);
}

static void draw_times(const struct schedule_view *view, FILE *out) {
    for (long t = 0; t < (long)view->timing.makespan; t += 5)
        fprintf(out, "<text class=\"k\" x=\"%ld\" y=\"%d\">%ld</text>\n", LEFT + t * CELL, TOP - 7, t);
}

static int draw_key(const char *name, const char *words, int x, int y, FILE *out) {
    fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"16\" height=\"14\" rx=\"3\"/>", name, x, y);
    fprintf(out, "<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n", x + 22, y + 11, words);
    return x + 40 + 7 * (int)strlen(words);
}

static void draw_keys(const struct schedule_view *view, int y, FILE *out) {
    const struct msi_schedule_spec *s = &view->schedule.spec;
    bool chunks = s->chunks > 1;
    int x = LEFT;
    if (s->kind == MSI_STREAM) {
        x = draw_key("p", "prompt", x, y, out);
        x = draw_key("f0", "token", x, y, out);
    } else {
        x = draw_key("f0", chunks ? "forward, chunks a, c, …" : "forward", x, y, out);
        if (chunks) x = draw_key("f1", "b, d, …", x, y, out);
    }
    if (msi_schedule_trains(s->kind)) {
        x = draw_key("b0", chunks ? "backward, chunks a, c, …" : "backward", x, y, out);
        if (chunks) x = draw_key("b1", "b, d, …", x, y, out);
    }
    draw_key("i", "idle", x, y, out);
}

void schedule_write_svg(const struct schedule_view *view, FILE *out) {
    char title[160], bubble[100];
    int stages = view->schedule.spec.stages, bottom = TOP + stages * ROW;
    long width = LEFT + (long)view->timing.makespan * CELL + RIGHT;
    if (width < LEAST_WIDTH) width = LEAST_WIDTH;
    schedule_title(view, title, sizeof title);
    schedule_bubble(view, bubble, sizeof bubble);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %ld %d\" width=\"%ld\" height=\"%d\" "
            "role=\"img\">\n",
            width, bottom + BOTTOM, width, bottom + BOTTOM);
    fprintf(out, "<title>%s; %s</title>\n%s", title, bubble, style);
    fprintf(out, "<rect class=\"g\" width=\"%ld\" height=\"%d\" rx=\"8\"/>\n", width, bottom + BOTTOM);
    fprintf(out, "<text class=\"t\" x=\"16\" y=\"28\">%s; %s</text>\n", title, bubble);
    draw_times(view, out);
    for (int stage = 0; stage < stages; stage++) draw_stage(view, stage, out);
    draw_keys(view, bottom + 14, out);
    fprintf(out, "</svg>\n");
}
