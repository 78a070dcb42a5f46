/* params.c - see params.h. */
#include "nn/params.h"

#include "base/fail.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>

enum { PER_LAYER = 12, OUTSIDE_LAYERS = 5 };

struct gpt_shard gpt_shard_whole(const struct gpt_config *config) {
    return (struct gpt_shard){.first = 0, .last = config->layers, .slice = 0, .slices = 1};
}

int gpt_shard_check(const struct gpt_config *config, const struct gpt_shard *p) {
    if (p->first > p->last || p->last > config->layers)
        return gpt_fail("layers %zu to %zu of a model with %zu layers", p->first, p->last, config->layers);
    if (p->slices == 0 || p->slice >= p->slices) return gpt_fail("slice %zu of %zu", p->slice, p->slices);
    if (config->heads % p->slices || config->inner % p->slices)
        return gpt_fail(
            "%zu heads and an inner width of %zu cannot be split by tp=%zu; choose a divisor of both",
            config->heads, config->inner, p->slices);
    return 0;
}

size_t gpt_params_max(const struct gpt_config *config) {
    return PER_LAYER * config->layers + OUTSIDE_LAYERS;
}

struct list {
    const struct gpt_config *config;
    const struct gpt_shard *shard;
    struct gpt_param *to;
    size_t n, offset;
};

static struct gpt_param *add(struct list *l, const char *name, size_t layer, size_t rows, size_t columns,
                             enum gpt_split split, enum gpt_init init) {
    struct gpt_param *p = &l->to[l->n++];
    *p = (struct gpt_param){.rows = rows,
                            .columns = columns,
                            .split = split,
                            .blocks = 1,
                            .init = init,
                            .deviation = 0.55f / sqrtf((float)l->config->width),
                            .layer = layer};
    snprintf(p->name, sizeof p->name, "transformer.%s", name);
    p->local_rows = rows ? rows / (split == GPT_BY_ROWS ? l->shard->slices : 1) : 1;
    p->local_columns = columns / (split == GPT_BY_COLUMNS ? l->shard->slices : 1);
    p->count = p->local_rows * p->local_columns;
    p->offset = l->offset;
    l->offset += p->count;
    return p;
}

static void add_norm(struct list *l, const char *name, size_t layer) {
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    add(l, full, layer, 0, l->config->width, GPT_WHOLE, GPT_ONES);
    snprintf(full, sizeof full, "%s.bias", name);
    if (l->config->norm == GPT_LAYER_NORM) add(l, full, layer, 0, l->config->width, GPT_WHOLE, GPT_ZEROS);
}

/* A linear layer. One that is split by rows ends a residual branch: it starts smaller, so that the sum over
   all branches does not grow with the number of layers. */
static void add_linear(struct list *l, const char *name, size_t layer, size_t in, size_t out, size_t blocks,
                       enum gpt_split split) {
    char full[64];
    snprintf(full, sizeof full, "h.%zu.%s.weight", layer, name);
    struct gpt_param *weight = add(l, full, layer, in, out, split, GPT_NORMAL);
    weight->blocks = blocks;
    if (split == GPT_BY_ROWS) weight->deviation /= sqrtf(2 * (float)l->config->layers);
    snprintf(full, sizeof full, "h.%zu.%s.bias", layer, name);
    add(l, full, layer, 0, out, split == GPT_BY_COLUMNS ? GPT_BY_COLUMNS : GPT_WHOLE, GPT_ZEROS)->blocks =
        blocks;
}

static void add_layer(struct list *l, size_t layer) {
    size_t width = l->config->width, inner = l->config->inner;
    char name[32];
    snprintf(name, sizeof name, "h.%zu.ln_1", layer);
    add_norm(l, name, layer);
    add_linear(l, "attn.c_attn", layer, width, 3 * width, 3, GPT_BY_COLUMNS);
    add_linear(l, "attn.c_proj", layer, width, width, 1, GPT_BY_ROWS);
    snprintf(name, sizeof name, "h.%zu.ln_2", layer);
    add_norm(l, name, layer);
    add_linear(l, "mlp.c_fc", layer, width, inner, 1, GPT_BY_COLUMNS);
    add_linear(l, "mlp.c_proj", layer, inner, width, 1, GPT_BY_ROWS);
}

size_t gpt_params_list(const struct gpt_config *config, const struct gpt_shard *shard, struct gpt_param *to) {
    struct list l = {.config = config, .shard = shard, .to = to};
    if (shard->first == 0) {
        add(&l, "wte.weight", 0, config->vocabulary, config->width, GPT_WHOLE, GPT_NORMAL);
        add(&l, "wpe.weight", 0, config->context, config->width, GPT_WHOLE, GPT_NORMAL);
    }
    for (size_t layer = shard->first; layer < shard->last; layer++) add_layer(&l, layer);
    if (shard->last == config->layers) {
        add_norm(&l, "ln_f", config->layers);
        if (shard->first > 0)
            add(&l, "wte.weight", config->layers, config->vocabulary, config->width, GPT_WHOLE, GPT_NORMAL)
                ->tied_copy = true;
    }
    return l.n;
}

size_t gpt_param_runs(const struct gpt_param *p) {
    return p->split == GPT_BY_COLUMNS ? p->local_rows * p->blocks : 1;
}

struct gpt_run gpt_param_run(const struct gpt_param *p, const struct gpt_shard *shard, size_t index) {
    if (p->split != GPT_BY_COLUMNS)
        return (struct gpt_run){0, p->split == GPT_BY_ROWS ? shard->slice * p->count : 0, p->count};
    size_t row = index / p->blocks, block = index % p->blocks, wide = p->local_columns / p->blocks;
    return (struct gpt_run){row * p->local_columns + block * wide,
                            row * p->columns + block * (p->columns / p->blocks) + shard->slice * wide, wide};
}

void gpt_param_init(const struct gpt_param *p, const struct gpt_shard *shard, uint64_t seed, float *values) {
    uint64_t stream = gpt_random_stream(seed, p->name);
    for (size_t r = 0; r < gpt_param_runs(p); r++) {
        struct gpt_run run = gpt_param_run(p, shard, r);
        for (size_t i = 0; i < run.count; i++)
            values[run.local + i] = p->init == GPT_NORMAL
                                        ? p->deviation * (float)gpt_random_normal(stream, run.whole + i)
                                        : (p->init == GPT_ONES ? 1.0f : 0.0f);
    }
}
