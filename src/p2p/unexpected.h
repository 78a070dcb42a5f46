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
struct msi_stray {
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

struct msi_strays {
    struct msi_list kept;  /* in the order in which they came */
    struct msi_list spare; /* to use again */
    size_t spare_bytes;
};

void msi_strays_init(struct msi_strays *strays);
void msi_strays_free(struct msi_strays *strays);

/* Keeps one more, with room for so many bytes; NULL without memory. The rest of it is the caller's to fill in. */
struct msi_stray *msi_strays_keep(struct msi_strays *strays, size_t bytes);

/* The first that a receive takes; NULL: none. */
struct msi_stray *msi_strays_find(const struct msi_strays *strays, const struct msi_message *m);

/* Gives it to a receive that found it: at once, or as soon as it is complete. */
void msi_strays_give(struct msi_strays *strays, struct msi_stray *stray, struct mst_work *op);
/* Nobody gets it: throws it away, at once or as soon as it is complete. */
void msi_strays_drop(struct msi_strays *strays, struct msi_stray *stray);
/* All of it has come. */
void msi_strays_complete(struct msi_strays *strays, struct msi_stray *stray);

/* A receive that was given one ends before that is complete: another may take it. */
void msi_strays_forget(const struct msi_strays *strays, const struct mst_work *op);

/* Does a receive take a message of that rank with that tag? */
static inline bool msi_message_fits(const struct msi_message *m, int peer, int tag) {
    return (m->peer < 0 || m->peer == peer) && m->tag == tag;
}

#endif
