/*
 * rank_states.h - the launcher's side of base/rank_state.h: the memory in which the ranks of this host note what they do, and how
 * to read it after they have died.
 *
 * Its size is sealed, so no rank can make reading it fail. What is in it is anybody's: numbers are checked, texts are
 * ended and cleaned of control characters. Where such memory is not to be had, no rank has ever written anything.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_RANK_STATES_H
#define MUSTER_TOOL_RUN_RANKS_RANK_STATES_H

#include "base/rank_state.h"
#include "prof/flight/flight.h"

struct slates {
    int fd; /* -1: there are none */
    int n, world_size;
    unsigned char *memory;
};

/* How far a rank has come. */
struct slate_stage {
    enum msi_slate_phase phase;
    int rank;     /* as it calls itself, in the world ... */
    bool is_here; /* ... that all ranks of the job are in, as far as can be told */
};

/* What a rank has noted, as copies. */
struct slate_view {
    struct slate_stage stage;
    bool has_call, under_way;
    char operation[MSI_SLATE_NAME], file[MSI_SLATE_FILE], function[MSI_SLATE_NAME];
    uint64_t sequence, count;
    int ranks, line; /* 0: not known */
    int dtype;
    bool has_error, is_earlier; /* earlier: in another call than the one above */
    mst_status status;
    int culprit;
    uint64_t error_sequence;
    char error_operation[64], message[MSI_SLATE_MESSAGE], remedy[MSI_SLATE_REMEDY];
};

/* Never fails: there may be none afterwards. */
void slates_open(struct slates *slates, int n);
void slates_close(struct slates *slates);

/* Empties all, for ranks to come, of a world of that size. */
void slates_begin(struct slates *slates, int world_size);

struct slate_stage slates_stage(const struct slates *slates, int local_rank);
/* Copies what the rank recorded last, unchecked; false: there is no memory for it. */
bool slates_flight(const struct slates *slates, int local_rank, struct msi_flight *copy);
void slates_read(const struct slates *slates, int local_rank, struct slate_view *view);

#endif
