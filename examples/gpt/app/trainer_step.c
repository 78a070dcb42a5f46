/* trainer_step.c - the callbacks of the pipeline: a forward or backward pass of a micro-batch and chunk. */
#include "app/trainer.h"
#include "base/fail.h"

#include <string.h>

/* The activations of a step. Chunks differ in size, so each has its own. */
static struct gpt_acts *acts_of(struct gpt_trainer *t, const mst_pipeline_step *step) {
    struct gpt_acts **slot = &t->acts[(size_t)step->chunk * t->keeps + (size_t)step->keep];
    if (*slot || !(*slot = gpt_acts_new(t->model[step->chunk], t->sequences, t->time))) return *slot;
    for (size_t i = 0; i < t->time; i++) (*slot)->position[i] = (int)gpt_cp_position(&t->mesh, i, t->time);
    return *slot;
}

/* Reads the sequences of a micro-batch: this process's columns of each. */
static int read_tokens(struct gpt_trainer *t, size_t micro, const struct gpt_acts *a) {
    size_t context = t->config.context, step = gpt_trainer_steps(t);
    size_t first = t->first + micro * t->sequences;
    for (size_t b = 0; b < t->sequences; b++) {
        if (gpt_dataset_sequence(&t->dataset, t->options->seed, step, first + b, context, t->sequence,
                                 t->sequence + context))
            return -1;
        for (size_t i = 0; i < t->time; i++) {
            t->tokens[b * t->time + i] = t->sequence[a->position[i]];
            t->targets[b * t->time + i] = t->sequence[context + (size_t)a->position[i]];
        }
    }
    return 0;
}

static mst_status result(struct gpt_trainer *t, int st) {
    if (st) t->failed = true;
    return st ? MST_ERR_CALLBACK : MST_OK;
}

mst_status gpt_step_forward(const mst_pipeline_step *step, void *arg) {
    struct gpt_trainer *t = arg;
    struct gpt_acts *a = acts_of(t, step);
    struct gpt_hooks hooks = gpt_mesh_hooks(&t->mesh);
    if (!a) return result(t, -1);
    size_t bytes = a->rows * t->config.width * sizeof(float);
    if (step->first && read_tokens(t, (size_t)step->micro, a)) return result(t, -1);
    if (step->in) memcpy(gpt_acts_input(a), step->in, bytes);
    int st = gpt_forward(t->model[step->chunk], a, step->first ? t->tokens : NULL, &hooks);
    if (!st && step->out) memcpy(step->out, gpt_acts_output(a), bytes);
    return result(t, st);
}

mst_status gpt_step_backward(const mst_pipeline_step *step, void *arg) {
    struct gpt_trainer *t = arg;
    struct gpt_model *m = t->model[step->chunk];
    struct gpt_acts *a = acts_of(t, step);
    struct gpt_hooks hooks = gpt_mesh_hooks(&t->mesh);
    if (!a) return result(t, -1);
    size_t bytes = a->rows * t->config.width * sizeof(float);
    if ((step->first || step->last) && read_tokens(t, (size_t)step->micro, a)) return result(t, -1);
    if (step->in) memcpy(gpt_acts_gradient(a), step->in, bytes);
    if (step->last) gpt_loss(m, a, t->targets, 1 / (float)(t->options->batch * t->config.context), &t->loss);
    if ((size_t)step->micro + 1 == t->micro_batches && t->mesh.replicas) {
        gpt_dp_begin(&t->mesh, (size_t)step->chunk);
        hooks.gradient_ready = gpt_dp_gradient_ready;
    }
    int st = gpt_backward(m, a, t->tokens, &hooks);
    if (!st && step->out) memcpy(step->out, gpt_acts_gradient(a), bytes);
    return result(t, st);
}
