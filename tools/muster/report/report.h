/*
 * report.h - what "muster report" knows of a job: what the traces of its ranks say, and what was found in them.
 *
 *   trace_line.c    one line of a trace
 *   trace_read.c    one trace: a rank and its events;  worlds.c  which there are, of which worlds;  job.c  all of a world
 *   merge.c   all of a world as one trace
 *   pair.c    which events belong together, and who waited for whom
 *   table.c   times by operation and size;  op_times.c  their figures;  sites.c  times by call site
 *   flight.c  what the flight recorders say together;  flight_file.c  the file of one
 *   limits.c  what the machine allows, beside it
 *   summary.c all these figures as JSON;  terminal.c  a few of them for the terminal
 *   overview.c, lanes.c  the events, packed for the timeline;  html.c  the page
 *
 * Times are nanoseconds on the clock of rank 0's host, from the moment that the world formed. What files say is not trusted: numbers
 * have their limits, texts may hold anything. Running out of memory marks the job as failed, and only the end looks. One thread.
 */
#ifndef MUSTER_TOOL_REPORT_REPORT_H
#define MUSTER_TOOL_REPORT_REPORT_H

#include "report/key_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PAGE_TIME_MOST 9000000000000000LL /* 104 days, exact as a double */
#define PAGE_UNKNOWN   INT64_MIN
enum { PAGE_RANKS_MOST = 65536, PAGE_WINDOWS = 100, PAGE_NONE = -1, PAGE_BLOCK = 1024 };

/* What the timeline gives a colour of its own. */
enum page_class {
    PAGE_ALL_REDUCE,
    PAGE_ALL_GATHER,
    PAGE_REDUCE_SCATTER,
    PAGE_ALL_TO_ALL,
    PAGE_BROADCAST,
    PAGE_REDUCE,
    PAGE_GATHER,
    PAGE_SCATTER,
    PAGE_BARRIER,
    PAGE_SEND,
    PAGE_RECV,
    PAGE_OTHER,
    PAGE_CLASSES,
};

/* What calls from one place have in common; texts are indices into strings. Compared as bytes, so without padding. */
struct page_kind {
    uint32_t name, call, dtype, op, backend, algorithm, site, function, status;
    uint32_t group, tid, class;
    uint32_t message, work;
};

struct page_shape {
    int64_t bytes;
    int32_t peer, tag; /* of messages; PAGE_NONE: none */
};

struct page_event {
    int64_t begin, took;
    int64_t queued, waited; /* PAGE_UNKNOWN: not said */
    int64_t device;         /* time on the device; PAGE_UNKNOWN: none */
    int64_t seq;
    int64_t
        arrived; /* when the last of its group came, or when the message that it received was sent; or PAGE_UNKNOWN */
    uint32_t kind, shape;
};

/* On the device, where that is known: a call that only enqueues is over at once. */
static inline int64_t page_lasted(const struct page_event *e) {
    return e->device != PAGE_UNKNOWN ? e->device : e->took;
}

/* ranks is NULL if the group was never described. */
struct page_group {
    uint32_t name;
    int size;
    int32_t *ranks;
};

struct page_rank {
    int rank;
    uint32_t host, program;
    int64_t pid, unix_ns;
    struct page_event *events;
    size_t n, capacity;
    int64_t end;             /* of what it recorded */
    int64_t clock_error;     /* ns */
    int64_t malformed, open; /* lines that cannot be read, works without an end */
    int64_t dropped;         /* events that the recorder had no room for */
    bool ended, cut;         /* it said that it ended; the file ends within a line or without its bracket */
    int64_t in_comm, waited, waited_for; /* time in communication, of that for others, and of others for it */
    int64_t windows[PAGE_WINDOWS];       /* the last, where it went */
};

/* r waited for l: a cell of the picture rank x rank. */
struct page_wait {
    int32_t rank, late;
    int64_t ns, times;
};

/* Calls that failed are counted, and in no other figure. */
struct page_figures {
    int64_t count, failed;
    int64_t total, moving; /* moving: of the total, not waiting for others */
    double average, algbw,
        busbw;         /* without round(0.1 n) of each end; ns, bits/ns = Gbit/s; 0: there is none */
    double free_algbw; /* algbw of the moving part alone */
};

/* group, rank: PAGE_NONE stands for all. */
struct page_cell {
    int32_t operation, group, rank;
    struct page_figures is;
};

struct page_operation {
    uint32_t name, call;
    int64_t bytes;
    bool up_to; /* it stands for all sizes up to bytes, more than half of it */
    int32_t size;
    uint32_t class;
    double limit;    /* ns that this machine takes at least; 0: not known */
    size_t first, n; /* of its rows, one for each group */
    struct page_figures is;
};

struct page_row {
    uint32_t name, call, class;
    int32_t size;
    int64_t bytes;
    int32_t group, up_to;
};

struct page_site {
    uint32_t site, function, name, call;
};

/* rank PAGE_NONE stands for all. */
struct page_site_cell {
    int32_t site, rank;
    int64_t count, failed, total, waited;
};

struct page_flights; /* flight.h */

struct page_job {
    const char *dir;
    int size;
    struct page_rank **ranks; /* in the order of their numbers */
    int n_ranks;
    struct page_set strings, kinds, shapes, group_keys;
    struct page_group *groups;
    size_t n_groups, groups_capacity;
    int64_t begin, end; /* of everything */

    int64_t collectives, paired, messages,
        messages_paired; /* distinct collectives, and those seen on all their ranks */
    struct page_set wait_keys;
    struct page_wait *waits;
    size_t n_waits, waits_capacity;

    struct page_operation *operations;
    struct page_row *rows;
    struct page_cell *cells;
    struct page_site_cell *site_cells;
    struct page_set sites;
    size_t n_operations, n_rows, n_cells, n_site_cells;

    struct page_flights *flights;
    bool has_limits;
    char **warnings;
    int n_warnings;
    bool failed; /* for want of memory */
};

/* job.c: reads the traces of the world that was chosen. False after saying on stderr why nothing can be shown. */
struct page_worlds; /* worlds.h */
bool page_read_dir(struct page_job *job, const struct page_worlds *worlds);
void page_free(struct page_job *job);
void page_warn(struct page_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The rank's index in job->ranks; PAGE_NONE: it left no trace. */
int page_find_rank(const struct page_job *job, int rank);

/* trace_read.c: adds what the file says to the job. False: it is no trace of a rank, and why says why. */
enum { PAGE_WHY_MAX = 256 };
struct page_rank *page_read_trace(struct page_job *job, const char *path, int rank, char why[PAGE_WHY_MAX]);
void page_rank_free(struct page_rank *rank);

void page_pair(struct page_job *job);
void page_tables(struct page_job *job);

/* limits.c: reads DIR/limits.json where there is one, and sets the operations' limits. */
void page_limits(struct page_job *job);

/* file.c: opens a plain file to read it: a pipe by that name would keep us waiting; -1 with errno set. */
int page_open(const char *path);
/* Gives the lines of a file, without their ends, to take, which is false for those that are malformed. */
struct page_lines {
    bool (*take)(void *context, const char *text, size_t len);
    void *context;
    int64_t malformed; /* how many */
    bool whole, stop;  /* the last line was right; take wants no more */
};
/* 0, or an error as errno has them. */
int page_lines_read(int fd, struct page_lines *lines);
/* The whole of a plain file of no more than 64 MiB; NULL with errno set. */
char *page_load(const char *path, size_t *len);
/* A file that comes into being at page_save, whole, or not at all; "-" is standard output. page_create: NULL after saying on stderr why not. */
struct page_output {
    FILE *file;
    char *path, *temporary;
};
bool page_create(struct page_output *out, const char *path);
bool page_save(struct page_output *out);
void page_discard(struct page_output *out);

/* summary.c: everything that the page shows but the timeline, as JSON. */
struct msi_buf;
void page_summary(const struct page_job *job, struct msi_buf *to);
/* terminal.c: the same in a few lines for people. */
void page_words(const struct page_job *job);
void page_say_warnings(const struct page_job *job);
/* html.c: the page itself; summary is JSON. */
void page_write(struct page_job *job, const struct msi_buf *summary, FILE *to);
/* overview.c, lanes.c: what the timeline draws, in elements of the page. */
void page_overview(struct page_job *job, FILE *to);
void page_lanes(struct page_job *job, FILE *to);
/* Writes JSON into an element of a page, where no "<" may be. */
void page_put_json(const struct msi_buf *json, FILE *to);
void page_put_base64(const uint8_t *data, size_t len, FILE *to);

/* Words of a kind: texts of the job by their number, never NULL. */
const char *page_string(const struct page_job *job, uint32_t number);
const struct page_kind *page_kind_of(const struct page_job *job, const struct page_event *event);
const struct page_shape *page_shape_of(const struct page_job *job, const struct page_event *event);
/* Whatever it moved came to nothing: its time is waiting. */
bool page_failed(const struct page_job *job, const struct page_event *event);
/* When it had nobody to wait for any more: its beginning where that is not known, its end where it failed. */
int64_t page_ready(const struct page_job *job, const struct page_event *event);
/* Bytes on each connection per byte of the message among n ranks; 0: the operation moves nothing. */
double page_bus_factor(enum page_class class, int n);
/* Which class a collective is of, by its name. */
enum page_class page_class_of(const char *call);
extern const char *const page_class_names[PAGE_CLASSES];

/* array holds n and can hold *capacity entries of size bytes: makes room for one more, or marks the job as failed and is false. */
bool page_room(struct page_job *job, void *array, size_t n, size_t *capacity, size_t size);

#endif
