/*
 * model.c - allocates a stage: one block for its parameters, one for its gradients, one for each micro-batch.
 */
#include "nn/model.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

bool gpt_model_is_first(const struct gpt_model *model) {
    return model->shard.first == 0;
}

bool gpt_model_is_last(const struct gpt_model *model) {
    return model->shard.last == model->config.layers;
}

size_t gpt_local_heads(const struct gpt_model *model) {
    return model->config.heads / model->shard.slices;
}

size_t gpt_local_width(const struct gpt_model *model) {
    return model->config.width / model->shard.slices;
}

size_t gpt_local_inner(const struct gpt_model *model) {
    return model->config.inner / model->shard.slices;
}

void gpt_zero_gradients(struct gpt_model *model) {
    memset(model->gradients, 0, model->count * sizeof *model->gradients);
}

/* The parameter of this name in base; NULL if the stage does not have it. */
static float *find(const struct gpt_model *m, float *base, const char *name) {
    for (size_t i = 0; base && m->param && i < m->params; i++)
        if (!strcmp(m->param[i].name + sizeof "transformer." - 1, name)) return base + m->param[i].offset;
    return NULL;
}

/* The next layer's parameters, in the order of the list; RMSNorm has no bias. */
static struct gpt_layer layer_at(const struct gpt_model *m, float *base, size_t *next) {
    struct gpt_layer l = {0};
    float **to[] = {&l.norm1, &l.norm1_bias, &l.qkv, &l.qkv_bias, &l.proj, &l.proj_bias,
                    &l.norm2, &l.norm2_bias, &l.in,  &l.in_bias,  &l.out,  &l.out_bias};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        bool norm_bias = i == 1 || i == 7;
        if (!norm_bias || m->config.norm == GPT_LAYER_NORM) *to[i] = base + m->param[(*next)++].offset;
    }
    return l;
}

static void set_pointers(struct gpt_model *m) {
    size_t first = gpt_model_is_first(m) ? 2 : 0, values = first, gradients = first;
    for (size_t i = 0; i < m->shard.last - m->shard.first; i++) {
        m->layer[i] = layer_at(m, m->values, &values);
        if (m->gradients) m->dlayer[i] = layer_at(m, m->gradients, &gradients);
    }
    m->table = find(m, m->values, "wte.weight");
    m->dtable = find(m, m->gradients, "wte.weight");
    m->positions = find(m, m->values, "wpe.weight");
    m->dpositions = find(m, m->gradients, "wpe.weight");
    m->norm = find(m, m->values, "ln_f.weight");
    m->dnorm = find(m, m->gradients, "ln_f.weight");
    m->norm_bias = find(m, m->values, "ln_f.bias");
    m->dnorm_bias = find(m, m->gradients, "ln_f.bias");
}

static int allocate(struct gpt_model *m, bool trains) {
    size_t layers = m->shard.last - m->shard.first;
    m->param = calloc(gpt_params_max(&m->config), sizeof *m->param);
    if (!m->param) return gpt_fail("no memory");
    m->params = gpt_params_list(&m->config, &m->shard, m->param);
    const struct gpt_param *end = &m->param[m->params ? m->params - 1 : 0];
    m->count = end->offset + end->count;
    m->values = calloc(m->count + 1, sizeof *m->values);
    if (trains) m->gradients = gpt_memory_alloc((m->count + 1) * sizeof *m->gradients);
    m->layer = calloc(layers + 1, sizeof *m->layer);
    m->dlayer = calloc(layers + 1, sizeof *m->dlayer);
    if (!m->values || (trains && !m->gradients) || !m->layer || !m->dlayer)
        return gpt_fail("no memory for %zu parameters", m->count);
    return 0;
}

static struct gpt_model *new_model(const struct gpt_config *config, const struct gpt_shard *shard,
                                   bool trains) {
    if (gpt_config_check(config) || gpt_shard_check(config, shard)) return NULL;
    struct gpt_model *m = calloc(1, sizeof *m);
    if (!m) return gpt_fail("no memory"), NULL;
    m->config = *config;
    m->shard = *shard;
    if (allocate(m, trains)) {
        gpt_model_free(m);
        return NULL;
    }
    set_pointers(m);
    return m;
}

struct gpt_model *gpt_model_blank(const struct gpt_config *config, const struct gpt_shard *shard) {
    return new_model(config, shard, false);
}

struct gpt_model *gpt_model_new(const struct gpt_config *config, const struct gpt_shard *shard,
                                uint64_t seed) {
    struct gpt_model *m = new_model(config, shard, true);
    for (size_t i = 0; m && i < m->params; i++)
        gpt_param_init(&m->param[i], &m->shard, seed, m->values + m->param[i].offset);
    return m;
}

void gpt_model_free(struct gpt_model *m) {
    if (!m) return;
    free(m->param);
    free(m->values);
    gpt_memory_free(m->gradients);
    free(m->layer);
    free(m->dlayer);
    gpt_memory_free(m->wide);
    free(m->head);
    free(m);
}

int gpt_model_transpose_head(struct gpt_model *m) {
    size_t width = m->config.width, tokens = m->config.vocabulary;
    if (!gpt_model_is_last(m)) return 0;
    if (!m->head) m->head = malloc(width * tokens * sizeof *m->head);
    if (!m->head) return gpt_fail("no memory for the head");
    for (size_t t = 0; t < tokens; t++)
        for (size_t i = 0; i < width; i++) m->head[i * tokens + t] = m->table[t * width + i];
    return 0;
}

int gpt_model_reserve(struct gpt_model *m, size_t rows, size_t keys) {
    size_t wide = 3 * gpt_local_width(m) > gpt_local_inner(m) ? 3 * gpt_local_width(m) : gpt_local_inner(m);
    size_t needed = rows * (wide + m->config.width) + gpt_attention_scratch(keys);
    if (needed > m->reserved) {
        float *block = gpt_memory_alloc(needed * sizeof *block);
        if (!block) return gpt_fail("no memory for %zu rows", rows);
        gpt_memory_free(m->wide);
        m->wide = block;
        m->reserved = needed;
    }
    m->narrow = m->wide + rows * wide;
    m->scores = m->narrow + rows * m->config.width;
    return 0;
}

/* Sizes saturate here: more than any memory, so that the allocation fails. */
static const size_t MAX_BYTES = SIZE_MAX / 2 + 1;

/* Allocates from a block; without a block it only counts bytes. */
struct arena {
    char *base;
    size_t used;
};

static void *arena_alloc(struct arena *p, size_t count, size_t size) {
    void *at = p->base ? p->base + p->used : NULL;
    size_t bytes = count > MAX_BYTES / size ? MAX_BYTES : (count * size + 63) / 64 * 64;
    p->used = bytes > MAX_BYTES - p->used ? MAX_BYTES : p->used + bytes;
    return at;
}

static void alloc_acts(const struct gpt_model *m, struct gpt_acts *a, struct arena *p) {
    size_t rows = a->rows, width = m->config.width, local = gpt_local_width(m), inner = gpt_local_inner(m);
    size_t layers = m->shard.last - m->shard.first, f = sizeof(float);
    struct gpt_layer_acts *list = arena_alloc(p, layers + 1, sizeof *list);
    a->layer = list;
    for (size_t i = 0; i < layers; i++) {
        struct gpt_layer_acts l = {.x = arena_alloc(p, rows * width, f)};
        l.norm1 = arena_alloc(p, rows * width, f);
        l.qkv = arena_alloc(p, rows * 3 * local, f);
        l.attention = arena_alloc(p, rows * local, f);
        l.lse = arena_alloc(p, rows * gpt_local_heads(m), f);
        l.sum = arena_alloc(p, rows * gpt_local_heads(m), f);
        l.middle = arena_alloc(p, rows * width, f);
        l.norm2 = arena_alloc(p, rows * width, f);
        l.in = arena_alloc(p, rows * inner, f);
        l.act = arena_alloc(p, rows * inner, f);
        l.stats1 = arena_alloc(p, rows, sizeof *l.stats1);
        l.stats2 = arena_alloc(p, rows, sizeof *l.stats2);
        if (list) list[i] = l;
    }
    a->position = arena_alloc(p, a->time, sizeof *a->position);
    a->x = arena_alloc(p, rows * width, f);
    a->input = layers && list ? list[0].x : a->x;
    a->gradient = arena_alloc(p, rows * width, f);
    if (!gpt_model_is_last(m)) return;
    a->norm = arena_alloc(p, rows * width, f);
    a->stats = arena_alloc(p, rows, sizeof *a->stats);
    a->logits = arena_alloc(p, rows * m->config.vocabulary, f);
}

struct gpt_acts *gpt_acts_new(struct gpt_model *m, size_t batch, size_t time) {
    struct arena p = {0};
    if (batch == 0 || time == 0 || time > m->config.context || batch > 65536)
        return gpt_fail("a micro-batch of %zu sequences of %zu tokens; the model takes up to %zu tokens",
                        batch, time, m->config.context),
               NULL;
    struct gpt_acts *a = calloc(1, sizeof *a);
    if (!a) return gpt_fail("no memory"), NULL;
    *a = (struct gpt_acts){.batch = batch, .time = time, .rows = batch * time};
    alloc_acts(m, a, &p);
    a->block = p.base = gpt_memory_alloc(p.used);
    if (!p.base || gpt_model_reserve(m, a->rows, m->config.context)) {
        gpt_acts_free(a);
        return gpt_fail("no memory for a micro-batch of %zu tokens", batch * time), NULL;
    }
    p.used = 0;
    alloc_acts(m, a, &p);
    for (size_t t = 0; t < time; t++) a->position[t] = (int)t;
    return a;
}

void gpt_acts_free(struct gpt_acts *a) {
    if (!a) return;
    gpt_memory_free(a->block);
    free(a);
}
