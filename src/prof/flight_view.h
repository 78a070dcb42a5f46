/*
 * flight_view.h - what a flight recorder says, made fit to be used: of a copy whose bytes may be anybody's, since a rank that went
 * wild may have written anything anywhere. Numbers are checked, texts are ended and clean of control characters, and what makes no
 * sense is left out. Pure.
 */
#ifndef MSI_PROF_FLIGHT_VIEW_H
#define MSI_PROF_FLIGHT_VIEW_H

#include "prof/flight.h"

#define MSI_FLIGHT_UNKNOWN INT64_MIN

struct msi_flight_site {
    char operation[MSI_FLIGHT_NAME], file[MSI_FLIGHT_FILE], function[MSI_FLIGHT_NAME]; /* "": not known */
    int line;                                                                          /* 0: not known */
};

struct msi_flight_team {
    char name[MSI_FLIGHT_GROUP]; /* "": none, or not known */
    uint64_t id;
    int size; /* 0: not known */
};

struct msi_flight_op {
    uint64_t number, seq, count;
    enum msi_flight_state state;
    int64_t begin, end; /* nanoseconds since the recorder began; MSI_FLIGHT_UNKNOWN */
    int group;          /* its place among the view's teams */
    const struct msi_flight_site *site;
    const struct msi_flight_team *team;
    int dtype; /* 0: none */
    int peer;  /* as in struct msi_flight_about */
};

struct msi_flight_view {
    int64_t now;     /* when it was looked at, as begin and end; MSI_FLIGHT_UNKNOWN */
    int64_t unix_ns; /* the calendar's time when the recorder began; 0: not known */
    int n;
    struct msi_flight_op ops[MSI_FLIGHT_ENTRIES]; /* oldest first */
    struct msi_flight_site sites[MSI_FLIGHT_PLACES];
    struct msi_flight_team teams[MSI_FLIGHT_GROUPS];
};

static inline bool msi_flight_is_over(const struct msi_flight_op *op) {
    return op->state == MSI_FLIGHT_DONE || op->state == MSI_FLIGHT_FAILED;
}
static inline bool msi_flight_is_message(const struct msi_flight_op *op) {
    return op->peer != -1;
}
/* "all_reduce" of "mst_all_reduce"; "?" where it is not known. */
const char *msi_flight_plain_name(const struct msi_flight_op *op);

/*
 * Reads a copy by a look at the clocks that was taken after it. False: nobody has recorded anything there, and the view is empty. The
 * operations point into the view.
 */
bool msi_flight_look(const struct msi_flight *copy, struct msi_tick_look look, struct msi_flight_view *view);

/* What the rank is in: the newest operation that is under way, or else the oldest that waits for its turn; NULL: none. */
const struct msi_flight_op *msi_flight_current(const struct msi_flight_view *view);
/* The newest of all; NULL: none. */
const struct msi_flight_op *msi_flight_last(const struct msi_flight_view *view);

#endif
