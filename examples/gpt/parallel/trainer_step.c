/* trainer_step.c - what a stage does in its turn: a micro-batch through one of its parts, forward or back. */
#include "app/fail.h"
#include "parallel/trainer.h"

#include <string.h>

/* The activations for a turn's place; chunks differ in size, so each has its own. */
static struct gpt_acts *acts_of(struct gpt_trainer *t, const mst_pipeline_step *turn) {
    struct gpt_acts **slot = &t->acts[(size_t)turn->chunk * t->keeps + (size_t)turn->keep];
    if (*slot || !(*slot = gpt_acts_new(t->model[turn->chunk], t->sequences, t->time))) return *slot;
    for (size_t i = 0; i < t->time; i++) (*slot)->place[i] = (int)gpt_context_place(&t->parallel, i, t->time);
    return *slot;
}

/* This process's columns of its sequences of a micro-batch. */
static int read_tokens(struct gpt_trainer *t, size_t micro, const struct gpt_acts *a) {
    size_t whole = t->config.context, step = gpt_trainer_steps(t);
    size_t first = (t->parallel.at[GPT_DP] * t->micros + micro) * t->sequences;
    for (size_t b = 0; b < t->sequences; b++) {
        if (gpt_text_sequence(&t->text, t->options->seed, step, first + b, whole, t->line, t->line + whole))
            return -1;
        for (size_t i = 0; i < t->time; i++) {
            t->tokens[b * t->time + i] = t->line[a->place[i]];
            t->targets[b * t->time + i] = t->line[whole + (size_t)a->place[i]];
        }
    }
    return 0;
}

static mst_status ended(struct gpt_trainer *t, int st) {
    if (st) t->failed = true;
    return st ? MST_ERR_CALLBACK : MST_OK;
}

mst_status gpt_turn_forward(const mst_pipeline_step *turn, void *arg) {
    struct gpt_trainer *t = arg;
    struct gpt_acts *a = acts_of(t, turn);
    struct gpt_hooks hooks = gpt_parallel_hooks(&t->parallel);
    if (!a) return ended(t, -1);
    size_t bytes = a->rows * t->config.width * sizeof(float);
    if (turn->first && read_tokens(t, (size_t)turn->micro, a)) return ended(t, -1);
    if (turn->in) memcpy(gpt_acts_input(a), turn->in, bytes);
    int st = gpt_forward(t->model[turn->chunk], a, turn->first ? t->tokens : NULL, &hooks);
    if (!st && turn->out) memcpy(turn->out, gpt_acts_output(a), bytes);
    return ended(t, st);
}

mst_status gpt_turn_backward(const mst_pipeline_step *turn, void *arg) {
    struct gpt_trainer *t = arg;
    struct gpt_model *m = t->model[turn->chunk];
    struct gpt_acts *a = acts_of(t, turn);
    struct gpt_hooks hooks = gpt_parallel_hooks(&t->parallel);
    if (!a) return ended(t, -1);
    size_t bytes = a->rows * t->config.width * sizeof(float);
    if ((turn->first || turn->last) && read_tokens(t, (size_t)turn->micro, a)) return ended(t, -1);
    if (turn->in) memcpy(gpt_acts_gradient(a), turn->in, bytes);
    if (turn->last) gpt_loss(m, a, t->targets, 1 / (float)(t->options->batch * t->config.context), &t->loss);
    if ((size_t)turn->micro + 1 == t->micros && t->parallel.copies) {
        gpt_data_begin(&t->parallel, m);
        hooks.gradient_ready = gpt_data_ready;
    }
    int st = gpt_backward(m, a, t->tokens, &hooks);
    if (!st && turn->out) memcpy(turn->out, gpt_acts_gradient(a), bytes);
    return ended(t, st);
}
