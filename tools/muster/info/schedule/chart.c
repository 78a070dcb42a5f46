/*
 * chart.c - draws a schedule as text: a line for each stage, time to the right, one cell for the time of a
 * forward. A chart that is wider than the terminal is split into several.
 */
#include "info/schedule/schedule.h"
#include "run/output/output.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LABEL = 9, WIDTH_ELSEWHERE = 110, WIDTH_MOST = 500, PANELS_MOST = 50 };

struct chart {
    const struct schedule_view *view;
    int cell;      /* columns of a unit, with a space */
    long per_line; /* units on a line */
    bool colours;
    char line[8192];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static int put(struct chart *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(c->line + c->used, sizeof c->line - c->used, format, args);
    va_end(args);
    if (n > 0) c->used = c->used + (size_t)n < sizeof c->line ? c->used + (size_t)n : sizeof c->line - 1;
    return n;
}

static void end_line(struct chart *c) {
    while (c->used && c->line[c->used - 1] == ' ') c->used--;
    printf("%.*s\n", (int)c->used, c->line);
    c->used = 0;
}

static int columns(void) {
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col < WIDTH_MOST ? size.ws_col : WIDTH_MOST;
    return WIDTH_ELSEWHERE;
}

static int widest_cell(const struct schedule_view *view) {
    size_t widest = 2;
    struct schedule_cell cell;
    for (uint32_t at = 0; schedule_next_cell(view, 0, &at, &cell);)
        if (strlen(cell.text) > widest) widest = strlen(cell.text);
    return (int)widest;
}

static void paint(struct chart *c, const char *code) {
    if (c->colours) put(c, "\033[%sm", code);
}

/* Later chunks are darker. Prompts are yellow. */
static void paint_cell(struct chart *c, const struct msi_action *a) {
    static const char *const forward[] = {"30;104", "97;44"}, *const backward[] = {"30;102", "97;42"};
    bool stream = c->view->schedule.spec.kind == MSI_STREAM;
    if (a->kind == MSI_ACT_BACKWARD)
        paint(c, backward[a->chunk % 2]);
    else
        paint(c, stream && a->token == 0 ? "30;103" : forward[a->chunk % 2]);
}

/*
 * Prints the part of a cell between from and to; "-" fills a cell of several units, or one that began before.
 */
static void print_cell(struct chart *c, const struct schedule_cell *cell, long from, long to) {
    long begin = cell->start > from ? cell->start : from, end = cell->end < to ? cell->end : to;
    int width = (int)(end - begin) * c->cell - 1;
    const char *text = begin == cell->start ? cell->text : "";
    paint_cell(c, cell->action);
    int used = put(c, "%s", text);
    bool continues = end - begin > 1 || begin > cell->start;
    for (; used < width; used++) put(c, continues && !c->colours ? "-" : " ");
    paint(c, "0");
    put(c, " ");
}

static void print_idle(struct chart *c, long units) {
    paint(c, "2");
    for (long i = 0; i < units; i++) put(c, "·%*s", c->cell - 1, "");
    paint(c, "0");
}

static void print_stage(struct chart *c, int stage, long from, long to) {
    struct schedule_cell cell;
    char label[24];
    long now = from;
    snprintf(label, sizeof label, "stage %d", stage);
    put(c, "%-*s", LABEL, label);
    for (uint32_t at = 0; schedule_next_cell(c->view, stage, &at, &cell) && cell.start < to;) {
        if (cell.end <= from) continue;
        if (cell.start > now) print_idle(c, cell.start - now);
        print_cell(c, &cell, from, to);
        now = cell.end < to ? cell.end : to;
    }
    print_idle(c, to - now);
    end_line(c);
}

/* Prints a number at every fifth unit. */
static void print_times(struct chart *c, long from, long to) {
    put(c, "%-*s", LABEL, "time");
    for (long t = from; t < to; t += 5 - t % 5) {
        long next = t + 5 - t % 5 < to ? t + 5 - t % 5 : to;
        char number[24];
        snprintf(number, sizeof number, "%ld", t);
        bool fits = (int)strlen(number) < (int)(next - t) * c->cell;
        put(c, "%-*s", (int)(next - t) * c->cell, fits ? number : "");
    }
    end_line(c);
}

void schedule_print_chart(const struct schedule_view *view) {
    struct chart c = {
        .view = view, .cell = widest_cell(view) + 1, .colours = output_may_colour(OUTPUT_STDOUT)};
    long all = (long)view->timing.makespan;
    c.per_line = (columns() - LABEL) / c.cell;
    if (c.per_line < 1) c.per_line = 1;
    for (long from = 0, panel = 0; from < all; from += c.per_line, panel++) {
        long to = from + c.per_line < all ? from + c.per_line : all;
        printf("\n");
        if (panel == PANELS_MOST) {
            printf("(continues until %ld)\n", all);
            return;
        }
        print_times(&c, from, to);
        for (int stage = 0; stage < view->schedule.spec.stages; stage++) print_stage(&c, stage, from, to);
    }
}
