/* launch.h - runs a command of a benchmark, times it, and ends all processes that it started. */
#ifndef MUSTER_TOOL_BENCH_LAUNCH_H
#define MUSTER_TOOL_BENCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

/* Between open and close, signals to the benchmark end only the running command. */
void launch_open(void);
void launch_close(void);
/* Waits until a child ends, at most 20 ms. True: the user interrupts the benchmark. */
bool launch_wait_a_moment(void);
/* The signal that interrupted the benchmark, or 0. */
int launch_signal(void);

enum launch_end { LAUNCH_ENDED, LAUNCH_TIME_UP, LAUNCH_INTERRUPTED, LAUNCH_NOT_STARTED };

struct launch_result {
    enum launch_end end;
    int status; /* of waitpid, with LAUNCH_ENDED */
    double wall;
};

/*
 * Runs argv with its output in a file and waits for it, at most limit seconds. Kills all remaining
 * descendants before it returns. LAUNCH_INTERRUPTED: the user interrupts the benchmark.
 */
struct launch_result launch_run(const char *const *argv, const char *output, double limit);

/* The last line of a command's output that has text; returns out. */
const char *launch_last_line(const char *path, char *out, size_t size);

#endif
