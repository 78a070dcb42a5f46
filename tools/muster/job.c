/*
 * job.c - see job.h. One loop on the main thread; the job lives on job_run's stack.
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
#include "job.h"

#include "commands.h"
#include "error_file.h"
#include "node_msg.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "spawn.h"
#include "verdict.h"
#include "workers.h"

#include "bootstrap/report.h"
#include "os/host.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum phase { IDLE, RUNNING, STOPPING, DRAINING };
enum { HEAR_MS = 500, AGENT_LOST = 255 };

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
    bool go;      /* a generation is to be started */
    bool over;    /* and no other will be */
    int verdict;  /* the exit status, if the company has it */
    int told;     /* how often a head without ranks was told to end */
    bool leaving; /* it only waits for the agents to end */
    bool began;   /* all nodes were there once */
};

__attribute__((format(printf, 2, 3))) static void say(struct job *job, const char *format, ...) {
    char text[2048] = "muster run: ";
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, sizeof text - len - 1, format, args);
    va_end(args);
    output_say(job->output, strcat(text, "\n"));
}

/* A program that cannot be run will not run next time either. */
static bool may_restart(const struct job *job) {
    return job->root != NULL && job->root->exec_error == 0 && job->restarts < job->options->max_restarts &&
           job->stop_signal == 0 && !job->told_to_end && !job->output_broken;
}

static int root_status(const struct worker *root) {
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
    snprintf(path, sizeof path, "%s/attempt_%d/%d/error.json", logs->dir, job->place.generation,
             job->root->local_rank);
    error_file_read(path, text, size);
}

/* Why the generation ended, or "" if no worker is to blame. */
static void describe_failure(struct job *job, bool again, char text[REPORT_MAX]) {
    char tail[OUTPUT_TAIL], what[64] = "the job";

    text[0] = '\0';
    if (job->root == NULL || job->root->exec_error != 0) return;
    if (again) snprintf(what, sizeof what, "attempt %d", job->place.generation);
    size_t len = output_tail(job->output, job->root->local_rank, tail);
    struct slate_view slate;
    char message[REPORT_MESSAGE];
    slates_read(job->options->slates, job->root->local_rank, &slate);
    read_error_file(job, message, sizeof message);
    struct report_more more = {&slate, job->why, message, tail, len};
    report_failure(job->root, what, &more, text);
}

static void report_alone(struct job *job) {
    char text[REPORT_MAX];
    bool again = may_restart(job);

    describe_failure(job, again, text);
    output_say(job->output, text);
    if (again && text[0] != '\0')
        say(job, "starting all %d ranks again: restart %d of %d", job->options->n, job->restarts + 1,
            job->options->max_restarts);
}

/* The head shows the report, or tells this node that there was another cause. */
static void report_to_company(struct job *job) {
    char text[REPORT_MAX];
    struct company_outcome outcome = {.rank = -1, .culprit = -1, .report = text};

    describe_failure(job, job->options->max_restarts > 0, text);
    if (job->root != NULL) {
        outcome.rank = job->root->rank;
        outcome.status = root_status(job->root);
        outcome.culprit = verdict_blames(job->root, job->options->slates);
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
static void on_idle(void *arg) {
    struct job *job = arg;

    if (job->phase == DRAINING && !job->reported) report(job);
    if (output_idle(job->output)) uv_stop(&job->loop);
}

static void give_up_output(struct job *job) {
    if (job->company != NULL && !job->reported) report(job);
    output_abandon(job->output);
    uv_stop(&job->loop);
}

/* What the ranks printed is worth waiting for, unless the launcher was told to end. */
static void all_gone(struct job *job) {
    job->phase = DRAINING;
    progress_stop(&job->progress);
    if (job->root != NULL)
        job->root = verdict(job->root, job->workers.list, job->options->n, job->options->slates);
    if (job->stop_signal == 0) uv_timer_stop(&job->deadline);
    workers_end(&job->workers);
    output_finish(job->output);
    if (output_idle(job->output))
        on_idle(job);
    else if (job->insisted)
        give_up_output(job);
}

static void on_deadline(uv_timer_t *timer) {
    struct job *job = timer->data;

    if (job->phase == DRAINING) {
        give_up_output(job);
        return;
    }
    say(job, "killing %d of %d ranks, still there after %g s", job->workers.running, job->options->n,
        job->options->shutdown_seconds);
    workers_signal(&job->workers, SIGKILL);
}

static void ask_to_end(struct job *job, int signal, bool in_time) {
    if (job->phase == RUNNING) job->phase = STOPPING;
    progress_stop(&job->progress);
    workers_signal(&job->workers, signal);
    if (in_time && (job->hearing || !uv_is_active((uv_handle_t *)&job->deadline)))
        uv_timer_start(&job->deadline, on_deadline, (uint64_t)(job->options->shutdown_seconds * 1000), 0);
}

static void on_heard(uv_timer_t *timer) {
    struct job *job = timer->data;

    ask_to_end(job, SIGTERM, true);
    job->hearing = false;
}

/* The others have a moment to find out by themselves, and to say in which call. */
static void hear_the_others(struct job *job) {
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
        say(job, "cannot run '%s': it is neither a program for this machine nor a script with a #! line",
            job->options->program);
    else if (worker->exec_error != 0)
        say(job, "cannot run '%s': %s", job->options->program, strerror(worker->exec_error));
    else if (job->workers.running > 0 || job->company != NULL)
        say(job, "%s; ending the other ranks", text);
    if (job->company != NULL) company_tell_failure(job->company, text);
    if (worker->exec_error != 0)
        ask_to_end(job, SIGTERM, true);
    else
        hear_the_others(job);
}

/* Those that wait for it cannot know that it will never come. */
static void on_absent(void *arg, const struct worker *worker, const char *why) {
    struct job *job = arg;

    if (job->phase != RUNNING) return;
    job->root = worker;
    snprintf(job->why, sizeof job->why, "%s", why);
    say(job, "%s; ending the other ranks", why);
    ask_to_end(job, SIGTERM, true);
}

static void on_exit_of(struct worker *worker, void *arg) {
    struct job *job = arg;

    worker->unasked = job->phase == RUNNING || job->hearing;
    if (job->phase == RUNNING && worker->code == 0) progress_look_soon(&job->progress);
    if (job->phase == RUNNING && worker->code != 0) on_failure(job, worker);
    if (job->hearing && worker->code != 0 && job->root == NULL)
        job->root = worker; /* the head may blame it */
    if (job->workers.running == 0 && job->phase != DRAINING) all_gone(job);
}

static bool is_head(const struct job *job) {
    return job->company != NULL && job->options->company->store != NULL;
}

/* Ranks may take as long as they like to answer an interrupt: the user can insist. */
static void pass_on(struct job *job, int signal) {
    ask_to_end(job, signal == SIGPIPE ? SIGTERM : signal, signal != SIGINT);
}

/* This launcher was told to end. The head is heard by all nodes, this one included. */
static void end_ranks(struct job *job, int signal) {
    if (job->company != NULL) company_interrupt(job->company, signal);
    if (!is_head(job)) pass_on(job, signal);
}

/* As any program in a pipeline: nobody wants the output, so the work is over. A full disk is worth a word. */
static void on_broken(void *arg, int error) {
    struct job *job = arg;

    job->output_broken = true;
    if (job->phase != RUNNING && !(job->phase == IDLE && is_head(job))) return;
    if (error == EPIPE)
        job->stop_signal = SIGPIPE;
    else
        say(job, "cannot write the ranks' output: %s; ending them", strerror(error));
    job->output_failed = true;
    end_ranks(job, error == EPIPE ? SIGPIPE : SIGTERM);
}

static void on_lost(void *arg, int error) {
    say(arg, "cannot write the ranks' logs: %s; they go on without", strerror(error));
}

/* Stopping the launcher from the terminal stops the ranks, which the terminal does not know. */
static void suspend(struct job *job) {
    workers_signal(&job->workers, SIGSTOP);
    raise(SIGSTOP);
    workers_signal(&job->workers, SIGCONT);
    uv_update_time(&job->loop);
}

static void kill_ranks(struct job *job) {
    say(job, "killing %d ranks", job->workers.running);
    job->insisted = true;
    workers_signal(&job->workers, SIGKILL);
}

static void on_interrupt(struct job *job) {
    if (job->phase == STOPPING) {
        if (is_head(job)) company_interrupt(job->company, SIGKILL);
        if (!job->insisted) kill_ranks(job);
        return;
    }
    job->stop_signal = SIGINT;
    say(job, "interrupted; waiting for %d ranks to end (once more kills them)", job->workers.running);
    end_ranks(job, SIGINT);
}

/* The head asks once, then insists, and at last goes. */
static void tell_others(struct job *job, int signal) {
    if (job->told++ == 0) job->stop_signal = signal;
    if (signal == SIGINT && job->told == 1)
        say(job, "interrupted; waiting for the ranks to end (once more kills them)");
    company_interrupt(job->company, job->told == 1 ? signal : SIGKILL);
}

/* No rank is there to be told. */
static void leave_at_once(struct job *job, int signal) {
    company_interrupt(job->company, signal);
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
    } else if (job->phase == IDLE && ends && is_head(job) && job->told < 2) {
        tell_others(job, signal);
    } else if (job->phase == IDLE && ends) {
        leave_at_once(job, signal);
    } else if (job->phase == DRAINING) {
        if (job->stop_signal == 0) job->stop_signal = signal;
        if (job->company != NULL) company_interrupt(job->company, signal);
        give_up_output(job);
    } else if (signal == SIGTSTP) {
        suspend(job);
    } else if (!ends) {
        workers_signal(&job->workers, signal);
    } else if (signal == SIGINT) {
        on_interrupt(job);
    } else {
        if (job->phase == RUNNING) job->stop_signal = signal;
        end_ranks(job, signal);
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

/* Those that end the job, and those that are passed on. */
static int catch_signals(struct job *job) {
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

/* Before the first start, no logs are a reason not to start; later, the ranks' work counts more. */
static int begin_logs(struct job *job) {
    char why[1024];
    int generation = job->place.generation;

    if (job->options->logs == NULL || logs_begin(job->options->logs, generation, why, sizeof why) == 0)
        return 0;
    say(job, "%s", why);
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
        .warden = o->warden,
        .files = o->files,
        .on_exit = on_exit_of,
        .arg = job,
    };
    int failed;
    int rc = workers_start(&job->workers, &w, &failed);

    if (rc != 0)
        say(job, "cannot start rank %d: %s; 'ulimit -a' shows what may limit it", failed, strerror(-rc));
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
    slates_begin(job->options->slates, facts.world_size);
    if (job->company == NULL) tell_hosts(job);
    int rc = worker_env_open(&env, &facts);
    if (rc != 0) {
        say(job, "cannot set up the environment: %s", strerror(-rc));
        return rc;
    }
    job->phase = RUNNING;
    rc = start_workers(job, &env);
    worker_env_close(&env);
    return rc;
}

static void on_go(void *arg, const struct company_place *place) {
    struct job *job = arg;

    job->began = true;
    if (place->node < 0) return;
    job->place = *place;
    job->go = true;
    if (job->options->verbose)
        say(job, "generation %d: node %d of %d has ranks %d to %d of %d", place->generation, place->node,
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
        say(job, "%s; ending the ranks of this node", why);
    if (signal == SIGKILL)
        kill_ranks(job);
    else if (signal != 0)
        pass_on(job, signal);
    else if (job->phase == RUNNING)
        hear_the_others(job);
}

static void on_end(void *arg, int status, const char *why) {
    struct job *job = arg;

    job->over = true;
    job->verdict = status;
    if (status != EXIT_DONE && why[0] != '\0' && job->stop_signal == 0) say(job, "%s", why);
    if (job->phase == RUNNING ||
        job->phase == STOPPING) /* ranks that take their time have nobody to insist */
        ask_to_end(job, SIGTERM, true);
    else if (job->phase == IDLE)
        uv_stop(&job->loop);
}

static void on_say(void *arg, const char *line) {
    say(arg, "%s", line);
}

static void on_report(void *arg, const char *text) {
    struct job *job = arg;
    output_say(job->output, text);
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

static int start_agents(struct job *job) {
    if (job->options->remote == NULL) return 0;
    struct remote_options options = *job->options->remote;

    options.loop = &job->loop;
    options.output = job->output;
    options.raw = !job->options->prefix;
    options.slots = job->options->warden->slots + job->options->n;
    options.files = job->options->files;
    options.on_end = on_agent_end;
    options.arg = job;
    return remote_start(&job->remote, &options);
}

static void on_agents_late(uv_timer_t *timer) {
    struct job *job = timer->data;
    remote_kill(&job->remote);
}

/* The job is over, which the agents know or will hear: what their ranks have printed is worth waiting for. */
static void end_agents(struct job *job) {
    if (job->options->remote == NULL) return;
    job->leaving = true;
    if (!job->began)
        remote_cancel(&job->remote); /* else all are there, though some may not have been heard through ssh */
    if (job->told_to_end || job->output_broken)
        uv_timer_start(&job->deadline, on_agents_late, (uint64_t)(job->options->shutdown_seconds * 1000), 0);
    while (job->remote.left > 0) uv_run(&job->loop, UV_RUN_ONCE);
    output_finish_guests(job->output);
    while (!output_idle(job->output)) uv_run(&job->loop, UV_RUN_ONCE);
}

static int exit_status(const struct job *job) {
    if (job->company != NULL) return job->verdict;
    if (job->root != NULL) return root_status(job->root);
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
    workers_free(&job->workers);
    job->root = NULL;
    job->why[0] = '\0';
    job->hearing = job->reported = false;
    job->phase = IDLE;
}

static bool may_go_on_alone(struct job *job) {
    if (!may_restart(job)) return false;
    let_go(job);
    if (!may_restart(job)) return false; /* a signal came */
    clear_away(job);
    job->place.generation = ++job->restarts;
    return true;
}

/* In company: waits for what the head has to say, unless this node was told to leave. */
static bool may_go_on_together(struct job *job) {
    if (job->phase != IDLE) {
        let_go(job);
        clear_away(job);
    }
    if (job->stop_signal != 0 && !is_head(job) && !job->over) {
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

    company_tell_failure(job->company, "the ranks could not be started");
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
static void block_signals(void) {
    sigset_t late;

    sigemptyset(&late);
    for (int i = 0; i < SPAWN_SIGNALS; i++) sigaddset(&late, spawn_signals[i]);
    pthread_sigmask(SIG_BLOCK, &late, NULL);
}

static void close_handles(struct job *job) {
    block_signals();
    uv_close((uv_handle_t *)&job->deadline, NULL);
    if (job->progress.options.loop != NULL) progress_close(&job->progress);
    for (int i = 0; i < job->n_signals; i++) uv_close((uv_handle_t *)&job->signals[i], NULL);
    if (job->company != NULL) company_close(job->company);
    remote_end(&job->remote);
    if (job->output != NULL) output_close(job->output);
    uv_run(&job->loop, UV_RUN_DEFAULT);
    uv_loop_close(&job->loop);
}

static int open_company(struct job *job) {
    if (job->options->company == NULL) return 0;
    struct company_options options = *job->options->company;

    options.loop = &job->loop;
    options.events = (struct company_events){.on_go = on_go,
                                             .on_stop = on_stop,
                                             .on_end = on_end,
                                             .on_say = on_say,
                                             .on_report = on_report,
                                             .arg = job};
    return company_open(&job->company, &options);
}

int job_run(const struct job_options *options) {
    struct job job = {.options = options, .place = {.world_size = options->n, .nodes = 1}};
    struct output_options output = {
        .n = options->n,
        .guests = options->remote != NULL ? options->remote->n : 0,
        .colours = options->colours,
        .routes = options->routes,
        .logs = options->logs,
        .events = {.on_idle = on_idle, .on_broken = on_broken, .on_lost = on_lost, .arg = &job},
    };
    int status = EXIT_USAGE;
    int rc = uv_loop_init(&job.loop);

    if (rc != 0) {
        fprintf(stderr, "muster run: cannot make an event loop: %s\n", uv_strerror(rc));
        return EXIT_USAGE;
    }
    uv_timer_init(&job.loop, &job.deadline);
    job.deadline.data = &job;
    rc = catch_signals(&job);
    if (rc == 0) rc = output_open(&job.loop, &output, &job.output);
    if (rc == 0) rc = open_company(&job);
    if (rc == 0) rc = start_agents(&job);
    if (rc != 0) {
        fprintf(stderr, "muster run: cannot set up the launcher: %s\n", uv_strerror(rc));
    } else {
        struct progress_options progress = {.loop = &job.loop,
                                            .slates = options->slates,
                                            .workers = &job.workers,
                                            .output = job.output,
                                            .may_redraw = options->prefix,
                                            .on_absent = on_absent,
                                            .arg = &job};
        progress_init(&job.progress, &progress);
        status = run_generations(&job);
        end_agents(&job);
    }
    close_handles(&job);
    workers_free(&job.workers);
    remote_free(&job.remote);
    company_free(job.company);
    output_free(job.output);
    return status;
}
