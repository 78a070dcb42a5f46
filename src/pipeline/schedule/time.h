/* time.h - how long a schedule takes, played through on paper. */
#ifndef MSI_PIPELINE_SCHEDULE_TIME_H
#define MSI_PIPELINE_SCHEDULE_TIME_H

#include "pipeline/schedule/match_messages.h"

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

/*
 * Plays through a schedule that msi_schedule_check has seen or that was just made. A timing starts as zeros; what it had from
 * before is freed, and so msi_timing_free does. costs NULL: all computes take 1, messages nothing.
 */
mst_status msi_schedule_time(const struct msi_schedule *schedule, enum msi_sending sending,
                             const struct msi_costs *costs, struct msi_timing *timing);
void msi_timing_free(struct msi_timing *timing);

/* The same with the schedule's matches, for those who play it more than once. */
mst_status msi_schedule_play(const struct msi_schedule *schedule, const struct msi_message_matches *book,
                             enum msi_sending sending, const struct msi_costs *costs,
                             struct msi_timing *timing);

#endif
