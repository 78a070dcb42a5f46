/*
 * nodes.c - a job among those of other nodes: what the head orders, and the agents that it has started elsewhere. See
 * job_internal.h.
 */
#include "run/job/job_internal.h"

#include "commands.h"

#include <signal.h>
#include <stdio.h>

enum {
    AGENT_LOST = 255, /* ssh's exit code for failures of its own */
    AGENT_SLACK_MS = 30000,
};

static void on_go(void *arg, const struct company_place *place) {
    struct job *job = arg;

    job->began = true;
    if (place->node < 0) return;
    job->place = *place;
    job->go = true;
    if (job->options->verbose)
        job_say(job, "generation %d: node %d of %d has ranks %d to %d of %d", place->generation, place->node,
                place->nodes, place->first_rank, place->first_rank + job->options->n - 1, place->world_size);
    uv_stop(&job->loop);
}

/* The order to stop came on the heels of the one to go: nothing was started yet. */
static void call_off(struct job *job) {
    struct company_outcome none = {.rank = -1, .culprit = -1, .report = ""};

    job->go = false;
    company_tell_stopped(job->company, &none);
}

static void on_stop(void *arg, int signal, const char *why) {
    struct job *job = arg;

    if (job->go) call_off(job);
    if (job->phase != RUNNING && job->phase != STOPPING) return;
    if (job->phase == RUNNING && why[0] != '\0' && job->stop_signal == 0)
        job_say(job, "%s; ending the ranks of this node", why);
    if (signal == SIGKILL)
        job_kill_ranks(job);
    else if (signal != 0)
        job_pass_on(job, signal);
    else if (job->phase == RUNNING)
        job_hear_the_others(job);
}

static void on_pass(void *arg, int signal) {
    struct job *job = arg;
    if (signal == SIGUSR1) workers_signal(&job->workers, signal);
    if (signal == SIGUSR2) job_show_flights(job);
}

static void on_end(void *arg, int status, const char *why) {
    struct job *job = arg;

    job->over = true;
    job->verdict = status;
    if (status != EXIT_DONE && why[0] != '\0' && job->stop_signal == 0) job_say(job, "%s", why);
    if (job->phase == RUNNING ||
        job->phase == STOPPING) /* ranks that take their time have nobody to insist */
        job_ask_to_end(job, SIGTERM, true);
    else if (job->phase == IDLE)
        uv_stop(&job->loop);
}

static void on_say(void *arg, const char *line) {
    job_say(arg, "%s", line);
}

static void on_report(void *arg, const char *text) {
    struct job *job = arg;
    output_say(job->output, text);
}

int job_open_company(struct job *job) {
    if (job->options->company == NULL) return 0;
    struct company_options options = *job->options->company;

    options.loop = &job->loop;
    options.events = (struct company_events){.on_go = on_go,
                                             .on_stop = on_stop,
                                             .on_pass = on_pass,
                                             .on_end = on_end,
                                             .on_say = on_say,
                                             .on_report = on_report,
                                             .arg = job};
    return company_open(&job->company, &options);
}

/* How ranks fare is told through the store; this is about the agent itself. Once the job is over, it is meant to end. */
static void on_agent_end(const struct remote_host *host, void *arg) {
    struct job *job = arg;
    bool lost = host->code < 0 || host->code == AGENT_LOST;
    char text[REMOTE_WHY_MAX + 64];

    if (job->remote.left == 0) uv_stop(&job->loop);
    if (job->over) return;
    if (!host->served)
        snprintf(text, sizeof text, "%s", host->why);
    else if (lost)
        snprintf(text, sizeof text, "the connection to host %s is lost", host->name);
    else
        snprintf(text, sizeof text, "the launcher on host %s ended with code %d", host->name, host->code);
    company_fail(job->company,
                 !host->served             ? EXIT_USAGE
                 : lost || host->code == 0 ? EXIT_FAILED
                                           : host->code,
                 text);
}

int job_start_agents(struct job *job) {
    if (job->options->remote == NULL) return 0;
    struct remote_options options = *job->options->remote;

    options.loop = &job->loop;
    options.output = job->output;
    options.raw = !job->options->prefix;
    options.slots = job->options->reaper->slots + job->options->n;
    options.files = job->options->files;
    options.on_end = on_agent_end;
    options.arg = job;
    return remote_start(&job->remote, &options);
}

/* Unless it is our own reader that they wait for. */
static void on_agents_late(uv_timer_t *timer) {
    struct job *job = timer->data;

    if (output_behind(job->output) && !job->told_to_end && !job->output_broken) {
        uv_timer_again(timer);
        return;
    }
    if (!job->told_to_end && !job->output_broken)
        job_say(job, "killing the launchers on %d hosts, still there after the end of the job",
                job->remote.left);
    remote_kill(&job->remote);
}

/* The job is over, which the agents know or will hear: what their ranks have printed is worth waiting for. */
void job_end_agents(struct job *job) {
    if (job->options->remote == NULL) return;
    job->leaving = true;
    if (!job->began)
        remote_cancel(&job->remote); /* else all are there, though some may not have been heard through ssh */
    bool soon = job->told_to_end || job->output_broken;
    uint64_t ms = (uint64_t)(job->options->shutdown_seconds * 1000) + (soon ? 0 : AGENT_SLACK_MS);
    uv_timer_start(&job->deadline, on_agents_late, ms, ms);
    while (job->remote.left > 0) uv_run(&job->loop, UV_RUN_ONCE);
    output_finish_agents(job->output);
    while (!output_idle(job->output)) uv_run(&job->loop, UV_RUN_ONCE);
}
