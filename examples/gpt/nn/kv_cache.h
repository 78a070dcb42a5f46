/*
 * kv_cache.h - the KV cache: generation keeps the keys and values of all tokens read so far, so that a new
 * token costs one row. A cache holds several sequences of the same length. A pipeline stage caches its own
 * layers.
 */
#ifndef GPT_NN_KV_CACHE_H
#define GPT_NN_KV_CACHE_H

#include "nn/model.h"

enum { GPT_KV_CACHE_MAX = 65536 }; /* sequences */

struct gpt_kv_cache {
    struct gpt_model *model;
    size_t batch, capacity, length; /* sequences; tokens that fit; tokens read */
    size_t max_count;               /* the most tokens of a sequence that one call reads */
    float
        *keys; /* [layer][batch][local width][capacity]: transposed, which makes products with one row fast */
    float *values;                 /* [layer][batch][capacity][local width] */
    struct gpt_acts acts;          /* of one layer; all layers use the same memory */
    float *logits;                 /* [batch][vocabulary], of each sequence's last token; last stage only */
    size_t layer;                  /* being computed */
    const struct gpt_hooks *hooks; /* the caller's */
};

/* NULL after gpt_fail. capacity is at most the model's context. The weights must not change afterwards. */
struct gpt_kv_cache *gpt_kv_cache_new(struct gpt_model *model, size_t batch, size_t capacity,
                                      size_t max_count);
void gpt_kv_cache_free(struct gpt_kv_cache *cache);

/*
 * Reads `count` more tokens of each sequence. The first stage takes tokens[batch][count]; a later stage takes
 * gpt_acts_input(&cache->acts), [batch][count][width]. The output is gpt_acts_output(&cache->acts), and
 * logits in the last stage. The attention hooks are not used.
 */
int gpt_kv_cache_forward(struct gpt_kv_cache *cache, const int *tokens, size_t count,
                         const struct gpt_hooks *hooks);
/* Keeps the first `length` tokens. */
void gpt_kv_cache_truncate(struct gpt_kv_cache *cache, size_t length);

/*
 * The next token: the most likely one at temperature 0, else a sample; `draw` is uniform in [0, 1).
 * Overwrites logits.
 */
int gpt_sample_token(float *logits, size_t vocabulary, float temperature, double draw);

#endif
