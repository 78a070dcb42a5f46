/*
 * kernels.c - "muster bench kernels": measures in-place reductions and a plain loop c += a over the same
 * number of bytes of f32, which is limited by memory and processor alone. The two alternate.
 */
#include "base/median.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "commands.h"
#include "reduce/reduce.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS_MOST = 64, ROUNDS_MOST = 1000, SIZES = 3 };
static const size_t sizes[SIZES] = {64 << 10, 1 << 20, 16 << 20};
static const double trial_ns = 4e6;

struct bench {
    const char *dtypes, *op, *variant; /* options */
    long rounds, n;                    /* likewise */
    const struct msi_reducer *reducer;
    size_t element;
    char *arrays[INPUTS_MOST]; /* the first is also the output */
};

#define AT(field) offsetof(struct bench, field)

static const struct opt options[] = {
    {"dtypes", 't', OPT_STRING, "DTYPE,...", "which dtypes, or all (default f32,f64,bf16,f16,i32)",
     AT(dtypes), 0, 0},
    {"op", 'o', OPT_STRING, "OP", "the operation (default SUM)", AT(op), 0, 0},
    {"inputs", 'n', OPT_NUMBER, "N", "number of arrays to combine (default 2)", AT(n), 2, INPUTS_MOST},
    {"variant", 'v', OPT_STRING, "NAME", "the kernels to use (default: the best ones for this processor)",
     AT(variant), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "number of trials; the median counts (default 15)", AT(rounds), 1,
     ROUNDS_MOST},
};

static const struct opt_command command = {
    .name = "muster bench kernels",
    .operands = "",
    .summary = "Measures in-place reductions and a plain loop c += a, in GB/s of the result.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .examples = "  muster bench kernels --dtypes f32,bf16 --op MAX\n",
};

/* The limit: n - 1 plain loops. */
static void plain(struct bench *bench, size_t bytes) {
    float *c = (float *)(void *)bench->arrays[0];
    for (long k = 1; k < bench->n; k++) {
        const float *restrict a = (const float *)(void *)bench->arrays[k];
        for (size_t i = 0; i < bytes / sizeof *c; i++) c[i] += a[i];
    }
}

static void reduce(struct bench *bench, size_t bytes) {
    const struct msi_reduce_scale scale = {.factor = 1, .ranks = (int)bench->n};
    bench->reducer->reduce_local(bench->arrays[0], NULL, (const void *const *)bench->arrays, (int)bench->n,
                                 bytes / bench->element, &scale);
}

/* GB/s of the result in one trial. */
static double run_trial(struct bench *bench, void (*work)(struct bench *, size_t), size_t bytes) {
    double start, end, times = 0;
    work(bench, bytes);
    start = bench_thread_ns();
    do {
        work(bench, bytes);
        times++;
        end = bench_thread_ns();
    } while ((end - start) < trial_ns);
    return times * (double)bytes / (end - start);
}

static void measure(struct bench *bench, const char *name) {
    static double ours[ROUNDS_MOST], limit[ROUNDS_MOST];
    printf("%-8s", name);
    for (int s = 0; s < SIZES; s++) {
        for (long round = 0; round < bench->rounds; round++) {
            limit[round] = run_trial(bench, plain, sizes[s]);
            ours[round] = run_trial(bench, reduce, sizes[s]);
        }
        double ceiling = msi_median(limit, bench->rounds), rate = msi_median(ours, bench->rounds);
        printf("  %7.1f %7.1f %5.2f", rate, ceiling, rate / ceiling);
        fflush(stdout);
    }
    printf("\n");
}

static void print_head(const struct bench *bench) {
    char machine[BENCH_MACHINE_TEXT];
    printf("muster %s, %s kernels; %s\n", mst_version(), bench->variant, bench_machine(machine));
    printf("%s of %ld arrays in place and the plain loop, GB/s of the result; median of %ld trials\n\n",
           bench->op, bench->n, bench->rounds);
    printf("%-8s  %22s %22s %22s\n%-8s", "", "64 KiB", "1 MiB", "16 MiB", "");
    for (int s = 0; s < SIZES; s++) printf("  %7s %7s %5s", "muster", "c += a", "ratio");
    printf("\n");
}

static bool is_wanted(const char *dtypes, const char *name) {
    char item[32];
    while (bench_next_item(&dtypes, ',', item))
        if (!strcmp(item, name) || !strcmp(item, "all")) return true;
    return false;
}

static bool prepare(struct bench *bench) {
    for (long k = 0; k < bench->n; k++) {
        bench->arrays[k] = aligned_alloc(4096, sizes[SIZES - 1]);
        if (!bench->arrays[k]) return false;
        memset(bench->arrays[k], 0, sizes[SIZES - 1]); /* sums of zeros stay finite */
    }
    return true;
}

static int run(struct bench *bench, mst_op op) {
    int shown = 0;
    for (int d = 1; d < MST_DTYPE_COUNT; d++) {
        const char *name = mst_dtype_name((mst_dtype)d);
        bench->element = mst_dtype_size((mst_dtype)d);
        bench->reducer = msi_reducer_variant(bench->variant, (mst_dtype)d, op);
        if (!bench->reducer || !is_wanted(bench->dtypes, name)) continue;
        if (!shown++) print_head(bench);
        measure(bench, name);
    }
    if (shown) return EXIT_DONE;
    return opt_mistake(
        &command, "nothing to measure: the dtypes or the variant do not exist, or %s is not defined for them",
        bench->op);
}

int bench_kernels(int argc, char **argv) {
    struct bench bench = {"f32,f64,bf16,f16,i32", "SUM", msi_reduce_variants()[0], .rounds = 15, .n = 2};
    int op = 0, exit_status = bench_parse(&command, argc, argv, &bench);
    if (exit_status != OPT_PROCEED) return exit_status;
    while (op < MST_OP_COUNT && strcmp(bench.op, mst_op_name((mst_op)op)) != 0) op++;
    if (op == MST_OP_COUNT) return opt_mistake(&command, "unknown operation '%s'", bench.op);
    if (prepare(&bench))
        exit_status = run(&bench, (mst_op)op);
    else
        exit_status = opt_mistake(&command, "out of memory for %ld arrays", bench.n);
    for (long k = 0; k < bench.n; k++) free(bench.arrays[k]);
    return exit_status;
}
