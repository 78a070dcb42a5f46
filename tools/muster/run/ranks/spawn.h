/* spawn.h - starts, signals and reaps a child process: a worker, or the ssh of an agent. */
#ifndef MUSTER_TOOL_RUN_RANKS_SPAWN_H
#define MUSTER_TOOL_RUN_RANKS_SPAWN_H

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* All that a child needs, prepared by the launcher: the child may neither allocate nor lock. */
struct spawn {
    const char *program;
    char **argv;
    char **envp;
    int index;    /* of the child, for error_fd */
    int files[3]; /* become its 0, 1 and 2 */
    int error_fd; /* receives a struct spawn_error if the exec fails */
    const struct rlimit *open_files;
    _Atomic int *group;    /* receives its process group */
    const cpu_set_t *cpus; /* the processors it may run on; NULL: those of the launcher */
    size_t cpus_size;
};

struct spawn_error {
    int index;
    int error;
};

/* Records the signal actions at the launcher's start. Call it once, before the launcher handles signals. */
void spawn_prepare(void);

/* In a child: restores the recorded actions, then the mask. */
void spawn_restore_signals(const sigset_t *mask);

/* Was this signal ignored when the launcher was started, as with nohup? */
int spawn_was_ignored(int signal);

/* Returns the pid of the new process, or a negative errno. The process dies when the calling thread ends. */
pid_t spawn_worker(const struct spawn *spawn);

/* Creates the pipes of a child's stdout and stderr. 0, or a negative errno. */
int spawn_open_pipes(int out[2], int err[2]);

/* Sends a signal to the child's process group, or to the child alone before its setpgid. */
void spawn_signal(pid_t pid, int signal);

/* Has the child exited? Fills in info and does not reap the child, so its number cannot be reused. */
bool spawn_has_exited(pid_t pid, siginfo_t *info);

/* Waits for the child, sets group to 0 and reaps the child. */
void spawn_reap(pid_t pid, _Atomic int *group);

#endif
