/*
 * check.h - proves a schedule and tells how long it takes. Pure: nothing runs, whatever the schedule says is checked
 * before it is used, so that it may be any bytes of the right lengths.
 *
 * msi_schedule_check finds, in this order, that
 *   - every micro-batch (of each batch, each token) passes every part once forward and, in training, once backward after
 *     it, micro-batches in ascending order, tokens one after the other; ids of last tokens are taken once;
 *   - each compute reads the message that was received for it and writes the one that is sent after it, from and to the
 *     right stages; no buffer is written while it is still needed; no more is kept than the schedule's keeps and
 *     msi_schedule_keeps_bound;
 *   - the k-th send of a channel and the k-th receive are of the same micro-batch, from a part to its neighbour, and
 *     there are as many of one as of the other;
 *   - no stage waits for ever, whatever sends do (below).
 * Each failure is MST_ERR_INVALID; mst_error names the stage, the action and what is wrong with it.
 */
#ifndef MSI_PIPELINE_CHECK_H
#define MSI_PIPELINE_CHECK_H

#include "pipeline/schedule.h"

/* When a SEND lets its stage go on, and when its buffer is free again. */
enum msi_sending {
    MSI_SENDS_BLOCK, /* both when the message has arrived where its RECEIVE was posted: the strictest; what runs like this
                         runs in any other way */
    MSI_SENDS_START,  /* at once; the buffer when the message has arrived where its RECEIVE was posted */
    MSI_SENDS_BUFFER, /* both at once; the message arrives wherever there is a RECEIVE or will be */
    MSI_SENDINGS,
};

/* Time that things take. Arrays have stages x chunks entries, by part; NULL: 1 each. */
struct msi_costs {
    const double *forward, *backward;
    double message; /* from when both sides have started it until it is there; holds up nobody else */
    double prompt;  /* the forward of a prompt is so many times that of a token; 0: 1 */
};

struct msi_timing {
    double makespan;
    double busy;           /* of all stages together */
    double bubble;         /* share of makespan x stages in which stages are idle */
    double **start, **end; /* of each stage's actions: RECEIVE and SEND when they were started */
};

mst_status msi_schedule_check(const struct msi_schedule *schedule);

/*
 * For each channel and stage, the sends there, or the receives, in order: at[number] is the action's index. A number that
 * does not fit its place is a failure, so is a peer that is none.
 */
struct msi_messages {
    uint32_t *at;
    uint32_t n;
};

struct msi_mailbook {
    struct msi_messages *sends, *receives; /* [channel * stages + stage] */
    uint32_t *memory;
};

mst_status msi_mailbook_make(const struct msi_schedule *schedule, struct msi_mailbook *book);
void msi_mailbook_free(struct msi_mailbook *book);

/* The action of the other stage that meets a message. The book has it: as many were sent as are received. */
uint32_t msi_mailbook_partner(const struct msi_mailbook *book, const struct msi_schedule *schedule,
                              const struct msi_action *message);

/*
 * Plays through a schedule that msi_schedule_check has seen or that was just made. A timing starts as zeros; what it had from
 * before is freed, and so msi_timing_free does. costs NULL: all computes take 1, messages nothing.
 */
mst_status msi_schedule_time(const struct msi_schedule *schedule, enum msi_sending sending,
                             const struct msi_costs *costs, struct msi_timing *timing);
void msi_timing_free(struct msi_timing *timing);

/* The same with the schedule's mailbook, for those who play it more than once. */
mst_status msi_schedule_play(const struct msi_schedule *schedule, const struct msi_mailbook *book,
                             enum msi_sending sending, const struct msi_costs *costs,
                             struct msi_timing *timing);

/* "stage 2, action 7 (forward of micro-batch 3): …" */
mst_status msi_schedule_fault(const struct msi_schedule *schedule, int stage, uint32_t action,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* What an action is, in words, as for a list: "receive activations 3 of micro-batch 3 from stage 1 into buffer 0". */
const char *msi_action_words(const struct msi_schedule_spec *spec, const struct msi_action *action,
                             char *text, size_t size);

#endif
