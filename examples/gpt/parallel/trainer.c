/* trainer.c - which parts of the model a process has; a step of training; checkpoints that all write. */
#include "parallel/trainer.h"

#include "app/fail.h"
#include "io/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool interleaved(const struct gpt_trainer *t) {
    return t->parallel.size[GPT_PP] > 1 && strcmp(t->options->schedule, "interleaved") == 0;
}

/* How the step's sequences are shared out. */
static int share(struct gpt_trainer *t) {
    const struct gpt_options *o = t->options;
    size_t dp = t->parallel.size[GPT_DP], cp = t->parallel.size[GPT_CP];
    t->micros = o->micro_batches ? o->micro_batches : t->parallel.size[GPT_PP];
    if (o->batch == 0) return gpt_fail("--batch 0: a step is of at least one sequence");
    if (o->batch % (dp * t->micros))
        return gpt_fail("--batch %zu cannot be split into %zu micro-batches for each of %zu copies: take a "
                        "multiple of %zu",
                        o->batch, t->micros, dp, dp * t->micros);
    if (cp > 1 && t->config.context % (2 * cp))
        return gpt_fail("--context %zu cannot be split over cp=%zu: take a multiple of %zu",
                        t->config.context, cp, 2 * cp);
    t->sequences = o->batch / dp / t->micros;
    t->time = t->config.context / cp;
    size_t rows = t->sequences * t->time;
    t->tokens = calloc(rows, sizeof *t->tokens);
    t->targets = calloc(rows, sizeof *t->targets);
    t->line = calloc(2 * t->config.context, sizeof *t->line);
    return t->tokens && t->targets && t->line ? 0 : gpt_fail("no memory");
}

static int open_models(struct gpt_trainer *t) {
    t->model = calloc(t->chunks, sizeof *t->model);
    t->adam = calloc(t->chunks, sizeof *t->adam);
    if (!t->model || !t->adam) return gpt_fail("no memory");
    for (size_t i = 0; i < t->chunks; i++) {
        struct gpt_part part;
        if (gpt_parallel_part(&t->parallel, &t->config, i, t->chunks, &part) ||
            !(t->model[i] = gpt_model_new(&t->config, &part, t->options->seed)) ||
            gpt_adam_init(t->model[i], &t->adam[i]))
            return -1;
    }
    return 0;
}

static int open_pipeline(struct gpt_trainer *t) {
    t->keeps = 1;
    if (t->parallel.group[GPT_PP]) {
        if (gpt_check(mst_pipeline_new(&t->pipeline, .group = t->parallel.group[GPT_PP],
                                       .schedule = t->options->schedule, .micros = (int)t->micros,
                                       .chunks = interleaved(t) ? (int)t->chunks : 0,
                                       .out = {MST_F32, 2, {t->sequences * t->time, t->config.width}},
                                       .forward = gpt_turn_forward, .backward = gpt_turn_backward, .arg = t)))
            return -1;
        t->keeps = (size_t)mst_pipeline_keeps(t->pipeline);
    }
    t->acts = calloc(t->keeps * t->chunks, sizeof(struct gpt_acts *));
    return t->acts ? 0 : gpt_fail("no memory");
}

/* Where training goes on from; NULL: it begins. */
static const char *load_from(const struct gpt_options *o) {
    char path[4096];
    if (!o->resume || !o->save) return o->load;
    snprintf(path, sizeof path, "%s/model.safetensors", o->save);
    return access(path, F_OK) == 0 ? o->save : o->load;
}

/* What a process does by itself. */
static int open_own(struct gpt_trainer *t) {
    const struct gpt_options *o = t->options;
    const char *load = t->from = load_from(o);
    if (load ? gpt_checkpoint_config(load, &t->config) || gpt_options_agree(o, load, &t->config)
             : gpt_options_config(o, &t->config))
        return -1;
    if (t->config.vocabulary < 256)
        return gpt_fail("a model of %zu tokens cannot read bytes", t->config.vocabulary);
    if (interleaved(t)) t->chunks = o->chunks;
    if (gpt_text_open(o->text, &t->text) || gpt_text_check(&t->text, t->config.context) || share(t) ||
        open_models(t) || (o->save && t->parallel.rank == 0 && gpt_checkpoint_prepare(o->save)))
        return -1;
    for (size_t i = 0; i < t->chunks; i++) {
        if (load && gpt_checkpoint_load(load, t->model[i], &t->adam[i])) return -1;
        t->adam[i].decay = (float)o->decay;
    }
    return 0;
}

/* Directories and files of the same name on several hosts may hold checkpoints of several steps, and several texts. */
static int check_same(struct gpt_trainer *t) {
    double steps = (double)gpt_trainer_steps(t), text = (double)t->text.sum, sums[] = {steps, text};
    int st = 0, ranks = t->parallel.ranks;
    if (gpt_parallel_sum(&t->parallel, sums, 2)) return -1;
    if (sums[0] != steps * ranks)
        st = gpt_fail("rank %d would go on from step %.0f, others from another: let all processes share the "
                      "directory of --save or --load",
                      t->parallel.rank, steps);
    else if (sums[1] != text * ranks)
        st =
            gpt_fail("rank %d trains on %s, of %zu bytes, and others on another text: let all have the same, "
                     "and say with --text which",
                     t->parallel.rank, t->text.path, t->text.size);
    return gpt_parallel_agree(&t->parallel, st);
}

int gpt_trainer_open(const struct gpt_options *o, struct gpt_trainer *t) {
    *t = (struct gpt_trainer){.options = o, .chunks = 1, .text.fd = -1};
    if (gpt_parallel_open(&t->parallel, o->mesh, o->deterministic)) return -1;
    if (gpt_parallel_agree(&t->parallel, open_own(t)) || check_same(t)) return -1;
    return open_pipeline(t);
}

void gpt_trainer_close(struct gpt_trainer *t, bool failed) {
    mst_pipeline_free(t->pipeline);
    if (failed && t->parallel.mesh)
        return; /* what was begun may still be under way in this memory: the exit frees it */
    for (size_t i = 0; t->acts && i < t->chunks * t->keeps; i++) gpt_acts_free(t->acts[i]);
    for (size_t i = 0; t->adam && i < t->chunks; i++) gpt_adam_free(&t->adam[i]);
    for (size_t i = 0; t->model && i < t->chunks; i++) gpt_model_free(t->model[i]);
    gpt_text_close(&t->text);
    free(t->acts);
    free(t->adam);
    free(t->model);
    free(t->tokens);
    free(t->targets);
    free(t->line);
    gpt_parallel_close(&t->parallel, failed);
}

size_t gpt_trainer_steps(const struct gpt_trainer *t) {
    return t->adam[0].step;
}

/* All micro-batches forward and back. */
static int passes(struct gpt_trainer *t) {
    mst_status st = MST_OK;
    if (t->pipeline) {
        st = mst_pipeline_run(t->pipeline);
        t->parallel.waited += mst_pipeline_last_times(t->pipeline).waiting;
    }
    for (int i = 0; !t->pipeline && st == MST_OK && i < (int)t->micros; i++) {
        mst_pipeline_step turn = {.micro = i, .first = true, .last = true};
        st = gpt_turn_forward(&turn, t);
        if (st == MST_OK) st = gpt_turn_backward(&turn, t);
    }
    return st != MST_OK && t->failed ? -1 : gpt_check(st);
}

/* The embedding's gradient where the table has two copies; NULL elsewhere. */
static float *end_table(const struct gpt_trainer *t) {
    for (size_t i = 0; i < t->chunks; i++)
        if (t->model[i]->dtable) return t->model[i]->dtable;
    return NULL;
}

/* This process's share of the squares of the gradient's elements, each of which counts once. */
static double squares(const struct gpt_trainer *t) {
    double sum = 0;
    for (size_t i = 0; i < t->chunks && gpt_parallel_saves(&t->parallel); i++) {
        struct gpt_squares s = gpt_gradient_squares(t->model[i]);
        sum += s.split + (t->parallel.at[GPT_TP] == 0 ? s.whole : 0);
    }
    return sum;
}

int gpt_trainer_step(struct gpt_trainer *t, double *loss) {
    const struct gpt_options *o = t->options;
    size_t step = gpt_trainer_steps(t);
    t->loss = 0;
    for (size_t i = 0; i < t->chunks; i++) gpt_zero_gradients(t->model[i]);
    if (passes(t) || gpt_data_end(&t->parallel) ||
        gpt_data_ends(&t->parallel, end_table(t), t->config.vocabulary * t->config.width))
        return -1;
    /* Every slice has the loss of its tokens. */
    double sums[2] = {t->parallel.at[GPT_TP] == 0 ? t->loss : 0, squares(t)};
    if (gpt_parallel_sum(&t->parallel, sums, 2)) return -1;
    *loss = sums[0] / (double)(o->batch * t->config.context);
    if (!isfinite(*loss) || !isfinite(sums[1])) { /* as all know, before a weight has changed */
        if (t->parallel.rank > 0) gpt_hush();
        return gpt_fail("the %s of step %zu is no number: try a smaller --rate%s",
                        isfinite(*loss) ? "gradient" : "loss", step,
                        o->load || o->resume ? ", or another model to begin with" : "");
    }
    float rate = gpt_rate((float)o->rate, step, o->warmup, o->steps), clip = gpt_clip(sqrt(sums[1]), o->clip);
    for (size_t i = 0; i < t->chunks; i++) gpt_adam_step(&t->adam[i], t->model[i], rate, clip);
    return 0;
}

int gpt_trainer_save(struct gpt_trainer *t, const char *directory) {
    struct gpt_parallel *p = &t->parallel;
    int st = 0;
    if (p->rank == 0) st = gpt_checkpoint_create(directory, &t->config, true, gpt_trainer_steps(t));
    st = gpt_parallel_agree(p, st);
    if (!st) {
        for (size_t i = 0; i < t->chunks && gpt_parallel_saves(p) && !st; i++)
            st = gpt_checkpoint_write(directory, t->model[i], &t->adam[i]);
        st = gpt_parallel_agree(p, st);
    }
    if (p->rank == 0) {
        if (!st) st = gpt_checkpoint_finish(directory);
        if (st) gpt_checkpoint_drop(directory);
    }
    return st;
}
