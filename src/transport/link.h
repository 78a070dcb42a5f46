/*
 * link.h - an ordered, reliable byte stream in each direction between two ranks.
 *
 *  1. A link belongs to one group and is used under that group's lock. No function locks or blocks.
 *  2. Sends and receives are queues of posted transfers. The bytes of the sends flow, in order and without
 *     framing, into the receives of the peer; both sides know the sizes. The tcp transport copies only bytes
 *     that it read ahead.
 *  3. A posted transfer and its buffer must stay valid until the transfer is done (done == len), or the link
 *     has failed or is closed. A transfer of 0 bytes is done when it is posted.
 *  4. A failed link stays failed; status and why have the reason. Its queues are empty and stay empty, so the
 *     owners may free transfers that are not done.
 *  5. The transports are self, shm (a ring of cells in shared memory), tcp (a connected socket), and
 *     multi_socket, which combines several tcp links.
 */
#ifndef MSI_TRANSPORT_LINK_H
#define MSI_TRANSPORT_LINK_H

#include "base/list.h"
#include "os/stream.h"
#include "os/team.h"
#include "transport/copy_trials.h"

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
    /*
     * Moves bytes in both directions and removes completed transfers from their queues. A long transfer may
     * take several calls even if the peer is ready. Never blocks. Returns true if anything moved. On an error
     * sets the link's status and why, also if nothing is posted and the peer has closed. Bytes that the peer
     * sent before it closed can still be received.
     */
    bool (*progress)(struct msi_link *link);

    /*
     * Returns a descriptor and the poll events after which progress can move bytes or detect a hang-up. Call
     * it after progress has moved nothing. Returns -1 for a failed link and for a link in memory, whose peer
     * wakes sleepers by other means. NULL: always -1. Use msi_link_descriptor.
     */
    int (*descriptor)(const struct msi_link *link, short *events);

    /*
     * Frees the link and drops the queued transfers. The peer's link fails with MST_ERR_PEER_LOST after it
     * has received what was sent before; tcp may lose some of that if this side leaves bytes unread.
     */
    void (*close)(struct msi_link *link);

    /* Implements msi_link_cancel; NULL: only remove the transfer from its queue. */
    bool (*cancel)(struct msi_link *link, struct msi_transfer *transfer);

    /*
     * A fast path for small messages that bypasses the queues; NULL if the transport has none.
     *
     * send_whole sends head and body at once. It returns false and sends nothing if sends are queued or there
     * is no space. peek returns received contiguous bytes, at most peek_most, and their number in *n, or
     * NULL. The bytes stay until consume removes n of them. No receive may be partly done.
     */
    bool (*send_whole)(struct msi_link *link, const void *head, size_t head_len, const void *body,
                       size_t body_len);
    const char *(*peek)(struct msi_link *link, size_t *n);
    void (*consume)(struct msi_link *link, size_t n);
    size_t peek_most;
};

/* The base of every link. The open functions of the transports create it. */
struct msi_link {
    const struct msi_link_ops *ops;
    struct msi_list sends, receives; /* of struct msi_transfer, oldest first */
    mst_status status; /* MST_OK while it works; MST_ERR_PEER_LOST after the peer has closed or died */
    char why[120];
};

/* Posts a buffer. The next progress moves bytes. msi_link_post sends or receives. */
void msi_link_post(struct msi_link *link, bool send, struct msi_transfer *transfer, char *data, size_t len);
void msi_link_send(struct msi_link *link, struct msi_transfer *transfer, const void *data, size_t len);
void msi_link_receive(struct msi_link *link, struct msi_transfer *transfer, void *data, size_t len);

static inline int msi_link_descriptor(const struct msi_link *link, short *events) {
    *events = 0;
    return link->ops->descriptor ? link->ops->descriptor(link, events) : -1;
}

/*
 * Removes a transfer that is not done; the link no longer uses its buffer. Returns true if no byte of it has
 * moved; the link stays usable. Returns false if bytes have moved; the position in the stream is then
 * unknown: close the link.
 */
bool msi_link_cancel(struct msi_link *link, struct msi_transfer *transfer);

static inline bool msi_transfer_done(const struct msi_transfer *transfer) {
    return transfer->done == transfer->len;
}

/* Is a transfer queued? */
static inline bool msi_link_busy(const struct msi_link *link) {
    return !msi_list_empty(&link->sends) || !msi_list_empty(&link->receives);
}

/*
 * For transports: the first transfer of a non-empty queue; its remaining bytes; marks n more bytes as done.
 */
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

/* For transports: initializes a link with empty queues. */
void msi_link_init(struct msi_link *link, const struct msi_link_ops *ops);

/* For transports: records the first failure and empties the queues. */
void msi_link_fail(struct msi_link *link, mst_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens a link from a rank to itself: sends flow into the receives of the same link. */
mst_status msi_link_open_self(struct msi_link **link);

/* Opens a link over a connection. Owns the stream on success. */
mst_status msi_link_open_tcp(struct msi_stream stream, struct msi_link **link);

/*
 * Opens a link through shared memory of msi_link_shm_bytes() bytes that both ranks have mapped, zeroed before
 * the first open. side is 0 at one end and 1 at the other. The memory is aligned to 128 bytes, belongs to the
 * caller and outlives the link. The link calls *posted, if not NULL, after every sequentially consistent
 * store that lets the peer make progress: new bytes, free cells, or close. To sleep, a rank sets its sleep
 * flag with a sequentially consistent store and calls progress once more; if nothing moves, a sequentially
 * consistent load in *posted sees the flag. The link does not detect a peer that dies without closing.
 */
mst_status msi_link_open_shm(void *memory, int side, void (*posted)(void *arg), void *arg,
                             struct msi_link **link);
size_t msi_link_shm_bytes(void);
/* How the receiver copies large sends: from the sender's memory, if that is possible, or from cells with
 * non-temporal stores. AUTO if not set. */
void msi_link_shm_copies(struct msi_link *link, enum msi_copy_mode cma, enum msi_copy_mode nt_stores);
/* For oversubscribed processors: uses more cells, so that a large send needs fewer context switches. */
void msi_link_shm_widen(struct msi_link *link);
/*
 * Asks hold before pages of this side's ring are used that did not exist: from then on there may be that many
 * bytes. must false: it may refuse. NULL: every use is allowed.
 */
void msi_link_shm_limit(struct msi_link *link, bool (*hold)(void *arg, size_t bytes, bool must));
/* Frees these pages if nothing is under way in the ring; false: something may be. Up to MSI_LINK_SHM_REST
 * bytes stay. */
bool msi_link_shm_empty(struct msi_link *link);
enum { MSI_LINK_SHM_REST = 24 << 10 };
/* The threads that read large sends; NULL: the caller alone. */
void msi_link_shm_team(struct msi_link *link, struct msi_team *team);

#endif
