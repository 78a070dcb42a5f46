/*
 * signals.c - signals to the launcher of a job, which end it, are passed on to the ranks, or ask what these do. See
 * job_internal.h.
 */
#include "run/job/job_internal.h"

#include "commands.h"
#include "run/ranks/spawn.h"

#include <signal.h>

/* Stopping the launcher from the terminal stops the ranks, which the terminal does not know. */
static void suspend(struct job *job) {
    workers_signal(&job->workers, SIGSTOP);
    raise(SIGSTOP);
    workers_signal(&job->workers, SIGCONT);
    uv_update_time(&job->loop);
}

static void on_interrupt(struct job *job) {
    if (job->phase == STOPPING) {
        if (job_is_head(job)) company_interrupt(job->company, SIGKILL);
        if (!job->insisted) job_kill_ranks(job);
        return;
    }
    job->stop_signal = SIGINT;
    job_say(job, "interrupted; waiting for %d ranks to end (once more kills them)", job->workers.running);
    job_end_ranks(job, SIGINT);
}

/* The head asks once, then insists, and at last goes. */
static void tell_others(struct job *job, int signal) {
    if (job->told++ == 0) job->stop_signal = signal;
    if (signal == SIGINT && job->told == 1)
        job_say(job, "interrupted; waiting for the ranks to end (once more kills them)");
    company_interrupt(job->company, job->told == 1 ? signal : SIGKILL);
}

/* No rank is there to be told. */
static void leave_at_once(struct job *job, int signal) {
    if (job->company != NULL) company_interrupt(job->company, signal);
    job->over = true;
    job->verdict = EXIT_SIGNAL + signal;
    uv_stop(&job->loop);
}

static void on_signal(uv_signal_t *handle, int signal) {
    struct job *job = handle->data;
    bool ends = signals_have(&job->options->signals, signal);

    job->told_to_end |= ends;
    if (job->leaving) {
        if (ends) remote_kill(&job->remote);
    } else if (job->phase == IDLE && ends && job_is_head(job) && job->told < 2) {
        tell_others(job, signal);
    } else if (job->phase == IDLE && ends) {
        leave_at_once(job, signal);
    } else if (job->phase == DRAINING && ends) {
        if (job->stop_signal == 0) job->stop_signal = signal;
        if (job->company != NULL) company_interrupt(job->company, signal);
        job_give_up_output(job);
    } else if (signal == SIGTSTP) {
        suspend(job);
    } else if (!ends) {
        if (signal == SIGUSR2)
            job_show_flights(job);
        else
            workers_signal(&job->workers, signal);
        if (job->company != NULL) company_pass(job->company, signal);
    } else if (signal == SIGINT) {
        on_interrupt(job);
    } else {
        if (job->phase == RUNNING) job->stop_signal = signal;
        job_end_ranks(job, signal);
    }
}

static int catch_signal(struct job *job, int number) {
    uv_signal_t *handle = &job->signals[job->n_signals];
    int rc = uv_signal_init(&job->loop, handle);

    if (rc != 0) return rc;
    handle->data = job;
    job->n_signals++;
    return uv_signal_start(handle, on_signal, number);
}

/* Those that end the job, and the others. */
int job_catch_signals(struct job *job) {
    for (int number = 1; number <= SIGNALS_MOST; number++) {
        bool wanted = number == SIGTSTP || number == SIGUSR1 || number == SIGUSR2 ||
                      signals_have(&job->options->signals, number);
        int rc = wanted && !spawn_was_ignored(number) ? catch_signal(job, number) : 0;
        if (rc != 0) return rc;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log file that may not grow is given up, and that is all */
    return 0;
}
