/* layers.c - embedding, norms, linear layers, activations, cross-entropy: forward and backward. */
#include "nn/layers.h"

#include "nn/matmul.h"
#include "nn/vec.h"

void gpt_embed(const struct gpt_config *config, const float *table, const float *positions, const int *tokens,
               const int *position, size_t batch, size_t time, float *x) {
    size_t width = config->width;
    for (size_t row = 0; row < batch * time; row++, x += width) {
        memcpy(x, table + (size_t)tokens[row] * width, width * sizeof *x);
        vec_add(x, positions + (size_t)position[row % time] * width, width);
    }
}

void gpt_embed_back(const struct gpt_config *config, const int *tokens, const int *position, size_t batch,
                    size_t time, const float *dx, float *dtable, float *dpositions) {
    size_t width = config->width;
    for (size_t row = 0; row < batch * time; row++, dx += width) {
        vec_add(dtable + (size_t)tokens[row] * width, dx, width);
        vec_add(dpositions + (size_t)position[row % time] * width, dx, width);
    }
}

void gpt_norm(const struct gpt_config *config, const float *weight, const float *bias, const float *x,
              size_t rows, float *y, struct gpt_norm_stats *stats) {
    size_t n = config->width;
    for (size_t row = 0; row < rows; row++, x += n, y += n) {
        float mean = config->norm == GPT_RMS_NORM ? 0 : vec_sum(x, n) / (float)n;
        for (size_t i = 0; i < n; i++) y[i] = x[i] - mean;
        float scale = 1 / sqrtf(vec_dot(y, y, n) / (float)n + config->epsilon);
        for (size_t i = 0; i < n; i++) y[i] *= scale * weight[i];
        if (bias) vec_add(y, bias, n);
        if (stats) stats[row] = (struct gpt_norm_stats){mean, scale};
    }
}

/*
 * With h = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - h mean(g h)); without mean(g) for
 * RMSNorm.
 */
void gpt_norm_back(const struct gpt_config *config, const float *weight, const float *x, const float *dy,
                   const struct gpt_norm_stats *stats, size_t rows, float *dx, float *dweight, float *dbias) {
    size_t n = config->width;
    for (size_t row = 0; row < rows; row++, x += n, dy += n, dx += n) {
        float mean = stats[row].mean, scale = stats[row].scale, g[VEC_LANES] = {0}, gh[VEC_LANES] = {0};
        for (size_t i = 0; i < n; i++) dweight[i] += dy[i] * (x[i] - mean) * scale;
        for (size_t i = 0; i < n; i += VEC_LANES)
            for (size_t l = 0; l < (n - i < VEC_LANES ? n - i : VEC_LANES); l++) {
                float one = dy[i + l] * weight[i + l];
                g[l] += one;
                gh[l] += one * (x[i + l] - mean) * scale;
            }
        float mean_g = config->norm == GPT_RMS_NORM ? 0 : vec_reduce(g) / (float)n,
              mean_gh = vec_reduce(gh) / (float)n;
        for (size_t i = 0; i < n; i++)
            dx[i] += scale * (dy[i] * weight[i] - mean_g - (x[i] - mean) * scale * mean_gh);
        if (dbias) vec_add(dbias, dy, n);
    }
}

static struct gpt_matrix matrix(const float *data, size_t stride, bool transposed) {
    return (struct gpt_matrix){data, stride, transposed};
}

void gpt_linear(const float *weight, const float *bias, const float *x, size_t rows, size_t in, size_t out,
                float *y) {
    for (size_t row = 0; row < rows && bias; row++) memcpy(y + row * out, bias, out * sizeof *y);
    gpt_matmul(rows, out, in, matrix(x, in, false), matrix(weight, out, false), y, out, bias != NULL);
}

void gpt_linear_back_input(const float *weight, const float *dy, size_t rows, size_t in, size_t out,
                           float *dx) {
    gpt_matmul(rows, in, out, matrix(dy, out, false), matrix(weight, out, true), dx, in, false);
}

void gpt_linear_back_weight(const float *x, const float *dy, size_t rows, size_t in, size_t out,
                            float *dweight, float *dbias) {
    gpt_matmul(in, out, rows, matrix(x, in, true), matrix(dy, out, false), dweight, out, true);
    for (size_t row = 0; row < rows && dbias; row++) vec_add(dbias, dy + row * out, out);
}

void gpt_add_bias(const float *bias, const float *from, size_t rows, size_t width, float *y) {
    for (size_t row = 0; row < rows; row++, from += width, y += width)
        for (size_t i = 0; i < width; i++) y[i] += bias[i] + from[i];
}

/*
 * GELU in its tanh approximation: x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). It takes one
 * exponential, because (1 + tanh u) / 2 = 1 / (1 + e^(-2 u)).
 */
static const float gelu_slope = 1.59576912f, gelu_cube = 0.071354816f; /* the coefficients of 2 u */

static inline float gelu_sigmoid(float x) {
    return 1 / (1 + vec_exp(-(gelu_slope * x + gelu_cube * x * x * x)));
}

void gpt_activate(enum gpt_activation kind, const float *restrict x, size_t count, float *restrict y) {
    if (kind == GPT_RELU)
        for (size_t i = 0; i < count; i++) y[i] = x[i] > 0 ? x[i] : 0;
    else
        for (size_t i = 0; i < count; i++) y[i] = x[i] * gelu_sigmoid(x[i]);
}

void gpt_activate_back(enum gpt_activation kind, const float *restrict x, size_t count, float *restrict dy) {
    if (kind == GPT_RELU)
        for (size_t i = 0; i < count; i++) dy[i] = x[i] > 0 ? dy[i] : 0;
    else
        for (size_t i = 0; i < count; i++) {
            float s = gelu_sigmoid(x[i]);
            dy[i] *= s + x[i] * s * (1 - s) * (gelu_slope + 3 * gelu_cube * x[i] * x[i]);
        }
}

void gpt_cross_entropy(float *logits, const int *targets, size_t rows, size_t vocabulary, float scale,
                       double *loss) {
    for (size_t row = 0; row < rows; row++, logits += vocabulary) {
        float max = vec_max(logits, vocabulary), target = logits[targets[row]];
        for (size_t i = 0; i < vocabulary; i++) logits[i] = vec_exp(logits[i] - max);
        float sum = vec_sum(logits, vocabulary);
        *loss += log((double)sum) + (double)max - (double)target;
        vec_scale(logits, scale / sum, vocabulary);
        logits[targets[row]] -= scale;
    }
}
