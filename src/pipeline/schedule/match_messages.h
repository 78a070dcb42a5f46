/* match_messages.h - which send meets which receive. */
#ifndef MSI_PIPELINE_SCHEDULE_MATCH_MESSAGES_H
#define MSI_PIPELINE_SCHEDULE_MATCH_MESSAGES_H

#include "pipeline/schedule/schedule.h"

/*
 * For each channel and stage, the sends there, or the receives, in order: at[number] is the action's index. A number that
 * does not fit its place is a failure, so is a peer that is none.
 */
struct msi_messages {
    uint32_t *at;
    uint32_t n;
};

struct msi_message_matches {
    struct msi_messages *sends, *receives; /* [channel * stages + stage] */
    uint32_t *memory;
};

mst_status msi_match_messages(const struct msi_schedule *schedule, struct msi_message_matches *book);
void msi_message_matches_free(struct msi_message_matches *book);

/* The action of the other stage that meets a message. The book has it: as many were sent as are received. */
uint32_t msi_message_partner(const struct msi_message_matches *book, const struct msi_schedule *schedule,
                             const struct msi_action *message);

#endif
