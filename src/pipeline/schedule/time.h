/* time.h - simulates how long a schedule takes. */
#ifndef MSI_PIPELINE_SCHEDULE_TIME_H
#define MSI_PIPELINE_SCHEDULE_TIME_H

#include "pipeline/schedule/match_messages.h"

/* When a SEND returns, and when its buffer is free again. */
enum msi_send_mode {
    MSI_SENDS_BLOCK,  /* both when the message has arrived at a posted RECEIVE: the strictest mode */
    MSI_SENDS_START,  /* returns at once; the buffer is free after the arrival at a posted RECEIVE */
    MSI_SENDS_BUFFER, /* both at once; the message arrives without a posted RECEIVE */
    MSI_SEND_MODES,
};

/* Durations. Arrays have stages x chunks entries, by part; NULL: 1 each. */
struct msi_costs {
    const double *forward, *backward;
    double message; /* from the start on both sides to the arrival; does not delay others */
    double prompt;  /* duration of a prompt's forward relative to a token's; 0: 1 */
};

struct msi_timing {
    double makespan;
    double busy;           /* of all stages together */
    double bubble;         /* share of makespan x stages in which stages are idle */
    double **start, **end; /* by stage and action; RECEIVE and SEND: when they start */
};

/*
 * Simulates a schedule that is valid (msi_schedule_check). timing must be zero or from an earlier call, and
 * is freed first; free it with msi_timing_free. costs NULL: computes take 1, messages 0.
 */
mst_status msi_schedule_time(const struct msi_schedule *schedule, enum msi_send_mode mode,
                             const struct msi_costs *costs, struct msi_timing *timing);
void msi_timing_free(struct msi_timing *timing);

/* The same with given matches, to simulate a schedule more than once. */
mst_status msi_schedule_simulate(const struct msi_schedule *schedule,
                                 const struct msi_message_matches *matches, enum msi_send_mode mode,
                                 const struct msi_costs *costs, struct msi_timing *timing);

#endif
