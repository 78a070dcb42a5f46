/* config.c - shapes of models, and config.json as the transformers library writes it. */
#include "nn/config.h"

#include "app/fail.h"
#include "io/file.h"
#include "io/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20, MOST_LAYERS = 1000, KEY_ROOM = 128 };

int gpt_config_check(const struct gpt_config *c) {
    const struct {
        const char *name;
        size_t value, most;
    } sizes[] = {{"vocabulary", c->vocabulary, MOST}, {"context", c->context, MOST},
                 {"layers", c->layers, MOST_LAYERS},  {"width", c->width, MOST},
                 {"heads", c->heads, MOST},           {"inner width", c->inner, MOST}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value == 0 || sizes[i].value > sizes[i].most)
            return gpt_fail("%s is %zu; it must be from 1 to %zu", sizes[i].name, sizes[i].value,
                            sizes[i].most);
    if (c->width % c->heads) return gpt_fail("width %zu is not a multiple of %zu heads", c->width, c->heads);
    if (!(c->epsilon > 0 && c->epsilon < 1)) return gpt_fail("the norms' epsilon is %g", (double)c->epsilon);
    return 0;
}

/* What config.json said, as far as it matters; both families' names. */
struct said {
    char type[32], activation[32], norm[32];
    uint64_t vocabulary, context, layers, width, heads, inner, projection;
    double epsilon;
    bool scale_by_layer, unscaled, norm_after, no_bias, untied, no_affine;
};

static const struct {
    const char *name;
    enum { COUNT, NUMBER, TEXT, TRUTH, LIE } kind; /* LIE: the default is true, and false is kept as true */
    size_t offset;
} fields[] = {
    {"model_type", TEXT, offsetof(struct said, type)},
    {"activation_function", TEXT, offsetof(struct said, activation)},
    {"norm", TEXT, offsetof(struct said, norm)},
    {"vocab_size", COUNT, offsetof(struct said, vocabulary)},
    {"n_positions", COUNT, offsetof(struct said, context)},
    {"max_position_embeddings", COUNT, offsetof(struct said, context)},
    {"n_layer", COUNT, offsetof(struct said, layers)},
    {"num_hidden_layers", COUNT, offsetof(struct said, layers)},
    {"n_embd", COUNT, offsetof(struct said, width)},
    {"hidden_size", COUNT, offsetof(struct said, width)},
    {"n_head", COUNT, offsetof(struct said, heads)},
    {"num_attention_heads", COUNT, offsetof(struct said, heads)},
    {"n_inner", COUNT, offsetof(struct said, inner)},
    {"ffn_dim", COUNT, offsetof(struct said, inner)},
    {"word_embed_proj_dim", COUNT, offsetof(struct said, projection)},
    {"layer_norm_epsilon", NUMBER, offsetof(struct said, epsilon)},
    {"scale_attn_by_inverse_layer_idx", TRUTH, offsetof(struct said, scale_by_layer)},
    {"scale_attn_weights", LIE, offsetof(struct said, unscaled)},
    {"do_layer_norm_before", LIE, offsetof(struct said, norm_after)},
    {"_remove_final_layer_norm", TRUTH, offsetof(struct said, norm_after)},
    {"enable_bias", LIE, offsetof(struct said, no_bias)},
    {"layer_norm_elementwise_affine", LIE, offsetof(struct said, no_affine)},
    {"tie_word_embeddings", LIE, offsetof(struct said, untied)},
};

/* One value; null leaves the default. */
static void read_field(struct gpt_json *in, size_t field, struct said *said) {
    char *to = (char *)said + fields[field].offset;
    bool value;
    if (gpt_json_null(in)) return;
    switch (fields[field].kind) {
    case COUNT:
        gpt_json_count(in, (uint64_t *)(void *)to);
        break;
    case NUMBER:
        gpt_json_number(in, (double *)(void *)to);
        break;
    case TEXT:
        gpt_json_string(in, to, sizeof said->type);
        break;
    case TRUTH:
    case LIE:
        if (gpt_json_bool(in, &value)) *(bool *)to |= value == (fields[field].kind == TRUTH);
        break;
    }
}

/* key becomes the last name that was read, for what is then wrong. */
static bool read_said(const char *text, size_t length, struct said *said, char key[KEY_ROOM]) {
    enum { FIELDS = sizeof fields / sizeof *fields };
    struct gpt_json in = gpt_json_of(text, length);
    char name[KEY_ROOM];
    *key = 0;
    if (!gpt_json_open(&in, '{')) return false;
    while (gpt_json_key(&in, name, sizeof name)) {
        size_t i = 0;
        strcpy(key, name);
        while (i < FIELDS && strcmp(key, fields[i].name) != 0) i++;
        if (i < FIELDS)
            read_field(&in, i, said);
        else
            gpt_json_skip(&in);
    }
    return gpt_json_end(&in);
}

/* What this program does not do. */
static int unable(const struct said *said) {
    if (said->scale_by_layer || said->unscaled) return gpt_fail("attention scaled otherwise than by head");
    if (said->norm_after) return gpt_fail("only models that norm before each part, and at the end, are done");
    if (said->no_bias || said->no_affine) return gpt_fail("models without biases are not done");
    if (said->untied) return gpt_fail("the output head must be tied to the embedding");
    if (said->projection && said->projection != said->width)
        return gpt_fail("embeddings narrower than the model (word_embed_proj_dim) are not done");
    return 0;
}

int gpt_config_parse(const char *text, size_t length, struct gpt_config *config) {
    struct said said = {.epsilon = 1e-5};
    char key[KEY_ROOM];
    if (!read_said(text, length, &said, key))
        return gpt_fail("not JSON as expected%s%s%s", *key ? ", at '" : "", key, *key ? "' or after it" : "");
    bool opt = strcmp(said.type, "opt") == 0;
    if (!opt && strcmp(said.type, "gpt2") != 0)
        return gpt_fail("model_type '%s'; gpt2 and opt are known", said.type);
    if (!*said.activation) strcpy(said.activation, opt ? "relu" : "gelu_new");
    bool relu = strcmp(said.activation, "relu") == 0;
    if (!relu && strcmp(said.activation, "gelu_new") != 0 &&
        strcmp(said.activation, "gelu_pytorch_tanh") != 0)
        return gpt_fail("activation '%s'; gelu_new and relu are known", said.activation);
    bool rms = strcmp(said.norm, "rms") == 0;
    if (*said.norm && !rms) return gpt_fail("norm '%s'; rms is known", said.norm);
    if (unable(&said)) return -1;
    struct gpt_config read = {.vocabulary = said.vocabulary,
                              .context = said.context,
                              .layers = said.layers,
                              .width = said.width,
                              .heads = said.heads,
                              .inner = said.inner ? said.inner : 4 * said.width,
                              .activation = relu ? GPT_RELU : GPT_GELU,
                              .norm = rms ? GPT_RMS_NORM : GPT_LAYER_NORM,
                              .epsilon = (float)said.epsilon,
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
    bool kept = fflush(out) == 0 && fsync(fileno(out)) == 0;
    return fclose(out) || !kept ? gpt_fail("%s: %s", path, strerror(errno)) : 0;
}
