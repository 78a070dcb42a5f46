/* test_layers.c - the backward pass of every layer against finite differences of its forward pass. */
#include "kit.h"
#include "nn/vec.h"

enum { ROWS = 6, WIDTH = 24, OUT = 27 };

/* A layer under test; f is the dot product of its output with `by`. */
struct layer {
    struct gpt_config config;
    float x[ROWS * WIDTH], weight[WIDTH * OUT], bias[WIDTH + OUT], y[ROWS * (WIDTH + OUT)],
        by[ROWS * (WIDTH + OUT)];
    float dx[ROWS * WIDTH], dweight[WIDTH * OUT], dbias[WIDTH + OUT];
    struct gpt_norm_stats stats[ROWS];
    int tokens[ROWS], targets[ROWS], position[3];
};

static struct layer *layer_new(void) {
    struct layer *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->config = kit_config();
    l->config.width = WIDTH;
    kit_fill(l->x, COUNT_OF(l->x), "x", 1);
    kit_fill(l->weight, COUNT_OF(l->weight), "weight", 1);
    kit_fill(l->bias, COUNT_OF(l->bias), "bias", 1);
    kit_fill(l->by, COUNT_OF(l->by), "by", 1);
    return l;
}

static double norm(void *context) {
    struct layer *l = context;
    gpt_norm(&l->config, l->weight, l->config.norm == GPT_RMS_NORM ? NULL : l->bias, l->x, ROWS, l->y,
             l->stats);
    return kit_dot(l->y, l->by, ROWS * WIDTH);
}

static void check_norm(enum gpt_norm_kind kind) {
    struct layer *l = layer_new();
    l->config.norm = kind;
    norm(l);
    gpt_norm_back(&l->config, l->weight, l->x, l->by, l->stats, ROWS, l->dx, l->dweight,
                  kind == GPT_RMS_NORM ? NULL : l->dbias);
    kit_check_gradient("norm, x", norm, l, l->x, ROWS * WIDTH, l->dx, ROWS * WIDTH);
    kit_check_gradient("norm, weight", norm, l, l->weight, WIDTH, l->dweight, WIDTH);
    if (kind == GPT_LAYER_NORM) kit_check_gradient("norm, bias", norm, l, l->bias, WIDTH, l->dbias, WIDTH);
    free(l);
}

static void test_norms(void **state) {
    (void)state;
    check_norm(GPT_LAYER_NORM);
    check_norm(GPT_RMS_NORM);
}

static double linear(void *context) {
    struct layer *l = context;
    gpt_linear(l->weight, l->bias, l->x, ROWS, WIDTH, OUT, l->y);
    return kit_dot(l->y, l->by, ROWS * OUT);
}

static void test_linear(void **state) {
    (void)state;
    struct layer *l = layer_new();
    gpt_linear_back_input(l->weight, l->by, ROWS, WIDTH, OUT, l->dx);
    gpt_linear_back_weight(l->x, l->by, ROWS, WIDTH, OUT, l->dweight, l->dbias);
    kit_check_gradient("linear, x", linear, l, l->x, ROWS * WIDTH, l->dx, ROWS * WIDTH);
    kit_check_gradient("linear, weight", linear, l, l->weight, WIDTH * OUT, l->dweight, WIDTH * OUT);
    kit_check_gradient("linear, bias", linear, l, l->bias, OUT, l->dbias, OUT);
    free(l);
}

static double activation(void *context) {
    struct layer *l = context;
    gpt_activate(l->config.activation, l->x, ROWS * WIDTH, l->y);
    return kit_dot(l->y, l->by, ROWS * WIDTH);
}

static void check_activation(enum gpt_activation kind) {
    struct layer *l = layer_new();
    l->config.activation = kind;
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        if (fabsf(l->x[i]) < 0.01f) l->x[i] = 0.1f; /* where ReLU has no derivative */
    memcpy(l->dx, l->by, sizeof l->dx);
    gpt_activate_back(kind, l->x, ROWS * WIDTH, l->dx);
    kit_check_gradient("activation", activation, l, l->x, ROWS * WIDTH, l->dx, ROWS * WIDTH);
    free(l);
}

static void test_activations(void **state) {
    (void)state;
    check_activation(GPT_GELU);
    check_activation(GPT_RELU);
    for (float x = -8; x < 8; x += 0.01f) {
        float y;
        gpt_activate(GPT_GELU, &x, 1, &y);
        double d = (double)x, exact = 0.5 * d * (1 + tanh(sqrt(2 / M_PI) * (d + 0.044715 * d * d * d)));
        assert_true(fabs((double)y - exact) < 2e-6);
    }
}

static double embed(void *context) {
    struct layer *l = context;
    gpt_embed(&l->config, l->weight, l->bias, l->tokens, l->position, 2, 3, l->y);
    return kit_dot(l->y, l->by, ROWS * WIDTH);
}

/* Tokens and positions occur more than once. */
static void test_embedding(void **state) {
    (void)state;
    struct layer *l = layer_new();
    static const int tokens[ROWS] = {3, 1, 3, 0, 3, 1}, position[3] = {1, 0, 1};
    memcpy(l->tokens, tokens, sizeof tokens);
    memcpy(l->position, position, sizeof position);
    gpt_embed_back(&l->config, l->tokens, l->position, 2, 3, l->by, l->dweight, l->dbias);
    kit_check_gradient("table", embed, l, l->weight, 4 * WIDTH, l->dweight, 4 * WIDTH);
    kit_check_gradient("positions", embed, l, l->bias, 2 * WIDTH, l->dbias, 2 * WIDTH);
    free(l);
}

static double entropy(void *context) {
    struct layer *l = context;
    memcpy(l->y, l->x, sizeof l->x);
    double loss = 0;
    gpt_cross_entropy(l->y, l->targets, ROWS, WIDTH, 0.5f, &loss);
    return 0.5 * loss;
}

static void test_cross_entropy(void **state) {
    (void)state;
    struct layer *l = layer_new();
    for (int i = 0; i < ROWS; i++) l->targets[i] = (5 * i) % WIDTH;
    l->x[3] = 60; /* far from the others */
    double loss = 2 * entropy(l), wanted = 0;
    memcpy(l->dx, l->y, sizeof l->dx);
    for (size_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (size_t i = 0; i < WIDTH; i++) sum += exp((double)l->x[row * WIDTH + i]);
        wanted += log(sum) - (double)l->x[row * WIDTH + (size_t)l->targets[row]];
    }
    assert_true(fabs(loss - wanted) < 1e-5 * wanted);
    kit_check_gradient("cross-entropy", entropy, l, l->x, ROWS * WIDTH, l->dx, ROWS * WIDTH);
    free(l);
}

static void test_exponential(void **state) {
    (void)state;
    for (float x = -87; x < 88; x += 0.0173f)
        assert_true(fabs((double)vec_exp(x) / exp((double)x) - 1) < 3e-7);
    assert_true(vec_exp(0) == 1);
    assert_true(vec_exp(-INFINITY) < 1e-37f && vec_exp(-1e30f) < 1e-37f);
    assert_true(vec_exp(1e30f) > 1e38f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),         cmocka_unit_test(test_linear),
        cmocka_unit_test(test_activations),   cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_cross_entropy), cmocka_unit_test(test_exponential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
