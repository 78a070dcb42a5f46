/*
 * cache.h - generation: the keys and values of what was read are kept, so each new token costs one row. Several
 * sequences of one length go together. A stage of a pipeline keeps those of its own layers.
 */
#ifndef GPT_NN_CACHE_H
#define GPT_NN_CACHE_H

#include "nn/model.h"

enum { GPT_CACHE_MOST = 65536 }; /* sequences */

struct gpt_cache {
    struct gpt_model *model;
    size_t batch, capacity, length; /* sequences; tokens that fit; tokens that are kept */
    size_t most;                    /* tokens of a sequence taken at once */
    float *keys;          /* [layer][batch][local width][capacity]: products are quick so, see matmul.h */
    float *values;        /* [layer][batch][capacity][local width] */
    struct gpt_acts acts; /* one layer's, used by all */
    float *logits;        /* [batch][vocabulary], of each sequence's last token; last stage only */
    size_t layer;         /* the one that is being computed */
    const struct gpt_hooks *hooks; /* of the caller */
};

/* NULL, and words, where memory lacks or capacity is more than the model's context. Weights must not change after. */
struct gpt_cache *gpt_cache_new(struct gpt_model *model, size_t batch, size_t capacity, size_t most);
void gpt_cache_free(struct gpt_cache *cache);

/*
 * Reads `count` more tokens of each sequence, tokens[batch][count]; a stage that is not the first has its input in
 * gpt_acts_input(&cache->acts), [batch][count][width], instead. The output is in gpt_acts_output(&cache->acts), and for
 * the last stage in logits. Attention in hooks is not used.
 */
int gpt_cache_read(struct gpt_cache *cache, const int *tokens, size_t count, const struct gpt_hooks *hooks);
/* Forgets all but the first `length` tokens. */
void gpt_cache_cut(struct gpt_cache *cache, size_t length);

/* The next token by its logits: the likeliest at temperature 0, else drawn; `draw` is uniform in [0, 1). */
int gpt_choose(float *logits, size_t vocabulary, float temperature, double draw);

#endif
