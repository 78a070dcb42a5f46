/* bench.c - "muster bench": picks the benchmark, or lists them. */
#include "bench/bench.h"
#include "bench/ops/ops.h"
#include "commands.h"
#include "loop_data.h"

#include <stdio.h>
#include <string.h>

struct benchmark {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct benchmark benchmarks[] = {
    {"limits", bench_limits,
     "what this machine allows: copies, additions, hand-overs between processors, TCP"},
    {"store", bench_store, "operations per second of the store, beside PyTorch's server"},
    {"init", bench_init, "time from launch to the end of the first barrier, beside both MPIs and torch gloo"},
    {"kernels", bench_kernels, "how fast arrays are combined, beside a plain loop"},
    {"prof", bench_prof, "what the flight recorder and profiling add to a call"},
};
enum { BENCHMARKS = sizeof benchmarks / sizeof benchmarks[0] };

static void list(void) {
    char ours[OPS_NAMES_MAX], others[OPS_NAMES_MAX];

    printf("usage: muster bench OPERATION ... [option ...]\n"
           "       muster bench NAME [option ...]\n\n"
           "operations, or all of them:\n ");
    for (int i = 0; i < LOOP_OPS; i++) printf(" %s", loop_op_names[i]);
    printf(" all\nbackends, which --backend names:\n  through muster: %s; called directly: %s\n"
           "dtypes, which --dtype names:\n ",
           ops_side_names(true, ours, sizeof ours), ops_side_names(false, others, sizeof others));
    for (int i = 0; i < LOOP_DTYPES; i++) printf(" %s", loop_dtypes[i].name);
    printf("\nother benchmarks:\n");
    for (int i = 0; i < BENCHMARKS; i++) printf("  %-8s %s\n", benchmarks[i].name, benchmarks[i].help);
    printf("\n'muster bench all --help' lists the options for operations, 'muster bench NAME --help' the "
           "others.\n");
}

int cmd_bench(int argc, char **argv) {
    if (argc == 1 || (argc == 2 && !strcmp(argv[1], "--help"))) {
        list();
        return EXIT_DONE;
    }
    for (int i = 0; i < BENCHMARKS; i++)
        if (!strcmp(argv[1], benchmarks[i].name)) return benchmarks[i].run(argc - 1, argv + 1);
    return bench_ops(argc, argv);
}
