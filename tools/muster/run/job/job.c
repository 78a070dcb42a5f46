/* job.c - see job.h and job_internal.h: sets a job up and starts one generation after the other. */
#include "run/job/job_internal.h"

#include "commands.h"
#include "run/nodes/node_msg.h"

#include "bootstrap/report.h"
#include "os/host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool job_is_coordinator(const struct job *job) {
    return job->agent && job->options->agent->store;
}

/* Only the first generation needs its logs; later the ranks' work is worth more. */
static int begin_logs(struct job *job) {
    int generation = job->assignment.generation;
    if (!job->options->output.logs || logs_begin(job->options->output.logs, generation) == MST_OK) return 0;
    output_line(job->output, "%s", mst_last_error()->message);
    return generation == 0 ? -1 : 0;
}

static int start_workers(struct job *job, struct worker_env *env) {
    struct workers_options w = job->options->workers;
    int failed;
    w.loop = &job->loop;
    w.first_rank = job->assignment.first_rank;
    w.env = env;
    w.output = job->options->output.raw ? NULL : job->output;
    w.on_exit = job_on_exit;
    w.arg = job;
    int rc = workers_start(&job->workers, &w, &failed);
    if (rc != 0)
        output_line(job->output, "cannot start rank %d: %s; check the limits with 'ulimit -a'", failed,
                    strerror(-rc));
    else
        progress_start(&job->progress);
    return rc;
}

/* On a single node; with several nodes the coordinator does this. See bootstrap/report.h. */
static void publish_hosts(const struct job *job) {
    char host[MSI_HOST_MAX];
    struct node_ranks here = {.n = job->options->workers.n, .host = msi_host_name(host)};
    char *line = node_hosts_write(job->assignment.run_id, job->assignment.generation, &here, 1);
    if (line) mst_store_append(job->options->store, MSI_LAUNCH_HOSTS_KEY, line, strlen(line));
    free(line);
}

static int start(struct job *job) {
    const struct node_assignment *a = &job->assignment;
    struct worker_env env;
    output_begin(job->output, a->world_size - 1);
    rank_states_begin(job->options->states, a->world_size);
    survivors_begin(&job->survivors, a->world_size);
    job_remove_flights(job);
    if (!job->agent) publish_hosts(job);
    int rc = worker_env_open(&env, job->options->facts, a);
    if (rc != 0) {
        output_line(job->output, "cannot set up the environment: %s", strerror(-rc));
        return rc;
    }
    rc = start_workers(job, &env);
    worker_env_close(&env);
    if (rc == 0) job->phase = RUNNING;
    if (rc == 0) job_open_status(job);
    return rc;
}

static int exit_status(const struct job *job) {
    if (job->agent) return job->status;
    if (job->root) return job_root_status(job->root);
    if (job->stop_signal) return EXIT_SIGNAL + job->stop_signal;
    return job->output_failed ? EXIT_FAILED : EXIT_DONE;
}

/* Lets the loop close the handles of the last generation. */
static void close_workers(struct job *job) {
    uv_run(&job->loop, UV_RUN_NOWAIT);
    while (job->workers.closing > 0) uv_run(&job->loop, UV_RUN_ONCE);
}

/* Restores the state before the start. */
static void reset(struct job *job) {
    uv_timer_stop(&job->deadline);
    workers_free(&job->workers);
    job->root = NULL;
    job->why[0] = 0;
    job->dead = NULL;
    job->undecided = 0;
    job->alone = false;
    job->in_grace = job->reported = job->read_flights = job->kept_flights = false;
    job->phase = IDLE;
}

static bool next_on_single_node(struct job *job) {
    if (!job_may_restart(job)) return false;
    close_workers(job);
    if (!job_may_restart(job)) return false; /* a signal has arrived */
    reset(job);
    job->assignment.generation = ++job->restarts;
    return true;
}

/* Waits for the coordinator's order, unless a signal told this node to leave. */
static bool next_on_several_nodes(struct job *job) {
    if (job->phase != IDLE || job->workers.list) {
        close_workers(job);
        reset(job);
    }
    if (job->stop_signal && !job_is_coordinator(job) && !job->ended) {
        job->ended = true;
        job->status = EXIT_SIGNAL + job->stop_signal;
    }
    while (!job->start && !job->ended) uv_run(&job->loop, UV_RUN_DEFAULT);
    job->start = false;
    return !job->ended;
}

/* Is there another generation to start? */
static bool next_generation(struct job *job) {
    return job->agent ? next_on_several_nodes(job) : next_on_single_node(job);
}

/* Tells the coordinator that the ranks could not be started. */
static void report_no_start(struct job *job) {
    struct notice outcome = {
        .rank = job->assignment.first_rank, .status = EXIT_USAGE, .culprit = -1, .final = true};
    char text[MSI_HOST_MAX + 64], host[MSI_HOST_MAX];
    snprintf(text, sizeof text, "the ranks of host %s could not be started", msi_host_name(host));
    node_agent_report_failure(job->agent, text);
    node_agent_report_stopped(job->agent, outcome);
}

static int run_generations(struct job *job) {
    if (job->agent && !next_generation(job)) return exit_status(job);
    do {
        if (begin_logs(job) == 0 && start(job) == 0)
            uv_run(&job->loop, UV_RUN_DEFAULT);
        else if (job->agent)
            report_no_start(job);
        else
            return job->restarts == 0 ? EXIT_USAGE : EXIT_FAILED;
    } while (next_generation(job));
    return exit_status(job);
}

/* From now on no signal may interrupt the cleanup. */
static void close_handles(struct job *job) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    uv_close((uv_handle_t *)&job->deadline, NULL);
    uv_close((uv_handle_t *)&job->replacing, NULL);
    uv_close((uv_handle_t *)&job->looking, NULL);
    if (job->progress.loop) progress_close(&job->progress);
    status_link_close(job->status_link);
    for (int i = 0; i < job->n_signals; i++) uv_close((uv_handle_t *)&job->signals[i], NULL);
    if (job->agent) node_agent_close(job->agent);
    remote_end(&job->remote);
    if (job->output) output_close(job->output);
    uv_run(&job->loop, UV_RUN_DEFAULT);
    uv_loop_close(&job->loop);
}

int job_run(const struct job_options *options) {
    struct job job = {.options = options, .assignment = {.nodes = 1, .run_id = options->facts->run_id}};
    struct output_options output = options->output;
    int status = EXIT_USAGE;
    output.n = job.assignment.world_size = options->workers.n;
    output.agents = options->remote ? options->remote->n : 0;
    output.events = (struct output_events){job_on_idle, job_on_broken, job_on_log_lost, &job};
    int rc = uv_loop_init(&job.loop);
    if (rc != 0) {
        fprintf(stderr, "muster run: cannot create an event loop: %s\n", uv_strerror(rc));
        return EXIT_USAGE;
    }
    uv_timer_init(&job.loop, &job.deadline);
    uv_timer_init(&job.loop, &job.replacing);
    uv_timer_init(&job.loop, &job.looking);
    job.deadline.data = job.replacing.data = job.looking.data = &job;
    job.survivors.options = options->survive;
    rc = job_catch_signals(&job);
    if (rc == 0) rc = output_open(&job.loop, &output, &job.output);
    if (rc == 0) rc = job_open_agent(&job);
    if (rc == 0) rc = job_start_remote(&job);
    if (rc != 0) {
        fprintf(stderr, "muster run: cannot set up the launcher: %s\n", uv_strerror(rc));
    } else {
        job.progress = (struct progress){.loop = &job.loop,
                                         .states = options->states,
                                         .workers = &job.workers,
                                         .output = job.output,
                                         .may_redraw = !options->output.raw,
                                         .survive = options->survive.min > 0,
                                         .on_absent = job_on_absent,
                                         .arg = &job};
        progress_init(&job.progress);
        status = run_generations(&job);
        job_end_remote(&job);
    }
    close_handles(&job);
    workers_free(&job.workers);
    remote_free(&job.remote);
    node_agent_free(job.agent);
    status_link_free(job.status_link);
    output_free(job.output);
    return status;
}
