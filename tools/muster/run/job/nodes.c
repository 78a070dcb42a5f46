/* nodes.c - a job of several nodes: the coordinator's orders, and the agents on other hosts. */
#include "run/job/job_internal.h"

#include "commands.h"

#include <signal.h>
#include <stdio.h>

enum {
    AGENT_LOST = 255, /* ssh's exit code for its own failures */
    AGENT_SLACK_MS = 30000,
};

static void on_start(void *arg, const struct node_assignment *a) {
    struct job *job = arg;
    job->began = true;
    if (a->node < 0) return;
    job->assignment = *a;
    job->start = true;
    if (job->options->verbose)
        output_line(job->output, "generation %d: node %d of %d has ranks %d to %d of %d", a->generation,
                    a->node, a->nodes, a->first_rank, a->first_rank + job->options->workers.n - 1,
                    a->world_size);
    uv_stop(&job->loop);
}

static void on_stop(void *arg, int signal, const char *why) {
    struct job *job = arg;
    if (job->start) { /* the ordered generation has not been started yet */
        job->start = false;
        node_agent_report_stopped(job->agent, (struct notice){.rank = -1, .culprit = -1});
    }
    if (job->phase == DRAINING && signal == SIGKILL) job_drop_output(job);
    if (job->phase != RUNNING && job->phase != STOPPING) return;
    if (job->phase == RUNNING && why[0] && !job->stop_signal)
        output_line(job->output, "%s; ending the ranks of this node", why);
    if (signal == SIGKILL)
        job_kill_ranks(job);
    else if (signal)
        job_forward_signal(job, signal);
    else if (job->phase == RUNNING) {
        job_blame_dead(job);
        job_stop_after_grace(job);
    }
}

static void on_signal(void *arg, int signal) {
    struct job *job = arg;
    if (signal == SIGUSR1) workers_signal(&job->workers, signal);
    if (signal == SIGUSR2) job_show_flights(job);
}

static void on_alone(void *arg, bool alone) {
    struct job *job = arg;
    job->alone = alone;
}

/* Ranks that still run are killed after the shutdown timeout. */
static void on_end(void *arg, int status, const char *why) {
    struct job *job = arg;
    job->ended = true;
    job->status = status;
    if (status != EXIT_DONE && why[0] && !job->stop_signal) output_line(job->output, "%s", why);
    if (job->phase == RUNNING || job->phase == STOPPING)
        job_stop_ranks(job, SIGTERM, true);
    else if (job->phase == IDLE)
        uv_stop(&job->loop);
}

int job_open_agent(struct job *job) {
    if (!job->options->agent) return 0;
    struct node_agent_options options = *job->options->agent;
    options.loop = &job->loop;
    options.output = job->output;
    options.events =
        (struct node_agent_events){on_start, on_stop, on_signal, job_on_verdict, on_alone, on_end, job};
    return node_agent_open(&job->agent, &options);
}

/* An agent has exited; how its ranks ended is reported through the store. */
static void on_agent_end(const struct remote_host *host, void *arg) {
    struct job *job = arg;
    bool lost = host->code < 0 || host->code == AGENT_LOST;
    int status = lost || host->code == 0 ? EXIT_FAILED : host->code;
    char text[REMOTE_WHY_MAX + 64];
    if (job->remote.left == 0) uv_stop(&job->loop);
    if (job->ended) return;
    /* The store reports the loss of the launcher to the coordinator, which may go on without it. */
    if (job->options->survive.min > 0 && host->served && lost) return;
    if (!host->served)
        snprintf(text, sizeof text, "%s", host->why);
    else if (lost)
        snprintf(text, sizeof text, "the connection to host %s is lost", host->name);
    else
        snprintf(text, sizeof text, "the launcher on host %s exited with code %d", host->name, host->code);
    node_agent_fail(job->agent, host->served ? status : EXIT_USAGE, text);
}

int job_start_remote(struct job *job) {
    if (!job->options->remote) return 0;
    struct remote_options options = *job->options->remote;
    options.loop = &job->loop;
    options.output = job->output;
    options.groups = job->options->workers.reaper->groups + job->options->workers.n;
    options.files = job->options->workers.files;
    options.on_end = on_agent_end;
    options.arg = job;
    return remote_start(&job->remote, &options);
}

/* Waits on while the agents' output is held up by the reader of our own output. */
static void on_agents_late(uv_timer_t *timer) {
    struct job *job = timer->data;
    bool hurry = job->told_to_end || job->output_broken;
    if (output_behind(job->output) && !hurry) {
        uv_timer_again(timer);
        return;
    }
    if (!hurry)
        output_line(job->output,
                    "killing the launchers on %d hosts, which still run after the end of the job",
                    job->remote.left);
    job->insisted |= hurry;
    remote_kill(&job->remote, true);
}

/* If the user wants the launcher to end, it does not wait for the reader of its output. */
void job_end_remote(struct job *job) {
    if (!job->options->remote) return;
    job->leaving = true;
    job->insisted = false;
    /* After a start all agents run, even if their mark was not read yet. */
    if (!job->began) remote_kill(&job->remote, false);
    bool hurry = job->told_to_end || job->output_broken;
    uint64_t ms = (uint64_t)(job->options->shutdown_seconds * 1000) + (hurry ? 0 : AGENT_SLACK_MS);
    uv_timer_start(&job->deadline, on_agents_late, ms, ms);
    while (job->remote.left > 0) uv_run(&job->loop, UV_RUN_ONCE);
    output_finish(job->output, true);
    while (!output_idle(job->output) && !job->insisted) uv_run(&job->loop, UV_RUN_ONCE);
    if (!output_idle(job->output)) output_abandon(job->output);
}
