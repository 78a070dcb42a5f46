/* spawn.h - starts the process of a worker. */
#ifndef MUSTER_TOOL_RUN_RANKS_SPAWN_H
#define MUSTER_TOOL_RUN_RANKS_SPAWN_H

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* All that a child needs, prepared by the launcher: the child may neither allocate nor lock. */
struct spawn {
    const char *program;
    char **argv;
    char **envp;
    int rank;
    int files[3]; /* become its 0, 1 and 2 */
    int error_fd; /* receives a struct spawn_error if the exec fails */
    const struct rlimit *open_files;
    _Atomic int *group;    /* receives its process group */
    const cpu_set_t *cpus; /* the processors it may run on; NULL: those of the launcher */
    size_t cpus_size;
};

struct spawn_error {
    int rank;
    int error;
};

/* Signals that the launcher handles or ignores; a child gets the actions of the launcher's start. */
enum { SPAWN_SIGNALS = 10 };
extern const int spawn_signals[SPAWN_SIGNALS];

/* Records the signal actions at the launcher's start. Call it once, before the launcher handles signals. */
void spawn_prepare(void);

/* Was this signal ignored when the launcher was started, as with nohup? */
int spawn_was_ignored(int signal);

/* Returns the pid of the new process, or a negative errno. The process dies when the calling thread ends. */
pid_t spawn_worker(const struct spawn *spawn);

#endif
