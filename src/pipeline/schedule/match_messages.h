/* match_messages.h - matches sends with receives. */
#ifndef MSI_PIPELINE_SCHEDULE_MATCH_MESSAGES_H
#define MSI_PIPELINE_SCHEDULE_MATCH_MESSAGES_H

#include "pipeline/schedule/schedule.h"

/* The sends, or the receives, of a stage on a channel: at[number] is the index of the action. */
struct msi_messages {
    uint32_t *at;
    uint32_t n;
};

struct msi_message_matches {
    struct msi_messages *sends, *receives; /* [channel * stages + stage] */
    uint32_t *memory;
};

/* Fails if numbers are out of order, if a peer does not exist, or if a send and its receive differ. */
mst_status msi_match_messages(const struct msi_schedule *schedule, struct msi_message_matches *matches);
void msi_message_matches_free(struct msi_message_matches *matches);

/* The action of the other stage that matches a message. */
uint32_t msi_message_partner(const struct msi_message_matches *matches, const struct msi_schedule *schedule,
                             const struct msi_action *message);

#endif
