/* train.c - the command train: steps, progress, checkpoints. Rank 0 prints. */
#include "app/commands.h"
#include "app/progress.h"
#include "base/fail.h"

#include <stdio.h>
#include <stdlib.h>

static size_t last_step(const struct gpt_options *o) {
    return o->stop_after && o->stop_after < o->steps ? o->stop_after : o->steps;
}

static void print_start(const struct gpt_trainer *t) {
    size_t step = gpt_trainer_steps(t);
    if (step && t->from)
        printf(step < last_step(t->options)
                   ? "resuming from %s after %zu steps\n"
                   : "%s already has %zu steps; raise --steps or --stop-after for more\n",
               t->from, step);
}

static int print_model(const struct gpt_trainer *t) {
    const struct gpt_config *c = &t->config;
    struct gpt_shard whole = gpt_shard_whole(c);
    struct gpt_param *list = calloc(gpt_params_max(c), sizeof *list);
    if (!list) return gpt_fail("no memory");
    size_t n = gpt_params_list(c, &whole, list);
    printf("%zu parameters: %zu layers, width %zu, %zu heads, context %zu\n",
           list[n - 1].offset + list[n - 1].count, c->layers, c->width, c->heads, c->context);
    printf("%s: %zu bytes\n", t->dataset.path, t->dataset.size);
    if (t->options->mesh)
        printf("%d process%s: %s\n", t->mesh.ranks, t->mesh.ranks > 1 ? "es" : "", t->options->mesh);
    print_start(t);
    free(list);
    return 0;
}

static int train(struct gpt_trainer *t, struct gpt_progress *progress) {
    const struct gpt_options *o = t->options;
    size_t last = last_step(o), step;
    double loss;
    while ((step = gpt_trainer_steps(t)) < last) {
        if (gpt_trainer_step(t, &loss)) return -1;
        bool line = (o->every && step % o->every == 0) || step + 1 == last;
        if (line && gpt_progress_line(progress, t, loss)) return -1;
        bool save = o->save && o->save_every && (step + 1) % o->save_every == 0 && step + 1 < last;
        if (save && gpt_trainer_save(t, o->save)) return -1;
    }
    gpt_progress_summary(progress, t);
    return o->save ? gpt_trainer_save(t, o->save) : 0;
}

/* A process was lost. New processes open their progress, too, so all do. */
static int go_on(struct gpt_trainer *t, struct gpt_progress *progress) {
    if (gpt_trainer_recover(t)) return -1;
    gpt_progress_close(progress);
    return gpt_progress_open(progress, t) ? -1 : train(t, progress);
}

int gpt_train(const struct gpt_options *options) {
    struct gpt_trainer t;
    struct gpt_progress progress = {0};
    int st = gpt_trainer_open(options, &t);
    if (!st) st = gpt_progress_open(&progress, &t);
    if (!st && t.mesh.rank == 0 && !t.mesh.joins) st = print_model(&t);
    if (!st) st = train(&t, &progress);
    while (st && options->survive && gpt_mesh_lost()) st = go_on(&t, &progress);
    if (!st && options->save && t.mesh.rank == 0) printf("saved in %s\n", options->save);
    gpt_progress_close(&progress);
    gpt_trainer_close(&t, st != 0);
    return st;
}
