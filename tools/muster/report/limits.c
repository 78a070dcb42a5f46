/*
 * limits.c - reads DIR/limits.json, the output of "muster bench limits --json", and computes lower bounds of
 * the operations (bench/lower_bound.c). It has no figures of a network, so operations between hosts get no
 * bound.
 */
#include "bench/limits.h"
#include "bench/ops/ops.h"
#include "report/report.h"

#include "base/json.h"
#include "os/file.h"

#include <errno.h>
#include <stdlib.h>

static bool read_limit(struct msi_json *in, struct limit *limit) {
    struct msi_json_text key, name = {0};
    int64_t bytes = 0, processes = 0;
    *limit = (struct limit){.kind = LIMIT_KINDS};
    if (msi_json_object(in))
        while (msi_json_key(in, &key)) {
            if (msi_json_is(key, "limit"))
                msi_json_string(in, &name);
            else if (msi_json_is(key, "bytes"))
                msi_json_int(in, &bytes);
            else if (msi_json_is(key, "processes"))
                msi_json_int(in, &processes);
            else if (msi_json_is(key, "value"))
                msi_json_double(in, &limit->value);
            else
                msi_json_skip(in);
        }
    for (int i = 0; i < LIMIT_KINDS && name.p; i++)
        if (msi_json_is(name, limit_names[i])) limit->kind = (enum limit_kind)i;
    if (!msi_json_end(in) || limit->kind == LIMIT_KINDS || bytes < 0 || processes < 1 ||
        processes > LIMITS_PROCESSES_MOST || !(limit->value >= 0))
        return false;
    limit->bytes = (size_t)bytes;
    limit->processes = (int)processes;
    return true;
}

/* False: a line is malformed. */
static bool read_limits(const char *data, size_t len, struct bench_limits *limits) {
    const char *at = data, *end = data + len;
    while (at < end && limits->n < LIMITS_MOST) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        if (stop > at) {
            struct msi_json in = msi_json_of(at, (size_t)(stop - at));
            struct limit *limit = &limits->at[limits->n];
            if (!read_limit(&in, limit)) return false;
            limits->n++;
            if (limit->processes > limits->processors) limits->processors = limit->processes;
        }
        at = stop + 1;
    }
    return limits->n > 0;
}

static bool spans_hosts(const struct report_job *job, const struct report_group *group) {
    uint32_t host = UINT32_MAX;
    for (int i = 0; group->ranks && i < group->size; i++) {
        int at = report_find_rank(job, group->ranks[i]);
        if (at == REPORT_NONE) continue;
        if (host != UINT32_MAX && job->ranks[at]->host != host) return true;
        host = job->ranks[at]->host;
    }
    return false;
}

static void set_limit(struct report_job *job, const struct bench_limits *limits, struct report_operation *o) {
    struct ops_case what = {.ranks = o->size, .hosts = 1, .buffers = OPS_HOT};
    const char *name = report_class_names[o->class];
    if (o->class == MST_KIND_SEND || o->class == MST_KIND_RECV) name = loop_op_names[LOOP_SEND_RECV];
    while (what.op < LOOP_OPS && strcmp(loop_op_names[what.op], name) != 0) what.op++;
    if (what.op == LOOP_OPS || what.ranks < 2) return;
    for (size_t row = o->first; row < o->first + o->n; row++)
        if (job->rows[row].group == REPORT_NONE || spans_hosts(job, &job->groups[job->rows[row].group]))
            return;
    if (what.op == LOOP_SEND_RECV) what.ranks = 2;
    o->limit = 1000 * bench_lower_bound(limits, &what, (size_t)o->bytes);
}

void report_read_limits(struct report_job *job) {
    struct bench_limits *limits = calloc(1, sizeof *limits);
    struct msi_buf data = {0};
    char *path = NULL;
    int error;
    if (!limits || asprintf(&path, "%s/limits.json", job->dir) < 0) {
        path = NULL;
        job->failed = true;
    } else if ((error = msi_file_read(path, REPORT_FILE_MOST, &data)) != 0) {
        if (error != ENOENT) report_warn(job, "%s cannot be read: %s", path, strerror(error));
    } else if (!read_limits((const char *)data.data, data.len, limits)) {
        report_warn(job, "%s is not the output of 'muster bench limits --json'; no limits are shown", path);
    } else {
        for (size_t i = 0; i < job->n_operations; i++) set_limit(job, limits, &job->operations[i]);
    }
    msi_buf_free(&data);
    free(path);
    free(limits);
}
