/* train.c - training in one process: micro-batches forward and back, then a step of the optimiser. */
#include "checkpoint.h"
#include "commands.h"
#include "data.h"
#include "fail.h"
#include "model.h"
#include "optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct trainer {
    const struct gpt_options *options;
    struct gpt_text text;
    struct gpt_model *model;
    struct gpt_adam adam;
    struct gpt_acts *acts;
    int *tokens, *targets; /* of a micro-batch */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void close_trainer(struct trainer *t) {
    gpt_acts_free(t->acts);
    gpt_adam_free(&t->adam);
    gpt_model_free(t->model);
    gpt_text_close(&t->text);
    free(t->tokens);
    free(t->targets);
}

static int open_trainer(struct trainer *t) {
    const struct gpt_options *o = t->options;
    struct gpt_config config;
    if (o->load ? gpt_checkpoint_config(o->load, &config) : gpt_options_config(o, &config)) return -1;
    if (config.vocabulary < 256)
        return gpt_fail("a model of %zu tokens cannot read bytes", config.vocabulary);
    if (o->micro_batches == 0 || o->batch == 0 || o->batch % o->micro_batches)
        return gpt_fail("--batch %zu cannot be split into %zu micro-batches", o->batch, o->micro_batches);
    struct gpt_part whole = gpt_part_whole(&config);
    if (gpt_text_open(o->text, &t->text)) return -1;
    if (!(t->model = gpt_model_new(&config, &whole, o->seed)) || gpt_adam_init(t->model, &t->adam)) return -1;
    if (o->load && gpt_checkpoint_load(o->load, t->model, &t->adam)) return -1;
    t->adam.decay = (float)o->decay;
    if (!(t->acts = gpt_acts_new(t->model, o->batch / o->micro_batches, config.context))) return -1;
    t->tokens = calloc(t->acts->rows, sizeof *t->tokens);
    t->targets = calloc(t->acts->rows, sizeof *t->targets);
    return t->tokens && t->targets ? 0 : gpt_fail("no memory");
}

/* Forward and back over one micro-batch; adds its tokens' losses. */
static int micro_batch(struct trainer *t, size_t step, size_t index, double *loss) {
    struct gpt_acts *a = t->acts;
    for (size_t b = 0; b < a->batch; b++)
        if (gpt_text_sequence(&t->text, t->options->seed, step, index * a->batch + b, a->time,
                              t->tokens + b * a->time, t->targets + b * a->time))
            return -1;
    if (gpt_forward(t->model, a, t->tokens, NULL)) return -1;
    *loss += gpt_loss(t->model, a, t->targets, 1 / (float)(a->rows * t->options->micro_batches));
    return gpt_backward(t->model, a, t->tokens, NULL);
}

/* The step's mean loss. */
static int train_step(struct trainer *t, double *loss) {
    const struct gpt_options *o = t->options;
    size_t step = t->adam.step;
    double sum = 0;
    gpt_zero_gradients(t->model);
    for (size_t i = 0; i < o->micro_batches; i++)
        if (micro_batch(t, step, i, &sum)) return -1;
    struct gpt_squares squares = gpt_gradient_squares(t->model);
    float rate = gpt_rate((float)o->rate, step, o->warmup, o->steps);
    gpt_adam_step(&t->adam, t->model, rate, gpt_clip(sqrt(squares.whole + squares.split), o->clip));
    *loss = sum / (double)(t->acts->rows * o->micro_batches);
    return isfinite(*loss) ? 0 : gpt_fail("the loss of step %zu is no number: try a smaller --rate", step);
}

static void say_model(const struct trainer *t) {
    const struct gpt_config *c = &t->model->config;
    printf("%zu parameters: %zu layers, %zu wide, %zu heads, context %zu\n", t->model->count, c->layers,
           c->width, c->heads, c->context);
    printf("%s: %zu bytes\n", t->text.path, t->text.file.size);
}

static int train(struct trainer *t) {
    const struct gpt_options *o = t->options;
    double begin = now(), loss;
    size_t first = t->adam.step;
    size_t last = o->stop_after && o->stop_after < o->steps ? o->stop_after : o->steps;
    while (t->adam.step < last) {
        size_t step = t->adam.step;
        if (train_step(t, &loss)) return -1;
        if ((o->every && step % o->every == 0) || step + 1 == last) {
            double rate = (double)((step + 1 - first) * o->batch * t->acts->time) / (now() - begin);
            printf("step %4zu  loss %.4f  %6.0f tokens/s\n", step, loss, rate);
            fflush(stdout);
        }
        if (o->save && o->save_every && t->adam.step % o->save_every == 0 && t->adam.step < last &&
            gpt_checkpoint_save(o->save, t->model, &t->adam))
            return -1;
    }
    return o->save ? gpt_checkpoint_save(o->save, t->model, &t->adam) : 0;
}

int gpt_train(const struct gpt_options *options) {
    struct trainer t = {.options = options};
    int st = open_trainer(&t);
    if (!st) say_model(&t);
    if (!st) st = train(&t);
    if (!st && options->save) printf("saved in %s\n", options->save);
    close_trainer(&t);
    return st;
}
