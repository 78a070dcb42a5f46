/*
 * worlds.h - the traces and flight recordings in a directory. A directory may hold traces of several worlds:
 * of earlier runs, of a restarted job, of a program that called mst_init more than once. Traces whose first
 * line has the same formation time, which rank 0 sent to all ranks, belong to one world.
 */
#ifndef MUSTER_TOOL_REPORT_WORLDS_H
#define MUSTER_TOOL_REPORT_WORLDS_H

#include "report/report.h"

#define REPORT_TRACE_SUFFIX  ".trace.json"
#define REPORT_FLIGHT_SUFFIX ".flight.json"

/* DIR/rank-R.trace.json, or DIR/rank-R.K.trace.json for a number K from 2 on. */
struct report_trace {
    int rank, number;
    int64_t unix_ns; /* when its world formed, or REPORT_UNKNOWN */
};

struct report_worlds {
    const char *dir;
    struct report_trace
        *traces; /* by world, the unknown ones first, then the oldest; within a world by rank, number */
    size_t n, capacity;
    size_t first, end;       /* the traces of the selected world */
    int selected, count;     /* its number, from 1, and how many worlds there are */
    int *flights, n_flights; /* ranks that left a flight recording, ascending */
    size_t flights_capacity;
};

/* Lists the directory and selects a world by its number, or the newest if wanted is 0. */
mst_status report_worlds_find(struct report_worlds *worlds, const char *dir, int64_t wanted);
void report_worlds_free(struct report_worlds *worlds);
/* The trace's path, which the caller frees. */
char *report_worlds_path(const struct report_worlds *worlds, const struct report_trace *trace);
/* Warns if the directory has traces of other worlds. */
void report_warn_of_worlds(struct report_job *job, const struct report_worlds *worlds);

/* Parses rank and number from a file name with this suffix. */
bool report_parse_name(const char *name, const char *suffix, int *rank, int *number);

/* merge.c: writes all traces of the selected world as one trace. */
mst_status report_merge(const struct report_worlds *worlds, const char *path);

#endif
