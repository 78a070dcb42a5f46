/* logits.c - the command logits: prints the logits of given tokens, to compare models. */
#include "app/commands.h"
#include "app/sequence.h"
#include "base/fail.h"
#include "io/checkpoint.h"
#include "nn/model.h"

#include <stdio.h>
#include <stdlib.h>

static struct gpt_model *load(const struct gpt_options *o) {
    struct gpt_config config;
    if (!o->load) return gpt_fail("give the directory of a model with --load"), NULL;
    if (gpt_checkpoint_config(o->load, &config)) return NULL;
    struct gpt_shard whole = gpt_shard_whole(&config);
    struct gpt_model *model = gpt_model_blank(&config, &whole);
    if (model && gpt_checkpoint_load(o->load, model, NULL)) {
        gpt_model_free(model);
        return NULL;
    }
    return model;
}

int gpt_logits(const struct gpt_options *options) {
    struct gpt_sequence s = {0};
    struct gpt_model *model = load(options);
    struct gpt_acts *acts = NULL;
    int st = model ? gpt_sequence_read_prompt(options, &s) : -1;
    if (!st && s.count > model->config.context)
        st = gpt_fail("%zu tokens; the model takes up to %zu", s.count, model->config.context);
    if (!st) st = (acts = gpt_acts_new(model, 1, s.count)) ? gpt_forward(model, acts, s.tokens, NULL) : -1;
    for (size_t row = 0; row < s.count && !st; row++)
        for (size_t i = 0; i < model->config.vocabulary; i++)
            printf("%.9g%c", (double)acts->logits[row * model->config.vocabulary + i],
                   i + 1 < model->config.vocabulary ? ' ' : '\n');
    gpt_acts_free(acts);
    free(s.tokens);
    gpt_model_free(model);
    return st;
}
