/*
 * chart.c - draws a schedule as text: a line for each stage, time to the right, one cell for the time of a
 * forward. A chart that is wider than the terminal is split into several.
 */
#include "base/buf.h"
#include "info/schedule/schedule.h"
#include "run/output/output.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LABEL = 9, WIDTH_ELSEWHERE = 110, WIDTH_MOST = 500, PANELS_MOST = 50 };

struct chart {
    const struct schedule_view *view;
    int cell;      /* columns of a unit, with a space */
    long per_line; /* units on a line */
    bool colours;
    struct msi_buf line;
};

static void end_line(struct chart *c) {
    while (c->line.len && c->line.data[c->line.len - 1] == ' ') c->line.len--;
    puts(msi_buf_text(&c->line));
    c->line.len = 0;
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
    if (c->colours) msi_buf_add_format(&c->line, "\033[%sm", code);
}

/* Prints the part of a cell between from and to; "-" fills long cells and those that began before. */
static void print_cell(struct chart *c, const struct schedule_cell *cell, long from, long to) {
    long begin = cell->start > from ? cell->start : from, end = cell->end < to ? cell->end : to;
    int width = (int)(end - begin) * c->cell - 1;
    const char *text = begin == cell->start ? cell->text : "";
    static const char *const colours[] = {"30;104", "97;44", "30;102", "97;42", "30;103"};
    paint(c, colours[cell->colour]);
    msi_buf_add_text(&c->line, text);
    bool continues = end - begin > 1 || begin > cell->start;
    for (int used = (int)strlen(text); used < width; used++)
        msi_buf_add_text(&c->line, continues && !c->colours ? "-" : " ");
    paint(c, "0");
    msi_buf_add_text(&c->line, " ");
}

static void print_idle(struct chart *c, long units) {
    paint(c, "2");
    for (long i = 0; i < units; i++) msi_buf_add_format(&c->line, "·%*s", c->cell - 1, "");
    paint(c, "0");
}

static void print_stage(struct chart *c, int stage, long from, long to) {
    struct schedule_cell cell;
    char label[24];
    long now = from;
    snprintf(label, sizeof label, "stage %d", stage);
    msi_buf_add_format(&c->line, "%-*s", LABEL, label);
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
    msi_buf_add_format(&c->line, "%-*s", LABEL, "time");
    for (long t = from; t < to; t += 5 - t % 5) {
        long next = t + 5 - t % 5 < to ? t + 5 - t % 5 : to;
        char number[24];
        snprintf(number, sizeof number, "%ld", t);
        bool fits = (int)strlen(number) < (int)(next - t) * c->cell;
        msi_buf_add_format(&c->line, "%-*s", (int)(next - t) * c->cell, fits ? number : "");
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
            break;
        }
        print_times(&c, from, to);
        for (int stage = 0; stage < view->schedule.spec.stages; stage++) print_stage(&c, stage, from, to);
    }
    msi_buf_free(&c.line);
}
