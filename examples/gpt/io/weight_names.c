/*
 * weight_names.c - GPT-2 stores matrices as in by out, and q, k and v in one matrix. OPT stores them as out
 * by in, q, k and v separately, and the first two rows of its positions are unused.
 */
#include "io/weight_names.h"

#include "base/fail.h"

#include <stdio.h>
#include <string.h>

enum { OPT_UNUSED_POSITIONS = 2 };

static const struct {
    const char *ours, *opt; /* after the layer's number; %c: q, k or v */
} layer_names[] = {
    {"ln_1.", "self_attn_layer_norm."},
    {"attn.c_attn.", "self_attn.%c_proj."},
    {"attn.c_proj.", "self_attn.out_proj."},
    {"ln_2.", "final_layer_norm."},
    {"mlp.c_fc.", "fc1."},
    {"mlp.c_proj.", "fc2."},
};

static const struct {
    const char *ours, *opt;
} other_names[] = {
    {"wte.weight", "embed_tokens.weight"},
    {"wpe.weight", "embed_positions.weight"},
    {"ln_f.weight", "final_layer_norm.weight"},
    {"ln_f.bias", "final_layer_norm.bias"},
};

/* Writes OPT's name, without "decoder.", of the parameter that GPT-2 calls `ours`; false if OPT has none. */
static bool opt_name(const char *ours, size_t block, char *to, size_t size) {
    size_t layer;
    int used = 0;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(ours, other_names[i].ours) == 0) return snprintf(to, size, "%s", other_names[i].opt) > 0;
    if (sscanf(ours, "h.%zu.%n", &layer, &used) != 1 || !used) return false;
    for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++) {
        size_t n = strlen(layer_names[i].ours);
        const char *opt = layer_names[i].opt, *letter = strstr(opt, "%c");
        if (strncmp(ours + used, layer_names[i].ours, n) != 0) continue;
        const char *end = ours + used + n; /* weight or bias */
        if (letter)
            snprintf(to, size, "layers.%zu.self_attn.%c_proj.%s", layer, "qkv"[block], end);
        else
            snprintf(to, size, "layers.%zu.%s%s", layer, opt, end);
        return true;
    }
    return false;
}

/* Finds the tensor with or without the prefix: files of the base model lack it. */
static const struct gpt_tensor *find(const struct gpt_tensors *tensors, const char *prefix,
                                     const char *name) {
    char full[GPT_NAME_SIZE + 16];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct gpt_tensor *t = gpt_tensors_find(tensors, full);
    return t ? t : gpt_tensors_find(tensors, name);
}

static int check_shape(const struct gpt_tensor *t, const char *name, size_t rows, size_t columns) {
    bool vector = rows == 0;
    if (!t) return gpt_fail("no tensor '%s'", name);
    if (t->dtype == GPT_OTHER) return gpt_fail("'%s' is neither F32, F16 nor BF16", t->name);
    if (t->dimensions != (vector ? 1 : 2) || t->shape[t->dimensions - 1] != columns ||
        (!vector && t->shape[0] != rows))
        return gpt_fail("'%s' does not have the shape of config.json: %zu by %zu", t->name, rows, columns);
    return 0;
}

static int source_opt(const struct gpt_tensors *tensors, const struct gpt_param *p, const char *ours,
                      size_t row, size_t column, struct gpt_source *source) {
    char name[GPT_NAME_SIZE - 8], full[GPT_NAME_SIZE];
    size_t wide = p->columns / p->blocks, at = column % wide;
    if (!opt_name(ours, column / wide, name, sizeof name)) return gpt_fail("OPT has no '%s'", ours);
    snprintf(full, sizeof full, "decoder.%s", name);
    const struct gpt_tensor *t = find(tensors, "model.", full);
    bool table = strncmp(ours, "wte", 3) == 0, positions = strncmp(ours, "wpe", 3) == 0;
    size_t skip = positions ? OPT_UNUSED_POSITIONS : 0;
    if (table || positions || p->rows == 0) {
        *source = (struct gpt_source){t, (row + skip) * wide + at, 1};
        return check_shape(t, full, p->rows ? p->rows + skip : 0, wide);
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
