/* bench.h - the benchmarks. Each prints a table with both sides measured in one run, and the machine. */
#ifndef MUSTER_TOOL_BENCH_H
#define MUSTER_TOOL_BENCH_H

#include <stdbool.h>

int bench_store(int argc, char **argv);
int bench_reduce(int argc, char **argv);
int bench_init(int argc, char **argv);
int bench_coll(int argc, char **argv);

#endif
