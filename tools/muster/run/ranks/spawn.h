/* spawn.h - turns a new process into a worker. */
#ifndef MUSTER_TOOL_RUN_RANKS_SPAWN_H
#define MUSTER_TOOL_RUN_RANKS_SPAWN_H

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Everything a child needs, prepared beforehand: it may neither allocate nor lock. */
struct spawn {
    const char *program;
    char **argv;
    char **envp;
    int rank;
    int files[3]; /* become its 0, 1 and 2 */
    int error_fd; /* gets a struct spawn_error if the program could not be executed */
    const struct rlimit *open_files;
    _Atomic int *group;    /* gets its process group */
    const cpu_set_t *cpus; /* the processors it may run on, NULL: the launcher's */
    size_t cpus_size;
};

struct spawn_error {
    int rank;
    int error;
};

/* The signals that the launcher itself handles or ignores; a child gets back what the launcher was started with. */
enum spawn_signal_count { SPAWN_SIGNALS = 10 };
extern const int spawn_signals[SPAWN_SIGNALS];

/* Remembers how the launcher itself was started; to be called once, before it handles signals. */
void spawn_prepare(void);

/* Was this signal ignored when the launcher was started, as nohup has it? */
int spawn_was_ignored(int signal);

/* The new process, or a negative errno. It dies if the calling thread does. */
pid_t spawn_worker(const struct spawn *spawn);

#endif
