/* job.c - see job.h and job_internal.h: sets a job up, and starts one generation after the other. */
#include "run/job/job_internal.h"

#include "commands.h"
#include "run/nodes/node_msg.h"
#include "run/ranks/spawn.h"

#include "bootstrap/report.h"
#include "os/host.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) void job_say(struct job *job, const char *format, ...) {
    char text[2048] = "muster run: ";
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, sizeof text - len - 1, format, args);
    va_end(args);
    output_say(job->output, strcat(text, "\n"));
}

bool job_is_head(const struct job *job) {
    return job->company != NULL && job->options->company->store != NULL;
}

/* Before the first start, no logs are a reason not to start; later, the ranks' work counts more. */
static int begin_logs(struct job *job) {
    int generation = job->place.generation;

    if (job->options->logs == NULL || logs_begin(job->options->logs, generation) == MST_OK) return 0;
    job_say(job, "%s", mst_last_error()->message);
    return generation == 0 ? -1 : 0;
}

static int start_workers(struct job *job, struct worker_env *env) {
    const struct job_options *o = job->options;
    struct workers_options w = {
        .loop = &job->loop,
        .n = o->n,
        .first_rank = job->place.first_rank,
        .program = o->program,
        .argv = o->argv,
        .env = env,
        .bind = o->bind,
        .output = o->prefix ? job->output : NULL,
        .reaper = o->reaper,
        .files = o->files,
        .on_exit = job_on_exit,
        .arg = job,
    };
    int failed;
    int rc = workers_start(&job->workers, &w, &failed);

    if (rc != 0)
        job_say(job, "cannot start rank %d: %s; 'ulimit -a' shows what may limit it", failed, strerror(-rc));
    else
        progress_start(&job->progress);
    return rc;
}

/* Alone, all ranks are here; in company the head tells where they are. Who misses a rank wants to know. */
static void tell_hosts(const struct job *job) {
    char host[MSI_HOST_MAX];
    struct node_place here = {.n = job->options->n, .host = msi_host_name(host)};
    char *line = node_hosts_write(job->options->facts->run_id, job->place.generation, &here, 1);

    if (line != NULL) mst_store_append(job->options->store, MSI_LAUNCH_HOSTS_KEY, line, strlen(line));
    free(line);
}

static int start(struct job *job) {
    struct worker_env_facts facts = *job->options->facts;
    struct worker_env env;

    facts.world_size = job->place.world_size;
    facts.group_rank = job->place.node;
    facts.group_world_size = job->place.nodes;
    facts.generation = job->place.generation;
    if (job->company != NULL) facts.run_id = company_run_id(job->company);
    output_begin(job->output, facts.world_size - 1);
    rank_states_begin(job->options->states, facts.world_size);
    job_drop_flights(job);
    if (job->company == NULL) tell_hosts(job);
    int rc = worker_env_open(&env, &facts);
    if (rc != 0) {
        job_say(job, "cannot set up the environment: %s", strerror(-rc));
        return rc;
    }
    rc = start_workers(job, &env);
    worker_env_close(&env);
    if (rc == 0) job->phase = RUNNING;
    return rc;
}

static int exit_status(const struct job *job) {
    if (job->company != NULL) return job->verdict;
    if (job->root != NULL) return job_root_status(job->root);
    if (job->stop_signal != 0) return EXIT_SIGNAL + job->stop_signal;
    return job->output_failed ? EXIT_FAILED : EXIT_DONE;
}

/* Lets go of the handles of the generation that is over. */
static void let_go(struct job *job) {
    uv_run(&job->loop, UV_RUN_NOWAIT);
    while (job->workers.closing > 0) uv_run(&job->loop, UV_RUN_ONCE);
}

/* Everything is as it was before the start. */
static void clear_away(struct job *job) {
    uv_timer_stop(&job->deadline);
    workers_free(&job->workers);
    job->root = NULL;
    job->why[0] = '\0';
    job->hearing = job->reported = job->took_flights = job->kept_flights = false;
    job->phase = IDLE;
}

static bool may_go_on_alone(struct job *job) {
    if (!job_may_restart(job)) return false;
    let_go(job);
    if (!job_may_restart(job)) return false; /* a signal came */
    clear_away(job);
    job->place.generation = ++job->restarts;
    return true;
}

/* In company: waits for what the head has to say, unless this node was told to leave. */
static bool may_go_on_together(struct job *job) {
    if (job->phase != IDLE || job->workers.list != NULL) {
        let_go(job);
        clear_away(job);
    }
    if (job->stop_signal != 0 && !job_is_head(job) && !job->over) {
        job->over = true;
        job->verdict = EXIT_SIGNAL + job->stop_signal;
    }
    while (!job->go && !job->over) uv_run(&job->loop, UV_RUN_DEFAULT);
    job->go = false;
    return !job->over;
}

/* True once there is another generation to start. */
static bool may_go_on(struct job *job) {
    return job->company == NULL ? may_go_on_alone(job) : may_go_on_together(job);
}

/* The company hears of ranks that could not even be started, and decides. */
static void tell_no_start(struct job *job) {
    struct company_outcome outcome = {
        .rank = job->place.first_rank, .status = EXIT_USAGE, .culprit = -1, .final = true};

    char text[MSI_HOST_MAX + 64], host[MSI_HOST_MAX];

    snprintf(text, sizeof text, "the ranks of host %s could not be started", msi_host_name(host));
    company_tell_failure(job->company, text);
    company_tell_stopped(job->company, &outcome);
}

static int run_generations(struct job *job) {
    bool alone = job->company == NULL;

    if (!alone && !may_go_on(job)) return exit_status(job);
    do {
        if (begin_logs(job) == 0 && start(job) == 0)
            uv_run(&job->loop, UV_RUN_DEFAULT);
        else if (alone)
            return job->restarts == 0 ? EXIT_USAGE : EXIT_FAILED;
        else
            tell_no_start(job);
    } while (may_go_on(job));
    return exit_status(job);
}

/* A signal that comes now is too late; it must not cut the cleaning up short. */
static void block_signals(const struct job *job) {
    sigset_t late;

    sigemptyset(&late);
    for (int i = 0; i < SPAWN_SIGNALS; i++) sigaddset(&late, spawn_signals[i]);
    for (int number = 1; number <= SIGNALS_MOST; number++)
        if (signals_have(&job->options->signals, number)) sigaddset(&late, number);
    pthread_sigmask(SIG_BLOCK, &late, NULL);
}

static void close_handles(struct job *job) {
    block_signals(job);
    uv_close((uv_handle_t *)&job->deadline, NULL);
    if (job->progress.options.loop != NULL) progress_close(&job->progress);
    for (int i = 0; i < job->n_signals; i++) uv_close((uv_handle_t *)&job->signals[i], NULL);
    if (job->company != NULL) company_close(job->company);
    remote_end(&job->remote);
    if (job->output != NULL) output_close(job->output);
    uv_run(&job->loop, UV_RUN_DEFAULT);
    uv_loop_close(&job->loop);
}

int job_run(const struct job_options *options) {
    struct job job = {.options = options, .place = {.world_size = options->n, .nodes = 1}};
    struct output_options output = {
        .n = options->n,
        .agents = options->remote != NULL ? options->remote->n : 0,
        .colours = options->colours,
        .routes = options->routes,
        .logs = options->logs,
        .events = {.on_idle = job_on_idle,
                   .on_broken = job_on_broken,
                   .on_lost = job_on_log_lost,
                   .arg = &job},
    };
    int status = EXIT_USAGE;
    int rc = uv_loop_init(&job.loop);

    if (rc != 0) {
        fprintf(stderr, "muster run: cannot make an event loop: %s\n", uv_strerror(rc));
        return EXIT_USAGE;
    }
    uv_timer_init(&job.loop, &job.deadline);
    job.deadline.data = &job;
    rc = job_catch_signals(&job);
    if (rc == 0) rc = output_open(&job.loop, &output, &job.output);
    if (rc == 0) rc = job_open_company(&job);
    if (rc == 0) rc = job_start_agents(&job);
    if (rc != 0) {
        fprintf(stderr, "muster run: cannot set up the launcher: %s\n", uv_strerror(rc));
    } else {
        struct progress_options progress = {.loop = &job.loop,
                                            .states = options->states,
                                            .workers = &job.workers,
                                            .output = job.output,
                                            .may_redraw = options->prefix,
                                            .on_absent = job_on_absent,
                                            .arg = &job};
        progress_init(&job.progress, &progress);
        status = run_generations(&job);
        job_end_agents(&job);
    }
    close_handles(&job);
    workers_free(&job.workers);
    remote_free(&job.remote);
    company_free(job.company);
    output_free(job.output);
    return status;
}
