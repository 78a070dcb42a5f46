/* attention.c - see attention.h for the formulas. */
#include "nn/attention.h"

#include "nn/matmul.h"
#include "nn/vec.h"

/* Queries per product: enough for fast products, few enough to compute little that the causal mask hides. */
enum { QUERIES = 64 };

size_t gpt_attention_scratch(size_t keys) {
    return 2 * QUERIES * keys;
}

/* Some queries of one head of one sequence, and the keys that the last of them attends to. */
struct tile {
    const struct gpt_attention *a;
    size_t b, h, first, queries, keys;
};

static float *rows_at(struct gpt_rows rows, const struct tile *p, size_t t) {
    return rows.data + p->b * rows.batch + t * rows.row + p->h * p->a->head_width;
}

static size_t row_index(const struct tile *p, size_t t) {
    return (p->b * p->a->heads + p->h) * (p->a->stride ? p->a->stride : p->a->queries) + t;
}

/* The number of keys of the block that query i of the tile attends to. */
static size_t visible_keys(const struct tile *p, const struct gpt_keys *keys, size_t i) {
    size_t position = p->a->position + p->first + i;
    if (position < keys->position) return 0;
    size_t n = position - keys->position + 1;
    return n < keys->count ? n : keys->count;
}

static struct gpt_matrix matrix(const float *data, size_t stride, bool transposed) {
    return (struct gpt_matrix){data, stride, transposed};
}

static void scores(const struct tile *p, const struct gpt_keys *keys, float *s) {
    const struct gpt_rows *k = &keys->k;
    size_t width = p->a->head_width;
    struct gpt_matrix k_transposed =
        keys->transposed ? matrix(k->data + p->b * k->batch + p->h * width * k->row, k->row, false)
                         : matrix(rows_at(*k, p, 0), k->row, true);
    gpt_matmul(p->queries, p->keys, width, matrix(rows_at(p->a->q, p, p->first), p->a->q.row, false),
               k_transposed, s, p->keys, false);
}

static float head_scale(const struct gpt_attention *a) {
    return 1 / sqrtf((float)a->head_width);
}

/* Turns the scores of a query into exponentials relative to the running maximum; rescales sum and output. */
static void row_forward(const struct tile *p, size_t i, size_t n, float *s) {
    const struct gpt_attention *a = p->a;
    float scale = head_scale(a), *max = &a->lse[row_index(p, p->first + i)],
          *sum = &a->sum[row_index(p, p->first + i)];
    float now = n ? vec_max(s, n) * scale : -INFINITY;
    if (now > *max) {
        float by = vec_exp(*max - now);
        by = *max == -INFINITY ? 0 : by;
        *sum *= by;
        vec_scale(rows_at(a->out, p, p->first + i), by, a->head_width);
        *max = now;
    }
    const float base = *max; /* a copy: the compiler must assume that max points into s */
    for (size_t j = 0; j < n; j++) s[j] = vec_exp(s[j] * scale - base);
    for (size_t j = n; j < p->keys; j++) s[j] = 0;
    *sum += vec_sum(s, n);
}

static void tile_forward(const struct tile *p, const struct gpt_keys *keys) {
    float *s = p->a->scratch;
    scores(p, keys, s);
    for (size_t i = 0; i < p->queries; i++) row_forward(p, i, visible_keys(p, keys, i), s + i * p->keys);
    gpt_matmul(p->queries, p->a->head_width, p->keys, matrix(s, p->keys, false),
               matrix(rows_at(keys->v, p, 0), keys->v.row, false), rows_at(p->a->out, p, p->first),
               p->a->out.row, true);
}

struct gradients {
    struct gpt_rows dout, dq, dk, dv;
};

/* Turns the scores of one query into probabilities p, and dout v^T into ds. */
static void row_back(const struct tile *p, size_t i, size_t n, float *s, float *ds) {
    float scale = head_scale(p->a), lse = p->a->lse[row_index(p, p->first + i)];
    float delta = p->a->sum[row_index(p, p->first + i)];
    for (size_t j = 0; j < n; j++) {
        s[j] = vec_exp(s[j] * scale - lse);
        ds[j] = s[j] * (ds[j] - delta) * scale;
    }
    for (size_t j = n; j < p->keys; j++) s[j] = ds[j] = 0;
}

static void tile_back(const struct tile *p, const struct gpt_keys *keys, const struct gradients *g) {
    size_t n = p->keys, m = p->queries, width = p->a->head_width;
    float *s = p->a->scratch, *ds = s + QUERIES * n;
    struct gpt_matrix dout = matrix(rows_at(g->dout, p, p->first), g->dout.row, false);
    scores(p, keys, s);
    gpt_matmul(m, n, width, dout, matrix(rows_at(keys->v, p, 0), keys->v.row, true), ds, n, false);
    for (size_t i = 0; i < m; i++) row_back(p, i, visible_keys(p, keys, i), s + i * n, ds + i * n);
    gpt_matmul(n, width, m, matrix(s, n, true), dout, rows_at(g->dv, p, 0), g->dv.row, true);
    gpt_matmul(m, width, n, matrix(ds, n, false), matrix(rows_at(keys->k, p, 0), keys->k.row, false),
               rows_at(g->dq, p, p->first), g->dq.row, true);
    gpt_matmul(n, width, m, matrix(ds, n, true), matrix(rows_at(p->a->q, p, p->first), p->a->q.row, false),
               rows_at(g->dk, p, 0), g->dk.row, true);
}

/* Runs the forward pass, or with g the backward pass, of every tile that attends to a key of the block. */
static void each_tile(const struct gpt_attention *a, const struct gpt_keys *keys, const struct gradients *g) {
    for (size_t b = 0; b < a->batch; b++)
        for (size_t h = 0; h < a->heads; h++)
            for (size_t first = 0; first < a->queries; first += QUERIES) {
                struct tile p = {.a = a, .b = b, .h = h, .first = first};
                p.queries = a->queries - first < QUERIES ? a->queries - first : QUERIES;
                p.keys = visible_keys(&p, keys, p.queries - 1);
                if (p.keys == 0) continue;
                if (g)
                    tile_back(&p, keys, g);
                else
                    tile_forward(&p, keys);
            }
}

/* Calls f for every row of out. */
static void each_row(const struct gpt_attention *a, struct gpt_rows dout,
                     void (*f)(const struct tile *p, size_t t, struct gpt_rows dout)) {
    for (size_t b = 0; b < a->batch; b++)
        for (size_t h = 0; h < a->heads; h++)
            for (size_t t = 0; t < a->queries; t++) f(&(struct tile){.a = a, .b = b, .h = h}, t, dout);
}

static void begin_row(const struct tile *p, size_t t, struct gpt_rows dout) {
    (void)dout;
    memset(rows_at(p->a->out, p, t), 0, p->a->head_width * sizeof(float));
    p->a->lse[row_index(p, t)] = -INFINITY;
    p->a->sum[row_index(p, t)] = 0;
}

static void end_row(const struct tile *p, size_t t, struct gpt_rows dout) {
    (void)dout;
    float sum = p->a->sum[row_index(p, t)];
    vec_scale(rows_at(p->a->out, p, t), 1 / sum, p->a->head_width);
    p->a->lse[row_index(p, t)] += logf(sum);
}

static void delta_row(const struct tile *p, size_t t, struct gpt_rows dout) {
    p->a->sum[row_index(p, t)] = vec_dot(rows_at(dout, p, t), rows_at(p->a->out, p, t), p->a->head_width);
}

void gpt_attend_begin(const struct gpt_attention *a) {
    each_row(a, a->out, begin_row);
}

void gpt_attend_block(const struct gpt_attention *a, const struct gpt_keys *keys) {
    each_tile(a, keys, NULL);
}

void gpt_attend_end(const struct gpt_attention *a) {
    each_row(a, a->out, end_row);
}

void gpt_attend(const struct gpt_attention *a, const struct gpt_keys *keys) {
    gpt_attend_begin(a);
    gpt_attend_block(a, keys);
    gpt_attend_end(a);
}

void gpt_attend_back_begin(const struct gpt_attention *a, struct gpt_rows dout) {
    each_row(a, dout, delta_row);
}

void gpt_attend_back_block(const struct gpt_attention *a, const struct gpt_keys *keys, struct gpt_rows dout,
                           struct gpt_rows dq, struct gpt_rows dk, struct gpt_rows dv) {
    each_tile(a, keys, &(struct gradients){dout, dq, dk, dv});
}
