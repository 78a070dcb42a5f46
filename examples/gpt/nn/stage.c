/* stage.c - the forward and backward pass of a micro-batch through a stage. */
#include "base/fail.h"
#include "nn/matmul.h"
#include "nn/model.h"
#include "nn/vec.h"

static size_t layers_of(const struct gpt_model *m) {
    return m->shard.last - m->shard.first;
}

/* The input of layer i, or the output of the last layer. */
static float *layer_input(const struct gpt_model *m, const struct gpt_acts *acts, size_t i) {
    return i < layers_of(m) ? acts->layer[i].x : acts->x;
}

float *gpt_acts_input(struct gpt_acts *acts) {
    return acts->input;
}

const float *gpt_acts_output(const struct gpt_acts *acts) {
    return acts->x;
}

float *gpt_acts_gradient(struct gpt_acts *acts) {
    return acts->gradient;
}

int gpt_tokens_check(const struct gpt_config *config, const int *tokens, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= config->vocabulary)
            return gpt_fail("token %d is not in the vocabulary: tokens are 0 to %zu", tokens[i],
                            config->vocabulary - 1);
    return 0;
}

int gpt_forward(struct gpt_model *m, struct gpt_acts *acts, const int *tokens,
                const struct gpt_hooks *hooks) {
    const struct gpt_config *c = &m->config;
    int st = gpt_model_reserve(m, acts->rows, c->context);
    if (!st && tokens) st = gpt_tokens_check(c, tokens, acts->rows);
    if (st) return st;
    if (gpt_model_is_first(m))
        gpt_embed(c, m->table, m->positions, tokens, acts->position, acts->batch, acts->time, acts->input);
    for (size_t i = 0; i < layers_of(m); i++)
        if ((st = gpt_block_forward(m, i, acts, layer_input(m, acts, i + 1), hooks))) return st;
    if (!gpt_model_is_last(m)) return 0;
    gpt_norm(c, m->norm, m->norm_bias, acts->x, acts->rows, acts->norm, acts->stats);
    gpt_matmul(acts->rows, c->vocabulary, c->width, (struct gpt_matrix){acts->norm, c->width, false},
               (struct gpt_matrix){m->table, c->width, true}, acts->logits, c->vocabulary, false);
    return 0;
}

void gpt_loss(struct gpt_model *m, struct gpt_acts *acts, const int *targets, float scale, double *loss) {
    gpt_cross_entropy(acts->logits, targets, acts->rows, m->config.vocabulary, scale, loss);
}

/* The head: from the gradient of the logits to the gradient of the last layer's output. */
static void head_back(struct gpt_model *m, struct gpt_acts *acts) {
    const struct gpt_config *c = &m->config;
    size_t rows = acts->rows, width = c->width, tokens = c->vocabulary;
    gpt_matmul(tokens, width, rows, (struct gpt_matrix){acts->logits, tokens, true},
               (struct gpt_matrix){acts->norm, width, false}, m->dtable, width, true);
    gpt_matmul(rows, width, tokens, (struct gpt_matrix){acts->logits, tokens, false},
               (struct gpt_matrix){m->table, width, false}, m->narrow, width, false);
    memset(acts->gradient, 0, rows * width * sizeof(float));
    gpt_norm_back(c, m->norm, acts->x, m->narrow, acts->stats, rows, acts->gradient, m->dnorm, m->dnorm_bias);
}

/* Calls gradient_ready for the gradients from `from` (NULL: all) up to *end, and moves *end. */
static int report_ready(const struct gpt_model *m, const struct gpt_hooks *hooks, const float *from,
                        size_t *end) {
    size_t offset = from ? (size_t)(from - m->gradients) : 0, count = *end - offset;
    *end = offset;
    if (!hooks || !hooks->gradient_ready || count == 0) return 0;
    return hooks->gradient_ready(hooks->context, offset, count);
}

int gpt_backward(struct gpt_model *m, struct gpt_acts *acts, const int *tokens,
                 const struct gpt_hooks *hooks) {
    size_t end = m->count;
    int st = gpt_model_reserve(m, acts->rows, m->config.context);
    if (st) return st;
    if (gpt_model_is_last(m)) {
        head_back(m, acts);
        if ((st = report_ready(m, hooks, m->dnorm, &end))) return st;
    }
    for (size_t i = layers_of(m); i-- > 0;) {
        if ((st = gpt_block_backward(m, i, acts, acts->gradient, hooks))) return st;
        if ((st = report_ready(m, hooks, m->dlayer[i].norm1, &end))) return st;
    }
    if (gpt_model_is_first(m))
        gpt_embed_back(&m->config, tokens, acts->position, acts->batch, acts->time, acts->gradient, m->dtable,
                       m->dpositions);
    return report_ready(m, hooks, NULL, &end);
}
