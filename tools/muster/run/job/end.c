/*
 * end.c - how a generation of a job ends: the first failure, the time the others have to speak and to end, their last output,
 * and the report. See job_internal.h.
 */
#include "run/job/job_internal.h"

#include "commands.h"
#include "run/failure/error_file.h"
#include "run/failure/first_failure.h"
#include "run/failure/rank_exit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { HEAR_MS = 500 };

/* A program that cannot be run will not run next time either. */
bool job_may_restart(const struct job *job) {
    return job->root != NULL && job->root->exec_error == 0 && job->restarts < job->options->max_restarts &&
           job->stop_signal == 0 && !job->told_to_end && !job->output_broken;
}

int job_root_status(const struct worker *root) {
    if (root->exec_error != 0) return EXIT_USAGE;
    if (root->code == 0) return EXIT_FAILED; /* it ended without meeting the others */
    return root->signal != 0 ? EXIT_SIGNAL + root->signal : root->code;
}

/* What the root cause has left in the file that it was given for that. */
static void read_error_file(const struct job *job, char *text, size_t size) {
    const struct logs *logs = job->options->logs;
    char path[PATH_MAX + 128];

    text[0] = '\0';
    if (logs == NULL) return;
    logs_path(path, sizeof path, logs->dir, job->place.generation, job->root->local_rank, "error.json");
    error_file_read(path, text, size);
}

/* Why the generation ended, or "" if no worker is to blame. */
static void describe_failure(struct job *job, bool again, char text[REPORT_MAX]) {
    char tail[OUTPUT_TAIL], what[64] = "the job";

    text[0] = '\0';
    if (job->root == NULL || job->root->exec_error != 0) return;
    if (again) snprintf(what, sizeof what, "attempt %d", job->place.generation);
    size_t len = output_tail(job->output, job->root->local_rank, tail);
    struct rank_state_view state;
    char message[REPORT_MESSAGE];
    rank_states_read(job->options->states, job->root->local_rank, &state);
    read_error_file(job, message, sizeof message);
    struct report_more more = {&state, job->why, message,
                               tail,   len,      job->kept_flights ? job->options->trace : NULL};
    report_failure(job->root, what, &more, text);
}

static void report_alone(struct job *job) {
    char text[REPORT_MAX];
    bool again = job_may_restart(job);

    describe_failure(job, again, text);
    output_say(job->output, text);
    if (again && text[0] != '\0')
        job_say(job, "starting all %d ranks again: restart %d of %d", job->options->n, job->restarts + 1,
                job->options->max_restarts);
}

/* The head shows the report, or tells this node that there was another cause. */
static void report_to_company(struct job *job) {
    char text[REPORT_MAX];
    struct company_outcome outcome = {.rank = -1, .culprit = -1, .report = text};

    if (job->over && job->root == NULL) return; /* the ranks were ended with the job: none was through */
    describe_failure(job, job->options->max_restarts > 0, text);
    if (job->root != NULL) {
        outcome.rank = job->root->rank;
        outcome.status = job_root_status(job->root);
        outcome.culprit = first_failure_culprit(job->root, job->options->states);
        outcome.final = job->root->exec_error != 0 || job->output_broken;
    }
    company_tell_stopped(job->company, &outcome);
}

static void report(struct job *job) {
    job->reported = true;
    if (job->company != NULL)
        report_to_company(job);
    else
        report_alone(job);
}

/* The report comes last, below whatever the other ranks had to say about the failure. */
void job_on_idle(void *arg) {
    struct job *job = arg;

    if (job->phase == DRAINING && !job->reported) report(job);
    if (output_idle(job->output)) uv_stop(&job->loop);
}

void job_give_up_output(struct job *job) {
    if (job->company != NULL && !job->reported) report(job);
    output_abandon(job->output);
    uv_stop(&job->loop);
}

/* What the ranks printed is worth waiting for, unless the launcher was told to end. */
static void all_gone(struct job *job) {
    bool failed = job->phase == STOPPING;

    job->phase = DRAINING;
    progress_stop(&job->progress);
    if (job->root != NULL)
        job->root = first_failure(job->root, job->workers.list, job->options->n, job->options->states);
    if (job->root != NULL && job->root->code == 0 && job->why[0] == '\0')
        snprintf(job->why, sizeof job->why, "it exited while other ranks still needed it");
    if (failed) job_keep_flights(job);
    if (job->stop_signal == 0) uv_timer_stop(&job->deadline);
    workers_end(&job->workers);
    output_finish(job->output);
    if (output_idle(job->output))
        job_on_idle(job);
    else if (job->insisted)
        job_give_up_output(job);
}

static void on_deadline(uv_timer_t *timer) {
    struct job *job = timer->data;

    if (job->phase == DRAINING) {
        job_give_up_output(job);
        return;
    }
    job_say(job, "killing %d of %d ranks, still there after %g s", job->workers.running, job->options->n,
            job->options->shutdown_seconds);
    workers_signal(&job->workers, SIGKILL);
}

/* What ranks were at is kept before they hear of it: who ends first is not to blame for what the others say then. */
void job_ask_to_end(struct job *job, int signal, bool in_time) {
    if (job->phase == RUNNING) job->phase = STOPPING;
    job_keep_flights(job);
    progress_stop(&job->progress);
    workers_signal(&job->workers, signal);
    if (in_time && (job->hearing || !uv_is_active((uv_handle_t *)&job->deadline)))
        uv_timer_start(&job->deadline, on_deadline, (uint64_t)(job->options->shutdown_seconds * 1000), 0);
}

static void on_heard(uv_timer_t *timer) {
    struct job *job = timer->data;

    job_ask_to_end(job, SIGTERM, true);
    job->hearing = false;
}

/* The others have a moment to find out by themselves, and to say in which call. */
void job_hear_the_others(struct job *job) {
    job->phase = STOPPING;
    progress_stop(&job->progress);
    job->hearing = true;
    uv_timer_start(&job->deadline, on_heard, HEAR_MS, 0);
}

static void on_failure(struct job *job, const struct worker *worker) {
    char text[256];

    job->root = worker;
    output_catch_up(job->output, worker->local_rank);
    report_one_line(worker, text, sizeof text);
    if (worker->exec_error == ENOEXEC)
        job_say(job, "cannot run '%s': it is neither a program for this machine nor a script with a #! line",
                job->options->program);
    else if (worker->exec_error != 0)
        job_say(job, "cannot run '%s': %s", job->options->program, strerror(worker->exec_error));
    else if (job->workers.running > 0 || job->company != NULL)
        job_say(job, "%s; ending the other ranks", text);
    if (job->company != NULL) company_tell_failure(job->company, text);
    if (worker->exec_error != 0)
        job_ask_to_end(job, SIGTERM, true);
    else
        job_hear_the_others(job);
}

/* Those that wait for it cannot know that it will never come. */
void job_on_absent(void *arg, const struct worker *worker, const char *why) {
    struct job *job = arg;

    if (job->phase != RUNNING) return;
    job->root = worker;
    snprintf(job->why, sizeof job->why, "%s", why);
    job_say(job, "%s; ending the other ranks", why);
    if (job->company != NULL) company_tell_failure(job->company, why);
    job_ask_to_end(job, SIGTERM, true);
}

void job_on_exit(struct worker *worker, void *arg) {
    struct job *job = arg;

    worker->unasked = job->phase == RUNNING || job->hearing;
    if (job->phase == RUNNING && worker->code == 0) progress_look_soon(&job->progress);
    if (job->phase == RUNNING && worker->code != 0) on_failure(job, worker);
    if (job->hearing && worker->code != 0 && job->root == NULL)
        job->root = worker; /* the head may blame it */
    if (job->workers.running == 0 && job->phase != DRAINING) all_gone(job);
}

/* Ranks may take as long as they like to answer an interrupt: the user can insist. */
void job_pass_on(struct job *job, int signal) {
    job_ask_to_end(job, signal == SIGPIPE ? SIGTERM : signal, signal != SIGINT);
}

/* This launcher was told to end. The head is heard by all nodes, this one included. */
void job_end_ranks(struct job *job, int signal) {
    if (job->company != NULL) company_interrupt(job->company, signal);
    if (!job_is_head(job)) job_pass_on(job, signal);
}

/* As any program in a pipeline: nobody wants the output, so the work is over. A full disk is worth a word. */
void job_on_broken(void *arg, int error) {
    struct job *job = arg;

    job->output_broken = true;
    if (job->phase != RUNNING && !(job->phase == IDLE && job_is_head(job))) return;
    if (error == EPIPE)
        job->stop_signal = SIGPIPE;
    else
        job_say(job, "cannot write the ranks' output: %s; ending them", strerror(error));
    job->output_failed = true;
    job_end_ranks(job, error == EPIPE ? SIGPIPE : SIGTERM);
}

void job_on_log_lost(void *arg, int error) {
    job_say(arg, "cannot write the ranks' logs: %s; they go on without", strerror(error));
}

void job_kill_ranks(struct job *job) {
    job_say(job, "killing %d ranks", job->workers.running);
    job->insisted = true;
    workers_signal(&job->workers, SIGKILL);
}
