/* kv_cache.c - runs the layers of training, with a hook that makes attention read the cache. */
#include "nn/kv_cache.h"

#include "base/fail.h"
#include "nn/matmul.h"
#include "nn/vec.h"

#include <stdlib.h>

static size_t layers_of(const struct gpt_model *m) {
    return m->shard.last - m->shard.first;
}

/* All layers share their memory, except that input and output alternate between two buffers. */
static int lay_out(struct gpt_kv_cache *c) {
    const struct gpt_model *m = c->model;
    size_t rows = c->batch * c->max_count, width = m->config.width, local = gpt_local_width(m),
           inner = gpt_local_inner(m);
    size_t heads = gpt_local_heads(m);
    size_t total = rows * (5 * width + 4 * local + 2 * heads + 2 * inner) + c->batch * width;
    float *at = calloc(total, sizeof *at);
    struct gpt_layer_acts *layer = calloc(layers_of(m) + 1, sizeof *layer);
    int *position = calloc(c->max_count, sizeof *position);
    c->acts = (struct gpt_acts){.batch = c->batch, .layer = layer, .position = position, .block = at};
    if (!at || !layer || !position) return gpt_fail("no memory for %zu tokens at once", rows);
    struct gpt_layer_acts shared = {.norm1 = at, .middle = at + rows * width, .norm2 = at};
    float *buffer[2] = {at + 2 * rows * width, at + 3 * rows * width};
    c->acts.norm = at + 4 * rows * width;
    shared.qkv = at + 5 * rows * width;
    shared.attention = shared.qkv + 3 * rows * local;
    shared.lse = shared.attention + rows * local;
    shared.sum = shared.lse + rows * heads;
    shared.in = shared.sum + rows * heads;
    shared.act = shared.in + rows * inner;
    for (size_t i = 0; i < layers_of(m); i++) {
        layer[i] = shared;
        layer[i].x = buffer[i % 2];
    }
    c->acts.input = buffer[0];
    c->acts.x = buffer[layers_of(m) % 2];
    return 0;
}

struct gpt_kv_cache *gpt_kv_cache_new(struct gpt_model *model, size_t batch, size_t capacity,
                                      size_t max_count) {
    if (batch == 0 || batch > GPT_KV_CACHE_MAX || capacity == 0 || capacity > model->config.context ||
        max_count == 0 || max_count > capacity)
        return gpt_fail("a KV cache for %zu sequences of %zu tokens; the model takes up to %zu tokens", batch,
                        capacity, model->config.context),
               NULL;
    struct gpt_kv_cache *c = calloc(1, sizeof *c);
    if (!c) return gpt_fail("no memory"), NULL;
    *c = (struct gpt_kv_cache){.model = model, .batch = batch, .capacity = capacity, .max_count = max_count};
    size_t size = layers_of(model) * batch * capacity * gpt_local_width(model) + 1;
    c->keys = malloc(size * sizeof *c->keys);
    c->values = malloc(size * sizeof *c->values);
    c->logits = calloc(batch * model->config.vocabulary, sizeof *c->logits);
    if (!c->keys || !c->values || !c->logits || (!model->head && gpt_model_transpose_head(model)) ||
        lay_out(c)) {
        gpt_kv_cache_free(c);
        return gpt_fail("no memory for a KV cache of %zu sequences of %zu tokens", batch, capacity), NULL;
    }
    return c;
}

void gpt_kv_cache_free(struct gpt_kv_cache *c) {
    if (!c) return;
    free(c->keys);
    free(c->values);
    free(c->logits);
    free(c->acts.block);
    free(c->acts.layer);
    free(c->acts.position);
    free(c);
}

void gpt_kv_cache_truncate(struct gpt_kv_cache *c, size_t length) {
    if (length < c->length) c->length = length;
}

static void append_values(const struct gpt_kv_cache *c, const struct gpt_attention *a, struct gpt_rows from,
                          struct gpt_rows to) {
    size_t width = gpt_local_width(c->model);
    for (size_t b = 0; b < a->batch; b++)
        for (size_t t = 0; t < a->queries; t++)
            memcpy(to.data + b * to.batch + (c->length + t) * to.row,
                   from.data + b * from.batch + t * from.row, width * sizeof(float));
}

static void append_keys(const struct gpt_kv_cache *c, const struct gpt_attention *a, struct gpt_rows from,
                        struct gpt_rows to) {
    size_t width = gpt_local_width(c->model);
    for (size_t b = 0; b < a->batch; b++)
        for (size_t t = 0; t < a->queries; t++)
            for (size_t i = 0; i < width; i++)
                to.data[b * to.batch + i * to.row + c->length + t] =
                    from.data[b * from.batch + t * from.row + i];
}

static int attend(void *context, const struct gpt_attention *a, const struct gpt_keys *own) {
    struct gpt_kv_cache *c = context;
    size_t width = gpt_local_width(c->model), batch = c->capacity * width, at = c->layer * c->batch * batch;
    struct gpt_keys all = {.count = c->length + a->queries,
                           .k = {c->keys + at, batch, c->capacity},
                           .v = {c->values + at, batch, width},
                           .transposed = true};
    append_keys(c, a, own->k, all.k);
    append_values(c, a, own->v, all.v);
    gpt_attend(a, &all);
    return 0;
}

static int reduce(void *context, float *x, size_t count) {
    const struct gpt_kv_cache *c = context;
    if (!c->hooks || !c->hooks->reduce_forward) return 0;
    return c->hooks->reduce_forward(c->hooks->context, x, count);
}

/* Computes the logits of each sequence's last token. */
static void head(struct gpt_kv_cache *c) {
    const struct gpt_model *m = c->model;
    const struct gpt_config *f = &m->config;
    size_t width = f->width, time = c->acts.time;
    for (size_t b = 0; b < c->batch; b++)
        gpt_norm(f, m->norm, m->norm_bias, c->acts.x + ((b + 1) * time - 1) * width, 1,
                 c->acts.norm + b * width, NULL);
    gpt_matmul(c->batch, f->vocabulary, width, (struct gpt_matrix){c->acts.norm, width, false},
               (struct gpt_matrix){m->head, f->vocabulary, false}, c->logits, f->vocabulary, false);
}

static int run_layers(struct gpt_kv_cache *c) {
    struct gpt_hooks hooks = {.context = c, .reduce_forward = reduce, .attend = attend};
    size_t layers = layers_of(c->model);
    int st = 0;
    for (c->layer = 0; c->layer < layers && !st; c->layer++)
        st = gpt_block_forward(c->model, c->layer, &c->acts,
                               c->layer + 1 < layers ? c->acts.layer[c->layer + 1].x : c->acts.x, &hooks);
    return st;
}

int gpt_kv_cache_forward(struct gpt_kv_cache *c, const int *tokens, size_t count,
                         const struct gpt_hooks *hooks) {
    struct gpt_model *m = c->model;
    if (count == 0 || count > c->max_count || c->length + count > c->capacity)
        return gpt_fail("%zu tokens at once after %zu; the cache takes %zu at once and %zu in all", count,
                        c->length, c->max_count, c->capacity);
    int st = gpt_model_reserve(m, c->batch * count, c->capacity);
    if (!st && tokens) st = gpt_tokens_check(&m->config, tokens, c->batch * count);
    if (st) return st;
    c->hooks = hooks;
    c->acts.time = count;
    c->acts.rows = c->batch * count;
    for (size_t t = 0; t < count; t++) c->acts.position[t] = (int)(c->length + t);
    if (gpt_model_is_first(m))
        gpt_embed(&m->config, m->table, m->positions, tokens, c->acts.position, c->batch, count,
                  c->acts.input);
    if ((st = run_layers(c))) return st;
    c->length += count;
    if (gpt_model_is_last(m)) head(c);
    return 0;
}

int gpt_sample_token(float *logits, size_t vocabulary, float temperature, double draw) {
    size_t best = 0;
    for (size_t i = 1; i < vocabulary; i++)
        if (logits[i] > logits[best]) best = i;
    if (temperature <= 0) return (int)best;
    float max = logits[best];
    for (size_t i = 0; i < vocabulary; i++) logits[i] = vec_exp((logits[i] - max) / temperature);
    double rest = draw * (double)vec_sum(logits, vocabulary);
    for (size_t i = 0; i < vocabulary; i++)
        if ((rest -= (double)logits[i]) < 0) return (int)i;
    return (int)best;
}
