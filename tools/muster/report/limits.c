/*
 * limits.c - reads DIR/limits.json, the output of "muster bench limits --json", and computes lower bounds of
 * the operations (bench/lower_bound.c). It has no figures of a network, so operations between hosts get no
 * bound.
 */
#include "bench/limits.h"
#include "bench/ops/ops.h"
#include "report/fields.h"
#include "report/report.h"

#include <errno.h>
#include <stdlib.h>

struct limit_fields {
    struct msi_json_text name;
    int64_t bytes, processes;
    double value;
};

#define AT(member) offsetof(struct limit_fields, member)
static const struct report_field limit_fields[] = {
    REPORT_FIELD("limit", TEXT, AT(name), 0, 0),
    REPORT_FIELD("bytes", NUMBER, AT(bytes), 0, INT64_MAX),
    REPORT_FIELD("processes", NUMBER, AT(processes), 1, LIMITS_PROCESSES_MOST),
    REPORT_FIELD("value", DOUBLE, AT(value), 0, 0),
    {0},
};

/* Adds the limit of a line; false if the line is malformed. */
static bool read_limit(struct msi_str text, struct bench_limits *limits) {
    struct limit_fields found = {0};
    struct msi_json in = msi_json_of(text.p, text.n);
    report_read_object(&in, limit_fields, &found);
    int kind = 0;
    while (kind < LIMIT_KINDS && !msi_json_is(found.name, limit_names[kind])) kind++;
    if (!msi_json_end(&in) || kind == LIMIT_KINDS || found.processes == 0 || !(found.value >= 0))
        return false;
    limits->at[limits->n++] = (struct limit){.kind = (enum limit_kind)kind,
                                             .processes = (int)found.processes,
                                             .bytes = (size_t)found.bytes,
                                             .value = found.value};
    if (found.processes > limits->processors) limits->processors = (int)found.processes;
    return true;
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
    struct ops_case what = {.ranks = o->row.size, .hosts = 1, .buffers = OPS_HOT};
    const char *name = report_class_names[o->row.class];
    if (o->row.class == MST_KIND_SEND || o->row.class == MST_KIND_RECV) name = loop_op_names[LOOP_SEND_RECV];
    while (what.op < LOOP_OPS && strcmp(loop_op_names[what.op], name) != 0) what.op++;
    if (what.op == LOOP_OPS || what.ranks < 2) return;
    for (size_t row = o->first; row < o->first + o->n; row++)
        if (job->rows[row].group == REPORT_NONE || spans_hosts(job, &job->groups[job->rows[row].group]))
            return;
    if (what.op == LOOP_SEND_RECV) what.ranks = 2;
    o->limit = 1000 * bench_lower_bound(limits, &what, (size_t)o->row.bytes);
}

void report_read_limits(struct report_job *job) {
    struct bench_limits *limits = report_alloc(1, sizeof *limits);
    char *path = report_format("%s/limits.json", job->dir);
    struct report_lines in;
    struct msi_str text;
    bool good = true;
    report_lines_open(&in, path);
    while (good && limits->n < LIMITS_MOST && report_next_line(&in, &text)) good = read_limit(text, limits);
    int error = report_lines_close(&in);
    if (error != 0 && error != ENOENT)
        report_warn(job, "%s cannot be read: %s", path, strerror(error));
    else if (error == 0 && (!good || limits->n == 0))
        report_warn(job, "%s is not the output of 'muster bench limits --json'; no limits are shown", path);
    for (size_t i = 0; i < job->n_operations && good && limits->n > 0; i++)
        set_limit(job, limits, &job->operations[i]);
    free(path);
    free(limits);
}
