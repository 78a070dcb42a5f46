/*
 * link.h - bytes between two ranks: an ordered, reliable stream each way, between buffers that users post.
 *
 *  1. A link belongs to one group and is used under that group's lock: nothing here locks or blocks.
 *  2. Sends and receives are queues of posted transfers. The bytes of the sends flow, in order and without
 *     frames, into the receives of the other side: both sides know the sizes. Between a socket and the
 *     posted buffers no byte is copied but a few that were read ahead.
 *  3. A posted transfer and its buffer stay in place until it is done (done == len) or the link has failed or
 *     is closed. A transfer of 0 bytes is done as soon as it is posted.
 *  4. A failed link stays failed: status and why say what happened, transfers that were not done never will
 *     be. Its queues are empty, and what is posted from then on is left out of them, so their owners may free
 *     them.
 *  5. Transports differ in moving bytes alone: self, shm (a ring of cells in a region that both have mapped),
 *     tcp (a connected socket), and decorators that wrap other links (bundle, fault).
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
    const char *name; /* "self", "shm", "tcp", "bundle", "fault" */

    /*
     * Moves what can be moved now, both ways, and takes transfers that are done off their queues; a long
     * transfer may take several calls even where nothing is in its way. Never blocks. True if anything moved.
     * On a failure sets the link's status and why, also where nothing is posted and the other side has
     * closed; bytes that it sent before can still be received.
     */
    bool (*progress)(struct msi_link *link);

    /*
     * For a link that can be slept on: its descriptor and the poll events that would let progress move
     * something or notice that the peer hung up; asked for when progress has moved nothing since the last post.
     * -1: a link in memory, whose peer wakes sleepers by other means, or a failed link.
     */
    int (*descriptor)(const struct msi_link *link, short *events);

    /*
     * Gives up what the link holds and frees it. Queued transfers are just forgotten. The other side's link
     * fails with MST_ERR_PEER_LOST once it has received what was sent before; over tcp some of that may be
     * lost if this side leaves bytes unread.
     */
    void (*close)(struct msi_link *link);

    /* As msi_link_withdraw; NULL where a transfer just leaves its queue. */
    bool (*withdraw)(struct msi_link *link, struct msi_transfer *transfer);

    /*
     * A short way past the queues for small messages; NULL where there is none.
     *
     * send_whole sends head and body at once; false, with nothing sent, if sends are queued or there is no
     * room. look gives the bytes that have come and lie together, and how many, at most look_most; NULL if
     * there are none. They stay until drop takes n of them; a receive that has begun must be done before.
     */
    bool (*send_whole)(struct msi_link *link, const void *head, size_t head_len, const void *body,
                       size_t body_len);
    const char *(*look)(struct msi_link *link, size_t *n);
    void (*drop)(struct msi_link *link, size_t n);
    size_t look_most;
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

/*
 * Takes back a transfer that is not done; its buffer is its owner's again. True if nothing of it has moved: then the link
 * goes on with what was posted behind it. Otherwise nobody knows where in the stream it is, and it must be closed.
 */
bool msi_link_withdraw(struct msi_link *link, struct msi_transfer *transfer);

static inline bool msi_transfer_done(const struct msi_transfer *transfer) {
    return transfer->done == transfer->len;
}

/* Has it anything to move? */
static inline bool msi_link_busy(const struct msi_link *link) {
    return !msi_list_empty(&link->sends) || !msi_list_empty(&link->receives);
}

/* For transports: the first of a queue that is not empty, what is left of it, and n more bytes of it done. */
static inline struct msi_transfer *msi_link_first(const struct msi_list *queue) {
    return msi_container(queue->next, struct msi_transfer, node);
}

static inline size_t msi_transfer_left(const struct msi_transfer *transfer) {
    return transfer->len - transfer->done;
}

static inline void msi_link_advance(struct msi_transfer *transfer, size_t n) {
    transfer->done += n;
    if (msi_transfer_done(transfer)) msi_list_remove(&transfer->node);
}

/* For transports: a link with empty queues. */
void msi_link_init(struct msi_link *link, const struct msi_link_ops *ops);

/* Records the failure, if it is the first, and empties the queues. For transports. */
void msi_link_fail(struct msi_link *link, mst_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A link to oneself: a send flows into a receive of the same link. */
mst_status msi_link_open_self(struct msi_link **link);

/* A link over a connected, non-blocking stream socket, which it owns from now on, unless it fails. */
mst_status msi_link_open_tcp(int fd, struct msi_link **link);

/*
 * A link through memory of msi_link_shm_bytes() bytes that both ranks have mapped, zeroed before the first
 * opens it. side is 0 at one end and 1 at the other. The memory, which begins at a multiple of 128, belongs
 * to the caller and outlives the link. *posted, if not NULL, is called after a sequentially consistent store
 * that lets the other side move: bytes came, cells became free, or the link was closed. So a sleeper can be
 * woken: who announces its sleep with such a store, calls progress and moves nothing is seen by such a load
 * in *posted. A peer that dies without closing is not noticed here.
 */
size_t msi_link_shm_bytes(void);
/* Whether large sends go by the receiver reading this process's memory; judged: where it can and where that was faster. */
enum msi_cma_mode { MSI_CMA_MODE_JUDGED, MSI_CMA_MODE_ALWAYS, MSI_CMA_MODE_NEVER };
void msi_link_shm_cma(struct msi_link *link, enum msi_cma_mode pulling);
/* Where ranks take turns on a processor: lets more be sent before the other side must have its turn. */
void msi_link_shm_widen(struct msi_link *link);
mst_status msi_link_open_shm(void *memory, int side, void (*posted)(void *arg), void *arg,
                             struct msi_link **link);

/* Links over others, which they own: see multi_socket.h for several as one, and fault.h for one that misbehaves. */

#endif
