/* message_seq.c - see message_seq.h. */
#include "prof/record/message_seq.h"

#include <stdlib.h>

uint64_t *msi_message_seq_find(struct msi_message_seq *seq, uint64_t key, bool send) {
    if (!seq->next) seq->next = calloc(MSI_MESSAGE_STREAMS, sizeof *seq->next);
    if (!seq->next) return NULL;
    uint32_t stream = seq->streams.n < MSI_MESSAGE_STREAMS ? msi_table_add(&seq->streams, &key, sizeof key)
                                                           : msi_table_find(&seq->streams, &key, sizeof key);
    if (stream == MSI_TABLE_NONE) return NULL;
    seq->last_key[send] = key;
    return seq->last[send] = &seq->next[stream];
}

void msi_message_seq_free(struct msi_message_seq *seq) {
    msi_table_free(&seq->streams);
    free(seq->next);
    *seq = (struct msi_message_seq){0};
}
