/* fit.c - see fit.h. */
#include "prof/clock/fit.h"

#include <math.h>

/* Clocks do not differ by more than that in their speed; what looks like more is noise. */
#define SPEED_MOST 500e-6

void msi_fit_answer(struct msi_fit *fit, int64_t a, int64_t t, int64_t b) {
    if (a < 0 || b < a || b > MSI_TIME_MOST || t < 0 || t > MSI_TIME_MOST) return;
    struct msi_fit_point point = {
        .at = a + (b - a) / 2, .offset = t - (a + (b - a) / 2), .error = (b - a) / 2 + 1};
    if (fit->asked && point.error >= fit->best.error) return;
    fit->best = point;
    fit->asked = true;
}

/* The line through the points, each of which counts as its error lets it. */
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
    /* Over a short time the errors say more than the clocks do: the slope's own doubt is 1 / sqrt(xx). */
    bool doubtful = xx * SPEED_MOST * SPEED_MOST < 1;
    return doubtful || fabs(slope) > SPEED_MOST ? 0 : slope;
}

bool msi_fit_burst(struct msi_fit *fit) {
    if (!fit->asked) return false;
    fit->points[fit->next] = fit->best;
    fit->next = (fit->next + 1) % MSI_FIT_KEPT;
    if (fit->n < MSI_FIT_KEPT) fit->n++;
    fit->asked = false;
    fit->slope = find_slope(fit);
    return true;
}

/* Of the points, by the line, the one that promises most for that moment. */
bool msi_fit_offset(const struct msi_fit *fit, int64_t at, int64_t *offset, int64_t *error) {
    double least = INFINITY;
    for (int i = 0; i < fit->n; i++) {
        const struct msi_fit_point *p = &fit->points[i];
        double apart = (double)(at - p->at);
        /* The line itself may be wrong; a tenth of what it says is a cautious guess, and some millionths in any case. */
        double doubt = (double)p->error + fabs(apart) * (fabs(fit->slope) * 0.1 + 1e-6);
        if (doubt >= least) continue;
        least = doubt;
        *offset = p->offset + (int64_t)(apart * fit->slope);
        *error = (int64_t)doubt;
    }
    return fit->n > 0;
}
