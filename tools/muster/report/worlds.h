/*
 * worlds.h - which traces a directory has, and of which worlds. A directory may hold those of several: of earlier runs, of a
 * job that was restarted, of a program that joined more than once. Traces belong together that say that their world formed at the
 * same moment, which rank 0 told all of them.
 */
#ifndef MUSTER_TOOL_REPORT_WORLDS_H
#define MUSTER_TOOL_REPORT_WORLDS_H

#include "report/report.h"

/* DIR/rank-R.trace.json, or for numbers from 2 DIR/rank-R.K.trace.json. */
struct page_trace {
    int rank, number;
    int64_t unix_ns; /* PAGE_UNKNOWN: it does not say, or cannot be read */
};

struct page_worlds {
    const char *dir;
    struct page_trace
        *traces; /* by world, the oldest first, and in each by rank and number; those of none come first */
    size_t n, capacity;
    size_t first, end; /* the traces of the world that was chosen … */
    int chosen, count; /* … the how many-th, from 1, of how many */
};

/* Finds them, and chooses a world: the how many-th, or, with 0, the newest. False after saying on stderr why not. */
bool page_worlds_find(struct page_worlds *worlds, const char *dir, int64_t wanted);
void page_worlds_free(struct page_worlds *worlds);
/* The file's path, to be freed; NULL without memory. */
char *page_worlds_path(const struct page_worlds *worlds, const struct page_trace *trace);
/* Which worlds there are besides, in words to be freed; NULL: none, or no memory. */
char *page_worlds_others(const struct page_worlds *worlds);

/* The rank and the number in a file's name with this ending; false: it is no such name. */
bool page_name_read(const char *name, const char *ending, int *rank, int *number);

/* merge.c: writes all traces of the chosen world as one. Returns an exit status, after saying what was wrong. */
int page_merge(const struct page_worlds *worlds, const char *path);

#endif
