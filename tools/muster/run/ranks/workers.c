/*
 * workers.c - starts, watches and ends the workers. See workers.h.
 *
 * Exits are noticed through one pidfd per worker. Their events arrive in the order in which the workers died,
 * so the first failure is known for certain. On kernels without pidfds, SIGCHLD and a look at every worker
 * serve instead.
 */
#include "run/ranks/workers.h"

#include "run/ranks/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void collect_exec_errors(struct workers *w) {
    struct spawn_error e;
    while (read(w->exec_errors[0], &e, sizeof e) == (ssize_t)sizeof e)
        if (e.index >= 0 && e.index < w->started) w->list[e.index].exec_error = e.error;
}

static void on_closed(uv_handle_t *handle) {
    struct workers *w = handle->data;
    w->closing--;
}

static void close_handle(struct workers *w, uv_handle_t *handle) {
    handle->data = w;
    w->closing++;
    uv_close(handle, on_closed);
}

static void stop_watching(struct worker *worker) {
    if (worker->pidfd < 0) return;
    close_handle(worker->all, (uv_handle_t *)&worker->exit_poll);
    close(worker->pidfd);
    worker->pidfd = -1;
}

/* Checks whether the worker has exited, without reaping it. */
static void check_exit(struct worker *worker) {
    struct workers *w = worker->all;
    siginfo_t info;
    if (!worker->running || !spawn_has_exited(worker->pid, &info)) return;
    worker->running = false;
    w->running--;
    clock_gettime(CLOCK_REALTIME, &worker->ended);
    worker->code = info.si_code == CLD_EXITED ? info.si_status : -1;
    worker->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    worker->dumped = info.si_code == CLD_DUMPED;
    stop_watching(worker);
    if (worker->code > 0) collect_exec_errors(w);
    w->options.on_exit(worker, w->options.arg);
}

static void on_pidfd(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    check_exit(poll->data);
}

static void on_child_signal(uv_signal_t *handle, int signal) {
    struct workers *w = handle->data;
    (void)signal;
    for (int i = 0; i < w->started; i++) check_exit(&w->list[i]);
}

static int watch_child_signal(struct workers *w) {
    if (w->uses_child_signal) return 0;
    int rc = uv_signal_init(w->options.loop, &w->child_signal);
    if (rc != 0) return rc;
    w->child_signal.data = w;
    w->uses_child_signal = true;
    return uv_signal_start(&w->child_signal, on_child_signal, SIGCHLD);
}

static int watch(struct worker *worker) {
    worker->pidfd = (int)syscall(SYS_pidfd_open, worker->pid, 0);
    if (worker->pidfd < 0) return watch_child_signal(worker->all);
    fcntl(worker->pidfd, F_SETFD, FD_CLOEXEC);
    int rc = uv_poll_init(worker->all->options.loop, &worker->exit_poll, worker->pidfd);
    if (rc != 0) {
        close(worker->pidfd);
        worker->pidfd = -1;
        return rc;
    }
    worker->exit_poll.data = worker;
    return uv_poll_start(&worker->exit_poll, UV_READABLE, on_pidfd);
}

/* Attaches the read ends to the output, or closes them if the worker was not started. */
static int settle_pipes(struct worker *worker, int pipes[OUTPUT_STREAMS][2], bool started) {
    int rc = 0;
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        close(pipes[i][1]);
        if (!started) {
            close(pipes[i][0]);
            continue;
        }
        int attached = output_attach(worker->all->options.output, worker->local_rank, worker->rank,
                                     (enum output_stream)i, pipes[i][0]);
        if (rc == 0) rc = attached;
    }
    return rc;
}

static int start_one(struct workers *w, struct worker *worker, int stdin_fd) {
    const struct workers_options *o = &w->options;
    int pipes[OUTPUT_STREAMS][2] = {{-1, STDOUT_FILENO}, {-1, STDERR_FILENO}};
    int rc = o->output ? spawn_open_pipes(pipes[OUTPUT_STDOUT], pipes[OUTPUT_STDERR]) : 0;
    if (rc != 0) return rc;
    struct spawn spawn = {
        .program = o->program,
        .argv = o->argv,
        .envp = worker_env_of(o->env, worker->rank, worker->local_rank, worker->joins),
        .index = worker->local_rank,
        .files = {stdin_fd, pipes[OUTPUT_STDOUT][1], pipes[OUTPUT_STDERR][1]},
        .error_fd = w->exec_errors[1],
        .open_files = o->files,
        .group = &o->reaper->groups[worker->local_rank],
        .cpus = bind_of(o->bind, worker->local_rank),
        .cpus_size = o->bind->set_size,
    };
    pid_t pid = spawn_worker(&spawn);
    if (pid > 0) {
        worker->pid = pid;
        worker->running = true;
        w->running++;
    }
    if (o->output) rc = settle_pipes(worker, pipes, pid > 0);
    if (pid < 0) return pid;
    return rc != 0 ? rc : watch(worker);
}

/* Rank 0 inherits the launcher's stdin, unless that is a terminal and the launcher runs in the background. */
static int stdin_of(int rank, int null) {
    if (rank != 0) return null;
    if (isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) != getpgrp()) return null;
    return STDIN_FILENO;
}

static int open_null(void) {
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int start_all(struct workers *w, int *failed) {
    int null = open_null();
    int rc = null < 0 ? -errno : 0;
    for (int i = 0; i < w->options.n && rc == 0; i++) {
        struct worker *worker = &w->list[i];
        *failed = w->options.first_rank + i;
        *worker = (struct worker){.all = w, .rank = *failed, .local_rank = i, .pidfd = -1};
        rc = start_one(w, worker, stdin_of(worker->rank, null));
        w->started += worker->pid > 0;
    }
    if (null >= 0) close(null);
    return rc;
}

int workers_start(struct workers *w, const struct workers_options *options, int *failed) {
    *w = (struct workers){.options = *options, .exec_errors = {-1, -1}};
    *failed = options->first_rank;
    w->list = calloc((size_t)options->n, sizeof w->list[0]);
    if (!w->list) return -ENOMEM;
    int rc = pipe2(w->exec_errors, O_CLOEXEC | O_NONBLOCK) != 0 ? -errno : 0;
    if (rc == 0) rc = start_all(w, failed);
    if (rc != 0) workers_end(w);
    if (rc != 0 && options->output) output_detach(options->output);
    return rc;
}

/* Kills and reaps a worker's process group, if it has one. */
static void end_one(struct worker *worker) {
    stop_watching(worker);
    if (worker->pid <= 0) return;
    spawn_signal(worker->pid, SIGKILL);
    spawn_reap(worker->pid, &worker->all->options.reaper->groups[worker->local_rank]);
}

void workers_replace(struct worker *worker, struct worker_env *env, bool joins) {
    struct workers *w = worker->all;
    struct timespec ended = worker->ended;
    end_one(worker);
    *worker = (struct worker){.all = w,
                              .rank = worker->rank,
                              .local_rank = worker->local_rank,
                              .pidfd = -1,
                              .replacement = true,
                              .joins = joins,
                              .ended = ended};
    w->options.env = env;
    int null = open_null(), rc = null < 0 ? -errno : start_one(w, worker, stdin_of(worker->rank, null));
    if (null >= 0) close(null);
    if (rc == 0) return;
    w->running -= worker->running;
    end_one(worker);
    worker->pid = 0;
    worker->running = false;
    worker->code = -1;
    worker->exec_error = -rc;
}

void workers_signal(struct workers *w, int signal) {
    for (int i = 0; i < w->started; i++)
        if (w->list[i].pid > 0) spawn_signal(w->list[i].pid, signal);
}

void workers_end(struct workers *w) {
    workers_signal(w, SIGKILL);
    for (int i = 0; i < w->started; i++) end_one(&w->list[i]);
    w->started = w->running = 0;
    if (w->uses_child_signal) close_handle(w, (uv_handle_t *)&w->child_signal);
    w->uses_child_signal = false;
    for (int i = 0; i < 2; i++) {
        if (w->exec_errors[i] >= 0) close(w->exec_errors[i]);
        w->exec_errors[i] = -1;
    }
}

void workers_free(struct workers *w) {
    free(w->list);
    w->list = NULL;
}
