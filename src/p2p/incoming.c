/* incoming.c - the messages that come in: whose they are, and where their bodies go. See p2p.h. */
#include "base/error.h"
#include "p2p/p2p_internal.h"

#include <stdlib.h>

/* The message is known now: is it what the receiver expects? Makes room where that was left to us. */
static bool meet(struct msi_p2p *p2p, struct mst_work *op, int peer, size_t bytes, mst_dtype dtype) {
    struct msi_message *m = &op->message;
    char who[200];
    m->met = true;
    m->from = peer;
    if (m->peer < 0) msi_comm_number_any(op, peer);
    if (m->allocate) {
        char *data = malloc(bytes + 1);
        if (!data) {
            msi_comm_fail(p2p->comm, op, msi_fail_memory(), -1);
            return false;
        }
        data[bytes] = 0;
        *m->allocate = (mst_bytes){data, bytes};
        m->buf = data;
        m->bytes = bytes;
        return true;
    }
    if (bytes == m->bytes && dtype == m->dtype) return true;
    size_t element = mst_dtype_size(dtype);
    mst_status st = msi_fail(MST_ERR_MISMATCH, "send and receive the same number of the same dtype",
                             "the message with tag %d of %s has %zu %s, this receive takes %zu %s", m->tag,
                             p2p->comm->hooks.show(p2p->comm->hooks.context, peer, who, sizeof who),
                             element ? bytes / element : bytes, mst_dtype_name(dtype),
                             m->bytes / mst_dtype_size(m->dtype), mst_dtype_name(m->dtype));
    msi_comm_fail(p2p->comm, op, st, peer);
    return false;
}

bool msi_p2p_match_unexpected(struct msi_p2p *p2p, struct mst_work *op) {
    struct msi_unexpected_msg *msg = msi_unexpected_find(&p2p->unexpected, &op->message);
    if (!msg) return false;
    if (meet(p2p, op, msg->peer, msg->bytes, msg->dtype))
        msi_unexpected_give(&p2p->unexpected, msg, op);
    else
        msi_unexpected_drop(&p2p->unexpected, msg);
    return true;
}

static struct mst_work *find_posted(struct msi_p2p *p2p, int peer, int tag) {
    for (struct msi_list *at = p2p->posted.next; at != &p2p->posted; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        if (msi_message_fits(&op->message, peer, tag)) return op;
    }
    return NULL;
}

static bool keep(struct msi_p2p *p2p, struct msi_p2p_peer *p, int peer, int tag, size_t bytes,
                 mst_dtype dtype) {
    struct msi_unexpected_msg *msg = msi_unexpected_keep(&p2p->unexpected, bytes);
    if (!msg) {
        msi_link_fail(p->listening, MST_ERR_MEMORY, "no memory for a message of %zu bytes with tag %d", bytes,
                      tag);
        return false;
    }
    msg->peer = peer;
    msg->tag = tag;
    msg->dtype = dtype;
    p->keeping = msg;
    msi_link_receive(p->listening, &msg->body, msg->data, bytes);
    return true;
}

/* The head of a message is there: finds out whose it is, and lets the body come. */
static bool open_message(struct msi_p2p *p2p, int peer) {
    struct msi_p2p_peer *p = &p2p->peers[peer];
    uint64_t bytes;
    int tag;
    mst_dtype dtype;
    msi_p2p_read_head(p->head, &bytes, &tag, &dtype);
    if (bytes > SIZE_MAX / 4) {
        msi_link_fail(p->listening, MST_ERR_PROTOCOL, "a message of %llu bytes", (unsigned long long)bytes);
        return false;
    }
    struct mst_work *op = find_posted(p2p, peer, tag);
    p->in_body = true;
    p2p->incoming++;
    if (op) {
        msi_list_remove(&op->message.node);
        if (meet(p2p, op, peer, (size_t)bytes, dtype)) {
            p->receiving = op;
            msi_link_receive(p->listening, &op->message.body_transfer, op->message.buf, (size_t)bytes);
            return true;
        }
        tag = -1; /* comes in all the same, and is thrown away */
    }
    return keep(p2p, p, peer, tag, (size_t)bytes, dtype);
}

/* The body has come. */
static void close_message(struct msi_p2p *p2p, int peer) {
    struct msi_p2p_peer *p = &p2p->peers[peer];
    if (p->receiving) p->receiving->message.through = true;
    if (p->keeping) msi_unexpected_complete(&p2p->unexpected, p->keeping);
    p2p->incoming--;
    p->receiving = NULL;
    p->keeping = NULL;
    p->in_body = false;
}

static bool body_is_there(const struct msi_p2p_peer *p) {
    if (!p->receiving && !p->keeping) return false; /* there was no memory for it */
    return msi_transfer_done(p->receiving ? &p->receiving->message.body_transfer : &p->keeping->body);
}

/* The link to read from. A rank that has called in the meantime sends nothing on the one that it was called with. */
static struct msi_link *listen_to(struct msi_p2p *p2p, int peer) {
    struct msi_p2p_peer *p = &p2p->peers[peer];
    struct msi_link *in = msi_p2p_incoming(p2p, peer);
    if (p->listening && p->listening != in && p->head_in.data) {
        msi_link_cancel(p->listening, &p->head_in);
        p->head_in.data = NULL;
    }
    p->listening = in;
    return in;
}

/* All messages of a rank that have come so far. False if the link is of no use any more. */
static bool read_peer(struct msi_p2p *p2p, int peer, bool *moved) {
    struct msi_p2p_peer *p = &p2p->peers[peer];
    struct msi_link *in = listen_to(p2p, peer);
    for (;;) {
        if (!p->in_body && p->head_in.data == NULL) {
            p->head_in.data = (char *)p->head;
            msi_link_receive(in, &p->head_in, p->head, sizeof p->head);
        }
        if (in->ops->progress(in)) *moved = true;
        if (!p->in_body) {
            if (!msi_transfer_done(&p->head_in)) return in->status == MST_OK;
            p->head_in.data = NULL;
            p->comes_back = in == p->out.link;
            if (!open_message(p2p, peer)) return false;
            *moved = true;
            in->ops->progress(in);
        }
        if (!body_is_there(p)) return in->status == MST_OK;
        close_message(p2p, peer);
        if (!msi_p2p_expects(p2p)) return true;
    }
}

void msi_p2p_cut_off(struct msi_p2p *p2p, int peer, mst_status status, const char *why) {
    struct msi_comm *comm = p2p->comm;
    for (struct msi_list *at = comm->messages.next; at != &comm->messages; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        const struct msi_message *m = &op->message;
        if (m->send || m->through || (m->met ? m->from : m->peer) != peer) continue;
        bool known =
            comm->failure.status != MST_OK && comm->failure.culprit == peer; /* one search is enough */
        mst_status st =
            known ? msi_comm_repeat(&comm->failure) : msi_comm_say_cut_off(comm, status, peer, why);
        msi_comm_fail(comm, op, st, peer);
    }
}

void msi_p2p_read(struct msi_p2p *p2p, int peer, bool *moved) {
    if (read_peer(p2p, peer, moved)) return;
    const struct msi_link *in = p2p->peers[peer].listening;
    msi_p2p_cut_off(p2p, peer, in->status, in->why);
}
