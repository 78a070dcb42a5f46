/* train.c - the command: steps, lines of progress, checkpoints. One process of a mesh speaks for all. */
#include "commands.h"
#include "fail.h"
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>

static int say_model(const struct gpt_trainer *t) {
    const struct gpt_config *c = &t->config;
    struct gpt_part whole = gpt_part_whole(c);
    struct gpt_param *list = calloc(gpt_params_most(c), sizeof *list);
    if (!list) return gpt_fail("no memory");
    size_t n = gpt_params_list(c, &whole, list);
    printf("%zu parameters: %zu layers, %zu wide, %zu heads, context %zu\n",
           list[n - 1].offset + list[n - 1].count, c->layers, c->width, c->heads, c->context);
    printf("%s: %zu bytes\n", t->text.path, t->text.file.size);
    if (t->options->mesh)
        printf("%d process%s: %s\n", t->parallel.ranks, t->parallel.ranks > 1 ? "es" : "", t->options->mesh);
    free(list);
    return 0;
}

struct progress {
    size_t first;
    double begin;
};

/* All processes call: their shares of time in communication are averaged. */
static int say_step(struct gpt_trainer *t, const struct progress *p, size_t step, double loss) {
    double took = gpt_now() - p->begin, share = t->parallel.waited / took;
    double rate = (double)((step + 1 - p->first) * t->options->batch * t->config.context) / took;
    if (gpt_parallel_sum(&t->parallel, &share, 1)) return -1;
    if (t->parallel.rank > 0) return 0;
    printf("step %4zu  loss %.*f  %6.0f tokens/s", step, (int)t->options->digits, loss, rate);
    if (t->options->mesh) printf("  %2.0f %% communication", 100 * share / t->parallel.ranks);
    printf("\n");
    fflush(stdout);
    return 0;
}

static int train(struct gpt_trainer *t) {
    const struct gpt_options *o = t->options;
    struct progress progress = {gpt_trainer_steps(t), gpt_now()};
    size_t last = o->stop_after && o->stop_after < o->steps ? o->stop_after : o->steps, step;
    double loss;
    t->parallel.waited = 0; /* to begin with, all had to come */
    if (progress.first >= last && progress.first && t->parallel.rank == 0)
        printf("%zu steps are done already\n", progress.first);
    while ((step = gpt_trainer_steps(t)) < last) {
        if (gpt_trainer_step(t, &loss)) return -1;
        bool line = (o->every && step % o->every == 0) || step + 1 == last;
        if (line && say_step(t, &progress, step, loss)) return -1;
        bool save = o->save && o->save_every && (step + 1) % o->save_every == 0 && step + 1 < last;
        if (save && gpt_trainer_save(t, o->save)) return -1;
    }
    return o->save ? gpt_trainer_save(t, o->save) : 0;
}

int gpt_train(const struct gpt_options *options) {
    struct gpt_trainer t;
    int st = gpt_trainer_open(options, &t);
    bool speaks = t.parallel.rank == 0;
    if (!st && speaks) st = say_model(&t);
    if (!st) st = train(&t);
    if (!st && options->save && speaks) printf("saved in %s\n", options->save);
    gpt_trainer_close(&t, st != 0);
    return st;
}
