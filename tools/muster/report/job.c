/* job.c - the traces of a directory, put together to a job; its memory, its texts. See report.h. */
#include "cli/text.h"
#include "report/flight.h"
#include "report/report.h"
#include "report/worlds.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define FLIGHT ".flight.json"
enum { WARNINGS_MOST = 1000 };

const char *const page_class_names[PAGE_CLASSES] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
    "gather",     "scatter",    "barrier",        "send",       "recv",      "other",
};

/* The more particular names come first. */
enum page_class page_class_of(const char *call) {
    static const struct {
        const char *part;
        enum page_class class;
    } parts[] = {
        {"all_reduce", PAGE_ALL_REDUCE}, {"reduce_scatter", PAGE_REDUCE_SCATTER},
        {"all_gather", PAGE_ALL_GATHER}, {"allgather", PAGE_ALL_GATHER},
        {"all_to_all", PAGE_ALL_TO_ALL}, {"broadcast", PAGE_BROADCAST},
        {"barrier", PAGE_BARRIER},       {"reduce", PAGE_REDUCE},
        {"gather", PAGE_GATHER},         {"scatter", PAGE_SCATTER},
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(call, parts[i].part) != NULL) return parts[i].class;
    return PAGE_OTHER;
}

double page_bus_factor(enum page_class class, int n) {
    switch (class) {
    case PAGE_BARRIER:
        return 0;
    case PAGE_ALL_REDUCE:
        return n > 0 ? 2.0 * (n - 1) / n : 0;
    case PAGE_ALL_GATHER:
    case PAGE_REDUCE_SCATTER:
    case PAGE_ALL_TO_ALL:
        return n > 0 ? (double)(n - 1) / n : 0;
    default:
        return 1;
    }
}

const char *page_string(const struct page_job *job, uint32_t number) {
    return number < job->strings.n ? page_set_at(&job->strings, number) : "";
}

const struct page_kind *page_kind_of(const struct page_job *job, const struct page_event *event) {
    return page_set_at(&job->kinds, event->kind);
}

const struct page_shape *page_shape_of(const struct page_job *job, const struct page_event *event) {
    return page_set_at(&job->shapes, event->shape);
}

bool page_failed(const struct page_job *job, const struct page_event *event) {
    return page_kind_of(job, event)->status != 0; /* the empty text */
}

int64_t page_ready(const struct page_job *job, const struct page_event *event) {
    int64_t end = event->begin + event->took;

    if (page_failed(job, event) || event->arrived > end) return end;
    return event->arrived > event->begin ? event->arrived : event->begin;
}

bool page_room(struct page_job *job, void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return true;
    size_t more = n < 32 ? 64 : n * 2;
    void *grown = realloc(*(void **)array, more * size);
    if (grown == NULL) {
        job->failed = true;
        return false;
    }
    *(void **)array = grown;
    *capacity = more;
    return true;
}

void page_warn(struct page_job *job, const char *format, ...) {
    va_list args;
    char *words;

    if (job->n_warnings == WARNINGS_MOST) return;
    if (job->warnings == NULL) job->warnings = calloc(WARNINGS_MOST, sizeof *job->warnings);
    va_start(args, format);
    int len = vasprintf(&words, format, args);
    va_end(args);
    if (len < 0 || job->warnings == NULL) {
        if (len >= 0) free(words);
        job->failed = true;
        return;
    }
    text_clean(words, false);
    job->warnings[job->n_warnings++] = words;
}

int page_find_rank(const struct page_job *job, int rank) {
    int low = 0, high = job->n_ranks;

    while (low < high) {
        int middle = (low + high) / 2;
        if (job->ranks[middle]->rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < job->n_ranks && job->ranks[low]->rank == rank ? low : PAGE_NONE;
}

static int by_rank(const void *a, const void *b) {
    const int *x = a, *y = b;
    return *x - *y;
}

/* The ranks that have flight recordings, ascending; NULL with errno set. */
static int *list_flights(const char *dir, int *n) {
    int *found = NULL, capacity = 0, rank, number;
    const struct dirent *entry;
    DIR *open = opendir(dir);

    *n = 0;
    if (open == NULL) return NULL;
    while ((entry = readdir(open)) != NULL) {
        if (!page_name_read(entry->d_name, FLIGHT, &rank, &number) || number != 1) continue;
        if (*n == capacity) {
            capacity = capacity ? capacity * 2 : 64;
            int *grown = realloc(found, (size_t)capacity * sizeof *found);
            if (grown == NULL) goto failed;
            found = grown;
        }
        found[(*n)++] = rank;
    }
    closedir(open);
    if (found == NULL) found = calloc(1, sizeof *found);
    if (*n > 0) qsort(found, (size_t)*n, sizeof *found, by_rank);
    return found;

failed:
    free(found);
    closedir(open);
    errno = ENOMEM;
    return NULL;
}

/* A rank has one trace in a world; whoever copies files may have left two. */
static void read_trace(struct page_job *job, const struct page_worlds *worlds,
                       const struct page_trace *trace) {
    char why[PAGE_WHY_MAX] = "is another trace of that rank", *path = page_worlds_path(worlds, trace);
    struct page_rank *rank = NULL;

    if (path == NULL) job->failed = true;
    bool again = job->n_ranks > 0 && job->ranks[job->n_ranks - 1]->rank == trace->rank;
    if (path != NULL && !again) rank = page_read_trace(job, path, trace->rank, why);
    if (rank != NULL)
        job->ranks[job->n_ranks++] = rank;
    else if (!job->failed)
        page_warn(job, "%s is left out: it %s", path, why);
    free(path);
}

/* Those of the world, and those that do not say of which they are, which are left out by name. */
static void read_traces(struct page_job *job, const struct page_worlds *worlds) {
    job->n_ranks = 0;
    job->ranks = calloc(worlds->n + 1, sizeof(struct page_rank *));
    if (job->ranks == NULL) job->failed = true;
    for (size_t i = 0; i < worlds->first && worlds->traces[i].unix_ns == PAGE_UNKNOWN && !job->failed; i++) {
        char *path = page_worlds_path(worlds, &worlds->traces[i]);
        if (path == NULL)
            job->failed = true;
        else
            page_warn(job, "%s is left out: it does not say of which world it is", path);
        free(path);
    }
    for (size_t i = worlds->first; i < worlds->end && !job->failed; i++)
        read_trace(job, worlds, &worlds->traces[i]);
    char *others = page_worlds_others(worlds);
    if (others != NULL) page_warn(job, "%s", others);
    free(others);
}

static void warn_of_rank(struct page_job *job, const struct page_rank *r) {
    if (!r->ended)
        page_warn(job, "the trace of rank %d ends without a proper end: the rank died or is still running",
                  r->rank);
    else if (r->cut)
        page_warn(job, "the trace of rank %d is cut short", r->rank);
    if (r->dropped > 0)
        page_warn(job, "rank %d dropped %lld events, which are missing in all figures", r->rank,
                  (long long)r->dropped);
    if (r->malformed > 0)
        page_warn(job, "the trace of rank %d has %lld lines that cannot be read", r->rank,
                  (long long)r->malformed);
}

static void warn_of_missing(struct page_job *job) {
    struct msi_buf list = {0};
    int missing = 0;

    for (int rank = 0; rank < job->size && missing <= 10; rank++)
        if (page_find_rank(job, rank) == PAGE_NONE && ++missing <= 10)
            msi_buf_add_format(&list, "%s%d", missing > 1 ? ", " : "", rank);
    if (missing > 0 && !list.failed)
        page_warn(job, "%d of %d ranks left no trace: %s%s", job->size - job->n_ranks, job->size,
                  msi_buf_text(&list), missing > 10 ? ", …" : "");
    msi_buf_free(&list);
}

static void check_traces(struct page_job *job) {
    job->end = 1; /* so that there is time to divide by */
    for (int i = 0; i < job->n_ranks; i++) {
        struct page_rank *r = job->ranks[i];
        if (r->end > job->end) job->end = r->end;
        for (size_t k = 0; k < r->n; k++)
            if (r->events[k].begin < job->begin) job->begin = r->events[k].begin;
        warn_of_rank(job, r);
    }
    if (job->n_ranks > 0) warn_of_missing(job);
}

bool page_read_dir(struct page_job *job, const struct page_worlds *worlds) {
    const char *dir = worlds->dir;
    int n_flights = 0, *flights = list_flights(dir, &n_flights);
    bool any = worlds->n > 0 || n_flights > 0;

    job->dir = dir;
    if (flights == NULL) {
        fprintf(stderr, "muster report: cannot read %s: %s\n", dir, strerror(errno));
    } else if (!any) {
        fprintf(stderr,
                "muster report: %s has no rank-R.trace.json and no rank-R.flight.json; programs write them "
                "with MUSTER_TRACE=%s\n",
                dir, dir);
    } else {
        if (page_set_add(&job->strings, "", 0) == PAGE_SET_FULL) job->failed = true; /* number 0 */
        read_traces(job, worlds);
        if (!job->failed) check_traces(job);
        /* Recordings are of the last failure: of the newest world, if of one that is here. */
        if (!job->failed && worlds->chosen == worlds->count) page_flights_read(job, flights, n_flights);
    }
    free(flights);
    if (!any || job->failed) return false;
    if (job->n_ranks > 0 || page_flights_any(job)) return true;
    for (int i = 0; i < job->n_warnings; i++) fprintf(stderr, "muster report: %s\n", job->warnings[i]);
    return false;
}

void page_free(struct page_job *job) {
    struct page_set *sets[] = {&job->strings,    &job->kinds,     &job->shapes,
                               &job->group_keys, &job->wait_keys, &job->sites};

    for (int i = 0; i < job->n_ranks; i++) page_rank_free(job->ranks[i]);
    for (size_t i = 0; i < job->n_groups; i++) free(job->groups[i].ranks);
    for (int i = 0; i < job->n_warnings; i++) free(job->warnings[i]);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) page_set_free(sets[i]);
    page_flights_free(job);
    free(job->ranks);
    free(job->groups);
    free(job->warnings);
    free(job->waits);
    free(job->operations);
    free(job->rows);
    free(job->cells);
    free(job->site_cells);
    *job = (struct page_job){0};
}
