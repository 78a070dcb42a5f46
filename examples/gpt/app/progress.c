/* progress.c - see progress.h. */
#include "app/progress.h"

#include "base/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_backend(struct gpt_progress *p, const char *name, size_t length, size_t lines) {
    struct gpt_backend_rate *b = &p->backends[p->n];
    if (p->n == GPT_BACKENDS_MAX) return gpt_fail("--backend: at most %d backends", GPT_BACKENDS_MAX);
    if (length == 0 || length >= sizeof b->name)
        return gpt_fail("--backend: expected names separated by commas, such as native,mpi");
    memcpy(b->name, name, length);
    b->rates = calloc(2 * lines, sizeof *b->rates);
    if (!b->rates) return gpt_fail("no memory");
    b->shares = b->rates + lines;
    p->n++;
    return 0;
}

static int begin_trial(struct gpt_progress *p, struct gpt_trainer *t) {
    if (p->n && gpt_mesh_set_backend(&t->mesh, p->backends[p->at].name)) return -1;
    p->step = gpt_trainer_steps(t);
    p->time = gpt_now();
    p->comm_seconds = t->mesh.comm_seconds;
    return 0;
}

static int add_backends(struct gpt_progress *p, const struct gpt_options *o) {
    size_t length, lines = o->steps / (o->every ? o->every : o->steps + 1) +
                           2; /* the first and the last step have a line, too */
    for (const char *name = o->backend; name; name = name[length] ? name + length + 1 : NULL) {
        length = strcspn(name, ",");
        if (add_backend(p, name, length, lines)) return -1;
    }
    return 0;
}

/* Opens each backend once, so that a backend that cannot be opened fails before training starts. */
int gpt_progress_open(struct gpt_progress *p, struct gpt_trainer *t) {
    *p = (struct gpt_progress){0};
    if (gpt_mesh_agree(&t->mesh, add_backends(p, t->options))) return -1;
    for (size_t i = p->n; i-- > 0;)
        if (gpt_mesh_set_backend(&t->mesh, p->backends[i].name)) return -1;
    return begin_trial(p, t);
}

void gpt_progress_close(struct gpt_progress *p) {
    for (size_t i = 0; i < p->n; i++) free(p->backends[i].rates);
}

static void print_line(const struct gpt_progress *p, const struct gpt_trainer *t, double loss, double rate,
                       double share) {
    printf("step %4zu  loss %.*f  %6.0f tokens/s", gpt_trainer_steps(t) - 1, (int)t->options->digits, loss,
           rate);
    if (t->options->mesh) printf("  %2.0f %% communication", 100 * share);
    if (p->n) printf("  %s", p->backends[p->at].name);
    printf("\n");
    fflush(stdout);
}

int gpt_progress_line(struct gpt_progress *p, struct gpt_trainer *t, double loss) {
    double took = gpt_now() - p->time, share = (t->mesh.comm_seconds - p->comm_seconds) / took;
    double rate = (double)((gpt_trainer_steps(t) - p->step) * t->options->batch * t->config.context) / took;
    if (gpt_mesh_sum(&t->mesh, &share, 1)) return -1;
    share /= t->mesh.ranks;
    if (t->mesh.rank == 0) print_line(p, t, loss, rate, share);
    if (p->n) {
        struct gpt_backend_rate *b = &p->backends[p->at];
        b->rates[b->n] = rate;
        b->shares[b->n++] = share;
        p->at = (p->at + 1) % p->n;
    }
    return begin_trial(p, t);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Without the first line, which includes making connections and the first access to memory. */
static double median(double *numbers, size_t n) {
    size_t first = n > 1 ? 1 : 0;
    qsort(numbers + first, n - first, sizeof *numbers, by_value);
    return numbers[first + (n - first) / 2];
}

void gpt_progress_summary(struct gpt_progress *p, const struct gpt_trainer *t) {
    if (p->n < 2 || t->mesh.rank > 0) return;
    printf("\n%-12s %10s %15s\n", "backend", "tokens/s", "communication");
    for (size_t i = 0; i < p->n && p->backends[i].n; i++) {
        struct gpt_backend_rate *b = &p->backends[i];
        printf("%-12s %10.0f %13.1f %%\n", b->name, median(b->rates, b->n), 100 * median(b->shares, b->n));
    }
}
