/*
 * summary.c - writes the figures of a job as JSON, for the page and for other programs. Times are
 * microseconds.
 */
#include "report/flight.h"
#include "report/report.h"

#include "base/json.h"

#include <muster/dtype.h>
#include <muster/version.h>
#include <stdlib.h>

static void put_us(struct msi_json_out *out, const char *key, int64_t ns) {
    msi_json_member_scaled(out, key, ns, 3);
}

/* A member of a struct, as a column of a table. */
struct column {
    const char *name;
    enum { INT32, INT64, US, MEAN_US, GBPS } type; /* US: ns, written as us; MEAN_US: the same, a double */
    size_t offset;
};

static void put_value(struct msi_json_out *out, const struct column *c, const void *object) {
    const void *at = (const char *)object + c->offset;
    if (c->type == INT32)
        msi_json_put_int(out, *(const int32_t *)at);
    else if (c->type == INT64)
        msi_json_put_int(out, *(const int64_t *)at);
    else if (c->type == US)
        msi_json_put_scaled(out, *(const int64_t *)at, 3);
    else if (c->type == MEAN_US)
        msi_json_put_double(out, *(const double *)at / 1000, 3);
    else
        msi_json_put_double(out, *(const double *)at, 6);
}

/* Writes an array of n structs of that size as a table. The last column has no name. */
static void put_table(struct msi_json_out *out, const char *key, const struct column *columns,
                      const void *rows, size_t n, size_t size) {
    msi_json_member_object(out, key);
    msi_json_member_array(out, "columns");
    for (const struct column *c = columns; c->name; c++) msi_json_put_string(out, c->name);
    msi_json_put_array_end(out);
    msi_json_member_array(out, "rows");
    for (size_t i = 0; i < n; i++) {
        msi_json_put_array(out);
        for (const struct column *c = columns; c->name; c++) put_value(out, c, (const char *)rows + i * size);
        msi_json_put_array_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static void put_rank(const struct report_job *job, const struct report_rank *r, struct msi_json_out *out) {
    msi_json_put_object(out);
    msi_json_member_int(out, "rank", r->rank);
    msi_json_member_string(out, "host", report_string(job, r->host));
    msi_json_member_int(out, "pid", r->pid == REPORT_UNKNOWN ? 0 : r->pid);
    msi_json_member_int(out, "events", (int64_t)r->n);
    msi_json_member_int(out, "dropped", r->dropped);
    msi_json_member_int(out, "malformed", r->malformed);
    msi_json_member_bool(out, "ended", r->ended);
    put_us(out, "duration_us", r->times.run_ns);
    put_us(out, "communication_us", r->times.comm_ns);
    msi_json_member_double(out, "share", msi_run_share(&r->times, r->times.comm_ns), 6);
    put_us(out, "waiting_us", r->times.waiting_ns);
    put_us(out, "transfer_us", r->times.comm_ns - r->times.waiting_ns);
    put_us(out, "waited_for_us", r->times.waited_for_ns);
    put_us(out, "clock_error_us", r->clock_error);
    msi_json_put_object_end(out);
}

static void put_head(const struct report_job *job, struct msi_json_out *out) {
    int64_t dropped = 0, error = 0;
    uint32_t program = 0;
    for (int i = 0; i < job->n_ranks; i++) {
        const struct report_rank *r = job->ranks[i];
        dropped += r->dropped;
        if (r->clock_error > error) error = r->clock_error;
        if (program == 0) program = r->program;
    }
    msi_json_member_array(out, "hosts");
    for (uint32_t i = 0; i < job->hosts.n; i++)
        msi_json_put_string(out, report_string(job, *(const uint32_t *)msi_table_key(&job->hosts, i)));
    msi_json_put_array_end(out);
    msi_json_member_string(out, "program", report_string(job, program));
    msi_json_member_int(out, "events", job->n_events);
    msi_json_member_int(out, "dropped", dropped);
    put_us(out, "begin_us", job->begin);
    put_us(out, "duration_us", job->n_ranks > 0 ? job->end - job->begin : 0);
    put_us(out, "clock_error_us", error);
    msi_json_member_array(out, "warnings");
    for (int i = 0; i < job->n_warnings; i++) msi_json_put_string(out, job->warnings[i]);
    msi_json_put_array_end(out);
    msi_json_member_object(out, "pairs");
    msi_json_member_int(out, "collectives", job->collectives);
    msi_json_member_int(out, "collectives_complete", job->collectives_complete);
    msi_json_member_int(out, "messages", job->messages);
    msi_json_member_int(out, "messages_complete", job->messages_complete);
    msi_json_put_object_end(out);
}

static void put_groups(const struct report_job *job, struct msi_json_out *out) {
    msi_json_member_array(out, "groups");
    for (size_t i = 0; i < job->n_groups; i++) {
        const struct report_group *g = &job->groups[i];
        msi_json_put_object(out);
        msi_json_member_string(out, "name", report_string(job, g->name));
        msi_json_member_int(out, "size", g->size);
        msi_json_member_array(out, "ranks");
        for (int k = 0; g->ranks && k < g->size; k++) msi_json_put_int(out, g->ranks[k]);
        msi_json_put_array_end(out);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
}

#define AT(member) offsetof(struct report_cell, member)
static const struct column cell_columns[] = {
    {"operation", INT32, AT(operation)},
    {"group", INT32, AT(group)},
    {"rank", INT32, AT(rank)},
    {"count", INT64, AT(figures.count)},
    {"failed", INT64, AT(figures.failed)},
    {"communication_us", US, AT(figures.comm)},
    {"waiting_us", US, AT(figures.waiting)},
    {"total_us", US, AT(figures.total)},
    {"avg_us", MEAN_US, AT(figures.average)},
    {"tput_gbps", GBPS, AT(figures.algbw)},
    {"busbw_gbps", GBPS, AT(figures.busbw)},
    {"free_tput_gbps", GBPS, AT(figures.free_algbw)},
    {0},
};
#undef AT
enum { FIRST_FIGURE = 3 };

static void put_operation(const struct report_job *job, const struct report_operation *o,
                          struct msi_json_out *out) {
    const struct report_cell all = {.figures = o->figures};
    msi_json_put_object(out);
    msi_json_member_string(out, "name", report_string(job, o->row.name));
    msi_json_member_string(out, "call", report_string(job, o->row.call));
    msi_json_member_string(out, "class", report_class_names[o->row.class]);
    msi_json_member_int(out, "bytes", o->row.bytes);
    msi_json_member_bool(out, "up_to", o->row.up_to != 0);
    msi_json_member_int(out, "size", o->row.size);
    msi_json_member_array(out, "groups");
    for (size_t row = o->first; row < o->first + o->n; row++) msi_json_put_int(out, job->rows[row].group);
    msi_json_put_array_end(out);
    for (const struct column *c = cell_columns + FIRST_FIGURE; c->name; c++) {
        msi_json_put_key(out, c->name);
        put_value(out, c, &all);
    }
    msi_json_member_double(out, "bus_factor", report_bus_factor(o->row.class, o->row.size), 9);
    if (o->limit > 0) msi_json_member_double(out, "limit_us", o->limit / 1000, 3);
    msi_json_put_object_end(out);
}

static void put_sites(const struct report_job *job, struct msi_json_out *out) {
#define AT(member) offsetof(struct report_site_cell, member)
    static const struct column columns[] = {
        {"site", INT32, AT(site)},
        {"rank", INT32, AT(rank)},
        {"count", INT64, AT(count)},
        {"communication_us", US, AT(comm)},
        {"waiting_us", US, AT(waiting)},
        {"failed", INT64, AT(failed)},
        {0},
    };
#undef AT
    msi_json_member_array(out, "sites");
    for (uint32_t i = 0; i < job->sites.n; i++) {
        const struct report_site *s = msi_table_key(&job->sites, i);
        msi_json_put_object(out);
        msi_json_member_string(out, "site", report_string(job, s->site));
        msi_json_member_string(out, "function", report_string(job, s->function));
        msi_json_member_string(out, "name", report_string(job, s->name));
        msi_json_member_string(out, "call", report_string(job, s->call));
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    put_table(out, "site_cells", columns, job->site_cells, job->n_site_cells, sizeof *job->site_cells);
}

static void put_waits(const struct report_job *job, struct msi_json_out *out) {
#define AT(member) offsetof(struct report_wait, member)
    static const struct column columns[] = {
        {"rank", INT32, AT(rank)},
        {"for", INT32, AT(late)},
        {"us", US, AT(ns)},
        {"times", INT64, AT(times)},
        {0},
    };
#undef AT
    put_table(out, "waits", columns, job->waits, job->n_waits, sizeof *job->waits);
    msi_json_member_object(out, "windows");
    msi_json_member_int(out, "n", REPORT_WINDOWS);
    msi_json_member_array(out, "waited_for_us");
    for (int i = 0; i < job->n_ranks; i++) {
        msi_json_put_array(out);
        for (int k = 0; k < REPORT_WINDOWS; k++) msi_json_put_scaled(out, job->ranks[i]->windows[k], 3);
        msi_json_put_array_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static void put_call(const struct flight *flight, const char *key, const struct msi_flight_op *op,
                     struct msi_json_out *out) {
    msi_json_put_key(out, key);
    if (!op) {
        msi_json_put_null(out);
        return;
    }
    msi_json_put_object(out);
    msi_json_member_string(out, "name", op->name);
    msi_json_member_string(out, "group", flight->groups[op->group].name);
    if (op->seq != MSI_FLIGHT_NO_NUMBER) msi_json_member_int(out, "seq", (int64_t)op->seq);
    msi_json_member_string(out, "state", report_flight_state(op));
    msi_json_member_string(out, "site", op->site);
    msi_json_member_string(out, "function", op->function);
    if (msi_flight_is_message(op)) {
        msi_json_member_int(out, "peer", op->peer);
        msi_json_member_int(out, "tag", op->tag);
        msi_json_member_string(out, "dir", op->type == MSI_FLIGHT_SEND ? "send" : "recv");
    }
    msi_json_member_int(out, "count", (int64_t)op->count);
    msi_json_member_string(out, "dtype", op->dtype ? mst_dtype_name((mst_dtype)op->dtype) : "");
    if (op->begin != MSI_FLIGHT_UNKNOWN) put_us(out, "begin_us", op->begin);
    if (op->end != MSI_FLIGHT_UNKNOWN) put_us(out, "end_us", op->end);
    msi_json_put_object_end(out);
}

static void put_failure(const struct report_job *job, struct msi_json_out *out) {
    static const char *const kinds[MSI_DIAGNOSIS_KINDS] = {
        [MSI_DIAGNOSIS_NONE] = "none",         [MSI_DIAGNOSIS_BEHIND] = "behind",
        [MSI_DIAGNOSIS_MISSING] = "missing",   [MSI_DIAGNOSIS_LOST] = "lost",
        [MSI_DIAGNOSIS_CIRCLE] = "circle",     [MSI_DIAGNOSIS_DIFFERENT] = "different",
        [MSI_DIAGNOSIS_TOGETHER] = "together",
    };
    const struct report_flights *f = job->flights;
    const struct msi_diagnosis *first = f ? &f->diagnoses.of[0] : NULL;
    msi_json_put_key(out, "failure");
    if (!report_flights_any(job)) {
        msi_json_put_null(out);
        return;
    }
    msi_json_put_object(out);
    msi_json_member_string(out, "kind", kinds[first->kind]);
    msi_json_member_string(out, "diagnosis", (const char *)f->text.data);
    msi_json_member_int(out, "size", f->size);
    msi_json_member_array(out, "blamed");
    for (int i = 0; i < first->n_blamed; i++) msi_json_put_int(out, first->blamed[i]);
    msi_json_put_array_end(out);
    msi_json_member_array(out, "ranks");
    for (int i = 0; i < f->n; i++) {
        const struct flight *flight = &f->list[i];
        msi_json_put_object(out);
        msi_json_member_int(out, "rank", flight->rank);
        msi_json_member_string(out, "host", flight->host);
        msi_json_member_string(out, "reason", flight->reason);
        if (flight->blames != REPORT_NONE) msi_json_member_int(out, "blames", flight->blames);
        put_call(flight, "current", report_flight_current(f, flight->rank), out);
        put_call(flight, "last", report_flight_done(flight), out);
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

void report_summary(const struct report_job *job, struct msi_buf *to) {
    struct msi_json_out out = msi_json_to(to);
    msi_json_put_object(&out);
    msi_json_member_int(&out, "version", 1);
    msi_json_member_string(&out, "muster", mst_version());
    msi_json_member_int(&out, "size", job->size > 0 ? job->size : job->flights->size);
    put_head(job, &out);
    msi_json_member_array(&out, "ranks");
    for (int i = 0; i < job->n_ranks; i++) put_rank(job, job->ranks[i], &out);
    msi_json_put_array_end(&out);
    put_groups(job, &out);
    msi_json_member_array(&out, "operations");
    for (size_t i = 0; i < job->n_operations; i++) put_operation(job, &job->operations[i], &out);
    msi_json_put_array_end(&out);
    put_table(&out, "cells", cell_columns, job->cells, job->n_cells, sizeof *job->cells);
    put_sites(job, &out);
    put_waits(job, &out);
    put_failure(job, &out);
    msi_json_put_object_end(&out);
}
