/*
 * rank_states.h - the launcher's side of base/rank_state.h: the shared memory in which each rank of this host
 * records its current call and last error, and which the launcher reads after the rank has died.
 *
 * The size of the memory is sealed, so no rank can make reading it fail. The launcher does not trust the
 * contents: it checks numbers, terminates texts and removes control characters. If the memory cannot be
 * created, every rank looks as if it had never written anything. The loop's thread uses it.
 */
#ifndef MUSTER_TOOL_RUN_RANKS_RANK_STATES_H
#define MUSTER_TOOL_RUN_RANKS_RANK_STATES_H

#include "base/rank_state.h"
#include "os/segment.h"
#include "prof/flight/flight.h"

struct rank_states {
    struct msi_segment segment; /* fd -1: no memory */
    int n, world_size;
};

/* How far a rank has come. */
struct rank_stage {
    enum msi_rank_phase phase;
    int rank;     /* its own number in its world */
    bool is_here; /* that world has the size of the job's */
};

/* A copy of what a rank has recorded. */
struct rank_state_view {
    struct rank_stage stage;
    bool has_call, under_way;
    char operation[MSI_RANK_STATE_NAME], file[MSI_RANK_STATE_FILE], function[MSI_RANK_STATE_NAME];
    uint64_t sequence, count;
    int ranks, line; /* 0: unknown */
    int dtype;
    bool has_error, is_earlier; /* is_earlier: the error happened in a call before the one above */
    mst_status status;
    int culprit;
    uint64_t error_sequence;
    char error_operation[64], message[MSI_RANK_STATE_MESSAGE], remedy[MSI_RANK_STATE_REMEDY];
};

/* Creates the memory for n ranks; segment.fd is -1 if that fails. */
void rank_states_open(struct rank_states *states, int n);
void rank_states_close(struct rank_states *states);

/* Clears all states before the ranks of a world of that size start. */
void rank_states_begin(struct rank_states *states, int world_size);
/* Clears the state of one rank, for its replacement. */
void rank_states_clear(struct rank_states *states, int local_rank);

struct rank_stage rank_states_stage(const struct rank_states *states, int local_rank);
/* The rank's flight recorder, unchecked; NULL without memory. */
const struct msi_flight *rank_states_flight(const struct rank_states *states, int local_rank);
void rank_states_read(const struct rank_states *states, int local_rank, struct rank_state_view *view);

#endif
