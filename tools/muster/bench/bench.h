/* bench.h - the benchmarks. Each prints a table with all sides measured in one run, and the machine. */
#ifndef MUSTER_TOOL_BENCH_BENCH_H
#define MUSTER_TOOL_BENCH_BENCH_H

#include <stdbool.h>

int bench_ops(int argc, char **argv);
int bench_limits(int argc, char **argv);
int bench_store(int argc, char **argv);
int bench_kernels(int argc, char **argv);
int bench_prof(int argc, char **argv);
int bench_init(int argc, char **argv);

#endif
