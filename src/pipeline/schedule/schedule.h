/*
 * schedule.h - the schedule of a pipeline as data: what each stage computes, sends and receives, in order.
 *
 *  1. Making a schedule is a pure function of a spec. Each stage makes its own list; the lists match because
 *     all stages use the same spec. check.h verifies all lists together.
 *  2. Part k of the model, of stages x chunks parts, is chunk k / stages of stage k % stages. Activations go
 *     from a part to the next, so always from a stage to the next on the ring, and gradients the other way.
 *     Streaming returns the ids of new tokens from the last stage to stage 0. With one stage such messages go
 *     from the stage to itself.
 *  3. A stage does its actions in order. RECEIVE and SEND only start a transfer. FORWARD, BACKWARD and TAKE
 *     first wait for the message that they read (input). FORWARD and BACKWARD also wait for an earlier send
 *     from their output buffer (reuses). After the last action a stage waits for its sends. There is no
 *     barrier.
 *  4. On each channel the k-th message from a stage to its neighbour matches the k-th receive there. Every
 *     RECEIVE is posted one compute ahead of its reader, so that communication overlaps with computation; a
 *     RECEIVE of token ids is posted before the forward that produces them. So a stage may even use blocking
 *     sends.
 *  5. Memory is bounded. Each channel has two send buffers. Gradients are received into two buffers,
 *     activations into one more than the stage may keep for backwards, or into two without backwards. If
 *     interleaved groups are larger than the ring, messages that wrap around it have that many more buffers.
 *     Token ids have one buffer more than the larger of the number of sequences in flight and the number of
 *     stages.
 *  6. The backwards of a chunk process the micro-batches in ascending order in every kind of schedule, so
 *     that gradients have the same bits.
 *
 * A schedule that starts as zeros is empty; making one again frees the old one. Used by one thread at a time.
 */
#ifndef MSI_PIPELINE_SCHEDULE_SCHEDULE_H
#define MSI_PIPELINE_SCHEDULE_SCHEDULE_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum msi_schedule_kind {
    MSI_STREAM, /* inference: loops over groups of batches, tokens, batches of the group, micro-batches */
    MSI_FORWARD_ALL, /* forward of every micro-batch, as for validation */
    MSI_GPIPE,       /* all forwards, then all backwards */
    MSI_1F1B,        /* warm-up forwards, then one forward, one backward, … */
    MSI_INTERLEAVED, /* the same with several parts of the model on each stage, in Megatron's order */
    MSI_SCHEDULE_KINDS,
};

/* "1f1b"; NULL for an invalid kind. */
const char *msi_schedule_name(int kind);
/* The kind of that name, or -1. */
int msi_schedule_kind(const char *name);
/* Does it have backwards? */
bool msi_schedule_trains(int kind);

/* Parameters. 0 means the default. */
struct msi_schedule_spec {
    int kind;
    int stages;
    int micros; /* micro-batches of a step; streaming: of each batch (default 1) */
    int chunks; /* interleaved: parts of the model on each stage (default 2); else 1 */
    /* Streaming only; else 1. */
    int batches; /* default: inner */
    int tokens;  /* new tokens of each batch (default 1) */
    int inner;   /* batches of a group, which alternate at each token (default: stages) */
};

/* Sets the defaults and checks the spec: MST_ERR_INVALID or MST_ERR_LIMIT. */
mst_status msi_schedule_settle(struct msi_schedule_spec *spec);

enum msi_action_kind {
    MSI_ACT_RECEIVE,
    MSI_ACT_SEND,
    MSI_ACT_FORWARD,
    MSI_ACT_BACKWARD,
    MSI_ACT_TAKE, /* streaming, stage 0: passes the ids of a batch's last token to the program */
    MSI_ACT_KINDS,
};

enum msi_stage_channel {
    MSI_ACTIVATIONS, /* from stage s to s+1 on the ring: in the pair group of s */
    MSI_GRADIENTS,   /* from stage s to s-1 on the ring: in the pair group of s-1 */
    MSI_TOKENS,      /* from the last stage to stage 0: in the pair group of the last */
    MSI_CHANNELS,
};

#define MSI_NO_ACTION UINT32_MAX

/*
 * One action of a stage, for one micro-batch (of one token of one batch). References to actions are indices
 * into the stage's list, or MSI_NO_ACTION.
 */
struct msi_action {
    uint8_t kind;
    uint8_t channel; /* messages */
    int16_t chunk;   /* the stage's part that computes, reads or wrote it */
    int32_t batch;   /* streaming, else 0 */
    int32_t token;   /* streaming, else 0: 0 is the prompt; of token ids: the token that produced them */
    int32_t micro;
    /* Messages. */
    int32_t peer;    /* the other stage */
    uint32_t number; /* of the message on its channel and direction */
    int32_t slot;    /* the buffer, 0 … slots-1 of the channel and direction */
    /*
     * Computes. keep: in training, the index of the data that the forward stores for the backward; in
     * streaming, of the cache of this batch and micro-batch. Without input a forward reads data and a
     * backward begins with the loss (TAKE always has an input). Without output a forward in training computes
     * the loss. An input buffer is free after it was read; that of a forward in training after its backward.
     */
    int32_t keep;     /* 0 … keeps-1 */
    uint32_t input;   /* the RECEIVE of its input buffer */
    uint32_t output;  /* the SEND of its output buffer */
    uint32_t reuses;  /* the earlier SEND of that buffer, which must complete first */
    uint32_t forward; /* BACKWARD: its FORWARD */
};

enum { MSI_IN_SLOT, MSI_OUT_SLOT };

/* One stage's part of a schedule. */
struct msi_stage_list {
    struct msi_action *actions;
    uint32_t n;
    int keeps; /* training: most activations (of a chunk) alive; streaming: sequences in flight */
    int slots[MSI_CHANNELS][2]; /* buffers of each channel, for receiving and for sending */
};

/* Makes the list of one stage. The spec has passed msi_schedule_settle. MST_ERR_MEMORY: list is unchanged. */
mst_status msi_schedule_stage(const struct msi_schedule_spec *spec, int stage, struct msi_stage_list *list);
void msi_schedule_stage_free(struct msi_stage_list *list);

struct msi_schedule {
    struct msi_schedule_spec spec;
    struct msi_stage_list *stages;
};

/* Calls msi_schedule_settle and makes the lists of all stages. */
mst_status msi_schedule_make(const struct msi_schedule_spec *spec, struct msi_schedule *schedule);
void msi_schedule_free(struct msi_schedule *schedule);

/* Number of micro-batches that pass through each part, over all tokens of all batches. */
size_t msi_schedule_units(const struct msi_schedule_spec *spec);

/*
 * Upper bound of a stage's keeps:
 *   gpipe        m
 *   1f1b         min(stages - stage, m)
 *   interleaved  min(v·m, 2·(stages - stage - 1) + (v - 1)·g + 1), of chunks; g: the largest group
 *   stream       inner · m
 */
int msi_schedule_keeps_bound(const struct msi_schedule_spec *spec, int stage);

/*
 * Interleaved: a group of micro-batches runs through all chunks before the next group begins. In Megatron a
 * group has as many micro-batches as stages, which must divide their number. Here the micro-batches are
 * distributed evenly over m / stages groups, so that no group is smaller than the number of stages. Without a
 * remainder this is Megatron's order. Fewer micro-batches than stages form one group.
 */
int msi_interleaved_group_size(const struct msi_schedule_spec *spec, int group);

#endif
