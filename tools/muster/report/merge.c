/*
 * merge.c - writes all traces of a world as one trace, for viewers that read a single file: see worlds.h.
 * Process numbers are ranks, and ids of works and arrows are unique to a rank. Complete lines are therefore
 * copied unchanged.
 */
#include "report/trace_line.h"
#include "report/worlds.h"

#include "base/error.h"
#include "os/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct merging {
    FILE *to;
    int64_t events;
};

static bool copy_line(void *context, const char *text, size_t len) {
    struct merging *m = context;
    struct report_line line;
    if (!report_parse_line(text, len, &line)) return false;
    if (!line.phase.p) return true; /* a bracket */
    report_trim_line(&text, &len);
    fputs(m->events++ == 0 ? "[" : ",\n", m->to);
    fwrite(text, 1, len, m->to);
    return true;
}

static void warn(const char *path, const char *text) {
    fprintf(stderr, "muster report: warning: %s %s\n", path, text);
}

static mst_status copy_trace(struct merging *m, const char *path) {
    struct report_lines lines = {.read_line = copy_line, .context = m};
    int fd = msi_file_open(path);
    int error = fd < 0 ? errno : report_read_lines(fd, &lines);
    if (fd >= 0) close(fd);
    if (error != 0) return msi_fail_errno(error, "cannot read %s", path);
    if (!lines.whole) warn(path, "ends within a line, which is left out");
    if (lines.malformed > 0) warn(path, "has lines that cannot be read, which are left out");
    return MST_OK;
}

mst_status report_merge(const struct report_worlds *worlds, const char *path) {
    struct report_output out;
    struct merging m = {0};
    int ranks = 0;
    if (worlds->n == 0)
        return msi_fail(MST_ERR_NOT_FOUND, NULL, "%s has no rank-R" REPORT_TRACE_SUFFIX, worlds->dir);
    mst_status st = report_output_open(&out, path);
    if (st != MST_OK) return st;
    m.to = out.file;
    for (size_t i = worlds->first; i < worlds->end && st == MST_OK; i++) {
        char *from = report_worlds_path(worlds, &worlds->traces[i]);
        if (!from)
            st = msi_fail_memory();
        else if (i > worlds->first && worlds->traces[i - 1].rank == worlds->traces[i].rank)
            warn(from, "is a second trace of its rank and is left out");
        else
            st = copy_trace(&m, from), ranks++;
        free(from);
    }
    fputs(m.events == 0 ? "[\n]\n" : "\n]\n", m.to);
    if (st != MST_OK) {
        report_output_discard(&out);
        return st;
    }
    st = report_output_commit(&out);
    if (st == MST_OK)
        fprintf(stderr, "muster report: wrote %lld events of %d ranks to %s\n", (long long)m.events, ranks,
                path);
    return st;
}
