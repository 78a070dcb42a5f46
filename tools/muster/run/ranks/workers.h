/*
 * workers.h - the processes of one generation of ranks on this host: started, watched, signalled, ended.
 *
 *  1. workers_start starts all or none; workers_end kills and reaps whatever is left and frees the handles.
 *  2. Each worker leads a process group of its own, without a terminal, in the launcher's session; what it starts is in
 *     that group unless it leaves on purpose. It dies with the launcher.
 *  3. A worker that has exited is not reaped before workers_end: until then its number cannot come to mean
 *     another process, so signalling its group is always safe.
 *  4. All of it runs on the loop's thread, and that is the thread the workers' lives depend on.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_WORKERS_H
#define MUSTER_TOOL_RUN_RANKS_WORKERS_H

#include "run/output/output.h"
#include "run/ranks/bind.h"
#include "run/ranks/reaper.h"
#include "run/ranks/worker_env.h"

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>
#include <uv.h>

struct workers;

struct worker {
    struct workers *all;
    int rank, local_rank;
    pid_t pid;
    bool running;
    int code;       /* exit code, or -1 if a signal ended it */
    int signal;     /* the signal that ended it, or 0 */
    bool dumped;    /* and it left a core file */
    int exec_error; /* errno, if it never became the program */
    bool unasked;   /* it ended before anybody was asked to */
    struct timespec ended;
    int pidfd; /* -1: exits are noticed through SIGCHLD */
    uv_poll_t exit_poll;
};

struct workers_options {
    uv_loop_t *loop;
    int n;
    int first_rank;      /* of this host */
    const char *program; /* a path */
    char **argv;
    struct worker_env *env;
    const struct bind *bind;
    struct output *output; /* NULL: the workers share the launcher's stdout and stderr */
    struct warden *warden;
    const struct rlimit *files;                        /* the limit on open files to give them */
    void (*on_exit)(struct worker *worker, void *arg); /* in the order in which they exited */
    void *arg;
};

struct workers {
    struct workers_options options;
    struct worker *list;
    int started, running;
    int exec_errors[2]; /* a pipe through which a worker says that it could not exec */
    uv_signal_t child_signal;
    bool uses_child_signal;
    int closing; /* handles that the loop has yet to let go of */
};

/*
 * 0, or a negative errno with nothing left running; *failed is then the rank that could not be started.
 * options is copied, what it points to is borrowed.
 */
int workers_start(struct workers *workers, const struct workers_options *options, int *failed);

/* Sends a signal to the process groups of all workers, those that have exited included. */
void workers_signal(struct workers *workers, int signal);

/* Run the loop until closing is 0 between workers_end and workers_free. */
void workers_end(struct workers *workers);
void workers_free(struct workers *workers);

#endif
