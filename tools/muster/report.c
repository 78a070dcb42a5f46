/* report.c - the words of a failure report; see report.h. Formats into the caller's memory, nothing else. */
#include "report.h"

#include <muster/dtype.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...) {
    va_list args;

    va_start(args, format);
    int n = vsnprintf(t->at, t->left, format, args);
    va_end(args);
    if (n < 0) return;
    size_t used = (size_t)n < t->left ? (size_t)n : t->left - 1;
    t->at += used;
    t->left -= used;
}

static void put_signal(struct text *t, int signal) {
    const char *name = sigabbrev_np(signal);

    if (name != NULL)
        put(t, "SIG%s (%s)", name, sigdescr_np(signal));
    else
        put(t, "signal %d", signal);
}

void report_one_line(const struct worker *worker, char *text, size_t size) {
    struct text t = {text, size};

    put(&t, "rank %d (pid %d) ", worker->rank, (int)worker->pid);
    if (worker->signal == 0) {
        put(&t, "exited with code %d", worker->code);
        return;
    }
    put(&t, "was ended by ");
    put_signal(&t, worker->signal);
}

/* Where the last lines begin; a line of which only the end is known is left out. */
static size_t last_lines(const char *tail, size_t len) {
    size_t at = len;

    for (int lines = 0; at > 0; at--)
        if (tail[at - 1] == '\n' && at < len && ++lines == REPORT_LINES) return at;
    if (len < OUTPUT_TAIL) return 0;
    const char *newline = memchr(tail, '\n', len - 1);
    return newline != NULL ? (size_t)(newline - tail) + 1 : 0;
}

static void put_lines(struct text *t, const char *tail, size_t len) {
    for (size_t at = last_lines(tail, len); at < len;) {
        const char *newline = memchr(tail + at, '\n', len - at);
        size_t n = newline != NULL ? (size_t)(newline - (tail + at)) : len - at;

        put(t, "    | %.*s\n", (int)n, tail + at);
        at += n + 1;
    }
}

/* "mst_all_reduce #12 of 4 ranks, 1024 f32, at train.c:88 (step)" */
static void put_call(struct text *t, const struct slate_view *v) {
    if (!v->has_call) return;
    put(t, "  %s  %s", v->under_way ? "in       " : "last call", v->operation);
    if (v->sequence != 0) put(t, " #%llu", (unsigned long long)v->sequence);
    if (v->ranks > 0) put(t, " of %d rank%s", v->ranks, v->ranks == 1 ? "" : "s");
    if (v->dtype != 0)
        put(t, ", %llu %s,", (unsigned long long)v->count, mst_dtype_name((mst_dtype)v->dtype));
    if (v->file[0] != '\0') put(t, " at %s:%d", v->file, v->line);
    if (v->function[0] != '\0') put(t, " (%s)", v->function);
    put(t, "\n");
}

static void put_error(struct text *t, const struct slate_view *v) {
    if (!v->has_error) return;
    put(t, "  error      %s", mst_status_name(v->status));
    if (v->is_earlier && v->error_operation[0] != '\0') put(t, " in %s", v->error_operation);
    if (v->is_earlier && v->error_sequence != 0) put(t, " #%llu", (unsigned long long)v->error_sequence);
    put(t, ": %s%s%s\n", v->message, v->remedy[0] != '\0' ? "; " : "", v->remedy);
}

/* The first line beside the others, what follows it as lines of the rank. */
static void put_message(struct text *t, const char *message) {
    size_t first = strcspn(message, "\n");

    if (message[0] == '\0') return;
    put(t, "  message    %.*s\n", (int)first, message);
    if (message[first] == '\n') put_lines(t, message + first + 1, strlen(message + first + 1));
}

void report_failure(const struct worker *worker, const char *what_failed, const struct report_more *more,
                    char *text) {
    struct text t = {text, REPORT_MAX};
    char when[64] = "unknown", host[256] = "unknown";
    struct tm tm;

    if (localtime_r(&worker->ended.tv_sec, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S%z", &tm);
    gethostname(host, sizeof host - 1);
    put(&t, "muster run: %s failed; root cause:\n", what_failed);
    put(&t, "  time       %s\n", when);
    put(&t, "  host       %s\n", host);
    put(&t, "  rank       %d (local rank %d)\n", worker->rank, worker->local_rank);
    put(&t, "  pid        %d\n", (int)worker->pid);
    if (worker->signal == 0) {
        put(&t, "  exit code  %d\n", worker->code);
    } else {
        put(&t, "  signal     ");
        put_signal(&t, worker->signal);
        put(&t, "%s\n", worker->dumped ? ", core dumped" : "");
    }
    if (more->why[0] != '\0') put(&t, "  cause      %s\n", more->why);
    put_call(&t, more->slate);
    put_error(&t, more->slate);
    put_message(&t, more->message);
    if (more->tail_len == 0) return;
    put(&t, "  last lines of its stderr:\n");
    put_lines(&t, more->tail, more->tail_len);
}
