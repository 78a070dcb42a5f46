/* fit.c - see fit.h. */
#include "prof/clock/fit.h"

#include <math.h>

/* The speeds of clocks differ by less; a greater slope is noise. */
#define SPEED_MOST 500e-6

void msi_fit_answer(struct msi_fit *fit, int64_t a, int64_t t, int64_t b) {
    if (a < 0 || b < a || b > MSI_TIME_MOST || t < 0 || t > MSI_TIME_MOST) return;
    struct msi_fit_point point = {
        .at = a + (b - a) / 2, .offset = t - (a + (b - a) / 2), .error = (b - a) / 2 + 1};
    if (!fit->best.error || point.error < fit->best.error) fit->best = point;
}

/* The slope of the line through the points, weighted by their errors. */
static double find_slope(const struct msi_fit *fit) {
    double weights = 0, x_mean = 0, y_mean = 0, xx = 0, xy = 0;
    const struct msi_fit_point *origin = &fit->points[0];
    for (int i = 0; i < fit->n; i++) {
        const struct msi_fit_point *p = &fit->points[i];
        double weight = 1 / ((double)p->error * (double)p->error);
        weights += weight;
        x_mean += weight * (double)(p->at - origin->at);
        y_mean += weight * (double)(p->offset - origin->offset);
    }
    x_mean /= weights;
    y_mean /= weights;
    for (int i = 0; i < fit->n; i++) {
        const struct msi_fit_point *p = &fit->points[i];
        double weight = 1 / ((double)p->error * (double)p->error);
        double x = (double)(p->at - origin->at) - x_mean, y = (double)(p->offset - origin->offset) - y_mean;
        xx += weight * x * x;
        xy += weight * x * y;
    }
    double slope = xx > 0 ? xy / xx : 0;
    /* Over a short time the errors dominate: the standard error of the slope is 1 / sqrt(xx). */
    bool doubtful = xx * SPEED_MOST * SPEED_MOST < 1;
    return doubtful || fabs(slope) > SPEED_MOST ? 0 : slope;
}

bool msi_fit_burst(struct msi_fit *fit) {
    if (!fit->best.error) return false;
    fit->points[fit->next] = fit->best;
    fit->next = (fit->next + 1) % MSI_FIT_KEPT;
    if (fit->n < MSI_FIT_KEPT) fit->n++;
    fit->best.error = 0;
    fit->slope = find_slope(fit);
    return true;
}

/* Uses the point with the smallest error at that time. */
bool msi_fit_offset(const struct msi_fit *fit, int64_t at, int64_t *offset, int64_t *error) {
    double least = INFINITY;
    for (int i = 0; i < fit->n; i++) {
        const struct msi_fit_point *p = &fit->points[i];
        double apart = (double)(at - p->at);
        /* The slope may be wrong by a tenth (a cautious guess) and one millionth. */
        double doubt = (double)p->error + fabs(apart) * (fabs(fit->slope) * 0.1 + 1e-6);
        if (doubt >= least) continue;
        least = doubt;
        *offset = p->offset + (int64_t)(apart * fit->slope);
        *error = (int64_t)doubt;
    }
    return fit->n > 0;
}
