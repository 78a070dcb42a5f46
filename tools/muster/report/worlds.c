/* worlds.c - see worlds.h. */
#include "report/worlds.h"
#include "report/trace_line.h"

#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define PREFIX "rank-"
enum { OTHERS_MOST = 5, NUMBER_MOST = 999999999 };

/* Numbers have no leading zeros, so that no trace has two names. */
bool report_parse_name(const char *name, const char *suffix, int *rank, int *number) {
    char canonical[64], *end;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    long r = strtol(name + strlen(PREFIX), &end, 10), k = 1;
    if (*end == '.' && end[1] >= '1' && end[1] <= '9') k = strtol(end + 1, NULL, 10);
    if (r < 0 || r >= REPORT_RANKS_MOST || k < 1 || k > NUMBER_MOST) return false;
    if (k == 1)
        snprintf(canonical, sizeof canonical, PREFIX "%ld%s", r, suffix);
    else
        snprintf(canonical, sizeof canonical, PREFIX "%ld.%ld%s", r, k, suffix);
    *rank = (int)r;
    *number = (int)k;
    return strcmp(name, canonical) == 0;
}

char *report_worlds_path(const struct report_worlds *worlds, const struct report_trace *trace) {
    char number[16] = "";
    if (trace->number > 1) snprintf(number, sizeof number, ".%d", trace->number);
    return report_format("%s/" PREFIX "%d%s" REPORT_TRACE_SUFFIX, worlds->dir, trace->rank, number);
}

/* Reads when the world of a trace formed. */
static int64_t read_formation_time(const char *path) {
    struct report_line line;
    struct report_lines in;
    struct msi_str text;
    report_lines_open(&in, path);
    bool good =
        report_next_line(&in, &text) && report_parse_line(text, &line) && msi_json_is(line.name, "muster");
    report_lines_close(&in);
    return good ? line.unix_ns : REPORT_UNKNOWN;
}

static int by_world(const void *a, const void *b) {
    const struct report_trace *x = a, *y = b;
    if (x->unix_ns != y->unix_ns) return x->unix_ns < y->unix_ns ? -1 : 1;
    return x->rank != y->rank ? x->rank - y->rank : x->number - y->number;
}

static int by_rank(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static void add_trace(struct report_worlds *w, int rank, int number) {
    report_reserve(&w->traces, w->n, &w->capacity, sizeof *w->traces);
    struct report_trace *trace = &w->traces[w->n++];
    *trace = (struct report_trace){.rank = rank, .number = number};
    char *path = report_worlds_path(w, trace);
    trace->unix_ns = read_formation_time(path);
    free(path);
}

static mst_status list_directory(struct report_worlds *w) {
    const struct dirent *entry;
    DIR *dir = opendir(w->dir);
    int rank, number;
    if (!dir) return msi_fail_errno(errno, "cannot read %s", w->dir);
    while ((entry = readdir(dir)))
        if (report_parse_name(entry->d_name, REPORT_TRACE_SUFFIX, &rank, &number)) {
            add_trace(w, rank, number);
        } else if (report_parse_name(entry->d_name, REPORT_FLIGHT_SUFFIX, &rank, &number) && number == 1) {
            report_reserve(&w->flights, (size_t)w->n_flights, &w->flights_capacity, sizeof *w->flights);
            w->flights[w->n_flights++] = rank;
        }
    closedir(dir);
    if (w->n > 0) qsort(w->traces, w->n, sizeof *w->traces, by_world);
    if (w->n_flights > 0) qsort(w->flights, (size_t)w->n_flights, sizeof *w->flights, by_rank);
    return MST_OK;
}

/* The end of the world in the list whose traces begin at first. */
static size_t end_of(const struct report_worlds *w, size_t first) {
    size_t end = first;
    while (end < w->n && w->traces[end].unix_ns == w->traces[first].unix_ns) end++;
    return end;
}

/* Traces without a formation time count as a world only if there are no others. */
static void select_world(struct report_worlds *w, int64_t wanted) {
    size_t first = w->n > 0 && w->traces[0].unix_ns == REPORT_UNKNOWN ? end_of(w, 0) : 0;
    if (first == w->n) first = 0;
    for (size_t at = first; at < w->n; at = end_of(w, at)) {
        w->count++;
        if (wanted != 0 && w->count != wanted) continue;
        w->selected = w->count;
        w->first = at;
        w->end = end_of(w, at);
    }
}

mst_status report_worlds_find(struct report_worlds *w, const char *dir, int64_t wanted) {
    *w = (struct report_worlds){.dir = dir};
    mst_status st = list_directory(w);
    if (st != MST_OK) return st;
    select_world(w, wanted);
    if (wanted == 0 || w->selected != 0) return MST_OK;
    return msi_fail(MST_ERR_INVALID, NULL,
                    "there is no world %lld in %s: it has traces of %d, 1 is the oldest", (long long)wanted,
                    dir, w->count);
}

void report_worlds_free(struct report_worlds *w) {
    free(w->traces);
    free(w->flights);
    *w = (struct report_worlds){0};
}

static void add_time(struct msi_buf *text, int64_t unix_ns) {
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm local;
    char time[32] = "";
    if (unix_ns != REPORT_UNKNOWN && localtime_r(&seconds, &local))
        strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &local);
    msi_buf_add_format(text, "%s", time[0] ? time : "an unknown time");
}

void report_warn_of_worlds(struct report_job *job, const struct report_worlds *w) {
    struct msi_buf text = {0};
    int number = 0, named = 0;
    if (w->count < 2) return;
    msi_buf_add_format(&text, "the directory has traces of %d worlds; this is number %d, which formed at ",
                       w->count, w->selected);
    add_time(&text, w->traces[w->first].unix_ns);
    msi_buf_add_format(&text, "; --world selects another:");
    for (size_t at = 0; at < w->n; at = end_of(w, at)) {
        if (w->traces[at].unix_ns == REPORT_UNKNOWN) continue;
        if (++number == w->selected || number + OTHERS_MOST < w->count) continue;
        msi_buf_add_format(&text, "%s %d of ", named++ ? "," : "", number);
        add_time(&text, w->traces[at].unix_ns);
        msi_buf_add_format(&text, " (%zu traces)", end_of(w, at) - at);
    }
    report_warn(job, "%s", msi_buf_text(&text));
    msi_buf_free(&text);
}
