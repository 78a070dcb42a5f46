/* rank_exit.c - the words of a failure report; see rank_exit.h. Formats into the caller's memory, nothing else. */
#include "run/failure/rank_exit.h"

#include "cli/text.h"

#include "os/host.h"

#include <muster/dtype.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static void put_signal(struct text_room *t, int signal) {
    const char *name = sigabbrev_np(signal);

    if (name != NULL)
        text_put(t, "SIG%s (%s)", name, sigdescr_np(signal));
    else
        text_put(t, "signal %d", signal);
}

void report_one_line(const struct worker *worker, char *text, size_t size) {
    struct text_room t = {text, size};

    text_put(&t, "rank %d (pid %d) ", worker->rank, (int)worker->pid);
    if (worker->signal == 0) {
        text_put(&t, "exited with code %d", worker->code);
        return;
    }
    text_put(&t, "was ended by ");
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

static void put_lines(struct text_room *t, const char *tail, size_t len) {
    for (size_t at = last_lines(tail, len); at < len;) {
        const char *newline = memchr(tail + at, '\n', len - at);
        size_t n = newline != NULL ? (size_t)(newline - (tail + at)) : len - at;

        text_put(t, "    | %.*s\n", (int)n, tail + at);
        at += n + 1;
    }
}

/* "mst_all_reduce #12 of 4 ranks, 1024 f32, at train.c:88 (step)" */
static void put_call(struct text_room *t, const struct rank_state_view *v) {
    if (!v->has_call) return;
    text_put(t, "  %s  %s", v->under_way ? "in       " : "last call", v->operation);
    if (v->sequence != 0) text_put(t, " #%llu", (unsigned long long)v->sequence);
    if (v->ranks > 0) text_put(t, " of %d rank%s", v->ranks, v->ranks == 1 ? "" : "s");
    if (v->dtype != 0)
        text_put(t, ", %llu %s,", (unsigned long long)v->count, mst_dtype_name((mst_dtype)v->dtype));
    if (v->file[0] != '\0') text_put(t, " at %s:%d", v->file, v->line);
    if (v->function[0] != '\0') text_put(t, " (%s)", v->function);
    text_put(t, "\n");
}

static void put_error(struct text_room *t, const struct rank_state_view *v) {
    if (!v->has_error) return;
    text_put(t, "  error      %s", mst_status_name(v->status));
    if (v->is_earlier && v->error_operation[0] != '\0') text_put(t, " in %s", v->error_operation);
    if (v->is_earlier && v->error_sequence != 0) text_put(t, " #%llu", (unsigned long long)v->error_sequence);
    text_put(t, ": %s%s%s\n", v->message, v->remedy[0] != '\0' ? "; " : "", v->remedy);
}

/* The first line beside the others, what follows it as lines of the rank. */
static void put_message(struct text_room *t, const char *message) {
    size_t first = strcspn(message, "\n");

    if (message[0] == '\0') return;
    text_put(t, "  message    %.*s\n", (int)first, message);
    if (message[first] == '\n') put_lines(t, message + first + 1, strlen(message + first + 1));
}

void report_failure(const struct worker *worker, const char *what_failed, const struct report_more *more,
                    char *text) {
    struct text_room t = {text, REPORT_MAX};
    char when[64] = "unknown", host[MSI_HOST_MAX];
    struct tm tm;

    if (localtime_r(&worker->ended.tv_sec, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S%z", &tm);
    text_put(&t, "muster run: %s failed; root cause:\n", what_failed);
    text_put(&t, "  time       %s\n", when);
    text_put(&t, "  host       %s\n", msi_host_name(host));
    text_put(&t, "  rank       %d (local rank %d)\n", worker->rank, worker->local_rank);
    text_put(&t, "  pid        %d\n", (int)worker->pid);
    if (worker->signal == 0) {
        text_put(&t, "  exit code  %d\n", worker->code);
    } else {
        text_put(&t, "  signal     ");
        put_signal(&t, worker->signal);
        text_put(&t, "%s\n", worker->dumped ? ", core dumped" : "");
    }
    if (more->why[0] != '\0') text_put(&t, "  cause      %s\n", more->why);
    put_call(&t, more->state);
    put_error(&t, more->state);
    put_message(&t, more->message);
    if (more->flights != NULL) text_put(&t, "  flight recorder: muster report %s\n", more->flights);
    if (more->tail_len == 0) return;
    text_put(&t, "  last lines of its stderr:\n");
    put_lines(&t, more->tail, more->tail_len);
}
