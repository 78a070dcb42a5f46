/* page_flight.h - what the flight recorders of the ranks kept, and what it says together: see page.h. */
#ifndef MUSTER_TOOL_PAGE_FLIGHT_H
#define MUSTER_TOOL_PAGE_FLIGHT_H

#include "page.h"
#include "text.h"

enum flight_state { FLIGHT_QUEUED, FLIGHT_STARTED, FLIGHT_DONE, FLIGHT_FAILED, FLIGHT_STATES };
extern const char *const flight_states[FLIGHT_STATES];

/* Texts are numbers of the job's strings. */
struct flight_op {
    uint32_t name, dtype, site, function;
    uint32_t group; /* its number among the recorders' groups */
    enum flight_state state;
    enum page_class class;
    int64_t n, seq, count, begin, end; /* ns; PAGE_UNKNOWN: not said */
    int32_t peer;                      /* PAGE_NONE: it is a collective */
};

struct flight {
    int rank;
    uint32_t host, reason;
    int blames; /* the rank that it names as the cause of its own failure, or PAGE_NONE */
    int64_t pid;
    struct flight_op *ops; /* oldest first */
    size_t n, capacity;
    const struct flight_op *current; /* the newest that is not over, or has failed; NULL: none */
    const struct flight_op *last;    /* the newest that is over; NULL: none */
};

/* last_called: the highest number that a rank of it called; slowest: the rank whose own highest is the lowest, and that. */
struct flight_group {
    uint32_t name;
    int size, seen;
    int slowest;
    int64_t slowest_seq;
    int newest_reader;
    int64_t newest_seq;
};

enum flight_verdict {
    VERDICT_NONE,      /* no rank is in a call */
    VERDICT_BEHIND,    /* one has not come to where others wait */
    VERDICT_MISSING,   /* others wait for ranks that left no recording */
    VERDICT_LOST,      /* others name one as the cause of their failure */
    VERDICT_CIRCLE,    /* they wait for each other */
    VERDICT_DIFFERENT, /* they called different operations */
    VERDICT_TOGETHER,  /* all are in it, and it does not end */
};

struct page_flights {
    struct flight *list; /* by rank */
    int n, size;
    struct page_set group_keys;
    struct flight_group *groups;
    size_t n_groups, groups_capacity;
    enum flight_verdict verdict;
    struct text words; /* the verdict: one sentence or two */
    int *blamed;       /* the ranks that it names */
    int n_blamed;
};

/* Reads the files of these ranks, and judges. What cannot be read becomes a warning. */
void page_flights_read(struct page_job *job, const int *ranks, int n);
bool page_flights_any(const struct page_job *job);
void page_flights_free(struct page_job *job);

/* page_verdict.c */
void page_judge(struct page_job *job);
/* page_tell.c */
/* "all_reduce number 17 of world at train.c:33 (step)" */
void page_flight_words(const struct page_job *job, const struct flight_op *op, struct text *to);

#endif
