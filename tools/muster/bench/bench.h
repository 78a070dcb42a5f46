/*
 * bench.h - the benchmarks and what they share. Each prints the machine and a table of all backends, measured
 * in one run.
 */
#ifndef MUSTER_TOOL_BENCH_BENCH_H
#define MUSTER_TOOL_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

int bench_ops(int argc, char **argv);
int bench_limits(int argc, char **argv);
int bench_store(int argc, char **argv);
int bench_kernels(int argc, char **argv);
int bench_prof(int argc, char **argv);
int bench_init(int argc, char **argv);

struct opt_command;
struct msi_buf;

/* The names of the benchmarks other than operations, and what they measure; NULL after the last. */
const char *bench_name(int i, const char **help);

/* These return OPT_PROCEED, or the exit status after a mistake was printed. */

/* Parses the options of a benchmark that takes no operands. */
int bench_parse(const struct opt_command *command, int argc, char **argv, void *values);
enum { BENCH_NUMBERS_MOST = 16 };
struct bench_numbers {
    int at[BENCH_NUMBERS_MOST], n;
};
/* Parses a comma-separated list of different numbers from 1 to most. */
int bench_read_numbers(const struct opt_command *command, const char *option, const char *list, int most,
                       struct bench_numbers *numbers);
/* Opens a file for writing; a NULL path leaves *file unchanged. */
int bench_open_output(const struct opt_command *command, const char *path, FILE **file);

/* After launch_close: prints that the user interrupted the command; returns the exit status. */
int bench_interrupted(const char *command);
/* Copies the next item of a list, whose items end at a separator; false at its end. */
bool bench_next_item(const char **list, char separator, char item[32]);
/* "CPU (architecture), N cores, Linux RELEASE"; returns text. */
enum { BENCH_MACHINE_TEXT = 300 };
const char *bench_machine(char text[BENCH_MACHINE_TEXT]);
/* Raises the limit of open files to what is needed, or as far as allowed; false: that is less. */
bool bench_raise_file_limit(size_t needed);
/* Writes a buffer and a newline to a file, and frees the buffer. */
void bench_write_line(struct msi_buf *line, FILE *file);
/* Processor time of the calling thread, which other programs on the core do not lengthen. */
double bench_thread_ns(void);

#endif
