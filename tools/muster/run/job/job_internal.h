/*
 * job_internal.h - what the parts of a job share; nobody else includes it. One loop on the main thread; the job lives on job_run's
 * stack.
 *
 *   IDLE --alone: at once; in company: when all nodes are there--> RUNNING
 *   RUNNING --first failure, a signal, an order, or nobody reads the output--> STOPPING
 *   RUNNING or STOPPING --the last worker exits--> DRAINING --all output is written--> IDLE again, or the end
 *
 * STOPPING means that the workers were asked to end, or will be in a moment. It lasts until they do, or until their time is up or the
 * user insists: then they are killed.
 *
 * Alone, the job decides what follows a failure; in company the head does, and this node hears of it.
 */
#ifndef MUSTER_TOOL_RUN_JOB_JOB_INTERNAL_H
#define MUSTER_TOOL_RUN_JOB_JOB_INTERNAL_H

#include "run/job/job.h"

#include "run/output/output.h"
#include "run/ranks/progress.h"
#include "run/ranks/workers.h"

enum phase { IDLE, RUNNING, STOPPING, DRAINING };

struct job {
    const struct job_options *options;
    uv_loop_t loop;
    uv_timer_t deadline;
    uv_signal_t signals[SIGNALS_MOST];
    int n_signals;
    struct output *output;
    struct workers workers;
    struct remote remote; /* agents on other hosts */
    struct progress progress;
    struct company *company;    /* NULL: this node is alone */
    struct company_place place; /* of this generation */
    enum phase phase;
    const struct worker *root; /* whose failure, the first or what led to it, ended the generation */
    char why[PROGRESS_WHY];    /* it is not to be seen from its exit code */
    int restarts;              /* that failures have cost, alone */
    int stop_signal;           /* the signal to the launcher that ended the job */
    bool told_to_end;          /* by a signal to the launcher, whatever had ended the ranks before */
    bool output_broken;        /* nobody would see what another generation prints */
    bool hearing;              /* the other ranks have not been asked to end yet */
    bool output_failed;
    bool insisted; /* the user asked a second time */
    bool reported;
    bool took_flights; /* the generation's flight recorders were looked at, … */
    bool kept_flights; /* … and are in files */
    bool go;           /* a generation is to be started */
    bool over;         /* and no other will be */
    int verdict;       /* the exit status, if the company has it */
    int told;          /* how often a head without ranks was told to end */
    bool leaving;      /* it only waits for the agents to end */
    bool began;        /* all nodes were there once */
};

/* Says a line to the user, without its newline. */
void job_say(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Does this launcher decide for several nodes? */
bool job_is_head(const struct job *job);

/* end.c: alone, may there be another generation after this failure? */
bool job_may_restart(const struct job *job);
/* The exit status that follows from the root cause. */
int job_root_status(const struct worker *root);
/* Sends the signal; in_time: those that are still there after the shutdown timeout are killed. */
void job_ask_to_end(struct job *job, int signal, bool in_time);
/* The same for a signal that the launcher has got, or another node's. */
void job_pass_on(struct job *job, int signal);
/* Asks them to end in a moment: until then they may find out by themselves, and say in which call. */
void job_hear_the_others(struct job *job);
/* The launcher was told to end, by this signal. */
void job_end_ranks(struct job *job, int signal);
void job_kill_ranks(struct job *job);
/* What is still to be written is not worth waiting for. */
void job_give_up_output(struct job *job);
/* What workers, output and progress tell. */
void job_on_exit(struct worker *worker, void *arg);
void job_on_absent(void *arg, const struct worker *worker, const char *why);
void job_on_idle(void *arg);
void job_on_broken(void *arg, int error);
void job_on_log_lost(void *arg, int error);

/* flight.c: writes the flight recorders of a generation that failed, or was ended, where there is a directory for them. */
void job_keep_flights(struct job *job);
/* Removes those of another generation, or job. */
void job_drop_flights(const struct job *job);
/* Writes them now, and says what each rank does and who is behind. */
void job_show_flights(struct job *job);

/* signals.c: 0, or an error of libuv's. */
int job_catch_signals(struct job *job);

/* nodes.c: do nothing where the job is alone. 0, or a negative errno. */
int job_open_company(struct job *job);
int job_start_agents(struct job *job);
/* Waits for agents on other hosts to end, and for what they have to say. */
void job_end_agents(struct job *job);

#endif
