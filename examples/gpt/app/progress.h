/*
 * progress.h - lines of progress, and how quick training is over each of the backends that take turns: all of them in one run, a line
 * each, so that what else the machine does meets them alike.
 *
 * All processes call; one of them prints. Functions return 0, or -1 after gpt_fail.
 */
#ifndef GPT_APP_PROGRESS_H
#define GPT_APP_PROGRESS_H

#include "parallel/trainer.h"

enum { GPT_SIDES = 8 };

/* A backend, and what each of its lines said. */
struct gpt_side {
    char name[64];
    double *rates, *shares;
    size_t n;
};

struct gpt_progress {
    struct gpt_side sides[GPT_SIDES];
    size_t n, at;        /* backends, 0: the one there is; whose turn it is */
    size_t step;         /* where the last line ended */
    double time, waited; /* then */
};

int gpt_progress_open(struct gpt_progress *p, struct gpt_trainer *t);
void gpt_progress_close(struct gpt_progress *p);

/* A line for the steps since the last one; the next backend's turn begins. */
int gpt_progress_line(struct gpt_progress *p, struct gpt_trainer *t, double loss);
/* Where several backends took turns: the medians of their lines, without each one's first. */
void gpt_progress_summary(struct gpt_progress *p, const struct gpt_trainer *t);

#endif
