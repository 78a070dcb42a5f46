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

struct states {
    int fd; /* -1: there are none */
    int n, world_size;
    unsigned char *memory;
};

/* How far a rank has come. */
struct rank_stage {
    enum msi_rank_phase phase;
    int rank;     /* as it calls itself, in the world ... */
    bool is_here; /* ... that all ranks of the job are in, as far as can be told */
};

/* What a rank has noted, as copies. */
struct rank_state_view {
    struct rank_stage stage;
    bool has_call, under_way;
    char operation[MSI_RANK_STATE_NAME], file[MSI_RANK_STATE_FILE], function[MSI_RANK_STATE_NAME];
    uint64_t sequence, count;
    int ranks, line; /* 0: not known */
    int dtype;
    bool has_error, is_earlier; /* earlier: in another call than the one above */
    mst_status status;
    int culprit;
    uint64_t error_sequence;
    char error_operation[64], message[MSI_RANK_STATE_MESSAGE], remedy[MSI_RANK_STATE_REMEDY];
};

/* Never fails: there may be none afterwards. */
void rank_states_open(struct states *states, int n);
void rank_states_close(struct states *states);

/* Empties all, for ranks to come, of a world of that size. */
void rank_states_begin(struct states *states, int world_size);

struct rank_stage rank_states_stage(const struct states *states, int local_rank);
/* Copies what the rank recorded last, unchecked; false: there is no memory for it. */
bool rank_states_flight(const struct states *states, int local_rank, struct msi_flight *copy);
void rank_states_read(const struct states *states, int local_rank, struct rank_state_view *view);

#endif
