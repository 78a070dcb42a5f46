/*
 * view.h - what a rank's flight recorder says, made fit to be judged, whoever read it: from a copy of the recorder, whose bytes
 * may be anybody's, since a rank that went wild may have written anything anywhere, or from a file. Numbers are checked, texts are
 * ended and clean of control characters, and what makes no sense is left out. Pure.
 */
#ifndef MSI_PROF_FLIGHT_VIEW_H
#define MSI_PROF_FLIGHT_VIEW_H

#include "prof/flight/flight.h"

#define MSI_FLIGHT_UNKNOWN INT64_MIN

/* A group. */
struct msi_flight_team {
    const char *name;                   /* "": none, or not known */
    uint64_t id;                        /* alike on all its ranks */
    int size;                           /* 0: nothing is known of it, not even whose it is */
    bool gone;                          /* the rank has destroyed it */
    bool known;                         /* who its members are: */
    uint64_t members[MSI_FLIGHT_WORDS]; /* a bit for each rank */
};

static inline bool msi_flight_has_member(const struct msi_flight_team *team, int rank) {
    return team->known && rank < MSI_FLIGHT_MEMBERS && team->members[rank / 64] >> rank % 64 & 1;
}
/* Adds one to a team; it is known who its members are once there are as many. */
void msi_flight_add_member(struct msi_flight_team *team, int rank);

struct msi_flight_op {
    uint64_t number, count;
    uint64_t seq; /* MSI_FLIGHT_NO_NUMBER */
    enum msi_flight_state state;
    int64_t begin, end; /* nanoseconds since the recorder began; MSI_FLIGHT_UNKNOWN */
    int team;           /* among the view's */
    const char *name;   /* "all_reduce"; "": not known */
    const char *site;   /* "train.c:33", "": not known … */
    const char *function;
    int dtype; /* 0: none */
    enum msi_flight_way way;
    int peer, tag; /* of a message: global rank, -1: any */
};

struct msi_flight_view {
    int64_t now;     /* when it was looked at, as begin and end; MSI_FLIGHT_UNKNOWN */
    int64_t unix_ns; /* the calendar's time when the recorder began; 0: not known */
    int n, n_teams;
    const struct msi_flight_op *ops; /* oldest first */
    const struct msi_flight_team *teams;
};

static inline bool msi_flight_is_over(const struct msi_flight_op *op) {
    return op->state == MSI_FLIGHT_DONE || op->state == MSI_FLIGHT_FAILED;
}
static inline bool msi_flight_is_message(const struct msi_flight_op *op) {
    return op->way != MSI_FLIGHT_COLLECTIVE;
}

/* The memory of a view of a copy. */
struct msi_flight_room {
    struct msi_flight_view view;
    struct msi_flight_op ops[MSI_FLIGHT_ENTRIES];
    /* The last two are no group's: one for want of room, one that is gone with its line. */
    struct msi_flight_team teams[MSI_FLIGHT_GROUPS + 1];
    char names[MSI_FLIGHT_GROUPS][MSI_FLIGHT_GROUP];
    struct {
        char name[MSI_FLIGHT_NAME], site[MSI_FLIGHT_FILE + 12], function[MSI_FLIGHT_NAME];
    } places[MSI_FLIGHT_PLACES];
};

/*
 * Reads a copy by a look at the clocks that was taken after it. False: nobody has recorded anything there, and the view is empty. It
 * points into the room.
 */
bool msi_flight_look(const struct msi_flight *copy, struct msi_tick_look look, struct msi_flight_room *room);

/* What the rank is in: the newest operation that is under way, or else the oldest that waits for its turn; NULL: none. */
const struct msi_flight_op *msi_flight_current(const struct msi_flight_view *view);
/* The newest of all; NULL: none. */
const struct msi_flight_op *msi_flight_last(const struct msi_flight_view *view);

#endif
