/*
 * svg.c - draws a schedule as an SVG picture, with the contents of the text chart. The picture needs no other
 * files. Its colours follow the light or dark preference of the reader, and it has its own background.
 */
#include "info/schedule/schedule.h"

#include <string.h>

enum { CELL = 26, ROW = 30, BAR = 26, LEFT = 76, TOP = 62, RIGHT = 20, BOTTOM = 46, LETTER = 9 };

/* Colours are set by class: viewers without media queries show the light ones. */
static const char style[] =
    "<style>\n"
    "text{font:12px "
    "system-ui,sans-serif;fill:#1b2430;text-anchor:middle}.t{font-size:15px;font-weight:600;text-anchor:"
    "start}\n"
    ".k,.n{fill:#5b6878}.n{text-anchor:start}.s3{font-size:10.5px}.s4{font-size:8px}\n"
    ".g{fill:#fff}.i{fill:#edf0f3}.f0{fill:#a6cbf3}.f1{fill:#6fa8e6}.b0{fill:#a5dcb2}.b1{fill:#67bd7d}.p{"
    "fill:#f4d08a}\n"
    "@media(prefers-color-scheme:dark){text{fill:#e9eef4}.k,.n{fill:#96a3b3}.g{fill:#12171d}.i{fill:#232b34}"
    ".f0{fill:#1f62a6}.f1{fill:#123f70}.b0{fill:#1f7038}.b1{fill:#144d26}.p{fill:#7d5a14}}\n"
    "</style>\n";

/* By the colour of a cell. */
static const char *const classes[] = {"f0", "f1", "b0", "b1", "p"};

static void draw_cell(const struct schedule_cell *cell, int y, FILE *out) {
    long x = LEFT + cell->start * CELL, width = (cell->end - cell->start) * CELL;
    const char *small = width > CELL || strlen(cell->text) < 3 ? ""
                        : cell->text[3]                        ? " class=\"s4\""
                                                               : " class=\"s3\"";
    fprintf(out, "<rect class=\"%s\" x=\"%ld\" y=\"%d\" width=\"%ld\" height=\"%d\" rx=\"3\"/>",
            classes[cell->colour], x + 1, y, width - 2, BAR);
    fprintf(out, "<text%s x=\"%ld\" y=\"%d\">%s</text>\n", small, x + width / 2, y + BAR / 2 + 4, cell->text);
}

static void draw_stage(const struct schedule_view *view, int stage, FILE *out) {
    struct schedule_cell cell;
    int y = TOP + stage * ROW;
    fprintf(out, "<text class=\"n\" x=\"16\" y=\"%d\">stage %d</text>", y + BAR / 2 + 4, stage);
    fprintf(out, "<rect class=\"i\" x=\"%d\" y=\"%d\" width=\"%ld\" height=\"%d\" rx=\"3\"/>\n", LEFT, y,
            (long)view->timing.makespan * CELL, BAR);
    for (uint32_t at = 0; schedule_next_cell(view, stage, &at, &cell);) draw_cell(&cell, y, out);
}

static void draw_times(const struct schedule_view *view, FILE *out) {
    for (long t = 0; t < (long)view->timing.makespan; t += 5)
        fprintf(out, "<text class=\"k\" x=\"%ld\" y=\"%d\">%ld</text>\n", LEFT + t * CELL, TOP - 7, t);
}

/* The legend, drawn from left to right. */
struct legend {
    FILE *out;
    int x, y;
};

static void draw_key(struct legend *l, const char *class, const char *label) {
    fprintf(l->out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"16\" height=\"14\" rx=\"3\"/>", class, l->x,
            l->y);
    fprintf(l->out, "<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n", l->x + 22, l->y + 11, label);
    l->x += 40 + 7 * (int)strlen(label);
}

/* Two colours alternate between the chunks. */
static void draw_chunk_keys(struct legend *l, const char *what, int colour, int chunks) {
    char label[64];
    snprintf(label, sizeof label, "%s%s", what,
             chunks == 1   ? ""
             : chunks == 2 ? " of chunk a"
                           : " of chunks a, c, …");
    draw_key(l, classes[colour], label);
    if (chunks > 1) draw_key(l, classes[colour + 1], chunks == 2 ? "of chunk b" : "of b, d, …");
}

static void draw_legend(const struct schedule_view *view, int y, FILE *out) {
    const struct msi_schedule_spec *s = &view->schedule.spec;
    struct legend l = {out, LEFT, y};
    if (s->kind == MSI_STREAM) {
        draw_key(&l, classes[SCHEDULE_PROMPT], "prompt");
        draw_key(&l, classes[SCHEDULE_FORWARD], "token");
    } else {
        draw_chunk_keys(&l, "forward", SCHEDULE_FORWARD, s->chunks);
    }
    if (msi_schedule_trains(s->kind)) draw_chunk_keys(&l, "backward", SCHEDULE_BACKWARD, s->chunks);
    draw_key(&l, "i", "idle");
}

void schedule_write_svg(const struct schedule_view *view, FILE *out) {
    struct msi_buf title = {0};
    int stages = view->schedule.spec.stages, bottom = TOP + stages * ROW;
    long width = LEFT + (long)view->timing.makespan * CELL + RIGHT;
    schedule_add_title(view, &title);
    msi_buf_add_text(&title, "; ");
    schedule_add_bubble(view, &title);
    long least = 32 + LETTER * ((long)title.len - 2);
    if (width < least) width = least;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %ld %d\" width=\"%ld\" height=\"%d\" "
            "role=\"img\">\n",
            width, bottom + BOTTOM, width, bottom + BOTTOM);
    fprintf(out, "<title>%s</title>\n%s", msi_buf_text(&title), style);
    fprintf(out, "<rect class=\"g\" width=\"%ld\" height=\"%d\" rx=\"8\"/>\n", width, bottom + BOTTOM);
    fprintf(out, "<text class=\"t\" x=\"16\" y=\"28\">%s</text>\n", msi_buf_text(&title));
    draw_times(view, out);
    for (int stage = 0; stage < stages; stage++) draw_stage(view, stage, out);
    draw_legend(view, bottom + 14, out);
    fprintf(out, "</svg>\n");
    msi_buf_free(&title);
}
