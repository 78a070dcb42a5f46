/*
 * job_internal.h - what the files of a job share; no other file includes it. One loop on the main thread; the
 * job lives on the stack of job_run.
 *
 *   IDLE --single node: at once; several nodes: on the coordinator's order--> RUNNING
 *   RUNNING --first failure (with --survive: too few ranks are left), a signal, an order, or broken
 *   output--> STOPPING
 *   RUNNING or STOPPING --the last rank exits--> DRAINING --all output is written--> IDLE again, or the end
 *
 * STOPPING means that the ranks were told to end, or will be after the grace period. Ranks that run longer
 * than the shutdown timeout are killed, as are all ranks when the user interrupts twice.
 */
#ifndef MUSTER_TOOL_RUN_JOB_JOB_INTERNAL_H
#define MUSTER_TOOL_RUN_JOB_JOB_INTERNAL_H

#include "run/job/job.h"

#include "run/ranks/progress.h"
#include "run/status/status_link.h"

#include "prof/flight/view.h"

enum phase { IDLE, RUNNING, STOPPING, DRAINING };

struct job {
    const struct job_options *options;
    uv_loop_t loop;
    uv_timer_t deadline;
    uv_timer_t replacing; /* starts replacements */
    uv_timer_t looking;   /* looks whether replacements have joined, or nobody can admit them */
    uv_signal_t signals[SIGNALS_MOST];
    int n_signals;
    struct output *output;
    struct workers workers;
    struct remote remote; /* agents on other hosts */
    struct progress progress;
    struct status_link *status_link;   /* answers "muster status"; NULL: not yet, or it cannot */
    struct node_agent *agent;          /* NULL: single node */
    struct node_assignment assignment; /* of this generation */
    enum phase phase;
    const struct worker *root;  /* the root cause: the rank whose failure ended the generation */
    char why[PROGRESS_WHY];     /* the reason, if the exit code does not show it */
    int restarts;               /* used up by failures, on a single node */
    struct survivors survivors; /* on a single node */
    bool alone;                 /* only replacements run, and no rank can admit them */
    int undecided;              /* ranks that died, and are not replaced or given up yet */
    const struct worker *dead;  /* with several nodes: the rank of this node that died last */
    int stop_signal;            /* the signal to the launcher that ended the job */
    bool told_to_end;   /* the launcher has received such a signal, even if the ranks had ended before */
    bool output_broken; /* the launcher's stdout or stderr cannot be written: no restart */
    bool in_grace;      /* the grace period before the ranks are told to end */
    bool output_failed;
    bool insisted; /* the user interrupted twice, or while the launcher waits for the agents */
    bool reported;
    bool read_flights; /* the flight recorders of this generation were read, … */
    bool kept_flights; /* … and written to files */
    bool start;        /* the coordinator has ordered a generation */
    bool ended;        /* the job has ended */
    int status;        /* with several nodes: the exit status */
    int interrupts;    /* 1 after an interrupt of the ranks; counts signals to a coordinator without ranks */
    bool leaving;      /* it only waits for the agents to end */
    bool began;        /* the coordinator has started a generation */
};

/* Does this launcher coordinate several nodes? */
bool job_is_coordinator(const struct job *job);

/* end.c: on a single node, may there be another generation after this failure? */
bool job_may_restart(const struct job *job);
/* The exit status that follows from the root cause. */
int job_root_status(const struct worker *root);
/* Sends the signal to the ranks; in_time: kills those that are left after the shutdown timeout. */
void job_stop_ranks(struct job *job, int signal, bool in_time);
/* The same for a signal that this or another launcher has received. */
void job_forward_signal(struct job *job, int signal);
/* Stops the ranks after a grace period, in which they may detect and report the failure themselves. */
void job_stop_after_grace(struct job *job);
/* The launcher has received a signal that ends the job. */
void job_end(struct job *job, int signal);
void job_kill_ranks(struct job *job);
/* Drops the output that is not written yet. */
void job_drop_output(struct job *job);
/* Callbacks of workers, output and progress. */
void job_on_exit(struct worker *worker, void *arg);
void job_on_absent(void *arg, const struct worker *worker, const char *why);
void job_on_idle(void *arg);
void job_on_broken(void *arg, int error);
void job_on_log_lost(void *arg, int error);

/* If all ranks have exited and none is to be replaced, the generation ends. */
void job_check_exited(struct job *job);

/* survive.c: a rank ended of itself. */
void job_survive_exit(struct job *job, struct worker *worker);
/* The coordinator has decided about a rank that died. */
void job_on_verdict(void *arg, int rank, bool is_replaced);
/* The rank of this node that died last becomes the root cause. */
void job_blame_dead(struct job *job);
/* The generation is to end: no rank is replaced any more. True if all ranks have exited for that reason. */
bool job_forget_undecided(struct job *job);
/* Prints which ranks died, on a single node. */
void job_summarize_deaths(struct job *job);

/* What a rank of this node has recorded. */
struct flight {
    struct msi_flight_snapshot snapshot;
    bool any; /* it has recorded something */
    struct rank_state_view state;
    char reason[1200]; /* its last error, or how it exited if it was not told to; "": neither */
};

/* flight.c */
void job_read_flight(const struct job *job, const struct worker *worker, struct flight *flight);
/* Writes the flight recorders of a stopped generation if there is a directory for them. */
void job_keep_flights(struct job *job);
/* The same for a rank that died while the others go on. */
void job_keep_flight(const struct job *job, const struct worker *worker);
/* Removes the files of an earlier generation or job. */
void job_remove_flights(const struct job *job);
/* Writes them now, and prints what each rank does and which rank is behind. */
void job_show_flights(struct job *job);

/* status.c: answers "muster status" from now on. Later calls do nothing. */
void job_open_status(struct job *job);

/* signals.c: 0, or an error of libuv. */
int job_catch_signals(struct job *job);

/* nodes.c: these do nothing on a single node. 0, or a negative errno. */
int job_open_agent(struct job *job);
int job_start_remote(struct job *job);
/* Waits until the agents on other hosts have ended and their output is written. */
void job_end_remote(struct job *job);

#endif
