/* worlds.c - see worlds.h. */
#include "report/worlds.h"
#include "cli/text.h"
#include "report/trace_line.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "rank-"
#define TRACE  ".trace.json"
enum { FIRST_LINE_MOST = 65536, OTHERS_MOST = 5, NUMBER_MOST = 999999999 };

/* Both are written without needless zeros, so that no trace has two names. */
bool page_name_read(const char *name, const char *ending, int *rank, int *number) {
    char again[64], *end;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    long r = strtol(name + strlen(PREFIX), &end, 10), k = 1;
    if (*end == '.' && end[1] >= '1' && end[1] <= '9') k = strtol(end + 1, NULL, 10);
    if (r < 0 || r >= PAGE_RANKS_MOST || k < 1 || k > NUMBER_MOST) return false;
    if (k == 1)
        snprintf(again, sizeof again, PREFIX "%ld%s", r, ending);
    else
        snprintf(again, sizeof again, PREFIX "%ld.%ld%s", r, k, ending);
    *rank = (int)r;
    *number = (int)k;
    return strcmp(name, again) == 0;
}

char *page_worlds_path(const struct page_worlds *worlds, const struct page_trace *trace) {
    char *path, number[16] = "";

    if (trace->number > 1) snprintf(number, sizeof number, ".%d", trace->number);
    return asprintf(&path, "%s/" PREFIX "%d%s" TRACE, worlds->dir, trace->rank, number) < 0 ? NULL : path;
}

/* When the world of a trace formed: its first line says so. */
static int64_t read_moment(const char *path) {
    static char data[FIRST_LINE_MOST];
    struct page_line line;
    size_t n = 0;
    ssize_t got;
    int fd = page_open(path);

    if (fd < 0) return PAGE_UNKNOWN;
    while (n < sizeof data && (got = read(fd, data + n, sizeof data - n)) != 0) {
        if (got < 0 && errno != EINTR) break;
        if (got > 0) n += (size_t)got;
    }
    close(fd);
    const char *newline = memchr(data, '\n', n);
    if (newline != NULL) n = (size_t)(newline - data);
    bool good = page_line_read(data, n, &line) && line.name.p != NULL && msi_json_is(line.name, "muster");
    return good ? line.unix_ns : PAGE_UNKNOWN;
}

static int by_world(const void *a, const void *b) {
    const struct page_trace *x = a, *y = b;

    if (x->unix_ns != y->unix_ns) return x->unix_ns < y->unix_ns ? -1 : 1;
    return x->rank != y->rank ? x->rank - y->rank : x->number - y->number;
}

static bool add_trace(struct page_worlds *w, int rank, int number) {
    if (w->n == w->capacity) {
        size_t more = w->n ? w->n * 2 : 64;
        struct page_trace *grown = realloc(w->traces, more * sizeof *grown);
        if (grown == NULL) return false;
        w->traces = grown;
        w->capacity = more;
    }
    struct page_trace *trace = &w->traces[w->n++];
    *trace = (struct page_trace){.rank = rank, .number = number};
    char *path = page_worlds_path(w, trace);
    if (path == NULL) return false;
    trace->unix_ns = read_moment(path);
    free(path);
    return true;
}

static bool list_traces(struct page_worlds *w) {
    const struct dirent *entry;
    DIR *open = opendir(w->dir);
    bool good = true;
    int rank, number;

    if (open == NULL) return false;
    while (good && (entry = readdir(open)) != NULL)
        if (page_name_read(entry->d_name, TRACE, &rank, &number)) good = add_trace(w, rank, number);
    closedir(open);
    if (!good) errno = ENOMEM;
    if (w->n > 0) qsort(w->traces, w->n, sizeof *w->traces, by_world);
    return good;
}

/* Where the world that a trace is of ends in the list. */
static size_t end_of(const struct page_worlds *w, size_t first) {
    size_t end = first;

    while (end < w->n && w->traces[end].unix_ns == w->traces[first].unix_ns) end++;
    return end;
}

/* Traces that do not say of which world they are belong to one if there is no other. */
static void choose(struct page_worlds *w, int64_t wanted) {
    size_t first = w->n > 0 && w->traces[0].unix_ns == PAGE_UNKNOWN ? end_of(w, 0) : 0;

    if (first == w->n) first = 0;
    for (size_t at = first; at < w->n; at = end_of(w, at)) {
        w->count++;
        if (wanted != 0 && w->count != wanted) continue;
        w->chosen = w->count;
        w->first = at;
        w->end = end_of(w, at);
    }
}

bool page_worlds_find(struct page_worlds *w, const char *dir, int64_t wanted) {
    *w = (struct page_worlds){.dir = dir};
    if (!list_traces(w)) {
        fprintf(stderr, "muster report: cannot read %s: %s\n", dir, strerror(errno));
        page_worlds_free(w);
        return false;
    }
    choose(w, wanted);
    if (wanted == 0 || w->chosen != 0) return true;
    fprintf(stderr, "muster report: there is no world %lld in %s: it has %d, of which 1 is the oldest\n",
            (long long)wanted, dir, w->count);
    page_worlds_free(w);
    return false;
}

void page_worlds_free(struct page_worlds *w) {
    free(w->traces);
    *w = (struct page_worlds){0};
}

static void add_moment(struct msi_buf *words, int64_t unix_ns) {
    time_t seconds = (time_t)(unix_ns / 1000000000);
    struct tm is;
    char text[32] = "";

    if (unix_ns != PAGE_UNKNOWN && localtime_r(&seconds, &is) != NULL)
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &is);
    msi_buf_add_format(words, "%s", text[0] ? text : "no known moment");
}

char *page_worlds_others(const struct page_worlds *w) {
    struct msi_buf words = {0};
    int number = 0, named = 0;

    if (w->count < 2) return NULL;
    msi_buf_add_format(&words,
                       "the directory has traces of %d worlds, and this is number %d, which formed at ",
                       w->count, w->chosen);
    add_moment(&words, w->traces[w->first].unix_ns);
    msi_buf_add_format(&words, "; --world shows another:");
    for (size_t at = 0; at < w->n; at = end_of(w, at)) {
        if (w->traces[at].unix_ns == PAGE_UNKNOWN) continue;
        if (++number == w->chosen || number + OTHERS_MOST < w->count) continue;
        msi_buf_add_format(&words, "%s %d of ", named++ ? "," : "", number);
        add_moment(&words, w->traces[at].unix_ns);
        msi_buf_add_format(&words, " (%zu traces)", end_of(w, at) - at);
    }
    if (!words.failed) return (char *)words.data;
    msi_buf_free(&words);
    return NULL;
}
