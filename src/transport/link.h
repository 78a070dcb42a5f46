/*
 * link.h - bytes between two ranks: an ordered, reliable stream each way, between buffers that its users post.
 *
 *  1. A link belongs to one group and is used under that group's lock: nothing here locks or blocks.
 *  2. Sends and receives are queues of posted transfers. The bytes of the sends flow, in order and without frames, into
 *     the receives of the other side: both sides know the sizes. No byte is copied between a socket and the posted buffer.
 *  3. A posted transfer and its buffer stay in place until it is done (done == len) or the link has failed or is closed.
 *  4. A failed link stays failed: status and why say what happened, transfers that were not done never will be.
 *  5. Transports differ in moving bytes alone: self, shm (a ring of cells in a region that both have mapped), tcp (a
 *     connected socket), and decorators that wrap another link (fault).
 */
#ifndef MSI_TRANSPORT_LINK_H
#define MSI_TRANSPORT_LINK_H

#include "base/list.h"

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One posted buffer, embedded in its owner. A send only reads data. */
struct msi_transfer {
    struct msi_list node;
    char *data;
    size_t len, done;
};

struct msi_link;

struct msi_link_ops {
    const char *name; /* "self", "shm", "tcp", "fault" */

    /*
     * Moves what can be moved now, both ways, and takes transfers that are done off their queues. Never blocks. True if
     * anything moved. On a failure sets the link's status and why.
     */
    bool (*progress)(struct msi_link *link);

    /* For a link that can be slept on: its descriptor and the poll events that would let progress move something. -1: a
     * link in memory, whose peer wakes sleepers by other means. */
    int (*descriptor)(const struct msi_link *link, short *events);

    /* Gives up what the link holds and frees it. Queued transfers are just forgotten. */
    void (*close)(struct msi_link *link);
};

/* What all links begin with; made by the transports' own functions. */
struct msi_link {
    const struct msi_link_ops *ops;
    struct msi_list sends, receives; /* of struct msi_transfer, first to be served first */
    mst_status status; /* MST_OK while it works; MST_ERR_PEER_LOST when the other side is gone */
    char why[120];
};

/* Posts a buffer. Nothing moves before the next progress, except that a transport may try at once. */
void msi_link_send(struct msi_link *link, struct msi_transfer *transfer, const void *data, size_t len);
void msi_link_receive(struct msi_link *link, struct msi_transfer *transfer, void *data, size_t len);

static inline bool msi_transfer_done(const struct msi_transfer *transfer) {
    return transfer->done == transfer->len;
}

/* Has it anything to move? */
static inline bool msi_link_busy(const struct msi_link *link) {
    return !msi_list_empty(&link->sends) || !msi_list_empty(&link->receives);
}

/* Records the failure, once. */
void msi_link_fail(struct msi_link *link, mst_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A link to oneself: a send flows into a receive of the same link. */
mst_status msi_link_open_self(struct msi_link **link);

/* A link over a connected, non-blocking stream socket, which it owns from now on. */
mst_status msi_link_open_tcp(int fd, struct msi_link **link);

/*
 * A link through memory of msi_link_shm_bytes() bytes that both ranks have mapped, zeroed before the first opens it.
 * side is 0 at one end and 1 at the other. The memory belongs to the caller and outlives the link. *posted, if not NULL,
 * is called after bytes were made visible to the other side, so that a sleeper can be woken.
 */
size_t msi_link_shm_bytes(void);
mst_status msi_link_open_shm(void *memory, int side, void (*posted)(void *arg), void *arg,
                             struct msi_link **link);

/* A link over another one, which it owns, that misbehaves as a seed and rates say: see fault.h. */

#endif
