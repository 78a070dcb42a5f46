/*
 * report.h - the data of "muster report": the traces of one job and the figures computed from them.
 *
 *   worlds.c      lists the traces of a directory by world;  merge.c  writes those of a world as one trace
 *   trace_line.c  parses a line of a trace;  trace_read.c  reads the trace of a rank;  job.c  reads all ranks
 *   fields.c      reads a JSON object by a table;  file.c  reads files;  memory.c  allocates memory
 *   match.c       matches the events of different ranks and computes which rank waited for which
 *   table.c       times by operation and size;  op_times.c  their figures;  sites.c  times by call site
 *   flight.c      diagnosis from the flight recordings;  flight_file.c  reads one recording
 *   limits.c      lower bounds of the machine from limits.json
 *   summary.c     all figures as JSON;  terminal.c  the most important ones as text
 *   html.c        the HTML page;  overview.c, lanes.c  the events, packed for its timeline
 *
 * Times are nanoseconds on the clock of rank 0's host since the world formed. Input files are not trusted:
 * numbers are checked against limits, texts may hold any bytes. Out of memory ends the program. One thread.
 */
#ifndef MUSTER_TOOL_REPORT_REPORT_H
#define MUSTER_TOOL_REPORT_REPORT_H

#include "base/buf.h"
#include "base/table.h"
#include "prof/summary/rank_times.h"

#include <muster/backend.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define REPORT_TIME_MOST 9000000000000000LL /* 104 days; exact as a double */
#define REPORT_UNKNOWN   INT64_MIN
enum { REPORT_RANKS_MOST = 65536, REPORT_WINDOWS = 100, REPORT_NONE = -1, REPORT_BLOCK = 1024 };

/* The class of an operation, which selects its colour: an mst_kind or REPORT_OTHER. */
enum { REPORT_OTHER = MST_KIND_COUNT, REPORT_CLASSES };
extern const char *const report_class_names[REPORT_CLASSES];

/* Attributes that calls from one place share; texts are numbers in job.strings. A key, so without padding. */
struct report_kind {
    uint32_t name, call, dtype, op, backend, algorithm, site, function, status;
    uint32_t group, tid, class;
    uint32_t message, work;
};

struct report_shape {
    int64_t bytes;
    int32_t peer, tag; /* of messages; else REPORT_NONE */
};

struct report_event {
    int64_t begin, took;
    int64_t queued, waited; /* or REPORT_UNKNOWN */
    int64_t device;         /* time on the device, or REPORT_UNKNOWN */
    int64_t seq;
    int64_t arrived; /* when the last rank of the group or the sender began, or REPORT_UNKNOWN */
    uint32_t kind, shape;
};

/* The time on the device if known, because a call that only enqueues returns at once. */
static inline int64_t report_duration(const struct report_event *e) {
    return e->device != REPORT_UNKNOWN ? e->device : e->took;
}

/* ranks is NULL if no line describes the group. */
struct report_group {
    uint32_t name;
    int size;
    int32_t *ranks;
};

struct report_rank {
    int rank;
    uint32_t host, program;
    int64_t pid;
    struct report_event *events;
    size_t n, capacity;
    uint32_t *rows;                  /* of each event, in job.rows; until report_make_cells */
    int64_t end;                     /* of its last event */
    int64_t clock_error;             /* ns */
    int64_t malformed, open;         /* malformed lines; works without an end */
    int64_t dropped;                 /* events that did not fit into the recorder */
    bool ended, cut;                 /* the trace has its end record; the file is truncated */
    struct msi_rank_times times;     /* as in the table of the profile */
    int64_t windows[REPORT_WINDOWS]; /* times.waited_for_ns, by time */
};

/* How long and how often rank waited for the rank late. */
struct report_wait {
    int32_t rank, late;
    int64_t ns, times;
};

/* Failed calls are only in failed, comm and waiting. */
struct report_figures {
    int64_t count, failed;
    int64_t comm, waiting; /* communication time; of that, waiting for other ranks */
    int64_t total;
    double average, algbw, busbw; /* trimmed: without round(0.1 n) of each end; ns and Gbit/s; 0: unknown */
    double free_algbw;            /* algbw without the time before the last rank began */
};

/* REPORT_NONE as group or rank stands for all of them. */
struct report_cell {
    int32_t operation, group, rank;
    struct report_figures figures;
};

struct report_row {
    uint32_t name, call, class;
    int32_t size;
    int64_t bytes;
    int32_t group, up_to; /* up_to: stands for all sizes in (bytes / 2, bytes] */
};

struct report_operation {
    struct report_row row; /* the first of its rows */
    size_t first, n;       /* its rows, one for each group */
    double limit;          /* lower bound on this machine in ns; 0: unknown */
    struct report_figures figures;
};

struct report_site {
    uint32_t site, function, name, call;
};

/* REPORT_NONE as rank stands for all of them. */
struct report_site_cell {
    int32_t site, rank;
    int64_t count, failed, comm, waiting;
};

struct report_flights; /* flight.h */
struct report_worlds;  /* worlds.h */

struct report_job {
    const char *dir;
    int size;
    struct report_rank **ranks; /* ascending */
    int n_ranks;
    struct msi_table strings, kinds, shapes, group_keys;
    struct report_group *groups;
    size_t n_groups, groups_capacity;
    int64_t begin, end; /* of all events */
    int64_t n_events;
    struct msi_table hosts; /* numbers in strings */

    /* Complete: found on all their ranks. */
    int64_t collectives, collectives_complete, messages, messages_complete;
    struct msi_table wait_keys;
    struct report_wait *waits;
    size_t n_waits, waits_capacity;

    struct report_operation *operations;
    struct report_row *rows;
    struct report_cell *cells;
    struct report_site_cell *site_cells;
    struct msi_table sites;
    size_t n_operations, n_rows, n_cells, n_site_cells;

    struct report_flights *flights;
    char **warnings;
    int n_warnings;
};

/* memory.c: memory that is zero, and a formatted text. The caller frees them. */
void *report_alloc(size_t n, size_t size);
char *report_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ensures that *array, which has n entries of size bytes, can hold another. */
void report_reserve(void *array, size_t n, size_t *capacity, size_t size);
/* The number of the key in the table. */
uint32_t report_add(struct msi_table *table, const void *key, size_t len);
_Noreturn void report_no_memory(void);

/* job.c: reads the traces and recordings of the selected world. */
mst_status report_read_dir(struct report_job *job, const struct report_worlds *worlds);
void report_free(struct report_job *job);
void report_warn(struct report_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The rank's index in job->ranks, or REPORT_NONE if it left no trace. */
int report_find_rank(const struct report_job *job, int rank);
/* The text with that number; "(others)" for UINT32_MAX, the number in rows and sites of the rest. */
const char *report_string(const struct report_job *job, uint32_t number);
static inline const struct report_kind *report_kind_of(const struct report_job *job,
                                                       const struct report_event *event) {
    return msi_table_key(&job->kinds, event->kind);
}
static inline const struct report_shape *report_shape_of(const struct report_job *job,
                                                         const struct report_event *event) {
    return msi_table_key(&job->shapes, event->shape);
}
static inline bool report_failed(const struct report_job *job, const struct report_event *event) {
    return report_kind_of(job, event)->status != 0; /* 0 is the empty text */
}
/* The event's communication time and the part of it that is waiting: prof/summary/comm_time.h. */
int64_t report_comm(const struct report_job *job, const struct report_event *event);
int64_t report_waiting(const struct report_job *job, const struct report_event *event);
/* For the timeline: when the last rank had begun; the begin if that is unknown, the end if it failed. */
int64_t report_ready(const struct report_job *job, const struct report_event *event);
/* busbw / algbw among n ranks. */
double report_bus_factor(uint32_t class, int n);
/* The class of a collective, from the name of its call. */
uint32_t report_class_of(const char *call);

/* trace_read.c: adds the events of a rank's trace to the job. */
mst_status report_read_trace(struct report_job *job, const char *path, int rank, struct report_rank **out);
void report_rank_free(struct report_rank *rank);

void report_match_events(struct report_job *job);
/* Reads DIR/limits.json, if it exists, and sets the limits of the operations. */
void report_read_limits(struct report_job *job);

/* table.c: the rows and operations. */
void report_make_rows(struct report_job *job);
/* op_times.c: the figures of each operation, in total, by rank and by group. Frees rank.rows. */
void report_make_cells(struct report_job *job);
/* sites.c */
void report_make_sites(struct report_job *job);

/* file.c: a regular file that is read line by line. */
struct report_lines {
    int fd, error; /* error: an errno value; 0: none */
    char *data;
    size_t at, len; /* data from at to len is not read yet */
    bool ended;     /* no more bytes can be read */
    bool last;      /* the line has no newline */
};
void report_lines_open(struct report_lines *in, const char *path);
/* The next line that is not empty; a very long one comes in pieces. False: there is none, or an error. */
bool report_next_line(struct report_lines *in, struct msi_str *line);
/* Returns 0 or an errno value. */
int report_lines_close(struct report_lines *in);
enum { REPORT_FILE_MOST = 64 << 20 }; /* bytes of a file that is read as a whole */

/* summary.c: all figures as JSON. */
void report_summary(const struct report_job *job, struct msi_buf *to);
/* terminal.c: the most important figures as text on stdout; the warnings on stderr. */
void report_print(const struct report_job *job);
void report_print_warnings(const struct report_job *job);

/* html.c: the page; summary is the JSON of report_summary. */
void report_write_html(const struct report_job *job, const struct msi_buf *summary, FILE *to);
/* overview.c, lanes.c: the data of the timeline, as elements of the page. */
void report_write_overview(const struct report_job *job, FILE *to);
void report_write_lanes(const struct report_job *job, FILE *to);
/* Writes JSON into an element of the page, with every "<" escaped. */
void report_write_json(const struct msi_buf *json, FILE *to);
void report_write_base64(const uint8_t *data, size_t len, FILE *to);

#endif
