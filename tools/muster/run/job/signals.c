/* signals.c - signals to the launcher of a job: they end it, go to the ranks, or ask what the ranks do. */
#include "run/job/job_internal.h"

#include "commands.h"
#include "run/ranks/spawn.h"

#include <signal.h>

/* The terminal stops the launcher's process group; the ranks have process groups of their own. */
static void suspend(struct job *job) {
    workers_signal(&job->workers, SIGSTOP);
    raise(SIGSTOP);
    workers_signal(&job->workers, SIGCONT);
    uv_update_time(&job->loop);
}

static void on_interrupt(struct job *job) {
    if (job->phase == STOPPING) {
        if (job_is_coordinator(job)) node_agent_interrupt(job->agent, SIGKILL);
        if (!job->insisted) job_kill_ranks(job);
        return;
    }
    job->stop_signal = SIGINT;
    job->interrupts = 1;
    output_line(job->output, "interrupted; waiting for %d ranks to end (a second interrupt kills them)",
                job->workers.running);
    job_end(job, SIGINT);
}

/* The ranks of this node have ended; those of other nodes may still run. */
static void interrupt_draining(struct job *job, int signal) {
    bool again = signal == SIGINT && job->interrupts > 0 && job_is_coordinator(job);
    if (!job->stop_signal) job->stop_signal = signal;
    if (job->agent) node_agent_interrupt(job->agent, again ? SIGKILL : signal);
    job_drop_output(job);
}

/*
 * A coordinator without ranks, or whose ranks have ended: the first signal stops the ranks of other nodes,
 * the second kills them.
 */
static void interrupt_others(struct job *job, int signal) {
    if (job->interrupts++ == 0) job->stop_signal = signal;
    if (signal == SIGINT && job->interrupts == 1)
        output_line(job->output, "interrupted; waiting for the ranks to end (a second interrupt kills them)");
    node_agent_interrupt(job->agent, job->interrupts == 1 ? signal : SIGKILL);
}

/* This node has no ranks. */
static void leave_at_once(struct job *job, int signal) {
    if (job->agent) node_agent_interrupt(job->agent, signal);
    job->ended = true;
    job->status = EXIT_SIGNAL + signal;
    uv_stop(&job->loop);
}

static void on_signal(uv_signal_t *handle, int signal) {
    struct job *job = handle->data;
    bool ends = sigismember(&job->options->signals, signal) == 1;
    job->told_to_end |= ends;
    if (job->leaving) {
        job->insisted |= ends;
        if (ends) remote_kill(&job->remote, true);
    } else if (job->phase == IDLE && ends && job_is_coordinator(job) && job->interrupts < 2) {
        interrupt_others(job, signal);
    } else if (job->phase == IDLE && ends) {
        leave_at_once(job, signal);
    } else if (job->phase == DRAINING && ends) {
        interrupt_draining(job, signal);
    } else if (signal == SIGTSTP) {
        suspend(job);
    } else if (!ends) {
        if (signal == SIGUSR2)
            job_show_flights(job);
        else
            workers_signal(&job->workers, signal);
        if (job->agent) node_agent_forward_signal(job->agent, signal);
    } else if (signal == SIGINT) {
        on_interrupt(job);
    } else {
        if (job->phase == RUNNING) job->stop_signal = signal;
        job_end(job, signal);
    }
}

int job_catch_signals(struct job *job) {
    for (int number = 1; number <= SIGNALS_MOST; number++) {
        uv_signal_t *handle = &job->signals[job->n_signals];
        bool wanted = number == SIGTSTP || number == SIGUSR1 || number == SIGUSR2 ||
                      sigismember(&job->options->signals, number) == 1;
        if (!wanted || spawn_was_ignored(number)) continue;
        int rc = uv_signal_init(&job->loop, handle);
        if (rc != 0) return rc;
        handle->data = job;
        job->n_signals++;
        rc = uv_signal_start(handle, on_signal, number);
        if (rc != 0) return rc;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* writing a log file that is too large must fail, not end the launcher */
    return 0;
}
