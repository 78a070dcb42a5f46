/*
 * plot.c - draws the results of "muster bench OPERATION" as self-contained SVG: for each table a row of two
 * panels, latency and bandwidth (algbw) over size, with logarithmic axes and one line for each backend.
 */
#include "bench/ops/ops.h"

#include <math.h>
#include <string.h>

enum { PANEL_W = 400, PANEL_H = 230, LEFT = 70, GAP = 96, TOP = 74, ROW = 318, RIGHT = 40, BOTTOM = 20 };

/* Distinguishable also with colour blindness and in print. */
static const char *const colours[OPS_BACKENDS_MOST] = {"#0b62a8", "#d1495b", "#2a9d5c", "#8e5ea2",
                                                       "#c77700", "#17838f", "#6b6b6b", "#b0307a"};
static const char *const dashes[OPS_BACKENDS_MOST] = {"none", "none", "none", "none",
                                                      "7 3",  "7 3",  "7 3",  "2 3"};

/* A panel: its position, and the ranges of its axes as logarithms to base 10 (base 2 for bytes). */
struct panel {
    FILE *out;
    const struct ops_bench *bench;
    const struct ops_table *result;
    bool bandwidth;
    double x, y, x_min, x_max, y_min, y_max;
};

static double value_of(const struct panel *p, int backend, int i) {
    double us = p->result->at[backend][i].us;
    return p->bandwidth ? ops_algbw(&p->result->what, i, us) : us;
}

static double place_x(const struct panel *p, double bytes) {
    return p->x + (log2(bytes) - p->x_min) / (p->x_max - p->x_min) * PANEL_W;
}

static double place_y(const struct panel *p, double value) {
    return p->y + PANEL_H - (log10(value) - p->y_min) / (p->y_max - p->y_min) * PANEL_H;
}

/* Sets the axes to whole powers around the values; false if there are none. */
static bool set_axes(struct panel *p) {
    const struct ops_case *what = &p->result->what;
    double least = INFINITY, most = 0;
    for (int backend = 0; backend < p->bench->n_backends; backend++)
        for (int i = 0; i < what->n_sizes; i++) {
            double value = value_of(p, backend, i);
            if (value > 0 && value < least) least = value;
            if (value > most) most = value;
        }
    if (most <= 0 || what->bytes[0] == 0) return false;
    p->x_min = floor(log2((double)what->bytes[0]));
    p->x_max = ceil(log2((double)what->bytes[what->n_sizes - 1]));
    p->y_min = floor(log10(least));
    p->y_max = ceil(log10(most));
    if (p->x_max <= p->x_min) p->x_max = p->x_min + 1;
    if (p->y_max <= p->y_min) p->y_max = p->y_min + 1;
    return true;
}

static void text(FILE *out, double x, double y, const char *anchor, const char *style, const char *content) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, style);
    for (; *content != '\0'; content++)
        if (*content == '<')
            fputs("&lt;", out);
        else if (*content == '&')
            fputs("&amp;", out);
        else
            fputc(*content, out);
    fputs("</text>\n", out);
}

static void line(FILE *out, double x1, double y1, double x2, double y2) {
    fprintf(out, "<line stroke=\"#e3e3e3\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x1, y1, x2,
            y2);
}

/* Lines at each power of ten, and at 2 and 5 times it if the range is small. */
static void draw_y_axis(const struct panel *p) {
    static const int steps[] = {1, 2, 5};
    char label[32];
    for (int power = (int)p->y_min; power <= (int)p->y_max; power++)
        for (int k = 0; k < (p->y_max - p->y_min <= 3 ? 3 : 1); k++) {
            double value = steps[k] * pow(10, power), y = place_y(p, value);
            if (y < p->y - 0.1) continue;
            line(p->out, p->x, y, p->x + PANEL_W, y);
            snprintf(label, sizeof label, "%.10g", value);
            text(p->out, p->x - 8, y + 4, "end", "", label);
        }
}

static void draw_x_axis(const struct panel *p) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int range = (int)(p->x_max - p->x_min), step = range <= 6 ? 1 : range <= 14 ? 2 : 4;
    char label[32];
    for (int power = (int)p->x_min; power <= (int)p->x_max; power += step) {
        double x = place_x(p, exp2(power));
        line(p->out, x, p->y, x, p->y + PANEL_H);
        snprintf(label, sizeof label, "%d%s", 1 << power % 10, units[power / 10]);
        text(p->out, x, p->y + PANEL_H + 17, "middle", "", label);
    }
}

static void draw_lines(const struct panel *p) {
    const struct ops_case *what = &p->result->what;
    for (int backend = 0; backend < p->bench->n_backends; backend++) {
        const char *before = "";
        bool any = false;
        for (int i = 0; i < what->n_sizes; i++) any = any || value_of(p, backend, i) > 0;
        if (!any) continue;
        fprintf(p->out,
                "<polyline fill=\"none\" stroke=\"%s\" stroke-dasharray=\"%s\" stroke-width=\"2\" points=\"",
                colours[backend], dashes[backend]);
        for (int i = 0; i < what->n_sizes; i++) {
            double value = value_of(p, backend, i);
            if (value <= 0) continue;
            fprintf(p->out, "%s%.1f,%.1f", before, place_x(p, (double)what->bytes[i]), place_y(p, value));
            before = " ";
        }
        fprintf(p->out, "\"/>\n<g fill=\"%s\">\n", colours[backend]);
        for (int i = 0; i < what->n_sizes; i++)
            if (value_of(p, backend, i) > 0)
                fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>\n",
                        place_x(p, (double)what->bytes[i]), place_y(p, value_of(p, backend, i)));
        fputs("</g>\n", p->out);
    }
}

static void draw_panel(struct panel *p) {
    const struct ops_case *what = &p->result->what;
    char title[160], host[32] = "";
    if (!set_axes(p)) return;
    if (what->hosts > 1) snprintf(host, sizeof host, ", %d hosts", what->hosts);
    snprintf(title, sizeof title, "%s, %d ranks%s, %s, %s%s: %s", loop_op_names[what->op], what->ranks, host,
             what->dtype->name, ops_buffer_names[what->buffers], what->in_place ? ", in place" : "",
             p->bandwidth ? "GB/s" : "microseconds");
    text(p->out, p->x, p->y - 10, "start", " font-weight=\"bold\"", title);
    fputs("<g fill=\"#444\">\n", p->out);
    draw_y_axis(p);
    draw_x_axis(p);
    text(p->out, p->x + PANEL_W / 2.0, p->y + PANEL_H + 36, "middle", "", "bytes");
    fputs("</g>\n", p->out);
    fprintf(p->out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#999\"/>\n", p->x,
            p->y, PANEL_W, PANEL_H);
    draw_lines(p);
}

static void draw_legend(const struct ops_bench *b, FILE *out) {
    double x = LEFT;
    for (int backend = 0; backend < b->n_backends; backend++) {
        const char *name = b->backends[backend].name;
        fprintf(out, "<path d=\"M%.1f 44h26\" stroke=\"%s\" stroke-dasharray=\"%s\" stroke-width=\"3\"/>\n",
                x, colours[backend], dashes[backend]);
        text(out, x + 32, 48, "start", "", name);
        x += 32 + 9.0 * (double)strlen(name) + 22;
    }
}

static bool drawable(const struct ops_bench *b, const struct ops_table *r) {
    struct panel p = {.bench = b, .result = r};
    return set_axes(&p);
}

void ops_plot(const struct ops_bench *b, FILE *out) {
    int rows = 0, width = LEFT + 2 * PANEL_W + GAP + RIGHT;
    char machine[BENCH_MACHINE_TEXT];
    for (int t = 0; t < b->n_results; t++) rows += drawable(b, &b->results[t]);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, TOP + rows * ROW + BOTTOM, width, TOP + rows * ROW + BOTTOM);
    text(out, LEFT, 24, "start", " font-size=\"15\" font-weight=\"bold\"", bench_machine(machine));
    draw_legend(b, out);
    if (rows == 0) text(out, LEFT, TOP, "start", "", "there are no results with a size");
    for (int t = 0, row = 0; t < b->n_results; t++) {
        if (!drawable(b, &b->results[t])) continue;
        for (int k = 0; k < 2; k++) {
            struct panel p = {.out = out, .bench = b, .result = &b->results[t], .bandwidth = k == 1};
            p.x = LEFT + k * (PANEL_W + GAP);
            p.y = TOP + 14 + row * ROW;
            draw_panel(&p);
        }
        row++;
    }
    fputs("</svg>\n", out);
}
