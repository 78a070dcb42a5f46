/* launch.h - runs a command of a benchmark, times it, and ends all processes that it started. */
#ifndef MUSTER_TOOL_BENCH_LAUNCH_H
#define MUSTER_TOOL_BENCH_LAUNCH_H

#include <stdbool.h>

/* Between open and close, signals to the benchmark end only the running command. */
void launch_open(void);
void launch_close(void);
/* Waits until a child ends, at most 20 ms. True: the user interrupts the benchmark. */
bool launch_wait_a_moment(void);
/* The signal that interrupted the benchmark, or 0. */
int launch_signal(void);

/* LAUNCH_FAILED: it could not be started, or its exit status is not 0. */
enum launch_end { LAUNCH_DONE, LAUNCH_FAILED, LAUNCH_TIME_UP, LAUNCH_INTERRUPTED };

enum { LAUNCH_TEXT_MAX = 4096, LAUNCH_WHY_MAX = 300 };
struct launch_result {
    enum launch_end end;
    double wall;                /* seconds */
    char text[LAUNCH_TEXT_MAX]; /* the beginning of its output */
    char why[LAUNCH_WHY_MAX];   /* the last line of its output that has text, or that its time is up */
};

/*
 * Runs argv and waits for it, at most limit seconds. Kills all remaining descendants before it returns.
 * LAUNCH_INTERRUPTED: the user interrupts the benchmark.
 */
void launch_run(const char *const *argv, double limit, struct launch_result *result);
/* Kills all child processes and waits for them. */
void launch_kill_children(void);

#endif
