/* config_json.c - reads and writes config.json as the transformers library does. */
#include "io/config_json.h"

#include "base/fail.h"
#include "io/file.h"
#include "io/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KEY_SIZE = 128 };

/* The fields of config.json that matter, under the names of both families. */
struct fields {
    char type[32], activation[32], norm[32];
    uint64_t vocabulary, context, layers, width, heads, inner, projection;
    double epsilon;
    bool scale_by_layer, unscaled, norm_after, no_bias, untied, no_affine;
};

static const struct {
    const char *name;
    enum {
        COUNT,
        NUMBER,
        TEXT,
        BOOL,
        INVERTED
    } kind; /* INVERTED: the field is true where the file says false */
    size_t offset;
} keys[] = {
    {"model_type", TEXT, offsetof(struct fields, type)},
    {"activation_function", TEXT, offsetof(struct fields, activation)},
    {"norm", TEXT, offsetof(struct fields, norm)},
    {"vocab_size", COUNT, offsetof(struct fields, vocabulary)},
    {"n_positions", COUNT, offsetof(struct fields, context)},
    {"max_position_embeddings", COUNT, offsetof(struct fields, context)},
    {"n_layer", COUNT, offsetof(struct fields, layers)},
    {"num_hidden_layers", COUNT, offsetof(struct fields, layers)},
    {"n_embd", COUNT, offsetof(struct fields, width)},
    {"hidden_size", COUNT, offsetof(struct fields, width)},
    {"n_head", COUNT, offsetof(struct fields, heads)},
    {"num_attention_heads", COUNT, offsetof(struct fields, heads)},
    {"n_inner", COUNT, offsetof(struct fields, inner)},
    {"ffn_dim", COUNT, offsetof(struct fields, inner)},
    {"word_embed_proj_dim", COUNT, offsetof(struct fields, projection)},
    {"layer_norm_epsilon", NUMBER, offsetof(struct fields, epsilon)},
    {"scale_attn_by_inverse_layer_idx", BOOL, offsetof(struct fields, scale_by_layer)},
    {"scale_attn_weights", INVERTED, offsetof(struct fields, unscaled)},
    {"do_layer_norm_before", INVERTED, offsetof(struct fields, norm_after)},
    {"_remove_final_layer_norm", BOOL, offsetof(struct fields, norm_after)},
    {"enable_bias", INVERTED, offsetof(struct fields, no_bias)},
    {"layer_norm_elementwise_affine", INVERTED, offsetof(struct fields, no_affine)},
    {"tie_word_embeddings", INVERTED, offsetof(struct fields, untied)},
};

/* Reads one value; null leaves the default. */
static void read_field(struct gpt_json *in, size_t key, struct fields *f) {
    char *to = (char *)f + keys[key].offset;
    bool value;
    if (gpt_json_null(in)) return;
    switch (keys[key].kind) {
    case COUNT:
        gpt_json_count(in, (uint64_t *)(void *)to);
        break;
    case NUMBER:
        gpt_json_number(in, (double *)(void *)to);
        break;
    case TEXT:
        gpt_json_string(in, to, sizeof f->type);
        break;
    case BOOL:
    case INVERTED:
        if (gpt_json_bool(in, &value)) *(bool *)to |= value == (keys[key].kind == BOOL);
        break;
    }
}

/* Writes the last key that was read to key, for error messages. */
static bool read_fields(const char *text, size_t length, struct fields *f, char key[KEY_SIZE]) {
    enum { KEYS = sizeof keys / sizeof *keys };
    struct gpt_json in = gpt_json_of(text, length);
    char name[KEY_SIZE];
    *key = 0;
    if (!gpt_json_open(&in, '{')) return false;
    while (gpt_json_key(&in, name, sizeof name)) {
        size_t i = 0;
        strcpy(key, name);
        while (i < KEYS && strcmp(key, keys[i].name) != 0) i++;
        if (i < KEYS)
            read_field(&in, i, f);
        else
            gpt_json_skip(&in);
    }
    return gpt_json_end(&in);
}

/* Fails for variants of the models that this program does not implement. */
static int check_supported(const struct fields *f) {
    if (f->scale_by_layer || f->unscaled) return gpt_fail("attention must be scaled by the head width alone");
    if (f->norm_after)
        return gpt_fail("only models with norms before attention and MLP, and a final norm, are supported");
    if (f->no_bias || f->no_affine) return gpt_fail("models without biases are not supported");
    if (f->untied) return gpt_fail("the output head must be tied to the embedding");
    if (f->projection && f->projection != f->width)
        return gpt_fail("embeddings narrower than the model (word_embed_proj_dim) are not supported");
    return 0;
}

int gpt_config_parse(const char *text, size_t length, struct gpt_config *config) {
    struct fields f = {.epsilon = 1e-5};
    char key[KEY_SIZE];
    if (!read_fields(text, length, &f, key))
        return gpt_fail("not valid JSON%s%s%s", *key ? ", at '" : "", key, *key ? "' or after it" : "");
    bool opt = strcmp(f.type, "opt") == 0;
    if (!opt && strcmp(f.type, "gpt2") != 0)
        return gpt_fail("model_type '%s'; gpt2 and opt are supported", f.type);
    if (!*f.activation) strcpy(f.activation, opt ? "relu" : "gelu_new");
    bool relu = strcmp(f.activation, "relu") == 0;
    if (!relu && strcmp(f.activation, "gelu_new") != 0 && strcmp(f.activation, "gelu_pytorch_tanh") != 0)
        return gpt_fail("activation '%s'; gelu_new and relu are supported", f.activation);
    bool rms = strcmp(f.norm, "rms") == 0;
    if (*f.norm && !rms) return gpt_fail("norm '%s'; rms is supported", f.norm);
    if (check_supported(&f)) return -1;
    struct gpt_config read = {.vocabulary = f.vocabulary,
                              .context = f.context,
                              .layers = f.layers,
                              .width = f.width,
                              .heads = f.heads,
                              .inner = f.inner ? f.inner : 4 * f.width,
                              .activation = relu ? GPT_RELU : GPT_GELU,
                              .norm = rms ? GPT_RMS_NORM : GPT_LAYER_NORM,
                              .epsilon = (float)f.epsilon,
                              .family = opt ? GPT_FAMILY_OPT : GPT_FAMILY_GPT2};
    if (gpt_config_check(&read)) return -1;
    *config = read;
    return 0;
}

int gpt_config_load(const char *path, struct gpt_config *config) {
    struct gpt_file file;
    if (gpt_file_map(path, &file)) return -1;
    int st = gpt_config_parse(file.data, file.size, config);
    if (st) gpt_fail_in(path);
    gpt_file_unmap(&file);
    return st;
}

int gpt_config_save(const char *path, const struct gpt_config *c) {
    FILE *out = fopen(path, "w");
    if (!out) return gpt_fail("%s: %s", path, strerror(errno));
    fprintf(out, "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n");
    fprintf(out, "  \"vocab_size\": %zu,\n  \"n_positions\": %zu,\n  \"n_layer\": %zu,\n", c->vocabulary,
            c->context, c->layers);
    fprintf(out, "  \"n_embd\": %zu,\n  \"n_head\": %zu,\n  \"n_inner\": %zu,\n", c->width, c->heads,
            c->inner);
    fprintf(out, "  \"activation_function\": \"%s\",\n", c->activation == GPT_RELU ? "relu" : "gelu_new");
    if (c->norm == GPT_RMS_NORM) fprintf(out, "  \"norm\": \"rms\",\n");
    fprintf(out, "  \"layer_norm_epsilon\": %.9g\n}\n", (double)c->epsilon);
    bool synced = fflush(out) == 0 && fsync(fileno(out)) == 0;
    return fclose(out) || !synced ? gpt_fail("%s: %s", path, strerror(errno)) : 0;
}
