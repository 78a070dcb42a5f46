/*
 * merge.c - all traces of a world as one, for viewers that read a single file: see worlds.h. Processes are ranks already, ids
 * of works and arrows are no other rank's, so that lines are copied as they are; only those that are whole.
 */
#include "cli/text.h"
#include "commands.h"
#include "report/trace_line.h"
#include "report/worlds.h"

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
    struct page_line line;

    if (!page_line_read(text, len, &line)) return false;
    if (line.phase.p == NULL) return true; /* a bracket */
    page_line_trim(&text, &len);
    fputs(m->events++ == 0 ? "[" : ",\n", m->to);
    fwrite(text, 1, len, m->to);
    return true;
}

static void say(const char *path, const char *what) {
    fprintf(stderr, "muster report: warning: %s %s\n", path, what);
}

/* False: it cannot be read. What is missing at the end of one that was cut off is said. */
static bool copy_trace(struct merging *m, const char *path) {
    struct page_lines lines = {.take = copy_line, .context = m};
    int fd = page_open(path);
    int error = fd < 0 ? errno : page_lines_read(fd, &lines);

    if (fd >= 0) close(fd);
    if (error != 0) {
        fprintf(stderr, "muster report: cannot read %s: %s\n", path, strerror(error));
        return false;
    }
    if (!lines.whole) say(path, "ends within a line, which is left out");
    if (lines.malformed > 0) say(path, "has lines that cannot be read, which are left out");
    return true;
}

int page_merge(const struct page_worlds *worlds, const char *path) {
    struct page_output out;
    struct merging m = {0};
    bool good = true;
    int ranks = 0;

    if (worlds->n == 0) {
        fprintf(stderr, "muster report: %s has no rank-R.trace.json\n", worlds->dir);
        return EXIT_FAILED;
    }
    if (!page_create(&out, path)) return EXIT_FAILED;
    m.to = out.file;
    for (size_t i = worlds->first; i < worlds->end && good; i++) {
        char *from = page_worlds_path(worlds, &worlds->traces[i]);
        good = from != NULL;
        if (good && i > worlds->first && worlds->traces[i - 1].rank == worlds->traces[i].rank)
            say(from, "is another trace of a rank, and left out");
        else if (good)
            good = copy_trace(&m, from), ranks++;
        free(from);
    }
    fputs(m.events == 0 ? "[\n]\n" : "\n]\n", m.to);
    if (!good) {
        page_discard(&out);
        return EXIT_FAILED;
    }
    if (!page_save(&out)) return EXIT_FAILED;
    fprintf(stderr, "muster report: %lld events of %d ranks are in %s\n", (long long)m.events, ranks, path);
    return EXIT_DONE;
}
