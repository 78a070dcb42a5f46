/* job.c - reads all traces of a world into a job, and owns the job's memory and texts. See report.h. */
#include "cli/text.h"
#include "report/flight.h"
#include "report/report.h"
#include "report/worlds.h"

#include "base/error.h"
#include "base/kind.h"
#include "prof/summary/comm_time.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WARNINGS_MOST = 1000, MISSING_SHOWN = 10 };

#define KIND_NAME(number, name, text) text,
const char *const report_class_names[REPORT_CLASSES] = {MST_KIND_TABLE(KIND_NAME) "other"};

/* The longest name of a collective that the call's name contains. */
uint32_t report_class_of(const char *call) {
    uint32_t best = REPORT_OTHER;
    size_t longest = 0;
    for (uint32_t kind = 0; kind < MST_KIND_COUNT; kind++) {
        if (kind == MST_KIND_SEND || kind == MST_KIND_RECV) continue;
        size_t len = strlen(report_class_names[kind]);
        if (len <= longest || !strstr(call, report_class_names[kind])) continue;
        best = kind;
        longest = len;
    }
    if (strcmp(call, "bucket_ready") == 0) return MST_KIND_ALL_REDUCE; /* as src/bucket records it */
    return best == MST_KIND_GATHER && strstr(call, "allgather") ? MST_KIND_ALL_GATHER : best;
}

double report_bus_factor(uint32_t class, int n) {
    enum msi_share share = msi_kind_share(msi_kind_find(report_class_names[class]));
    return n > 0 || share == MSI_SHARE_WHOLE ? msi_bus_factor(share, n) : 0;
}

const char *report_string(const struct report_job *job, uint32_t number) {
    return number < job->strings.n ? msi_table_key(&job->strings, number) : "(others)";
}

int64_t report_comm(const struct report_job *job, const struct report_event *event) {
    bool work = report_kind_of(job, event)->work && event->waited != REPORT_UNKNOWN;
    return msi_comm_time(work, event->took, event->waited);
}

int64_t report_waiting(const struct report_job *job, const struct report_event *event) {
    int64_t comm = report_comm(job, event);
    if (report_failed(job, event)) return comm;
    if (event->arrived == REPORT_UNKNOWN) return 0;
    return msi_waiting_time(event->begin + event->took, comm, event->arrived);
}

int64_t report_ready(const struct report_job *job, const struct report_event *event) {
    int64_t end = event->begin + event->took;
    if (report_failed(job, event) || event->arrived > end) return end;
    return event->arrived > event->begin ? event->arrived : event->begin;
}

void report_warn(struct report_job *job, const char *format, ...) {
    va_list args;
    char *text;
    if (job->n_warnings == WARNINGS_MOST) return;
    if (!job->warnings) job->warnings = report_alloc(WARNINGS_MOST, sizeof *job->warnings);
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) report_no_memory();
    va_end(args);
    text_clean(text, false);
    job->warnings[job->n_warnings++] = text;
}

int report_find_rank(const struct report_job *job, int rank) {
    int low = 0, high = job->n_ranks;
    while (low < high) {
        int middle = (low + high) / 2;
        if (job->ranks[middle]->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < job->n_ranks && job->ranks[low]->rank == rank ? low : REPORT_NONE;
}

/* A rank has one trace in a world. A second one may be a copy. */
static void read_trace(struct report_job *job, const struct report_worlds *worlds,
                       const struct report_trace *trace) {
    char *path = report_worlds_path(worlds, trace);
    struct report_rank *rank;
    if (worlds->traces[worlds->first].unix_ns != trace->unix_ns)
        report_warn(job, "%s is left out: it does not say to which world it belongs", path);
    else if (job->n_ranks > 0 && job->ranks[job->n_ranks - 1]->rank == trace->rank)
        report_warn(job, "%s is left out: it is a second trace of that rank", path);
    else if (report_read_trace(job, path, trace->rank, &rank) == MST_OK)
        job->ranks[job->n_ranks++] = rank;
    else
        report_warn(job, "%s is left out: it %s", path, mst_last_error()->message);
    free(path);
}

/* Reads the traces of the world, and warns of those that belong to none. */
static void read_traces(struct report_job *job, const struct report_worlds *worlds) {
    job->ranks = report_alloc(worlds->n, sizeof(struct report_rank *));
    for (size_t i = 0; i < worlds->end; i++)
        if (i >= worlds->first || worlds->traces[i].unix_ns == REPORT_UNKNOWN)
            read_trace(job, worlds, &worlds->traces[i]);
    report_warn_of_worlds(job, worlds);
}

static void warn_of_rank(struct report_job *job, const struct report_rank *r) {
    if (!r->ended)
        report_warn(job, "the trace of rank %d has no end record: the rank died or is still running",
                    r->rank);
    else if (r->cut)
        report_warn(job, "the trace of rank %d is truncated", r->rank);
    if (r->dropped > 0)
        report_warn(job, "rank %d dropped %lld events, which are missing in all figures", r->rank,
                    (long long)r->dropped);
    if (r->malformed > 0)
        report_warn(job, "the trace of rank %d has %lld lines that cannot be read", r->rank,
                    (long long)r->malformed);
}

static void warn_of_missing(struct report_job *job) {
    char list[16 * MISSING_SHOWN] = "";
    int missing = 0, len = 0;
    for (int rank = 0; rank < job->size && missing <= MISSING_SHOWN; rank++)
        if (report_find_rank(job, rank) == REPORT_NONE && ++missing <= MISSING_SHOWN)
            len += snprintf(list + len, sizeof list - (size_t)len, "%s%d", missing > 1 ? ", " : "", rank);
    if (missing > 0)
        report_warn(job, "%d of %d ranks left no trace: %s%s", job->size - job->n_ranks, job->size, list,
                    missing > MISSING_SHOWN ? ", …" : "");
}

static void check_traces(struct report_job *job) {
    job->end = 1; /* figures are divided by end - begin */
    for (int i = 0; i < job->n_ranks; i++) {
        struct report_rank *r = job->ranks[i];
        if (r->end > job->end) job->end = r->end;
        job->n_events += (int64_t)r->n;
        report_add(&job->hosts, &r->host, sizeof r->host);
        for (size_t k = 0; k < r->n; k++)
            if (r->events[k].begin < job->begin) job->begin = r->events[k].begin;
        warn_of_rank(job, r);
    }
    if (job->n_ranks > 0) warn_of_missing(job);
}

mst_status report_read_dir(struct report_job *job, const struct report_worlds *worlds) {
    const char *dir = worlds->dir;
    if (worlds->n == 0 && worlds->n_flights == 0)
        return msi_fail(MST_ERR_NOT_FOUND, "record a run with muster run --trace and this directory",
                        "%s has no rank-R" REPORT_TRACE_SUFFIX " and no rank-R" REPORT_FLIGHT_SUFFIX, dir);
    job->dir = dir;
    report_add(&job->strings, "", 0);
    read_traces(job, worlds);
    check_traces(job);
    /* Recordings are of the last failure, which belongs to the newest world. */
    if (worlds->selected == worlds->count) report_flights_read(job, worlds->flights, worlds->n_flights);
    if (job->n_ranks > 0 || report_flights_any(job)) return MST_OK;
    report_print_warnings(job);
    return msi_fail(MST_ERR_NOT_FOUND, NULL, "no trace and no recording in %s can be used", dir);
}

void report_free(struct report_job *job) {
    struct msi_table *tables[] = {&job->strings,   &job->kinds, &job->shapes, &job->group_keys,
                                  &job->wait_keys, &job->sites, &job->hosts};
    for (int i = 0; i < job->n_ranks; i++) report_rank_free(job->ranks[i]);
    for (size_t i = 0; i < job->n_groups; i++) free(job->groups[i].ranks);
    for (int i = 0; i < job->n_warnings; i++) free(job->warnings[i]);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) msi_table_free(tables[i]);
    report_flights_free(job);
    free(job->ranks);
    free(job->groups);
    free(job->warnings);
    free(job->waits);
    free(job->operations);
    free(job->rows);
    free(job->cells);
    free(job->site_cells);
    *job = (struct report_job){0};
}
