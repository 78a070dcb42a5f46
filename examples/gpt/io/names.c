/*
 * names.c - GPT-2 keeps matrices in by out, q, k and v in one. OPT keeps them out by in, q, k and v apart, and its
 * positions begin with two rows that are of no use here.
 */
#include "io/names.h"

#include "app/fail.h"

#include <stdio.h>
#include <string.h>

enum { OPT_POSITIONS_BEFORE = 2 };

static const struct {
    const char *ours, *opt; /* after the layer's number; OPT's q, k and v by the first letter */
} of_a_layer[] = {
    {"ln_1.", "self_attn_layer_norm."},
    {"attn.c_attn.", "self_attn.%c_proj."},
    {"attn.c_proj.", "self_attn.out_proj."},
    {"ln_2.", "final_layer_norm."},
    {"mlp.c_fc.", "fc1."},
    {"mlp.c_proj.", "fc2."},
};

static const struct {
    const char *ours, *opt;
} of_the_ends[] = {
    {"wte.weight", "embed_tokens.weight"},
    {"wpe.weight", "embed_positions.weight"},
    {"ln_f.weight", "final_layer_norm.weight"},
    {"ln_f.bias", "final_layer_norm.bias"},
};

/* OPT's name, after "decoder.", of what is ours after "transformer."; false if it has none. */
static bool opt_name(const char *ours, size_t block, char *to, size_t room) {
    size_t layer;
    int used = 0;
    for (size_t i = 0; i < sizeof of_the_ends / sizeof *of_the_ends; i++)
        if (strcmp(ours, of_the_ends[i].ours) == 0) return snprintf(to, room, "%s", of_the_ends[i].opt) > 0;
    if (sscanf(ours, "h.%zu.%n", &layer, &used) != 1 || !used) return false;
    for (size_t i = 0; i < sizeof of_a_layer / sizeof *of_a_layer; i++) {
        size_t n = strlen(of_a_layer[i].ours);
        const char *opt = of_a_layer[i].opt, *letter = strstr(opt, "%c");
        if (strncmp(ours + used, of_a_layer[i].ours, n) != 0) continue;
        const char *end = ours + used + n; /* weight or bias */
        if (letter)
            snprintf(to, room, "layers.%zu.self_attn.%c_proj.%s", layer, "qkv"[block], end);
        else
            snprintf(to, room, "layers.%zu.%s%s", layer, opt, end);
        return true;
    }
    return false;
}

/* With the prefix that whole models have, or without. */
static const struct gpt_tensor *find(const struct gpt_tensors *tensors, const char *prefix,
                                     const char *name) {
    char full[GPT_NAME_ROOM + 16];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct gpt_tensor *t = gpt_tensors_find(tensors, full);
    return t ? t : gpt_tensors_find(tensors, name);
}

static int check_shape(const struct gpt_tensor *t, const char *name, size_t rows, size_t columns) {
    bool vector = rows == 0;
    if (!t) return gpt_fail("no tensor '%s'", name);
    if (t->dtype == GPT_OTHER) return gpt_fail("'%s' is neither F32 nor F16 nor BF16", t->name);
    if (t->dimensions != (vector ? 1 : 2) || t->shape[t->dimensions - 1] != columns ||
        (!vector && t->shape[0] != rows))
        return gpt_fail("'%s' is not of the shape that config.json asks: %zu by %zu", t->name, rows, columns);
    return 0;
}

static int source_opt(const struct gpt_tensors *tensors, const struct gpt_param *p, const char *ours,
                      size_t row, size_t column, struct gpt_source *source) {
    char name[GPT_NAME_ROOM - 8], full[GPT_NAME_ROOM];
    size_t wide = p->columns / p->blocks, at = column % wide;
    if (!opt_name(ours, column / wide, name, sizeof name)) return gpt_fail("OPT has no '%s'", ours);
    snprintf(full, sizeof full, "decoder.%s", name);
    const struct gpt_tensor *t = find(tensors, "model.", full);
    bool table = strncmp(ours, "wte", 3) == 0, places = strncmp(ours, "wpe", 3) == 0;
    size_t before = places ? OPT_POSITIONS_BEFORE : 0;
    if (table || places || p->rows == 0) {
        *source = (struct gpt_source){t, (row + before) * wide + at, 1};
        return check_shape(t, full, p->rows ? p->rows + before : 0, wide);
    }
    *source = (struct gpt_source){t, at * p->rows + row, p->rows};
    return check_shape(t, full, wide, p->rows);
}

int gpt_source_of(const struct gpt_tensors *tensors, const struct gpt_config *config,
                  const struct gpt_param *p, size_t row, size_t column, struct gpt_source *source) {
    const char *ours = p->name + strlen("transformer.");
    if (config->family == GPT_FAMILY_OPT) return source_opt(tensors, p, ours, row, column, source);
    const struct gpt_tensor *t = find(tensors, "transformer.", ours);
    *source = (struct gpt_source){t, row * p->columns + column, 1};
    return check_shape(t, p->name, p->rows, p->columns);
}
