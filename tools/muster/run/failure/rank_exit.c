/* rank_exit.c - formats failure reports. See failure.h. Runs on the loop's thread. */
#include "run/failure/failure.h"

#include "base/buf.h"
#include "os/host.h"

#include <muster/dtype.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SIGNAL_TEXT = 96 };

static const char *signal_text(int signal, char out[SIGNAL_TEXT]) {
    const char *name = sigabbrev_np(signal);
    if (name)
        snprintf(out, SIGNAL_TEXT, "SIG%s (%s)", name, sigdescr_np(signal));
    else
        snprintf(out, SIGNAL_TEXT, "signal %d", signal);
    return out;
}

/* where is "" or "on HOST ". */
static void write_line(const struct worker *worker, const char *where, char *text, size_t size) {
    char ended[SIGNAL_TEXT];
    int n = snprintf(text, size, "rank %d (pid %d) %s", worker->rank, (int)worker->pid, where);
    if (worker->exec_error)
        snprintf(text + n, size - (size_t)n, "could not be started: %s", strerror(worker->exec_error));
    else if (worker->signal)
        snprintf(text + n, size - (size_t)n, "was ended by %s", signal_text(worker->signal, ended));
    else
        snprintf(text + n, size - (size_t)n, "exited with code %d", worker->code);
}

void report_one_line(const struct worker *worker, char *text, size_t size) {
    write_line(worker, "", text, size);
}

/* Where the last lines begin. A first line of which only the end is known is left out. */
static size_t last_lines(const char *tail, size_t len) {
    size_t at = len;
    for (int lines = 0; at > 0; at--)
        if (tail[at - 1] == '\n' && at < len && ++lines == REPORT_LINES) return at;
    if (len < OUTPUT_TAIL) return 0;
    const char *newline = memchr(tail, '\n', len - 1);
    return newline ? (size_t)(newline - tail) + 1 : 0;
}

static void add_lines(struct msi_buf *to, const char *tail, size_t len) {
    size_t at = last_lines(tail, len);
    struct msi_str rest = msi_str(tail + at, len - at), line;
    while (msi_str_line(&rest, &line)) msi_buf_add_format(to, "    | %.*s\n", (int)line.n, line.p);
}

/* "mst_all_reduce #12 of 4 ranks, 1024 f32, at train.c:88 (step)" */
static void add_operation(struct msi_buf *to, const struct rank_state_view *v) {
    msi_buf_add_text(to, v->operation);
    if (v->sequence) msi_buf_add_format(to, " #%llu", (unsigned long long)v->sequence);
    if (v->ranks > 0) msi_buf_add_format(to, " of %d rank%s", v->ranks, v->ranks == 1 ? "" : "s");
    if (v->dtype)
        msi_buf_add_format(to, ", %llu %s", (unsigned long long)v->count,
                           mst_dtype_name((mst_dtype)v->dtype));
    if (v->file[0]) msi_buf_add_format(to, "%s at %s:%d", v->dtype ? "," : "", v->file, v->line);
    if (v->function[0]) msi_buf_add_format(to, " (%s)", v->function);
}

static void add_call(struct msi_buf *to, const struct rank_state_view *v) {
    if (!v->has_call) return;
    msi_buf_add_format(to, "  %s  ", v->under_way ? "in       " : "last call");
    add_operation(to, v);
    msi_buf_add_text(to, "\n");
}

void report_death(const struct worker *worker, const struct rank_state_view *state, char *text, size_t size) {
    struct msi_buf to = {0};
    char line[MSI_HOST_MAX + 256], host[MSI_HOST_MAX], where[MSI_HOST_MAX + 8];
    snprintf(where, sizeof where, "on %s ", msi_host_name(host));
    write_line(worker, where, line, sizeof line);
    msi_buf_add_text(&to, line);
    if (state->has_call) {
        msi_buf_add_text(&to, state->under_way ? ", in " : ", last call ");
        add_operation(&to, state);
    }
    snprintf(text, size, "%s", msi_buf_text(&to));
    msi_buf_free(&to);
}

static void add_error(struct msi_buf *to, const struct rank_state_view *v) {
    if (!v->has_error) return;
    msi_buf_add_format(to, "  error      %s", mst_status_name(v->status));
    if (v->is_earlier && v->error_operation[0]) msi_buf_add_format(to, " in %s", v->error_operation);
    if (v->is_earlier && v->error_sequence)
        msi_buf_add_format(to, " #%llu", (unsigned long long)v->error_sequence);
    msi_buf_add_format(to, ": %s%s%s\n", v->message, v->remedy[0] ? "; " : "", v->remedy);
}

/* The first line follows the label; further lines look like lines of stderr. */
static void add_message(struct msi_buf *to, const char *message) {
    size_t first = strcspn(message, "\n");
    if (!message[0]) return;
    msi_buf_add_format(to, "  message    %.*s\n", (int)first, message);
    if (message[first]) add_lines(to, message + first + 1, strlen(message + first + 1));
}

void report_failure(const struct worker *worker, const char *what_failed, const struct report_more *more,
                    char *text) {
    struct msi_buf to = {0};
    char when[64] = "unknown", host[MSI_HOST_MAX], ended[SIGNAL_TEXT];
    struct tm tm;
    if (localtime_r(&worker->ended.tv_sec, &tm)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S%z", &tm);
    msi_buf_add_format(&to,
                       "muster run: %s failed; root cause:\n"
                       "  time       %s\n"
                       "  host       %s\n"
                       "  rank       %d (local rank %d)\n"
                       "  pid        %d\n",
                       what_failed, when, msi_host_name(host), worker->rank, worker->local_rank,
                       (int)worker->pid);
    if (worker->signal)
        msi_buf_add_format(&to, "  signal     %s%s\n", signal_text(worker->signal, ended),
                           worker->dumped ? ", core dumped" : "");
    else
        msi_buf_add_format(&to, "  exit code  %d\n", worker->code);
    if (more->why[0]) msi_buf_add_format(&to, "  cause      %s\n", more->why);
    add_call(&to, more->state);
    add_error(&to, more->state);
    add_message(&to, more->message);
    if (more->flights) msi_buf_add_format(&to, "  flight recorder: muster report %s\n", more->flights);
    if (more->tail_len > 0) {
        msi_buf_add_text(&to, "  last lines of its stderr:\n");
        add_lines(&to, more->tail, more->tail_len);
    }
    snprintf(text, REPORT_MAX, "%s", msi_buf_text(&to));
    msi_buf_free(&to);
}
