/*
 * block.c - one transformer layer on this process's slice of it:
 *
 *   middle = x + sum over slices(attention(norm1(x) qkv) proj) + bias
 *   out = middle + sum over slices(activation(norm2(middle) in) out) + bias
 */
#include "nn/model.h"
#include "nn/vec.h"

static int reduce_forward(const struct gpt_hooks *hooks, float *x, size_t count) {
    return hooks && hooks->reduce_forward ? hooks->reduce_forward(hooks->context, x, count) : 0;
}

static int reduce_backward(const struct gpt_hooks *hooks, float *dx, size_t count) {
    return hooks && hooks->reduce_backward ? hooks->reduce_backward(hooks->context, dx, count) : 0;
}

static int wait_backward(const struct gpt_hooks *hooks) {
    return hooks && hooks->wait_backward ? hooks->wait_backward(hooks->context) : 0;
}

/* q (0), k (1) or v (2) in rows that hold all three. */
static struct gpt_rows qkv_rows(const struct gpt_model *model, const struct gpt_acts *acts, float *qkv,
                                size_t index) {
    size_t width = gpt_local_width(model);
    return (struct gpt_rows){qkv + index * width, acts->time * 3 * width, 3 * width};
}

static struct gpt_rows rows_of(const struct gpt_model *model, const struct gpt_acts *acts, float *x) {
    size_t width = gpt_local_width(model);
    return (struct gpt_rows){x, acts->time * width, width};
}

static struct gpt_attention attention_of(const struct gpt_model *model, const struct gpt_acts *acts,
                                         const struct gpt_layer_acts *l) {
    return (struct gpt_attention){.batch = acts->batch,
                                  .heads = gpt_local_heads(model),
                                  .head_width = model->config.width / model->config.heads,
                                  .queries = acts->time,
                                  .position = (size_t)acts->position[0],
                                  .q = qkv_rows(model, acts, l->qkv, 0),
                                  .out = rows_of(model, acts, l->attention),
                                  .lse = l->lse,
                                  .sum = l->sum,
                                  .scratch = model->scores};
}

static struct gpt_keys keys_of(const struct gpt_model *model, const struct gpt_acts *acts,
                               const struct gpt_layer_acts *l) {
    return (struct gpt_keys){.count = acts->time,
                             .position = (size_t)acts->position[0],
                             .k = qkv_rows(model, acts, l->qkv, 1),
                             .v = qkv_rows(model, acts, l->qkv, 2)};
}

static int attend(struct gpt_model *model, struct gpt_acts *acts, struct gpt_layer_acts *l,
                  const struct gpt_hooks *hooks) {
    struct gpt_attention a = attention_of(model, acts, l);
    struct gpt_keys keys = keys_of(model, acts, l);
    if (hooks && hooks->attend) return hooks->attend(hooks->context, &a, &keys);
    gpt_attend(&a, &keys);
    return 0;
}

/* dout: gradient of the attention's output; dqkv: gradient of q, k and v, written here. */
static int attend_back(struct gpt_model *model, struct gpt_acts *acts, struct gpt_layer_acts *l, float *dout,
                       float *dqkv, const struct gpt_hooks *hooks) {
    struct gpt_attention a = attention_of(model, acts, l);
    struct gpt_keys keys = keys_of(model, acts, l);
    struct gpt_rows d = rows_of(model, acts, dout), dq = qkv_rows(model, acts, dqkv, 0),
                    dk = qkv_rows(model, acts, dqkv, 1), dv = qkv_rows(model, acts, dqkv, 2);
    memset(dqkv, 0, acts->rows * 3 * gpt_local_width(model) * sizeof *dqkv);
    if (hooks && hooks->attend_back) return hooks->attend_back(hooks->context, &a, &keys, d, dq, dk, dv);
    gpt_attend_back_begin(&a, d);
    gpt_attend_back_block(&a, &keys, d, dq, dk, dv);
    return 0;
}

int gpt_block_forward(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *out,
                      const struct gpt_hooks *hooks) {
    const struct gpt_config *c = &model->config;
    const struct gpt_layer *w = &model->layer[index];
    struct gpt_layer_acts *l = &acts->layer[index];
    size_t rows = acts->rows, width = c->width, local = gpt_local_width(model),
           inner = gpt_local_inner(model);

    gpt_norm(c, w->norm1, w->norm1_bias, l->x, rows, l->norm1, l->stats1);
    gpt_linear(w->qkv, w->qkv_bias, l->norm1, rows, width, 3 * local, l->qkv);
    int st = attend(model, acts, l, hooks);
    if (st) return st;
    gpt_linear(w->proj, NULL, l->attention, rows, local, width, l->middle);
    if ((st = reduce_forward(hooks, l->middle, rows * width))) return st;
    gpt_add_bias(w->proj_bias, l->x, rows, width, l->middle);

    gpt_norm(c, w->norm2, w->norm2_bias, l->middle, rows, l->norm2, l->stats2);
    gpt_linear(w->in, w->in_bias, l->norm2, rows, width, inner, l->in);
    gpt_activate(c->activation, l->in, rows * inner, l->act);
    gpt_linear(w->out, NULL, l->act, rows, inner, width, out);
    if ((st = reduce_forward(hooks, out, rows * width))) return st;
    gpt_add_bias(w->out_bias, l->middle, rows, width, out);
    return 0;
}

/* A matrix split by columns: computes the weights' gradient during the all-reduce of the input's gradient. */
static int columns_back(const float *weight, const float *x, const float *dy, size_t rows, size_t in,
                        size_t out, float *dx, float *dweight, float *dbias, const struct gpt_hooks *hooks) {
    gpt_linear_back_input(weight, dy, rows, in, out, dx);
    int st = reduce_backward(hooks, dx, rows * in);
    if (st) return st;
    gpt_linear_back_weight(x, dy, rows, in, out, dweight, dbias);
    return wait_backward(hooks);
}

static int mlp_back(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *dout,
                    const struct gpt_hooks *hooks) {
    const struct gpt_config *c = &model->config;
    const struct gpt_layer *w = &model->layer[index], *d = &model->dlayer[index];
    struct gpt_layer_acts *l = &acts->layer[index];
    size_t rows = acts->rows, width = c->width, inner = gpt_local_inner(model);

    gpt_linear_back_weight(l->act, dout, rows, inner, width, d->out, d->out_bias);
    gpt_linear_back_input(w->out, dout, rows, inner, width, model->wide);
    gpt_activate_back(c->activation, l->in, rows * inner, model->wide);
    int st = columns_back(w->in, l->norm2, model->wide, rows, width, inner, model->narrow, d->in, d->in_bias,
                          hooks);
    if (st) return st;
    gpt_norm_back(c, w->norm2, l->middle, model->narrow, l->stats2, rows, dout, d->norm2, d->norm2_bias);
    return 0;
}

static int attention_back(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *dout,
                          const struct gpt_hooks *hooks) {
    const struct gpt_config *c = &model->config;
    const struct gpt_layer *w = &model->layer[index], *d = &model->dlayer[index];
    struct gpt_layer_acts *l = &acts->layer[index];
    size_t rows = acts->rows, width = c->width, local = gpt_local_width(model);

    gpt_linear_back_weight(l->attention, dout, rows, local, width, d->proj, d->proj_bias);
    gpt_linear_back_input(w->proj, dout, rows, local, width, model->narrow);
    int st = attend_back(model, acts, l, model->narrow, model->wide, hooks);
    if (st) return st;
    st = columns_back(w->qkv, l->norm1, model->wide, rows, width, 3 * local, model->narrow, d->qkv,
                      d->qkv_bias, hooks);
    if (st) return st;
    gpt_norm_back(c, w->norm1, l->x, model->narrow, l->stats1, rows, dout, d->norm1, d->norm1_bias);
    return 0;
}

int gpt_block_backward(struct gpt_model *model, size_t index, struct gpt_acts *acts, float *dout,
                       const struct gpt_hooks *hooks) {
    int st = mlp_back(model, index, acts, dout, hooks);
    return st ? st : attention_back(model, index, acts, dout, hooks);
}
