/*
 * unexpected.h - messages that arrived before a matching receive was posted. Each is kept in its own memory
 * until a receive matches it. The memory of delivered messages is reused, up to a limit, so that a steady
 * exchange allocates nothing.
 */
#ifndef MSI_P2P_UNEXPECTED_H
#define MSI_P2P_UNEXPECTED_H

#include "comm/comm_internal.h"
#include "transport/link.h"

struct msi_unexpected_msg {
    struct msi_list node;
    size_t room; /* bytes allocated for data */
    int peer, tag;
    mst_dtype dtype;
    size_t bytes;
    bool complete;
    bool dropped;             /* it goes when it is complete */
    struct mst_work *receive; /* the receive that matched it before it was complete */
    struct msi_transfer body;
    char data[];
};

struct msi_unexpected {
    struct msi_list kept;  /* in the order of their arrival */
    struct msi_list spare; /* for reuse */
    size_t spare_bytes;
};

void msi_unexpected_init(struct msi_unexpected *unexpected);
void msi_unexpected_free(struct msi_unexpected *unexpected);

/* A new message with room for the bytes; NULL without memory. The caller fills in the rest. */
struct msi_unexpected_msg *msi_unexpected_keep(struct msi_unexpected *unexpected, size_t bytes);

/* The first message that matches a receive; NULL: none. */
struct msi_unexpected_msg *msi_unexpected_find(const struct msi_unexpected *unexpected,
                                               const struct msi_op *op);

/* Copies a message to a receive that matches it: at once, or as soon as the message is complete. */
void msi_unexpected_deliver(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg,
                            struct mst_work *work);
/* Drops a message, at once or as soon as it is complete. */
void msi_unexpected_drop(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg);
/* The message has arrived completely. */
void msi_unexpected_complete(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg);

/* A receive ends before the message that it matched is complete: another receive may match it. */
void msi_unexpected_forget(const struct msi_unexpected *unexpected, const struct mst_work *work);

/* Does a receive match a message of that rank with that tag? Messages of compositions have negative tags. */
static inline bool msi_message_matches(const struct msi_op *op, int peer, int tag) {
    int wanted = op->desc.tag;
    return (op->desc.peer < 0 || op->desc.peer == peer) &&
           (wanted == tag || (wanted == MST_ANY_TAG && tag >= 0));
}

#endif
