/*
 * fit.c - fits the prices of the cost model. A predicted time is the sum of amounts times prices, so the
 * first guess is a linear least-squares fit of relative errors without negative prices, by coordinate
 * descent. From there, or from the defaults if they are better, prices are changed as long as the selected
 * algorithms become faster. All prices stay within bounds that no machine exceeds. The measurements do not
 * determine a price that ends at a bound, or on which none depends; it gets its default, and the others are
 * fitted again.
 */
#include "tune/tune.h"

#include "base/median.h"

#include <math.h>

enum { SWEEPS = 20000, MOVES_MOST = 50 };

/* The bounds of a price, as multiples of its default: 20 ns and 600 GB/s within a host, 150 GB/s between. */
static const double least_share = 1.0 / 50, most_share = 1e4;
static const double at_bound = 1.05;   /* a price within this factor of a bound counts as at the bound */
static const double least_gain = 1e-4; /* of the mean regret, for which a price is changed */

struct rows {
    double a[TUNE_POINTS_MOST][MSI_COST_TERMS]; /* amounts divided by the measured time */
    double left[TUNE_POINTS_MOST];              /* residuals: 1 minus the predicted share */
    int n;
};

static void set_up(const struct tune *tune, const struct msi_model *model, struct rows *rows) {
    rows->n = tune->n;
    for (int i = 0; i < tune->n; i++) {
        const struct tune_point *p = &tune->points[i];
        rows->left[i] = 1;
        for (int k = 0; k < MSI_COST_TERMS; k++) {
            rows->a[i][k] = p->amounts[k] / p->seconds;
            rows->left[i] -= rows->a[i][k] * model->costs[k];
        }
    }
}

static double bounded(double price, int k) {
    double preset = msi_model_default.costs[k];
    return fmin(fmax(price, preset * least_share), preset * most_share);
}

/* Sets one price to its optimum for the given other prices. Returns its relative change. */
static double improve(struct rows *rows, int k, double *price) {
    double square = 0, product = 0;
    for (int i = 0; i < rows->n; i++) {
        square += rows->a[i][k] * rows->a[i][k];
        product += rows->a[i][k] * rows->left[i];
    }
    double best = bounded(*price + product / square, k), change = best - *price;
    for (int i = 0; i < rows->n; i++) rows->left[i] -= rows->a[i][k] * change;
    double share = fabs(change) / *price;
    *price = best;
    return share;
}

static void least_squares(const struct tune *tune, const bool *kept, struct msi_model *model) {
    struct rows rows;
    set_up(tune, model, &rows);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double most = 0;
        for (int k = 0; k < MSI_COST_TERMS; k++)
            if (!kept[k]) most = fmax(most, improve(&rows, k, &model->costs[k]));
        if (most < 1e-9) return;
    }
}

double tune_estimate(const struct tune_point *p, const struct msi_model *model) {
    double sum = 0;
    for (int k = 0; k < MSI_COST_TERMS; k++) sum += p->amounts[k] * model->costs[k];
    return sum;
}

double tune_regret(const struct tune *tune, const struct msi_model *model, enum msi_kind kind, int size,
                   const struct tune_point **selected, const struct tune_point **best) {
    *selected = *best = NULL;
    for (int i = 0; i < tune->n; i++) {
        const struct tune_point *p = &tune->points[i];
        if (p->planner->kind != kind || p->size != size) continue;
        if (!*best || p->seconds < (*best)->seconds) *best = p;
        if (!*selected || tune_estimate(p, model) < tune_estimate(*selected, model)) *selected = p;
    }
    return *best ? (*selected)->seconds / (*best)->seconds : 1;
}

double tune_mean_regret(const struct tune *tune, const struct msi_model *model) {
    double sum = 0;
    int n = 0;
    for (int kind = 0; kind < MSI_KIND_COUNT; kind++)
        for (int size = 0; size < TUNE_SIZES; size++) {
            const struct tune_point *selected, *best;
            double regret = tune_regret(tune, model, (enum msi_kind)kind, size, &selected, &best);
            if (!best) continue;
            sum += log(regret);
            n++;
        }
    return n ? exp(sum / n) : 1;
}

/* Multiplies or divides each price by the factor if that lowers the regret; true if any price changed. */
static bool move_prices(const struct tune *tune, const bool *kept, struct msi_model *model, double factor,
                        double *regret) {
    bool moved = false;
    for (int k = 0; k < MSI_COST_TERMS; k++)
        for (int up = 0; up < 2 && !kept[k]; up++) {
            struct msi_model tried = *model;
            tried.costs[k] = bounded(tried.costs[k] * (up ? factor : 1 / factor), k);
            double got = tune_mean_regret(tune, &tried);
            if (got > *regret * (1 - least_gain)) continue;
            *model = tried;
            *regret = got;
            moved = true;
        }
    return moved;
}

/* Fits the prices that are not kept. */
static void fit(const struct tune *tune, const bool *kept, struct msi_model *model) {
    static const double factors[] = {4, 2, 1.4, 1.2};
    struct msi_model fitted = msi_model_default;
    *model = msi_model_default;
    double regret = tune_mean_regret(tune, model);
    least_squares(tune, kept, &fitted);
    if (tune_mean_regret(tune, &fitted) < regret) {
        *model = fitted;
        regret = tune_mean_regret(tune, model);
    }
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        for (int sweep = 0; sweep < MOVES_MOST && move_prices(tune, kept, model, factors[i], &regret);
             sweep++)
            continue;
}

/* Marks the prices on which no measurement depends; returns their number. */
static int mark_unused(const struct tune *tune, bool *kept) {
    int n = 0;
    for (int k = 0; k < MSI_COST_TERMS; k++) {
        kept[k] = true;
        for (int i = 0; i < tune->n; i++) kept[k] &= tune->points[i].amounts[k] == 0;
        n += kept[k];
    }
    return n;
}

/* Marks the prices at a bound; returns their number. */
static int mark_at_bounds(const struct msi_model *model, bool *kept) {
    int n = 0;
    for (int k = 0; k < MSI_COST_TERMS; k++) {
        double share = model->costs[k] / msi_model_default.costs[k];
        if (kept[k] || (share > least_share * at_bound && share < most_share / at_bound)) continue;
        kept[k] = true;
        n++;
    }
    return n;
}

int tune_fit(const struct tune *tune, struct msi_model *model, bool kept[MSI_COST_TERMS]) {
    int n = mark_unused(tune, kept), more;
    do {
        fit(tune, kept, model);
        n += more = mark_at_bounds(model, kept);
    } while (more > 0);
    return MSI_COST_TERMS - n;
}

double tune_spread(const struct tune *tune) {
    double spreads[TUNE_POINTS_MOST];
    for (int i = 0; i < tune->n; i++) {
        double least = INFINITY, most = 0;
        for (long round = 0; round < tune->o.rounds; round++) {
            least = fmin(least, tune->points[i].samples[round]);
            most = fmax(most, tune->points[i].samples[round]);
        }
        spreads[i] = most / least - 1;
    }
    return tune->n > 0 ? msi_median(spreads, tune->n) : 0;
}
