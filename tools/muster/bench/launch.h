/* launch.h - one command of a benchmark: started, timed, ended with everything that it has started. */
#ifndef MUSTER_TOOL_BENCH_LAUNCH_H
#define MUSTER_TOOL_BENCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

/* Between open and close, signals that would end the benchmark end the command under way instead. */
void launch_open(void);
void launch_close(void);
/* Waits until a child ends, or a little; true if the user wants the benchmark to end. */
bool launch_wait_a_moment(void);
/* The signal that told the benchmark to end, or 0. */
int launch_signal(void);

enum launch_end { LAUNCH_ENDED, LAUNCH_TIME_UP, LAUNCH_STOPPED, LAUNCH_NOT_STARTED };

struct launch_result {
    enum launch_end end;
    int status; /* as waitpid has it, if it ended */
    double wall;
};

/*
 * Runs argv, its output going to the file output, and waits for it; whatever is left of it and its
 * descendants is killed before this returns. LAUNCH_STOPPED: the user wants the benchmark to end.
 */
struct launch_result launch_run(const char *const *argv, const char *output, double limit);

/* The last line of a command's output that is not empty, for people; returns out. */
const char *launch_last_line(const char *path, char *out, size_t size);

#endif
