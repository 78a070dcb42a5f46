/* params.c - the list of a stage's parameters, their slices and first values. */
#include "nn/params.h"

#include "app/fail.h"
#include "nn/random.h"

#include <math.h>
#include <stdio.h>

enum { OF_A_LAYER = 12, OF_THE_ENDS = 5 };

struct gpt_part gpt_part_whole(const struct gpt_config *config) {
    return (struct gpt_part){.first = 0, .last = config->layers, .slice = 0, .slices = 1};
}

int gpt_part_check(const struct gpt_config *config, const struct gpt_part *p) {
    if (p->first > p->last || p->last > config->layers)
        return gpt_fail("layers %zu to %zu of a model that has %zu", p->first, p->last, config->layers);
    if (p->slices == 0 || p->slice >= p->slices) return gpt_fail("slice %zu of %zu", p->slice, p->slices);
    if (config->heads % p->slices || config->inner % p->slices)
        return gpt_fail(
            "%zu heads and an inner width of %zu cannot be split by tp=%zu; take a divisor of both",
            config->heads, config->inner, p->slices);
    return 0;
}

size_t gpt_params_most(const struct gpt_config *config) {
    return OF_A_LAYER * config->layers + OF_THE_ENDS;
}

struct list {
    const struct gpt_config *config;
    const struct gpt_part *part;
    struct gpt_param *to;
    size_t n, offset;
};

static struct gpt_param *add(struct list *l, const char *name, size_t layer, size_t rows, size_t columns,
                             enum gpt_split split, enum gpt_start start) {
    struct gpt_param *p = &l->to[l->n++];
    *p = (struct gpt_param){.rows = rows,
                            .columns = columns,
                            .split = split,
                            .blocks = 1,
                            .start = start,
                            .deviation = 0.55f / sqrtf((float)l->config->width),
                            .layer = layer};
    snprintf(p->name, sizeof p->name, "transformer.%s", name);
    p->local_rows = rows ? rows / (split == GPT_BY_ROWS ? l->part->slices : 1) : 1;
    p->local_columns = columns / (split == GPT_BY_COLUMNS ? l->part->slices : 1);
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

/* A linear map of a layer. One that is split by rows ends a branch: it begins smaller, so that the sum over all
   branches does not grow with the layers. */
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

size_t gpt_params_list(const struct gpt_config *config, const struct gpt_part *part, struct gpt_param *to) {
    struct list l = {.config = config, .part = part, .to = to};
    if (part->first == 0) {
        add(&l, "wte.weight", 0, config->vocabulary, config->width, GPT_WHOLE, GPT_NORMAL);
        add(&l, "wpe.weight", 0, config->context, config->width, GPT_WHOLE, GPT_NORMAL);
    }
    for (size_t layer = part->first; layer < part->last; layer++) add_layer(&l, layer);
    if (part->last == config->layers) {
        add_norm(&l, "ln_f", config->layers);
        if (part->first > 0)
            add(&l, "wte.weight", config->layers, config->vocabulary, config->width, GPT_WHOLE, GPT_NORMAL)
                ->second = true;
    }
    return l.n;
}

size_t gpt_param_runs(const struct gpt_param *p) {
    return p->split == GPT_BY_COLUMNS ? p->local_rows * p->blocks : 1;
}

struct gpt_run gpt_param_run(const struct gpt_param *p, const struct gpt_part *part, size_t index) {
    if (p->split != GPT_BY_COLUMNS)
        return (struct gpt_run){0, p->split == GPT_BY_ROWS ? part->slice * p->count : 0, p->count};
    size_t row = index / p->blocks, block = index % p->blocks, wide = p->local_columns / p->blocks;
    return (struct gpt_run){row * p->local_columns + block * wide,
                            row * p->columns + block * (p->columns / p->blocks) + part->slice * wide, wide};
}

void gpt_param_start(const struct gpt_param *p, const struct gpt_part *part, uint64_t seed, float *values) {
    uint64_t stream = gpt_random_stream(seed, p->name);
    for (size_t r = 0; r < gpt_param_runs(p); r++) {
        struct gpt_run run = gpt_param_run(p, part, r);
        for (size_t i = 0; i < run.count; i++)
            values[run.local + i] = p->start == GPT_NORMAL
                                        ? p->deviation * (float)gpt_random_normal(stream, run.whole + i)
                                        : (p->start == GPT_ONES ? 1.0f : 0.0f);
    }
}
