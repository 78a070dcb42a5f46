/*
 * message_seq.h - counts the messages of a comm: the so many-th between this rank and another, with a tag, each way. They are numbered when
 * they are issued, or, where a receive takes them from any source, when they are met: messages come in the order in which they were
 * sent, so the numbers of both sides name the same message.
 *
 * Only so many streams are counted; messages of a further one all have number 0, which is right for programs that use each tag once.
 * Where a receive from any source is open before one from the rank that it then meets, their numbers are exchanged. One thread at a
 * time.
 */
#ifndef MSI_PROF_RECORD_MESSAGE_SEQ_H
#define MSI_PROF_RECORD_MESSAGE_SEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MSI_NUMBERS_MOST = 4096 };

struct msi_number {
    uint64_t key; /* 0: free */
    uint64_t next;
};

struct msi_message_seq {
    struct msi_number *slots;   /* NULL: none yet */
    struct msi_number *last[2]; /* of each way the one that was asked for last; NULL: none */
    size_t room, used;
};

/* The stream's next number; NULL: it is not counted, for want of room or memory. */
uint64_t *msi_message_seq_find(struct msi_message_seq *numbers, uint64_t key, bool send);

/* peer: rank in the comm; tags are not negative. */
static inline uint64_t *msi_message_seq_at(struct msi_message_seq *numbers, int peer, int tag, bool send) {
    uint64_t key = (uint64_t)send << 63 | (uint64_t)(uint32_t)peer << 32 | UINT64_C(1) << 31 | (uint32_t)tag;
    struct msi_number *last = numbers->last[send];
    return last && last->key == key ? &last->next : msi_message_seq_find(numbers, key, send);
}

/* From 0 up. */
static inline uint64_t msi_message_seq_next(struct msi_message_seq *numbers, int peer, int tag, bool send) {
    uint64_t *next = msi_message_seq_at(numbers, peer, tag, send);
    return next ? (*next)++ : 0;
}

/* One of the stream's messages was withdrawn: the other side will not see it. */
static inline void msi_message_seq_undo(struct msi_message_seq *numbers, int peer, int tag, bool send) {
    uint64_t *next = msi_message_seq_at(numbers, peer, tag, send);
    if (next && *next) (*next)--;
}

void msi_message_seq_free(struct msi_message_seq *numbers);

#endif
