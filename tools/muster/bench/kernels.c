/*
 * kernels.c - "muster bench kernels": how fast arrays are combined in place, beside a plain loop c += a over as many
 * bytes of f32, which is what memory and processor allow. All sides take turns.
 */
#include "base/median.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "commands.h"
#include "os/host.h"
#include "reduce/reduce.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bench_options {
    const char *dtypes, *op, *variant;
    long rounds, inputs;
};

static const struct opt options[] = {
    {"dtypes", 't', OPT_STRING, "LIST", "which dtypes, or all (default f32,f64,bf16,f16,i32)",
     offsetof(struct bench_options, dtypes), 0, 0},
    {"op", 'o', OPT_STRING, "OP", "the operation (default SUM)", offsetof(struct bench_options, op), 0, 0},
    {"inputs", 'n', OPT_NUMBER, "N", "how many arrays are combined (default 2)",
     offsetof(struct bench_options, inputs), 2, 64},
    {"variant", 'v', OPT_STRING, "NAME", "the kernels to use (default: the best that run here)",
     offsetof(struct bench_options, variant), 0, 0},
    {"rounds", 'r', OPT_NUMBER, "N", "how often each takes its turn (default 15)",
     offsetof(struct bench_options, rounds), 1, 1000},
};

static const struct opt_command command = {
    "muster bench kernels",
    "",
    "Measures reductions in place beside a plain loop c += a, in GB/s of the result.",
    options,
    sizeof options / sizeof *options,
    false,
};

enum { INPUTS_MOST = 64, ROUNDS_MOST = 1000, SIZES = 3 };
static const size_t sizes[SIZES] = {64 << 10, 1 << 20, 16 << 20};
static const double turn_ns = 4e6;

struct bench {
    long rounds, n;
    const struct msi_reducer *reducer;
    size_t element;
    char *arrays[INPUTS_MOST]; /* the first is also the output */
};

/* The limit: n - 1 plain loops. */
static void plain(struct bench *bench, size_t bytes) {
    float *c = (float *)(void *)bench->arrays[0];
    for (long k = 1; k < bench->n; k++) {
        const float *restrict a = (const float *)(void *)bench->arrays[k];
        for (size_t i = 0; i < bytes / sizeof *c; i++) c[i] += a[i];
    }
}

static void fold(struct bench *bench, size_t bytes) {
    const struct msi_reduce_scale scale = {.factor = 1, .ranks = (int)bench->n};
    bench->reducer->reduce_local(bench->arrays[0], NULL, (const void *const *)bench->arrays, (int)bench->n,
                                 bytes / bench->element, &scale);
}

/* The thread's own time, which other programs on the same core do not lengthen. */
static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* GB/s of the result in one turn. */
static double turn(struct bench *bench, void (*work)(struct bench *, size_t), size_t bytes) {
    double start, end, times = 0;
    work(bench, bytes);
    start = now_ns();
    do {
        work(bench, bytes);
        times++;
        end = now_ns();
    } while ((end - start) < turn_ns);
    return times * (double)bytes / (end - start);
}

static void measure(struct bench *bench, const char *name) {
    static double ours[ROUNDS_MOST], limit[ROUNDS_MOST];
    printf("%-8s", name);
    for (int s = 0; s < SIZES; s++) {
        for (long round = 0; round < bench->rounds; round++) {
            limit[round] = turn(bench, plain, sizes[s]);
            ours[round] = turn(bench, fold, sizes[s]);
        }
        double ceiling = msi_median(limit, bench->rounds), rate = msi_median(ours, bench->rounds);
        printf("  %7.1f %7.1f %5.2f", rate, ceiling, rate / ceiling);
        fflush(stdout);
    }
    printf("\n");
}

static void print_head(const struct bench *bench, const char *variant, mst_op op) {
    char cpu[128];
    printf("muster %s, %s kernels; %s\n", mst_version(), variant, msi_cpu_name(cpu, sizeof cpu));
    printf("%s of %ld arrays in place, GB/s of the result beside the plain loop; median of %ld turns\n\n",
           mst_op_name(op), bench->n, bench->rounds);
    printf("%-8s  %22s %22s %22s\n%-8s", "", "64 KiB", "1 MiB", "16 MiB", "");
    for (int s = 0; s < SIZES; s++) printf("  %7s %7s %5s", "muster", "c += a", "ratio");
    printf("\n");
}

/* Whether a comma-separated list has the word. */
static bool lists(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (!strncmp(at, word, n) && (at[n] == ',' || at[n] == 0)) return true;
    return false;
}

static bool prepare(struct bench *bench) {
    for (long k = 0; k < bench->n; k++) {
        bench->arrays[k] = aligned_alloc(4096, sizes[SIZES - 1]);
        if (!bench->arrays[k]) return false;
        memset(bench->arrays[k], 0, sizes[SIZES - 1]); /* zeros stay zeros, however often they are added */
    }
    return true;
}

static int run(struct bench *bench, const struct bench_options *wanted, mst_op op) {
    int shown = 0;
    for (int d = 1; d < MST_DTYPE_COUNT; d++) {
        const char *name = mst_dtype_name((mst_dtype)d);
        bench->element = mst_dtype_size((mst_dtype)d);
        bench->reducer = msi_reducer_variant(wanted->variant, (mst_dtype)d, op);
        if (!bench->reducer || (strcmp(wanted->dtypes, "all") != 0 && !lists(wanted->dtypes, name))) continue;
        if (!shown++) print_head(bench, wanted->variant, op);
        measure(bench, name);
    }
    return shown ? EXIT_DONE
                 : opt_mistake(&command,
                               "nothing to measure: no such dtypes or variant, or %s "
                               "has no meaning for them",
                               mst_op_name(op));
}

int bench_kernels(int argc, char **argv) {
    struct bench_options wanted = {"f32,f64,bf16,f16,i32", "SUM", msi_reduce_variants()[0], 15, 2};
    char **operands;
    int n, op = 0;
    int exit_status = opt_parse(&command, argc, argv, &wanted, &operands, &n);
    if (exit_status != OPT_PROCEED) return exit_status;
    if (n) return opt_mistake(&command, "'%s' is not expected here", operands[0]);
    while (op < MST_OP_COUNT && strcmp(wanted.op, mst_op_name((mst_op)op)) != 0) op++;
    if (op == MST_OP_COUNT) return opt_mistake(&command, "'%s' is no operation", wanted.op);
    struct bench bench = {.rounds = wanted.rounds, .n = wanted.inputs};
    if (prepare(&bench))
        exit_status = run(&bench, &wanted, (mst_op)op);
    else
        exit_status = opt_mistake(&command, "no memory for %ld arrays", wanted.inputs);
    for (long k = 0; k < bench.n; k++) free(bench.arrays[k]);
    return exit_status;
}
