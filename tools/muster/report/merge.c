/*
 * merge.c - writes all traces of a world as one trace, for viewers that read a single file: see worlds.h.
 * Process numbers are ranks, and ids of works and arrows are unique to a rank. Complete lines are therefore
 * copied unchanged.
 */
#include "cli/output_file.h"
#include "report/trace_line.h"
#include "report/worlds.h"

#include "base/error.h"

#include <stdlib.h>

static void warn(const char *path, const char *text) {
    fprintf(stderr, "muster report: warning: %s %s\n", path, text);
}

static mst_status copy_trace(const char *path, FILE *to, int64_t *events) {
    struct report_lines in;
    struct report_line line;
    struct msi_str text;
    bool cut = false, malformed = false;
    report_lines_open(&in, path);
    while (report_next_line(&in, &text)) {
        bool good = report_parse_line(text, &line);
        cut = !good && in.last;
        malformed = malformed || (!good && !in.last);
        if (!good || !line.phase.p) continue; /* without phase it is a bracket */
        text = report_trim_line(text);
        fputs((*events)++ == 0 ? "[" : ",\n", to);
        fwrite(text.p, 1, text.n, to);
    }
    int error = report_lines_close(&in);
    if (error != 0) return msi_fail_errno(error, "cannot read %s", path);
    if (cut) warn(path, "ends within a line, which is left out");
    if (malformed) warn(path, "has lines that cannot be read, which are left out");
    return MST_OK;
}

mst_status report_merge(const struct report_worlds *worlds, const char *path) {
    FILE *to;
    int64_t events = 0;
    int ranks = 0;
    if (worlds->n == 0)
        return msi_fail(MST_ERR_NOT_FOUND, NULL, "%s has no rank-R" REPORT_TRACE_SUFFIX, worlds->dir);
    mst_status st = output_file_open(path, &to);
    if (st != MST_OK) return st;
    for (size_t i = worlds->first; i < worlds->end && st == MST_OK; i++) {
        char *from = report_worlds_path(worlds, &worlds->traces[i]);
        if (i > worlds->first && worlds->traces[i - 1].rank == worlds->traces[i].rank)
            warn(from, "is a second trace of its rank and is left out");
        else
            st = copy_trace(from, to, &events), ranks++;
        free(from);
    }
    fputs(events == 0 ? "[\n]\n" : "\n]\n", to);
    if (st == MST_OK)
        st = output_file_commit(to, path);
    else
        fclose(to);
    if (st == MST_OK)
        fprintf(stderr, "muster report: wrote %lld events of %d ranks to %s\n", (long long)events, ranks,
                path);
    return st;
}
