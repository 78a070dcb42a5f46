/* bench.c - "muster bench": picks the benchmark. */
#include "bench.h"
#include "commands.h"

#include <stdio.h>
#include <string.h>

int cmd_bench(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "store")) return bench_store(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "init")) return bench_init(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "coll")) return bench_coll(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "reduce")) return bench_reduce(argc - 1, argv + 1);
    bool help = argc > 1 && !strcmp(argv[1], "--help");
    fprintf(help ? stdout : stderr,
            "usage: muster bench store|init|coll|reduce [option ...]\n"
            "  store  operations per second of the store, beside PyTorch's server\n"
            "  init   time from launch to the end of the first barrier, beside both MPIs and torch gloo\n"
            "  coll   time of collectives and messages of all sizes, beside both MPIs and torch gloo\n"
            "  reduce how fast arrays are combined, beside a plain loop\n"
            "`muster bench NAME --help` lists the options.\n");
    return help ? EXIT_DONE : EXIT_USAGE;
}
