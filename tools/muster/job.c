/*
 * job.c - see job.h. One loop on the main thread; the job lives on job_run's stack.
 *
 *   RUNNING --first failure, a signal, or nobody reads the output--> STOPPING
 *   RUNNING or STOPPING --the last worker exits--> DRAINING --all output is written--> end, or RUNNING again
 *
 * STOPPING means that the workers were asked to end, or will be in a moment. It lasts until they do, or until their time is up or the
 * user insists: then they are killed.
 */
#include "job.h"

#include "commands.h"
#include "error_file.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "spawn.h"
#include "verdict.h"
#include "workers.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum phase { RUNNING, STOPPING, DRAINING };
enum { HEAR_MS = 500 };

struct job {
    const struct job_options *options;
    uv_loop_t loop;
    uv_timer_t deadline;
    uv_signal_t signals[SPAWN_SIGNALS];
    int n_signals;
    struct output *output;
    struct workers workers;
    struct progress progress;
    enum phase phase;
    const struct worker
        *root;              /* the worker whose failure, the first or what led to it, ended the generation */
    char why[PROGRESS_WHY]; /* it is not to be seen from its exit code */
    int restarts;           /* the number of this generation */
    int stop_signal;        /* the signal to the launcher that ended the job */
    bool told_to_end;       /* by a signal to the launcher, whatever had ended the ranks before */
    bool output_broken;     /* nobody would see what another generation prints */
    bool hearing;           /* the other ranks have not been asked to end yet */
    bool output_failed;
    bool insisted; /* the user asked a second time */
    bool reported;
};

__attribute__((format(printf, 2, 3))) static void say(struct job *job, const char *format, ...) {
    char text[1024] = "muster run: ";
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

/* What the root cause has left in the file that it was given for that. */
static void read_error_file(const struct job *job, char *text, size_t size) {
    const struct logs *logs = job->options->logs;
    char path[PATH_MAX + 128];

    text[0] = '\0';
    if (logs == NULL) return;
    snprintf(path, sizeof path, "%s/attempt_%d/%d/error.json", logs->dir, job->restarts,
             job->root->local_rank);
    error_file_read(path, text, size);
}

static void report(struct job *job) {
    char text[REPORT_MAX], tail[OUTPUT_TAIL], what[64] = "the job";
    bool again = may_restart(job);

    job->reported = true;
    if (job->root == NULL || job->root->exec_error != 0) return;
    if (again) snprintf(what, sizeof what, "attempt %d", job->restarts);
    size_t len = output_tail(job->output, job->root->local_rank, tail);
    struct slate_view slate;
    char message[REPORT_MESSAGE];
    slates_read(job->options->slates, job->root->local_rank, &slate);
    read_error_file(job, message, sizeof message);
    struct report_more more = {&slate, job->why, message, tail, len};
    report_failure(job->root, what, &more, text);
    output_say(job->output, text);
    if (again)
        say(job, "starting all %d ranks again: restart %d of %d", job->options->n, job->restarts + 1,
            job->options->max_restarts);
}

/* The report comes last, below whatever the other ranks had to say about the failure. */
static void on_idle(void *arg) {
    struct job *job = arg;

    if (!job->reported) report(job);
    if (output_idle(job->output)) uv_stop(&job->loop);
}

static void give_up_output(struct job *job) {
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
    else if (job->workers.running > 0)
        say(job, "%s; ending the other ranks", text);
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
    if (job->workers.running == 0 && job->phase != DRAINING) all_gone(job);
}

/* As any program in a pipeline: nobody wants the output, so the work is over. A full disk is worth a word. */
static void on_broken(void *arg, int error) {
    struct job *job = arg;

    job->output_broken = true;
    if (job->phase != RUNNING) return;
    if (error == EPIPE)
        job->stop_signal = SIGPIPE;
    else
        say(job, "cannot write the ranks' output: %s; ending them", strerror(error));
    job->output_failed = true;
    ask_to_end(job, SIGTERM, true);
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

static void on_interrupt(struct job *job) {
    if (job->phase == STOPPING) {
        say(job, "killing %d ranks", job->workers.running);
        job->insisted = true;
        workers_signal(&job->workers, SIGKILL);
        return;
    }
    job->stop_signal = SIGINT;
    say(job, "interrupted; waiting for %d ranks to end (once more kills them)", job->workers.running);
    ask_to_end(job, SIGINT, false);
}

static void on_signal(uv_signal_t *handle, int signal) {
    struct job *job = handle->data;

    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
        job->told_to_end = true;
    if (job->phase == DRAINING) {
        if (job->stop_signal == 0) job->stop_signal = signal;
        give_up_output(job);
    } else if (signal == SIGTSTP) {
        suspend(job);
    } else if (signal == SIGUSR1 || signal == SIGUSR2) {
        workers_signal(&job->workers, signal);
    } else if (signal == SIGINT) {
        on_interrupt(job);
    } else {
        if (job->phase == RUNNING) job->stop_signal = signal;
        ask_to_end(job, signal, true);
    }
}

static int catch_signals(struct job *job) {
    for (int i = 0; i < SPAWN_SIGNALS; i++) {
        int number = spawn_signals[i];
        uv_signal_t *handle = &job->signals[job->n_signals];

        if (number == SIGCHLD || number == SIGPIPE || number == SIGXFSZ || spawn_was_ignored(number))
            continue;
        int rc = uv_signal_init(&job->loop, handle);
        if (rc != 0) return rc;
        handle->data = job;
        job->n_signals++;
        rc = uv_signal_start(handle, on_signal, number);
        if (rc != 0) return rc;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log file that may not grow is given up, and that is all */
    return 0;
}

/* Before the first start, no logs are a reason not to start; later, the ranks' work counts more. */
static int begin_logs(struct job *job) {
    char why[1024];

    if (job->options->logs == NULL || logs_begin(job->options->logs, job->restarts, why, sizeof why) == 0)
        return 0;
    say(job, "%s", why);
    return job->restarts == 0 ? -1 : 0;
}

static int start(struct job *job) {
    const struct job_options *o = job->options;
    struct workers_options w = {
        .loop = &job->loop,
        .n = o->n,
        .first_rank = o->first_rank,
        .program = o->program,
        .argv = o->argv,
        .env = o->env,
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

static int exit_status(const struct job *job) {
    if (job->root != NULL && job->root->exec_error != 0) return EXIT_USAGE;
    if (job->root != NULL && job->root->code == 0) return EXIT_FAILED;
    if (job->root != NULL) return job->root->signal != 0 ? EXIT_SIGNAL + job->root->signal : job->root->code;
    if (job->stop_signal != 0) return EXIT_SIGNAL + job->stop_signal;
    return job->output_failed ? EXIT_FAILED : EXIT_DONE;
}

/* True once everything is as it was before the first start, but for the number of the generation. */
static bool prepare_restart(struct job *job) {
    if (!may_restart(job)) return false;
    uv_run(&job->loop, UV_RUN_NOWAIT); /* lets go of the pipes' handles */
    while (job->workers.closing > 0) uv_run(&job->loop, UV_RUN_ONCE);
    if (!may_restart(job)) return false; /* a signal came */
    workers_free(&job->workers);
    output_restart(job->output);
    worker_env_restart(job->options->env, ++job->restarts);
    slates_clear(job->options->slates);
    job->root = NULL;
    job->why[0] = '\0';
    job->hearing = job->reported = false;
    job->phase = RUNNING;
    return true;
}

static int run_generations(struct job *job) {
    do {
        if (begin_logs(job) != 0 || start(job) != 0) return job->restarts == 0 ? EXIT_USAGE : EXIT_FAILED;
        uv_run(&job->loop, UV_RUN_DEFAULT);
    } while (prepare_restart(job));
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
    if (job->output != NULL) progress_close(&job->progress);
    for (int i = 0; i < job->n_signals; i++) uv_close((uv_handle_t *)&job->signals[i], NULL);
    if (job->output != NULL) output_close(job->output);
    uv_run(&job->loop, UV_RUN_DEFAULT);
    uv_loop_close(&job->loop);
}

int job_run(const struct job_options *options) {
    struct job job = {.options = options};
    struct output_options output = {
        .n = options->n,
        .highest_rank = options->first_rank + options->n - 1,
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
    }
    close_handles(&job);
    workers_free(&job.workers);
    output_free(job.output);
    return status;
}
