/*
 * view.h - a checked view of a rank's flight recorder, made from the recorder or from a file. Pure.
 *
 * The bytes may be anything, since a rank with a memory error may have overwritten its recorder. Numbers are
 * checked, texts are terminated and free of control characters, and entries that make no sense are left out.
 */
#ifndef MSI_PROF_FLIGHT_VIEW_H
#define MSI_PROF_FLIGHT_VIEW_H

#include "prof/flight/flight.h"

#define MSI_FLIGHT_UNKNOWN INT64_MIN

struct msi_flight_group {
    const char *name;                   /* "": none, or not known */
    uint64_t id;                        /* the same on all its ranks */
    int size;                           /* 0: nothing is known of the group */
    bool gone;                          /* the rank has destroyed it */
    bool known;                         /* members is complete */
    uint64_t members[MSI_FLIGHT_WORDS]; /* a bit for each rank */
};

static inline bool msi_flight_has_member(const struct msi_flight_group *group, int rank) {
    return group->known && rank < MSI_FLIGHT_MEMBERS && group->members[rank / 64] >> rank % 64 & 1;
}
/* Adds a member; the members are known once there are as many as the size says. */
void msi_flight_add_member(struct msi_flight_group *group, int rank);

static inline bool msi_flight_same_group(const struct msi_flight_group *a, const struct msi_flight_group *b) {
    return a->size && a->id == b->id && a->size == b->size;
}

struct msi_flight_op {
    uint64_t number, count;
    uint64_t seq; /* MSI_FLIGHT_NO_NUMBER: none yet */
    enum msi_flight_state state;
    int64_t begin, end; /* nanoseconds since the recorder began; MSI_FLIGHT_UNKNOWN */
    int group;          /* index in the view's groups */
    const char *name;   /* "all_reduce"; "": not known */
    const char *site;   /* "train.c:33"; "": not known */
    const char *function;
    int dtype; /* 0: none */
    enum msi_flight_type type;
    int peer, tag; /* of a message: global rank; -1: any */
};

struct msi_flight_view {
    int64_t now;     /* when the recorder was read, on the clock of begin and end; MSI_FLIGHT_UNKNOWN */
    int64_t unix_ns; /* wall clock when the recorder began; 0: not known */
    int n, n_groups;
    const struct msi_flight_op *ops; /* oldest first */
    const struct msi_flight_group *groups;
};

static inline bool msi_flight_is_over(const struct msi_flight_op *op) {
    return op->state == MSI_FLIGHT_DONE || op->state == MSI_FLIGHT_FAILED;
}
static inline bool msi_flight_is_message(const struct msi_flight_op *op) {
    return op->type != MSI_FLIGHT_COLLECTIVE;
}

/* A view with its memory. */
struct msi_flight_snapshot {
    struct msi_flight_view view;
    struct msi_flight_op ops[MSI_FLIGHT_ENTRIES];
    /* The last two stand for groups without an entry: one had no space, one lost its entry after its end. */
    struct msi_flight_group groups[MSI_FLIGHT_GROUPS + 1];
    char names[MSI_FLIGHT_GROUPS][MSI_FLIGHT_GROUP];
    struct {
        char name[MSI_FLIGHT_NAME], site[MSI_FLIGHT_FILE + 12], function[MSI_FLIGHT_NAME];
    } sites[MSI_FLIGHT_SITE_ENTRIES];
};

/*
 * Reads a recorder that may be written meanwhile: entries that change are left out. look says what time it
 * is. False: nothing was ever recorded, and the view is empty.
 */
bool msi_flight_read(const struct msi_flight *flight, struct msi_tick_look look,
                     struct msi_flight_snapshot *snapshot);
/* Reads this process's recorder (flight.c). */
bool msi_flight_read_own(struct msi_flight_snapshot *snapshot);

/* The operation that the rank is in: the newest started one, or else the oldest queued one; NULL: none. */
const struct msi_flight_op *msi_flight_current(const struct msi_flight_view *view);
/* The newest operation; NULL: none. */
const struct msi_flight_op *msi_flight_last(const struct msi_flight_view *view);

#endif
