/*
 * workers.h - the processes of one generation of ranks on this host: starts, watches, signals and ends them.
 *
 *  1. workers_start starts all or none. workers_end kills and reaps what still runs, and closes the handles.
 *  2. Each worker leads its own process group, without a terminal, in the launcher's session. Processes that
 *     it starts are in that group unless they leave it. A worker dies with the launcher.
 *  3. A worker that has exited is not reaped before workers_end or workers_replace. Until then its number
 *     cannot be reused, so signalling its group is always safe.
 *  4. The loop's thread runs all of it, and the workers die when that thread ends.
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
    pid_t pid; /* 0: it could not be started */
    bool running;
    int code;         /* exit code, or -1 if a signal ended it */
    int signal;       /* the signal that ended it, or 0 */
    bool dumped;      /* it left a core file */
    int exec_error;   /* errno of a failed exec, or 0 */
    bool unasked;     /* it ended before the launcher ended the ranks */
    bool replacement; /* of a worker that died, … */
    bool joins;       /* … and it joins the world that runs already */
    bool undecided;   /* it died, and what follows is not decided yet */
    bool replace;     /* it is about to be replaced */
    bool joined;      /* a replacement has joined the world */
    int stuck;        /* how often it was seen waiting to join while no rank could admit it, … */
    bool unadmitted;  /* … and was killed for that reason */
    struct timespec ended;
    int pidfd; /* -1: SIGCHLD reports its exit */
    uv_poll_t exit_poll;
};

struct workers_options {
    uv_loop_t *loop;
    int n;
    int first_rank;      /* on this host */
    const char *program; /* a path */
    char **argv;
    struct worker_env *env;
    const struct bind *bind;
    struct output *output; /* NULL: the workers share the launcher's stdout and stderr */
    struct reaper *reaper;
    const struct rlimit *files;                        /* their limit on open files */
    void (*on_exit)(struct worker *worker, void *arg); /* in the order in which they exited */
    void *arg;
};

struct workers {
    struct workers_options options;
    struct worker *list;
    int started, running;
    int exec_errors[2]; /* a pipe to which a worker writes the error of a failed exec */
    uv_signal_t child_signal;
    bool uses_child_signal;
    int closing; /* handles whose close callback is still to come */
};

/*
 * 0, or a negative errno after the workers that were started have been killed; *failed is then the rank that
 * could not be started, and their output is detached. options is copied; what it points to is borrowed.
 */
int workers_start(struct workers *workers, const struct workers_options *options, int *failed);

/*
 * Starts a process in the place of a worker that has exited, after the processes that it left behind were
 * killed. Call output_detach_rank first, and run the loop once in between. Sets exec_error on failure.
 */
void workers_replace(struct worker *worker, struct worker_env *env, bool joins);

/* Sends a signal to the process groups of all workers, including those that have exited. */
void workers_signal(struct workers *workers, int signal);

/* Run the loop between workers_end and workers_free until closing is 0. */
void workers_end(struct workers *workers);
void workers_free(struct workers *workers);

#endif
