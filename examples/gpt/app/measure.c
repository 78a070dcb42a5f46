/* measure.c - gpt matmul: how quick the products of a layer are, beside what the multiply-add units can do. */
#include "app/commands.h"
#include "app/fail.h"
#include "nn/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIES = 20, ROWS_MOST = 1 << 24 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double peak(void) {
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        double begin = now(), done = gpt_matmul_peak(200000), rate = done / (now() - begin);
        if (rate > best) best = rate;
    }
    return best;
}

/* Operations in a second, the best of some tries. */
static double product(size_t m, size_t n, size_t k, bool flip_a, bool flip_b, float *const buffer[3]) {
    struct gpt_matrix a = {buffer[0], flip_a ? m : k, flip_a}, b = {buffer[1], flip_b ? k : n, flip_b};
    double work = 2.0 * (double)m * (double)n * (double)k, best = 0;
    size_t times = 1 + (size_t)(2e7 / work);
    for (int i = 0; i < TRIES; i++) {
        double begin = now();
        for (size_t t = 0; t < times; t++) gpt_matmul(m, n, k, a, b, buffer[2], n, false);
        double rate = work * (double)times / (now() - begin);
        if (rate > best) best = rate;
    }
    return best;
}

static void line(const char *what, size_t m, size_t n, size_t k, float *const buffer[3], double most) {
    double y = product(m, n, k, false, false, buffer), dx = product(m, k, n, false, true, buffer),
           dw = product(k, n, m, true, false, buffer);
    printf("%-10s %5zu x %4zu x %4zu  %6.1f %6.1f %6.1f GFLOP/s  %3.0f %3.0f %3.0f %%\n", what, m, n, k,
           y / 1e9, dx / 1e9, dw / 1e9, 100 * y / most, 100 * dx / most, 100 * dw / most);
}

int gpt_measure(const struct gpt_options *o) {
    struct gpt_config c;
    if (gpt_options_config(o, &c)) return -1;
    size_t rows = o->batch * o->context, widest = c.inner > 3 * c.width ? c.inner : 3 * c.width;
    if (rows == 0 || rows > ROWS_MOST)
        return gpt_fail("--batch %zu and --context %zu: from 1 to %d rows are expected", o->batch, o->context,
                        ROWS_MOST);
    size_t largest = (rows > widest ? rows : widest) * widest;
    float *memory = calloc(3 * largest, sizeof *memory), *buffer[3];
    if (!memory) return gpt_fail("no memory for %zu rows", rows);
    for (size_t k = 0; k < 3 * largest; k++) memory[k] = (float)(k % 17) / 17;
    for (int i = 0; i < 3; i++) buffer[i] = memory + (size_t)i * largest;
    double most = peak();
    printf("%s, one core: %.1f GFLOP/s without memory; y = x W, dx = dy W^T, dW = x^T dy\n",
           gpt_matmul_kind(), most / 1e9);
    line("qkv", rows, 3 * c.width, c.width, buffer, most);
    line("proj", rows, c.width, c.width, buffer, most);
    line("mlp in", rows, c.inner, c.width, buffer, most);
    line("mlp out", rows, c.width, c.inner, buffer, most);
    free(memory);
    return 0;
}
