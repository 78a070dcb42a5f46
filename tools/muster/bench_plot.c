#include "bench_ops.h"
void bench_plot(const struct ops_bench *b, FILE *out) {
    (void)b;
    (void)out;
}
