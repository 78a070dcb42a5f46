/*
 * fit.h - estimates the offset of another host's clock from questions and answers. Pure.
 *
 * The client asks at a, the server reads its clock t, and the answer arrives at b. Between a and b the
 * server's clock was t, so it is ahead by t - (a + b) / 2 with an error of (b - a) / 2, however the delay is
 * divided between the two directions. The fastest answer of a burst counts. The speeds of clocks differ by
 * some millionths; a line through the last bursts corrects that.
 */
#ifndef MSI_PROF_CLOCK_FIT_H
#define MSI_PROF_CLOCK_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* 73 years: later times are invalid; sums and differences of valid times fit 64 bits. */
#define MSI_TIME_MOST (INT64_MAX / 4)

enum { MSI_FIT_KEPT = 64 };

struct msi_fit_point {
    int64_t at;            /* our clock */
    int64_t offset, error; /* how far the other clock is ahead, and the error of that */
};

struct msi_fit {
    struct msi_fit_point points[MSI_FIT_KEPT]; /* a ring */
    int n, next;
    struct msi_fit_point best; /* of the current burst; error 0: no answer yet */
    double slope;              /* how much faster the other clock runs */
};

/* Adds an answer: asked at a, answered with t, received at b. Invalid times are ignored. */
void msi_fit_answer(struct msi_fit *fit, int64_t a, int64_t t, int64_t b);
/* Ends the burst; false: it had no answer. */
bool msi_fit_burst(struct msi_fit *fit);

/* How far the other clock is ahead at a time of our clock, and the error; false: not known yet. */
bool msi_fit_offset(const struct msi_fit *fit, int64_t at, int64_t *offset, int64_t *error);

#endif
