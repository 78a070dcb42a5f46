/*
 * end.c - how a generation of a job ends: the first failure, the grace period, the shutdown timeout, the last
 * output and the report. See job_internal.h.
 */
#include "run/job/job_internal.h"

#include "commands.h"
#include "run/failure/failure.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { GRACE_MS = 500 };

/* A program that cannot be executed will fail next time too. */
bool job_may_restart(const struct job *job) {
    return job->root && !job->root->exec_error && job->restarts < job->options->max_restarts &&
           !job->stop_signal && !job->told_to_end && !job->output_broken;
}

int job_root_status(const struct worker *root) {
    if (root->exec_error) return EXIT_USAGE;
    if (root->code == 0) return EXIT_FAILED; /* it exited while others waited for it */
    return root->signal ? EXIT_SIGNAL + root->signal : root->code;
}

/* The rank of the world that a worker's last error in muster blames, or -1. */
static int culprit_of(const struct job *job, const struct worker *worker) {
    struct rank_state_view view;
    rank_states_read(job->options->states, worker->local_rank, &view);
    /* In a world that the program made itself, ranks may have other numbers. */
    if (!view.has_error || !view.stage.is_here || view.stage.rank != worker->rank) return -1;
    if (view.is_earlier && strcmp(view.operation, "mst_destroy_process_group") != 0) return -1;
    return view.culprit;
}

/* The worker that a worker blames, if that one ended of itself: even with code 0, others still needed it. */
static const struct worker *blamed_by(const struct job *job, const struct worker *worker) {
    int index = culprit_of(job, worker) - job->assignment.first_rank;
    if (index < 0 || index >= job->options->workers.n) return NULL;
    const struct worker *blamed = &job->workers.list[index];
    return blamed != worker && !blamed->running && blamed->unasked ? blamed : NULL;
}

/*
 * Follows blame from the first rank that failed: if its last error in muster names a rank of this host that
 * also ended of itself, that rank is the cause, and so on. If ranks blame each other in a circle, the first
 * one is the cause.
 */
static const struct worker *find_root(const struct job *job) {
    const struct worker *at = job->root;
    for (int hops = 0; hops < job->options->workers.n; hops++) {
        const struct worker *next = blamed_by(job, at);
        if (!next) return at;
        at = next;
    }
    return job->root;
}

/* Why the generation ended, or "" if no rank is to blame. */
static void describe_failure(struct job *job, bool again, char text[REPORT_MAX]) {
    const struct logs *logs = job->options->output.logs;
    char tail[OUTPUT_TAIL], message[REPORT_MESSAGE] = "", what[64] = "the job", path[PATH_MAX + 128];
    struct rank_state_view state;
    text[0] = 0;
    if (!job->root || job->root->exec_error) return;
    if (again) snprintf(what, sizeof what, "attempt %d", job->assignment.generation);
    size_t len = output_tail(job->output, job->root->local_rank, tail);
    rank_states_read(job->options->states, job->root->local_rank, &state);
    if (logs) {
        logs_path(path, sizeof path, logs->dir, job->assignment.generation, job->root->local_rank,
                  "error.json");
        error_file_read(path, message, sizeof message);
    }
    struct report_more more = {&state, job->why, message,
                               tail,   len,      job->kept_flights ? job->options->trace : NULL};
    report_failure(job->root, what, &more, text);
}

/* On a single node. */
static void print_report(struct job *job) {
    char text[REPORT_MAX];
    bool again = job_may_restart(job);
    describe_failure(job, again, text);
    job_summarize_deaths(job);
    output_say(job->output, text);
    if (again && text[0])
        output_line(job->output, "starting all %d ranks again: restart %d of %d", job->options->workers.n,
                    job->restarts + 1, job->options->max_restarts);
}

/* The coordinator prints the report if this failure is the root cause. */
static void send_report(struct job *job) {
    char text[REPORT_MAX];
    struct notice outcome = {.rank = -1, .culprit = -1, .text = text};
    if (job->ended && !job->root) return; /* the end of the job stopped the ranks */
    describe_failure(job, job->options->max_restarts > 0, text);
    if (job->root) {
        outcome.rank = job->root->rank;
        outcome.status = job_root_status(job->root);
        outcome.culprit = culprit_of(job, job->root);
        outcome.final = job->root->exec_error || job->output_broken;
    }
    node_agent_report_stopped(job->agent, outcome);
}

static void report(struct job *job) {
    job->reported = true;
    if (job->agent)
        send_report(job);
    else
        print_report(job);
}

/* The report comes after all output of the ranks. */
void job_on_idle(void *arg) {
    struct job *job = arg;
    if (job->phase == DRAINING && !job->reported) report(job);
    if (output_idle(job->output)) uv_stop(&job->loop);
}

void job_drop_output(struct job *job) {
    if (job->agent && !job->reported) report(job);
    output_abandon(job->output);
    uv_stop(&job->loop);
}

/* All ranks have exited. Their output is written to the end, unless a signal told the launcher to end. */
static void on_all_exited(struct job *job) {
    bool failed = job->phase == STOPPING;
    job->phase = DRAINING;
    progress_stop(&job->progress);
    if (job->root) job->root = find_root(job);
    if (job->root && job->root->code == 0 && !job->why[0])
        snprintf(job->why, sizeof job->why, "it exited while other ranks still needed it");
    if (failed) job_keep_flights(job);
    if (!job->stop_signal) uv_timer_stop(&job->deadline);
    workers_end(&job->workers);
    output_finish(job->output, false);
    if (output_idle(job->output))
        job_on_idle(job);
    else if (job->insisted)
        job_drop_output(job);
}

static void on_deadline(uv_timer_t *timer) {
    struct job *job = timer->data;
    if (job->phase == DRAINING) {
        job_drop_output(job);
        return;
    }
    output_line(job->output, "killing %d of %d ranks, which still run after %g s", job->workers.running,
                job->options->workers.n, job->options->shutdown_seconds);
    workers_signal(&job->workers, SIGKILL);
}

/* Keeps the flight recorders first: they must not show what the ranks do because of the signal. */
void job_stop_ranks(struct job *job, int signal, bool in_time) {
    if (job->phase == RUNNING) job->phase = STOPPING;
    job_keep_flights(job);
    progress_stop(&job->progress);
    workers_signal(&job->workers, signal);
    if (in_time && (job->in_grace || !uv_is_active((uv_handle_t *)&job->deadline)))
        uv_timer_start(&job->deadline, on_deadline, (uint64_t)(job->options->shutdown_seconds * 1000), 0);
    if (job_forget_undecided(job)) job_check_exited(job);
}

static void on_grace_end(uv_timer_t *timer) {
    struct job *job = timer->data;
    job_stop_ranks(job, SIGTERM, true);
    job->in_grace = false;
}

void job_stop_after_grace(struct job *job) {
    job->phase = STOPPING;
    progress_stop(&job->progress);
    job->in_grace = true;
    uv_timer_start(&job->deadline, on_grace_end, GRACE_MS, 0);
    if (job_forget_undecided(job)) job_check_exited(job);
}

static void on_failure(struct job *job, const struct worker *worker) {
    char text[256];
    job->root = worker;
    output_catch_up(job->output, worker->local_rank);
    report_one_line(worker, text, sizeof text);
    if (worker->exec_error == ENOEXEC)
        output_line(job->output,
                    "cannot run '%s': it is neither a program for this machine nor a script with a #! line",
                    job->options->workers.program);
    else if (worker->exec_error)
        output_line(job->output, "cannot run '%s': %s", job->options->workers.program,
                    strerror(worker->exec_error));
    else if (job->workers.running > 0 || job->agent)
        output_line(job->output, "%s; ending the other ranks", text);
    if (job->agent) node_agent_report_failure(job->agent, text);
    if (worker->exec_error)
        job_stop_ranks(job, SIGTERM, true);
    else
        job_stop_after_grace(job);
}

/* The ranks that wait for it cannot know that it has exited. */
void job_on_absent(void *arg, const struct worker *worker, const char *why) {
    struct job *job = arg;
    if (job->phase != RUNNING) return;
    job->root = worker;
    snprintf(job->why, sizeof job->why, "%s", why);
    output_line(job->output, "%s; ending the other ranks", why);
    if (job->agent) node_agent_report_failure(job->agent, why);
    job_stop_ranks(job, SIGTERM, true);
}

void job_on_exit(struct worker *worker, void *arg) {
    struct job *job = arg;
    worker->unasked = job->phase == RUNNING || job->in_grace;
    bool survive = job->options->survive.min > 0 && (worker->replacement || !worker->exec_error);
    if (job->phase == RUNNING && (worker->code == 0 || survive)) progress_look_soon(&job->progress);
    if (job->phase == RUNNING && survive)
        job_survive_exit(job, worker);
    else if (job->phase == RUNNING && worker->code != 0)
        on_failure(job, worker);
    if (job->in_grace && worker->code != 0 && !job->root)
        job->root = worker; /* the failure on another node may follow from this one */
    job_check_exited(job);
}

void job_check_exited(struct job *job) {
    bool live = job->phase == RUNNING || job->phase == STOPPING;
    if (live && job->workers.running == 0 && job->undecided == 0) on_all_exited(job);
}

/* After SIGINT the ranks have time until the user interrupts again. */
void job_forward_signal(struct job *job, int signal) {
    job_stop_ranks(job, signal == SIGPIPE ? SIGTERM : signal, signal != SIGINT);
}

/* The coordinator's order stops the ranks of all nodes, this one included. */
void job_end(struct job *job, int signal) {
    if (job->agent) node_agent_interrupt(job->agent, signal);
    if (!job_is_coordinator(job)) job_forward_signal(job, signal);
}

/* EPIPE ends the job like any program in a pipeline; other errors, such as a full disk, are reported. */
void job_on_broken(void *arg, int error) {
    struct job *job = arg;
    job->output_broken = true;
    if (job->phase != RUNNING && !(job->phase == IDLE && job_is_coordinator(job))) return;
    if (error == EPIPE)
        job->stop_signal = SIGPIPE;
    else
        output_line(job->output, "cannot write the ranks' output: %s; ending the ranks", strerror(error));
    job->output_failed = true;
    job_end(job, error == EPIPE ? SIGPIPE : SIGTERM);
}

void job_on_log_lost(void *arg, int error) {
    struct job *job = arg;
    output_line(job->output, "cannot write the ranks' logs: %s; continuing without logs", strerror(error));
}

void job_kill_ranks(struct job *job) {
    output_line(job->output, "killing %d ranks", job->workers.running);
    job->insisted = true;
    workers_signal(&job->workers, SIGKILL);
}
