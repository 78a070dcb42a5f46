/*
 * schedule.h - a pipeline's schedule as data: what each stage computes, sends and receives, in which order.
 *
 *  1. Making a schedule is a pure function of a spec. Each stage's list can be made alone; the lists fit together because
 *     all stages make theirs from the same spec. check.h proves that for all stages at once, and tells the time it takes.
 *  2. Part k of the model, of stages x chunks parts, is chunk k / stages of stage k % stages. Activations go from a part
 *     to the next, so always from a stage to the next on the ring, and gradients the other way. Streaming returns the ids
 *     of new tokens from the last stage to stage 0. With one stage such messages go from the stage to itself.
 *  3. A stage does its actions in order. RECEIVE and SEND only start a transfer. FORWARD, BACKWARD and TAKE first wait for
 *     the message that they read (input), and the first two also until an earlier send from the buffer that they are about
 *     to write is over (reuses). After the last action a stage waits for what it still sends. Nothing else waits: there is
 *     no barrier.
 *  4. On each channel the k-th message from a stage to its neighbour meets the k-th receive there. Every RECEIVE is posted
 *     before the compute that comes before its reader on that channel, so that one message travels while another is worked
 *     on; that of token ids already before the forward that they will result from. So a stage may even send blocking.
 *  5. Memory is bounded. Results are sent from two buffers per channel. Gradients are received into two buffers, and
 *     activations into one more than the stage may keep for backwards, or into two where there is no backward; where
 *     interleaved groups are larger than the ring, what wraps around it has as many buffers more. Token ids have one buffer
 *     more than there are sequences in flight, or stages if those are more.
 *  6. Backwards of a chunk take the micro-batches in ascending order, in every kind of schedule: gradients add up to the
 *     same bits.
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
    MSI_STREAM, /* inference: for groups of batches, for tokens, for batches of the group, for micro-batches: forward */
    MSI_FORWARD_ALL, /* forward of every micro-batch, as for a loss of validation */
    MSI_GPIPE,       /* all forwards, then all backwards */
    MSI_1F1B,        /* as few forwards ahead as keep the stages busy, then one forward, one backward, … */
    MSI_INTERLEAVED, /* the same with several parts of the model on each stage, in Megatron's order */
    MSI_SCHEDULE_KINDS,
};

/* "1f1b"; NULL for what is no kind. */
const char *msi_schedule_name(int kind);
/* The kind of that name, or -1. */
int msi_schedule_kind(const char *name);
/* Does it have backwards? */
bool msi_schedule_trains(int kind);

/* What is wanted. 0 means the default. */
struct msi_schedule_spec {
    int kind;
    int stages;
    int micros; /* micro-batches of a step; streaming: of each batch (default 1) */
    int chunks; /* interleaved: parts of the model on each stage (default 2); else 1 */
    /* Streaming only; else 1. */
    int batches; /* default: inner */
    int tokens; /* new tokens of each batch (default 1): the first comes from the prompt, each other from the one before */
    int inner; /* batches of a group, which take turns at each token (default: stages, so that none waits) */
};

/* Fills in the defaults; MST_ERR_INVALID or MST_ERR_LIMIT say what is wrong with it. */
mst_status msi_schedule_settle(struct msi_schedule_spec *spec);

enum msi_action_kind {
    MSI_ACT_RECEIVE,
    MSI_ACT_SEND,
    MSI_ACT_FORWARD,
    MSI_ACT_BACKWARD,
    MSI_ACT_TAKE, /* streaming, stage 0: the ids of a batch's last tokens are there; nothing is computed from them */
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
 * One thing that a stage does. All are about one micro-batch (of one token of one batch); indices of actions count in the
 * stage's own list, and MSI_NO_ACTION is none.
 */
struct msi_action {
    uint8_t kind;
    uint8_t channel; /* messages */
    int16_t chunk;   /* which of the stage's parts computes it, reads it or wrote it */
    int32_t batch;   /* streaming, else 0 */
    int32_t token;   /* streaming, else 0: 0 is the prompt; of token ids: whose result they are */
    int32_t micro;
    /* Messages. */
    int32_t peer;    /* the other stage */
    uint32_t number; /* which of those from this stage to the peer, or from there, on the channel */
    int32_t slot;    /* the buffer, 0 … slots-1 of the channel and direction */
    /*
     * Computes. What they keep is, in training, what the backward will need, from the forward to the backward; in
     * streaming, the cache of the sequences of this batch and micro-batch. Without input (TAKE always has it), a forward
     * reads data and a backward begins with the loss; without output, a forward in training computes the loss. The buffer of
     * an input is free when it was read, that of a forward in training when its backward is done.
     */
    int32_t keep;     /* where, 0 … keeps-1 */
    uint32_t input;   /* the RECEIVE that it waits for and whose buffer it reads */
    uint32_t output;  /* the SEND that follows it and whose buffer it writes */
    uint32_t reuses;  /* the SEND from that buffer that must be over before */
    uint32_t forward; /* BACKWARD: its FORWARD */
};

enum { MSI_IN_SLOT, MSI_OUT_SLOT };

/* One stage's part of a schedule. */
struct msi_stage_list {
    struct msi_action *actions;
    uint32_t n;
    int keeps; /* training: activations (of a chunk) alive at most; streaming: sequences in flight */
    int slots[MSI_CHANNELS][2]; /* buffers of each channel, for receiving and for sending */
};

/* Makes the list of one stage of a settled spec. Only MST_ERR_MEMORY can happen; list is then as it was. */
mst_status msi_schedule_stage(const struct msi_schedule_spec *spec, int stage, struct msi_stage_list *list);
void msi_schedule_stage_free(struct msi_stage_list *list);

struct msi_schedule {
    struct msi_schedule_spec spec;
    struct msi_stage_list *stages;
};

/* All stages of a spec, which is settled first. */
mst_status msi_schedule_make(const struct msi_schedule_spec *spec, struct msi_schedule *schedule);
void msi_schedule_free(struct msi_schedule *schedule);

/* Micro-batches that pass through each part, each token of each batch counted. */
size_t msi_schedule_units(const struct msi_schedule_spec *spec);

/*
 * The bound that a stage's keeps is within:
 *   gpipe        m
 *   1f1b         min(stages - stage, m)
 *   interleaved  min(v·m, 2·(stages - stage - 1) + (v - 1)·g + 1), of chunks; g: the largest group, stages … 2·stages-1
 *   stream       inner · m
 */
int msi_schedule_keeps_bound(const struct msi_schedule_spec *spec, int stage);

/*
 * How long all takes if each part's forward takes forward, each backward backward, and messages nothing. With p stages,
 * m micro-batches, v chunks and q = the group's batches x micro-batches:
 *   gpipe, 1f1b  (m + p - 1)·(f + b)
 *   interleaved  (v·m + p - 1)·(f + b) where m ≥ p, else (v·p + m - 1)·(f + b)
 *   stream       f·(p - 1 + the sum over groups of (tokens - 1)·max(p, q) + q)
 * It is the least that a schedule without idle work can take, and the schedules reach it.
 */
double msi_schedule_formula(const struct msi_schedule_spec *spec, double forward, double backward);

/*
 * Interleaved: group i of so many micro-batches runs through all chunks before the next begins. Megatron's groups have
 * exactly as many as there are stages, which must divide the micro-batches. Here the micro-batches are spread evenly over
 * m / stages groups, so that no group has fewer than the stages: its first is never waited for. Where the division leaves
 * nothing, that is Megatron's order; where there are fewer micro-batches than stages, they are one group.
 */
int msi_interleaved_groups(const struct msi_schedule_spec *spec);
int msi_interleaved_group_size(const struct msi_schedule_spec *spec, int group);

#endif
