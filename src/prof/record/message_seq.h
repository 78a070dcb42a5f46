/*
 * message_seq.h - numbers the messages of a communicator: 0, 1, 2, … per peer, tag and direction.
 *
 * A message gets its number when it is issued; a receive from any source or with any tag gets it when it is
 * matched. Messages arrive in the order in which they were sent, so both sides give a message the same
 * number. Exception: if such a receive is posted before one that names the rank and the tag that it then
 * matches, the two numbers are exchanged.
 *
 * Messages of streams beyond MSI_MESSAGE_STREAMS all get number 0, which is right for programs that use each
 * tag once. One thread at a time.
 */
#ifndef MSI_PROF_RECORD_MESSAGE_SEQ_H
#define MSI_PROF_RECORD_MESSAGE_SEQ_H

#include "base/table.h"

enum { MSI_MESSAGE_STREAMS = 4096 };

struct msi_message_seq {
    struct msi_table streams; /* by peer, tag and direction */
    uint64_t *next;           /* by stream; MSI_MESSAGE_STREAMS of them; NULL: none yet */
    uint64_t *last[2];        /* the stream that was used last in each direction; NULL: none */
    uint64_t last_key[2];
};

/* The stream's next number; NULL: the stream is not counted, for lack of space or memory. */
uint64_t *msi_message_seq_find(struct msi_message_seq *seq, uint64_t key, bool send);

/* peer: rank in the communicator. */
static inline uint64_t *msi_message_seq_at(struct msi_message_seq *seq, int peer, int tag, bool send) {
    uint64_t key = (uint64_t)send << 63 | (uint64_t)(uint32_t)peer << 32 | (uint32_t)tag;
    uint64_t *last = seq->last[send];
    return last && seq->last_key[send] == key ? last : msi_message_seq_find(seq, key, send);
}

static inline uint64_t msi_message_seq_next(struct msi_message_seq *seq, int peer, int tag, bool send) {
    uint64_t *next = msi_message_seq_at(seq, peer, tag, send);
    return next ? (*next)++ : 0;
}

/* Takes back the stream's last number: the message was cancelled, and the peer will not see it. */
static inline void msi_message_seq_undo(struct msi_message_seq *seq, int peer, int tag, bool send) {
    uint64_t *next = msi_message_seq_at(seq, peer, tag, send);
    if (next && *next) (*next)--;
}

void msi_message_seq_free(struct msi_message_seq *seq);

#endif
