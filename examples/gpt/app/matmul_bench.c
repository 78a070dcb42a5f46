/* matmul_bench.c - the command matmul: measures the products of a layer against the processor's peak. */
#include "app/commands.h"
#include "base/fail.h"
#include "nn/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIALS = 20, MAX_ROWS = 1 << 24 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double peak(void) {
    double best = 0;
    for (int i = 0; i < TRIALS; i++) {
        double begin = now(), done = gpt_matmul_peak(200000), rate = done / (now() - begin);
        if (rate > best) best = rate;
    }
    return best;
}

/* Operations per second, the best of several trials. */
static double product(size_t m, size_t n, size_t k, bool transpose_a, bool transpose_b,
                      float *const buffer[3]) {
    struct gpt_matrix a = {buffer[0], transpose_a ? m : k, transpose_a},
                      b = {buffer[1], transpose_b ? k : n, transpose_b};
    double work = 2.0 * (double)m * (double)n * (double)k, best = 0;
    size_t times = 1 + (size_t)(2e7 / work);
    for (int i = 0; i < TRIALS; i++) {
        double begin = now();
        for (size_t t = 0; t < times; t++) gpt_matmul(m, n, k, a, b, buffer[2], n, false);
        double rate = work * (double)times / (now() - begin);
        if (rate > best) best = rate;
    }
    return best;
}

static void print_line(const char *what, size_t m, size_t n, size_t k, float *const buffer[3],
                       double peak_rate) {
    double y = product(m, n, k, false, false, buffer), dx = product(m, k, n, false, true, buffer),
           dw = product(k, n, m, true, false, buffer);
    printf("%-10s %5zu x %4zu x %4zu  %6.1f %6.1f %6.1f GFLOP/s  %3.0f %3.0f %3.0f %%\n", what, m, n, k,
           y / 1e9, dx / 1e9, dw / 1e9, 100 * y / peak_rate, 100 * dx / peak_rate, 100 * dw / peak_rate);
}

int gpt_matmul_bench(const struct gpt_options *o) {
    struct gpt_config c;
    if (gpt_options_config(o, &c)) return -1;
    size_t rows = o->batch * o->context, widest = c.inner > 3 * c.width ? c.inner : 3 * c.width;
    if (rows == 0 || rows > MAX_ROWS)
        return gpt_fail("--batch %zu and --context %zu: expected 1 to %d rows", o->batch, o->context,
                        MAX_ROWS);
    size_t largest = (rows > widest ? rows : widest) * widest;
    float *memory = calloc(3 * largest, sizeof *memory), *buffer[3];
    if (!memory) return gpt_fail("no memory for %zu rows", rows);
    for (size_t k = 0; k < 3 * largest; k++) memory[k] = (float)(k % 17) / 17;
    for (int i = 0; i < 3; i++) buffer[i] = memory + (size_t)i * largest;
    double peak_rate = peak();
    printf("%s, one core: peak %.1f GFLOP/s; y = x W, dx = dy W^T, dW = x^T dy\n", gpt_matmul_kind(),
           peak_rate / 1e9);
    print_line("qkv", rows, 3 * c.width, c.width, buffer, peak_rate);
    print_line("proj", rows, c.width, c.width, buffer, peak_rate);
    print_line("mlp in", rows, c.inner, c.width, buffer, peak_rate);
    print_line("mlp out", rows, c.width, c.inner, buffer, peak_rate);
    free(memory);
    return 0;
}
