/* progress.c - lines of progress; turns of backends. See progress.h. */
#include "app/progress.h"

#include "app/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_side(struct gpt_progress *p, const char *name, size_t length, size_t lines) {
    struct gpt_side *side = &p->sides[p->n];
    if (p->n == GPT_SIDES) return gpt_fail("--backend: at most %d can take turns", GPT_SIDES);
    if (length == 0 || length >= sizeof side->name)
        return gpt_fail("--backend: names with commas between are expected, such as native,mpi");
    memcpy(side->name, name, length);
    side->rates = calloc(2 * lines, sizeof *side->rates);
    if (!side->rates) return gpt_fail("no memory");
    side->shares = side->rates + lines;
    p->n++;
    return 0;
}

static int begin_turn(struct gpt_progress *p, struct gpt_trainer *t) {
    if (p->n && gpt_parallel_use(&t->parallel, p->sides[p->at].name)) return -1;
    p->step = gpt_trainer_steps(t);
    p->time = gpt_now();
    p->waited = t->parallel.waited;
    return 0;
}

static int add_sides(struct gpt_progress *p, const struct gpt_options *o) {
    size_t length,
        lines = o->steps / (o->every ? o->every : o->steps + 1) + 2; /* the first and the last, too */
    for (const char *name = o->backend; name; name = name[length] ? name + length + 1 : NULL) {
        length = strcspn(name, ",");
        if (add_side(p, name, length, lines)) return -1;
    }
    return 0;
}

/* Each is opened once, so that one that cannot be is known before training begins. */
int gpt_progress_open(struct gpt_progress *p, struct gpt_trainer *t) {
    *p = (struct gpt_progress){0};
    if (gpt_parallel_agree(&t->parallel, add_sides(p, t->options))) return -1;
    for (size_t i = p->n; i-- > 0;)
        if (gpt_parallel_use(&t->parallel, p->sides[i].name)) return -1;
    return begin_turn(p, t);
}

void gpt_progress_close(struct gpt_progress *p) {
    for (size_t i = 0; i < p->n; i++) free(p->sides[i].rates);
}

static void print_line(const struct gpt_progress *p, const struct gpt_trainer *t, double loss, double rate,
                       double share) {
    printf("step %4zu  loss %.*f  %6.0f tokens/s", gpt_trainer_steps(t) - 1, (int)t->options->digits, loss,
           rate);
    if (t->options->mesh) printf("  %2.0f %% communication", 100 * share);
    if (p->n) printf("  %s", p->sides[p->at].name);
    printf("\n");
    fflush(stdout);
}

int gpt_progress_line(struct gpt_progress *p, struct gpt_trainer *t, double loss) {
    double took = gpt_now() - p->time, share = (t->parallel.waited - p->waited) / took;
    double rate = (double)((gpt_trainer_steps(t) - p->step) * t->options->batch * t->config.context) / took;
    if (gpt_parallel_sum(&t->parallel, &share, 1)) return -1;
    share /= t->parallel.ranks;
    if (t->parallel.rank == 0) print_line(p, t, loss, rate, share);
    if (p->n) {
        struct gpt_side *side = &p->sides[p->at];
        side->rates[side->n] = rate;
        side->shares[side->n++] = share;
        p->at = (p->at + 1) % p->n;
    }
    return begin_turn(p, t);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Connections are made, and memory is touched first, in the first line. */
static double median(double *numbers, size_t n) {
    size_t first = n > 1 ? 1 : 0;
    qsort(numbers + first, n - first, sizeof *numbers, by_size);
    return numbers[first + (n - first) / 2];
}

void gpt_progress_summary(struct gpt_progress *p, const struct gpt_trainer *t) {
    if (p->n < 2 || t->parallel.rank > 0) return;
    printf("\n%-12s %10s %15s\n", "backend", "tokens/s", "communication");
    for (size_t i = 0; i < p->n && p->sides[i].n; i++) {
        struct gpt_side *side = &p->sides[i];
        printf("%-12s %10.0f %13.1f %%\n", side->name, median(side->rates, side->n),
               100 * median(side->shares, side->n));
    }
}
