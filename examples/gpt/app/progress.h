/*
 * progress.h - prints lines of progress, and compares backends: with several, training switches to the next
 * backend after each line, so that other load on the machine affects all of them alike.
 *
 * All processes call; rank 0 prints. Functions return 0, or -1 after gpt_fail.
 */
#ifndef GPT_APP_PROGRESS_H
#define GPT_APP_PROGRESS_H

#include "app/trainer.h"

enum { GPT_BACKENDS_MAX = 8 };

/* The measurements of a backend: tokens/s and share of communication, one for each line. */
struct gpt_backend_rate {
    char name[64];
    double *rates, *shares;
    size_t n;
};

struct gpt_progress {
    struct gpt_backend_rate backends[GPT_BACKENDS_MAX];
    size_t n, at; /* backends (0: the default alone); the current one */
    size_t step;  /* at the last line */
    double time, comm_seconds;
};

int gpt_progress_open(struct gpt_progress *p, struct gpt_trainer *t);
void gpt_progress_close(struct gpt_progress *p);

/* Prints a line for the steps since the last one, then switches to the next backend. */
int gpt_progress_line(struct gpt_progress *p, struct gpt_trainer *t, double loss);
/* With several backends: prints the medians of their lines, without the first of each. */
void gpt_progress_summary(struct gpt_progress *p, const struct gpt_trainer *t);

#endif
