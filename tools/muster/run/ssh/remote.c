/* remote.c - see remote.h. On SIGCHLD it checks every ssh that runs. */
#include "run/ssh/remote.h"

#include "cli/text.h"
#include "run/ranks/spawn.h"
#include "run/ssh/agent_script.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_AT_ONCE = 64, START_SECONDS = 60 };

static void start_more(struct remote *r);

/* Hands the descriptor to the caller if fd is not NULL, else closes it. */
static void stop_reading(struct remote_host *h, int stream, int *fd) {
    if (h->fds[stream] < 0) return;
    uv_close((uv_handle_t *)&h->polls[stream], NULL);
    if (fd)
        *fd = h->fds[stream];
    else
        close(h->fds[stream]);
    h->fds[stream] = -1;
}

/* Reads more output and keeps its last bytes. Returns how many it read; 0: the end; -1: none, see errno. */
static ssize_t read_early(struct remote_host *h, int stream) {
    char *kept = h->early[stream];
    size_t half = REMOTE_EARLY_MAX / 2, *len = &h->early_len[stream];
    ssize_t n;
    if (h->fds[stream] < 0) return 0;
    if (*len > half) {
        memmove(kept, kept + *len - half, half);
        *len = half;
    }
    do n = read(h->fds[stream], kept + *len, REMOTE_EARLY_MAX - *len);
    while (n < 0 && errno == EINTR);
    if (n > 0) *len += (size_t)n;
    return n;
}

static void pass_on(struct remote_host *h, int stream, struct msi_str data) {
    const struct remote_options *o = &h->all->options;
    int fd = -1;
    stop_reading(h, stream, &fd);
    if (fd < 0) return;
    int rc = output_attach_agent(o->output, h->index, (enum output_stream)stream, fd, data);
    if (rc == 0) return;
    snprintf(h->why, sizeof h->why, "cannot read from host %s: %s", h->name, strerror(-rc));
    spawn_signal(h->pid, SIGKILL);
}

/* The agent runs as soon as its shell has printed the mark; earlier output of login scripts is dropped. */
static void look_for_mark(struct remote_host *h) {
    static const char mark[] = "\n" AGENT_MARK "\n";
    const char *text = h->early[OUTPUT_STDOUT];
    size_t len = h->early_len[OUTPUT_STDOUT];
    const char *found = memmem(text, len, mark, sizeof mark - 1);
    if (!found || h->state != REMOTE_STARTING) return;
    found += sizeof mark - 1;
    h->state = REMOTE_SERVING;
    h->served = true;
    h->all->starting--;
    uv_timer_stop(&h->timeout);
    pass_on(h, OUTPUT_STDOUT, msi_str(found, (size_t)(text + len - found)));
    pass_on(h, OUTPUT_STDERR, msi_str(h->early[OUTPUT_STDERR], h->early_len[OUTPUT_STDERR]));
    start_more(h->all);
}

static void on_early(uv_poll_t *poll, int status, int events) {
    struct remote_host *h = poll->data;
    int stream = poll == &h->polls[OUTPUT_STDERR] ? OUTPUT_STDERR : OUTPUT_STDOUT;
    ssize_t n = status == 0 ? read_early(h, stream) : 0;
    (void)events;
    if (n == 0 || (n < 0 && errno != EAGAIN)) uv_poll_stop(poll);
    if (stream == OUTPUT_STDOUT) look_for_mark(h);
}

/* The last line that is not blank, made harmless to a terminal. */
static void last_line(const struct remote_host *h, char *line, size_t size) {
    const char *text = h->early[OUTPUT_STDERR];
    size_t end = h->early_len[OUTPUT_STDERR];
    while (end > 0 && strchr("\r\n \t", text[end - 1])) end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n') begin--;
    msi_str_copy(msi_str(text + begin, end - begin), line, size);
    text_clean(line, false);
}

/* Every process that could not exec writes to this pipe. */
static void collect_exec_errors(const struct remote *r) {
    struct spawn_error e;
    while (read(r->exec_errors[0], &e, sizeof e) == (ssize_t)sizeof e)
        if (e.index >= 0 && e.index < r->options.n) r->hosts[e.index].exec_error = e.error;
}

static void explain(struct remote_host *h) {
    char line[300];
    const char *program = h->all->options.program, *remedy = "";
    if (h->why[0]) return;
    if (h->code == 127) collect_exec_errors(h->all);
    last_line(h, line, sizeof line);
    if (strstr(line, "Host key verification") || strstr(line, "Permission denied"))
        remedy = "; set up a login without prompts, for example with an ssh key";
    if (h->exec_error)
        snprintf(line, sizeof line, "cannot run %s: %s", program ? program : "/bin/sh",
                 strerror(h->exec_error));
    else if (!line[0] && h->code < 0)
        snprintf(line, sizeof line, "a signal ended ssh");
    else if (!line[0])
        snprintf(line, sizeof line, "ssh exited with code %d and printed nothing", h->code);
    snprintf(h->why, sizeof h->why, "cannot start on host %s: %s%s", h->name, line, remedy);
}

static void ended(struct remote_host *h, int code) {
    struct remote *r = h->all;
    h->code = code;
    if (h->state == REMOTE_STARTING) {
        while (read_early(h, OUTPUT_STDERR) > 0) continue;
        bool more = true;
        while (more && h->state == REMOTE_STARTING) {
            more = read_early(h, OUTPUT_STDOUT) > 0;
            look_for_mark(h);
        }
    }
    if (h->state == REMOTE_STARTING) {
        r->starting--;
        explain(h);
    }
    h->state = REMOTE_ENDED;
    uv_timer_stop(&h->timeout);
    for (int i = 0; i < OUTPUT_STREAMS; i++) stop_reading(h, i, NULL);
    if (h->feeder > 0) kill(h->feeder, SIGKILL);
    r->left--;
    r->options.on_end(h, r->options.arg);
}

/* Does not reap: until remote_end the pid cannot be reused. */
static void check_exit(struct remote_host *h) {
    siginfo_t info;
    if (h->pid == 0 || (h->state != REMOTE_STARTING && h->state != REMOTE_SERVING)) return;
    if (spawn_has_exited(h->pid, &info)) ended(h, info.si_code == CLD_EXITED ? info.si_status : -1);
}

static void on_child_signal(uv_signal_t *handle, int signal) {
    struct remote *r = handle->data;
    (void)signal;
    for (int i = 0; i < r->options.n; i++) check_exit(&r->hosts[i]);
    start_more(r);
}

static void on_timeout(uv_timer_t *timer) {
    struct remote_host *h = timer->data;
    if (!h->why[0])
        snprintf(h->why, sizeof h->why, "cannot start on host %s: it did not answer within %d s", h->name,
                 START_SECONDS);
    spawn_signal(h->pid, SIGKILL);
}

static int start_reading(struct remote_host *h, int stream, int fd) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    int rc = uv_poll_init(h->all->options.loop, &h->polls[stream], fd);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    h->fds[stream] = fd;
    h->polls[stream].data = h;
    return uv_poll_start(&h->polls[stream], UV_READABLE, on_early);
}

static int start_one(struct remote_host *h) {
    struct remote *r = h->all;
    int out[2], err[2];
    int rc = spawn_open_pipes(out, err);
    if (rc != 0) return rc;
    rc = remote_ssh_start(h, r->exec_errors[1], out[1], err[1]);
    close(out[1]);
    close(err[1]);
    int read_out = start_reading(h, OUTPUT_STDOUT, out[0]),
        read_err = start_reading(h, OUTPUT_STDERR, err[0]);
    if (rc == 0) rc = read_out != 0 ? read_out : read_err;
    return rc;
}

/* A host whose ssh cannot be started ends like one whose ssh failed. */
static void start_more(struct remote *r) {
    while (r->next < r->options.n && r->starting < START_AT_ONCE) {
        struct remote_host *h = &r->hosts[r->next++];
        h->state = REMOTE_STARTING;
        r->starting++;
        int rc = start_one(h);
        if (rc == 0) {
            uv_timer_start(&h->timeout, on_timeout, START_SECONDS * 1000, 0);
            continue;
        }
        snprintf(h->why, sizeof h->why, "cannot start on host %s: %s; check the limits with 'ulimit -a'",
                 h->name, strerror(-rc));
        if (h->pid > 0)
            spawn_signal(h->pid, SIGKILL);
        else
            ended(h, -1);
    }
}

static void begin(uv_timer_t *timer) {
    struct remote_host *first = timer->data;
    start_more(first->all);
}

int remote_start(struct remote *r, const struct remote_options *options) {
    *r = (struct remote){.options = *options, .left = options->n, .exec_errors = {-1, -1}};
    r->hosts = calloc((size_t)options->n, sizeof r->hosts[0]);
    if (!r->hosts) return -ENOMEM;
    if (pipe2(r->exec_errors, O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
    for (int i = 0; i < options->n; i++) {
        struct remote_host *h = &r->hosts[i];
        h->all = r;
        h->index = i;
        h->name = options->agents[i].host;
        h->fds[OUTPUT_STDOUT] = h->fds[OUTPUT_STDERR] = -1;
        uv_timer_init(options->loop, &h->timeout);
        h->timeout.data = h;
    }
    int rc = uv_signal_init(options->loop, &r->child_signal);
    if (rc != 0) return rc;
    r->child_signal.data = r;
    r->watching = true;
    rc = uv_signal_start(&r->child_signal, on_child_signal, SIGCHLD);
    if (rc != 0) return rc;
    return uv_timer_start(&r->hosts[0].timeout, begin, 0, 0); /* on_end must be called from the loop */
}

void remote_kill(struct remote *r, bool serving) {
    for (; r->next < r->options.n; r->next++) {
        r->hosts[r->next].state = REMOTE_ENDED;
        r->left--;
    }
    for (int i = 0; i < r->options.n; i++) {
        const struct remote_host *h = &r->hosts[i];
        bool runs = h->state == REMOTE_STARTING || (serving && h->state == REMOTE_SERVING);
        if (h->pid > 0 && runs) spawn_signal(h->pid, SIGKILL);
    }
}

static void end_host(struct remote_host *h) {
    struct remote *r = h->all;
    for (int i = 0; i < OUTPUT_STREAMS; i++) stop_reading(h, i, NULL);
    uv_close((uv_handle_t *)&h->timeout, NULL);
    if (h->feeder > 0) kill(h->feeder, SIGKILL);
    if (h->pid > 0) spawn_signal(h->pid, SIGKILL);
    while (h->feeder > 0 && waitpid(h->feeder, NULL, 0) < 0 && errno == EINTR) continue;
    if (h->pid > 0) spawn_reap(h->pid, &r->options.groups[h->index]);
}

void remote_end(struct remote *r) {
    if (!r->hosts) return;
    for (int i = 0; i < r->options.n; i++)
        if (r->hosts[i].all) end_host(&r->hosts[i]);
    if (r->watching) uv_close((uv_handle_t *)&r->child_signal, NULL);
    for (int i = 0; i < 2; i++)
        if (r->exec_errors[i] >= 0) close(r->exec_errors[i]);
}

void remote_free(struct remote *r) {
    free(r->hosts);
}
