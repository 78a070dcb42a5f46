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

/* Begins a table with its columns and the array of rows. */
static void open_table(struct msi_json_out *out, const char *key, const char *const *columns, size_t n) {
    msi_json_member_object(out, key);
    msi_json_member_array(out, "columns");
    for (size_t i = 0; i < n; i++) msi_json_put_string(out, columns[i]);
    msi_json_put_array_end(out);
    msi_json_member_array(out, "rows");
}

static void close_table(struct msi_json_out *out) {
    msi_json_put_array_end(out);
    msi_json_put_object_end(out);
}

static const char *name_or_others(const struct report_job *job, uint32_t name) {
    return name == UINT32_MAX ? "(others)" : report_string(job, name);
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
    put_us(out, "duration_us", r->end - job->begin);
    put_us(out, "communication_us", r->in_comm);
    msi_json_member_double(out, "share", report_comm_share(job, r), 6);
    put_us(out, "waited_us", r->waited);
    put_us(out, "waited_for_us", r->waited_for);
    put_us(out, "clock_error_us", r->clock_error);
    msi_json_put_object_end(out);
}

static void put_head(const struct report_job *job, struct msi_json_out *out) {
    struct msi_table hosts = {0};
    int64_t events = 0, dropped = 0, error = 0;
    uint32_t program = 0;
    msi_json_member_array(out, "hosts");
    for (int i = 0; i < job->n_ranks; i++) {
        const struct report_rank *r = job->ranks[i];
        uint32_t before = hosts.n;
        if (msi_table_add(&hosts, &r->host, sizeof r->host) == before)
            msi_json_put_string(out, report_string(job, r->host));
        events += (int64_t)r->n;
        dropped += r->dropped;
        if (r->clock_error > error) error = r->clock_error;
        if (program == 0) program = r->program;
    }
    msi_json_put_array_end(out);
    msi_table_free(&hosts);
    msi_json_member_string(out, "program", report_string(job, program));
    msi_json_member_int(out, "events", events);
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

static void put_operation(const struct report_job *job, const struct report_operation *o,
                          struct msi_json_out *out) {
    msi_json_put_object(out);
    msi_json_member_string(out, "name", name_or_others(job, o->name));
    msi_json_member_string(out, "call", name_or_others(job, o->call));
    msi_json_member_string(out, "class", report_class_names[o->class]);
    msi_json_member_int(out, "bytes", o->bytes);
    msi_json_member_bool(out, "up_to", o->up_to);
    msi_json_member_int(out, "size", o->size);
    msi_json_member_array(out, "groups");
    for (size_t row = o->first; row < o->first + o->n; row++) msi_json_put_int(out, job->rows[row].group);
    msi_json_put_array_end(out);
    msi_json_member_int(out, "count", o->figures.count);
    msi_json_member_int(out, "failed", o->figures.failed);
    put_us(out, "total_us", o->figures.total);
    msi_json_member_double(out, "avg_us", o->figures.average / 1000, 3);
    msi_json_member_double(out, "tput_gbps", o->figures.algbw, 6);
    msi_json_member_double(out, "busbw_gbps", o->figures.busbw, 6);
    put_us(out, "moving_us", o->figures.moving);
    msi_json_member_double(out, "free_tput_gbps", o->figures.free_algbw, 6);
    msi_json_member_double(out, "bus_factor", report_bus_factor(o->class, o->size), 9);
    if (o->limit > 0) msi_json_member_double(out, "limit_us", o->limit / 1000, 3);
    msi_json_put_object_end(out);
}

static void put_cells(const struct report_job *job, struct msi_json_out *out) {
    static const char *const columns[] = {"operation", "group",          "rank",      "count",
                                          "total_us",  "avg_us",         "tput_gbps", "busbw_gbps",
                                          "moving_us", "free_tput_gbps", "failed"};
    open_table(out, "cells", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < job->n_cells; i++) {
        const struct report_cell *c = &job->cells[i];
        msi_json_put_array(out);
        msi_json_put_int(out, c->operation);
        msi_json_put_int(out, c->group);
        msi_json_put_int(out, c->rank);
        msi_json_put_int(out, c->figures.count);
        msi_json_put_scaled(out, c->figures.total, 3);
        msi_json_put_double(out, c->figures.average / 1000, 3);
        msi_json_put_double(out, c->figures.algbw, 6);
        msi_json_put_double(out, c->figures.busbw, 6);
        msi_json_put_scaled(out, c->figures.moving, 3);
        msi_json_put_double(out, c->figures.free_algbw, 6);
        msi_json_put_int(out, c->figures.failed);
        msi_json_put_array_end(out);
    }
    close_table(out);
}

static void put_sites(const struct report_job *job, struct msi_json_out *out) {
    static const char *const columns[] = {"site", "rank", "count", "total_us", "waited_us", "failed"};
    msi_json_member_array(out, "sites");
    for (uint32_t i = 0; i < job->sites.n; i++) {
        const struct report_site *s = msi_table_key(&job->sites, i);
        msi_json_put_object(out);
        msi_json_member_string(out, "site", name_or_others(job, s->site));
        msi_json_member_string(out, "function", s->site == UINT32_MAX ? "" : report_string(job, s->function));
        msi_json_member_string(out, "name", name_or_others(job, s->name));
        msi_json_member_string(out, "call", name_or_others(job, s->call));
        msi_json_put_object_end(out);
    }
    msi_json_put_array_end(out);
    open_table(out, "site_cells", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < job->n_site_cells; i++) {
        const struct report_site_cell *c = &job->site_cells[i];
        msi_json_put_array(out);
        msi_json_put_int(out, c->site);
        msi_json_put_int(out, c->rank);
        msi_json_put_int(out, c->count);
        msi_json_put_scaled(out, c->total, 3);
        msi_json_put_scaled(out, c->waited, 3);
        msi_json_put_int(out, c->failed);
        msi_json_put_array_end(out);
    }
    close_table(out);
}

static void put_waits(const struct report_job *job, struct msi_json_out *out) {
    static const char *const columns[] = {"rank", "for", "us", "times"};
    open_table(out, "waits", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < job->n_waits; i++) {
        const struct report_wait *w = &job->waits[i];
        msi_json_put_array(out);
        msi_json_put_int(out, w->rank);
        msi_json_put_int(out, w->late);
        msi_json_put_scaled(out, w->ns, 3);
        msi_json_put_int(out, w->times);
        msi_json_put_array_end(out);
    }
    close_table(out);
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
    put_cells(job, &out);
    put_sites(job, &out);
    put_waits(job, &out);
    put_failure(job, &out);
    msi_json_put_object_end(&out);
}
