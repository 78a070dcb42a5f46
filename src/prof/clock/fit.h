/*
 * fit.h - how far another host's clock is from ours, from questions and answers. Pure.
 *
 * We ask at a, they look at their clock, t, and the answer is here at b: between a and b their clock was t, so that it is ahead by
 * t - (a + b) / 2, give or take (b - a) / 2, whatever the ways there and back took. The faster the answer, the better: of a burst
 * the fastest counts. Clocks run at speeds that differ by some millionths, which the line through the last bursts has in it.
 */
#ifndef MSI_PROF_CLOCK_FIT_H
#define MSI_PROF_CLOCK_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* 73 years: what a clock says beyond that makes no sense, and sums and differences of less fit 64 bits. */
#define MSI_TIME_MOST (INT64_MAX / 4)

enum { MSI_FIT_KEPT = 64 };

struct msi_fit_point {
    int64_t at;            /* our clock */
    int64_t offset, error; /* theirs is so much ahead, give or take */
};

struct msi_fit {
    struct msi_fit_point points[MSI_FIT_KEPT]; /* a ring */
    int n, next;
    struct msi_fit_point best; /* of the burst that is under way, … */
    bool asked;                /* … if there was an answer in it */
    double slope;              /* how much faster theirs runs */
};

/* An answer: asked at a, answered with t, which came at b. Those that make no sense do not count. */
void msi_fit_answer(struct msi_fit *fit, int64_t a, int64_t t, int64_t b);
/* The burst is over; false: there was no answer in it. */
bool msi_fit_burst(struct msi_fit *fit);

/* How much theirs is ahead at a moment of our clock, and how wrong that may be; false: nobody knows. */
bool msi_fit_offset(const struct msi_fit *fit, int64_t at, int64_t *offset, int64_t *error);

#endif
