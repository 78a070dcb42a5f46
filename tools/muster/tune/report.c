/* report.c - prints the measurements and what the cost model selects. See tune.h. */
#include "tune/tune.h"

#include "base/units.h"

#include <stdio.h>

/* More than this makes results unreliable. */
#define LOAD_MOST   0.5 /* per processor */
#define SPREAD_MOST 0.3

static void print_selected(const struct tune_point *selected, const struct tune_point *best) {
    if (selected == best)
        fprintf(stderr, "  %-14s %6s", selected->planner->name, "best");
    else
        fprintf(stderr, "  %-14s %5.2fx", selected->planner->name, selected->seconds / best->seconds);
}

static void print_row(const struct tune *tune, const struct msi_model *before, const struct msi_model *after,
                      enum msi_kind kind, int size) {
    const struct tune_point *was, *is, *best;
    char text[MSI_UNITS_TEXT];
    tune_regret(tune, before, kind, size, &was, &best);
    tune_regret(tune, after, kind, size, &is, &best);
    if (!best) return;
    fprintf(stderr, "%-15s %8s  %-14s %10.1f us", size == 0 ? msi_coll_name(kind) : "",
            msi_bytes_text((double)tune_sizes[size], text), best->planner->name, best->seconds * 1e6);
    print_selected(was, best);
    print_selected(is, best);
    fprintf(stderr, "\n");
}

/* Prints every algorithm with its measured and predicted times. */
static void print_all(const struct tune *tune, const struct msi_model *before,
                      const struct msi_model *after) {
    char text[MSI_UNITS_TEXT];
    fprintf(stderr, "%-15s %-14s %8s %12s %12s %12s\n", "", "", "", "measured", "default", "fitted");
    for (int i = 0; i < tune->n; i++) {
        const struct tune_point *p = &tune->points[i];
        fprintf(stderr, "%-15s %-14s %8s %9.1f us %9.1f us %9.1f us\n", msi_coll_name(p->planner->kind),
                p->planner->name, msi_bytes_text((double)tune_sizes[p->size], text), p->seconds * 1e6,
                tune_estimate(p, before) * 1e6, tune_estimate(p, after) * 1e6);
    }
    fprintf(stderr, "\n");
}

void tune_report(const struct tune *tune, const struct msi_model *before, const struct msi_model *after) {
    if (tune->o.all) print_all(tune, before, after);
    fprintf(stderr, "%-15s %8s  %-28s  %-21s  %s\n", "", "", "best", "selected by default",
            "selected after fitting");
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++)
        for (int size = 0; size < TUNE_SIZES; size++)
            print_row(tune, before, after, (enum msi_kind)kind, size);
    fprintf(
        stderr,
        "\nThe selected algorithms take %.2fx the time of the best ones with the default cost model, %.2fx\n"
        "with the fitted one (geometric mean over all operations and sizes).\n",
        tune_mean_regret(tune, before), tune_mean_regret(tune, after));
}

const char *tune_doubt(const struct tune *tune, int *at, char text[TUNE_TEXT]) {
    double spread = tune_spread(tune);
    int k = (*at)++;
    if (k == 0 && tune->load > LOAD_MOST)
        snprintf(text, TUNE_TEXT,
                 "a machine was busy before the measurements: load average %.1f per processor", tune->load);
    else if (k == 1 && tune->crowd > 1)
        snprintf(text, TUNE_TEXT,
                 "a machine has %.1f ranks per processor, so the times include waiting for a processor",
                 tune->crowd);
    else if (k == 2 && spread > SPREAD_MOST)
        snprintf(text, TUNE_TEXT, "repeated measurements differ by %.0f %% (median); other programs may run",
                 spread * 100);
    else if (k > 2)
        return NULL;
    else
        return tune_doubt(tune, at, text);
    return text;
}
