/*
 * unexpected.h - messages that came before anybody asked for them. Each lies in memory of its own until a receive asks for it;
 * the memory of those that were delivered is kept for the next ones, up to a limit, so that nothing is allocated where the same
 * happens again and again.
 */
#ifndef MSI_P2P_UNEXPECTED_H
#define MSI_P2P_UNEXPECTED_H

#include "comm/comm_internal.h"
#include "transport/link.h"

/* A message that nobody has asked for yet. */
struct msi_unexpected_msg {
    struct msi_list node;
    size_t room;   /* of data */
    int peer, tag; /* tag < 0: nobody gets it */
    mst_dtype dtype;
    size_t bytes;
    bool complete;
    struct mst_work *taker; /* asked for it while it was coming */
    struct msi_transfer body;
    char data[];
};

struct msi_unexpected {
    struct msi_list kept;  /* in the order in which they came */
    struct msi_list spare; /* to use again */
    size_t spare_bytes;
};

void msi_unexpected_init(struct msi_unexpected *unexpected);
void msi_unexpected_free(struct msi_unexpected *unexpected);

/* Keeps one more, with room for so many bytes; NULL without memory. The rest of it is the caller's to fill in. */
struct msi_unexpected_msg *msi_unexpected_keep(struct msi_unexpected *unexpected, size_t bytes);

/* The first that a receive takes; NULL: none. */
struct msi_unexpected_msg *msi_unexpected_find(const struct msi_unexpected *unexpected,
                                               const struct msi_message *m);

/* Gives it to a receive that found it: at once, or as soon as it is complete. */
void msi_unexpected_give(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg,
                         struct mst_work *op);
/* Nobody gets it: throws it away, at once or as soon as it is complete. */
void msi_unexpected_drop(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg);
/* All of it has come. */
void msi_unexpected_complete(struct msi_unexpected *unexpected, struct msi_unexpected_msg *msg);

/* A receive that was given one ends before that is complete: another may take it. */
void msi_unexpected_forget(const struct msi_unexpected *unexpected, const struct mst_work *op);

/* Does a receive take a message of that rank with that tag? */
static inline bool msi_message_fits(const struct msi_message *m, int peer, int tag) {
    return (m->peer < 0 || m->peer == peer) && m->tag == tag;
}

#endif
