/* incoming.c - receiving messages: matching them with posted receives, and keeping unexpected ones. See
 * p2p.h. */
#include "base/error.h"
#include "p2p/p2p_internal.h"

#include <stdlib.h>

/* Checks that the header of a message fits the receive that it matches. Allocates memory for a message of
 * variable length. */
static bool match(struct msi_p2p *p2p, struct mst_work *work, int peer, const struct msi_p2p_header *h) {
    struct msi_comm *comm = p2p->peers->comm;
    struct msi_op *op = &work->op;
    mst_backend_op *d = &op->desc;
    char who[200];
    msi_comm_matched(work, peer, h->tag);
    if (op->bytes) {
        char *data = malloc((size_t)h->bytes + 1);
        if (!data) {
            msi_comm_fail(comm, work, msi_fail_memory(), -1);
            return false;
        }
        data[h->bytes] = 0;
        *op->bytes = (mst_bytes){data, (size_t)h->bytes};
        d->out = data;
        d->count = (size_t)h->bytes;
        return true;
    }
    if (h->bytes == msi_op_bytes(op) && h->dtype == d->dtype) return true;
    size_t element = mst_dtype_size(h->dtype);
    mst_status st = msi_fail(MST_ERR_MISMATCH, "send and receive the same count and dtype",
                             "the message with tag %d from %s has %zu %s, but this receive expects %zu %s",
                             d->tag, msi_comm_show(comm, peer, who, sizeof who),
                             (size_t)(element ? h->bytes / element : h->bytes), mst_dtype_name(h->dtype),
                             d->count, mst_dtype_name(d->dtype));
    msi_comm_fail(comm, work, st, peer);
    return false;
}

bool msi_p2p_match_unexpected(struct msi_p2p *p2p, struct mst_work *work) {
    struct msi_unexpected_msg *msg = msi_unexpected_find(&p2p->unexpected, &work->op);
    if (!msg) return false;
    if (match(p2p, work, msg->peer, &(struct msi_p2p_header){msg->bytes, msg->tag, msg->dtype}))
        msi_unexpected_deliver(&p2p->unexpected, msg, work);
    else
        msi_unexpected_drop(&p2p->unexpected, msg);
    return true;
}

static void find(struct mst_work *probe, const struct msi_unexpected_msg *msg) {
    msi_comm_matched(probe, msg->peer, msg->tag);
    probe->op.desc.count = msg->bytes;
    msi_p2p_request(probe)->complete = true;
}

void msi_p2p_begin_probe(struct msi_p2p *p2p, struct mst_work *work) {
    const struct msi_unexpected_msg *msg = msi_unexpected_find(&p2p->unexpected, &work->op);
    if (msg)
        find(work, msg);
    else
        p2p->probes++;
}

/* Completes the probes that find a new message. */
static void tell_probes(struct msi_p2p *p2p, const struct msi_unexpected_msg *msg) {
    const struct msi_list *messages = &p2p->peers->comm->ops.messages;
    for (const struct msi_list *at = messages->next; at != messages && p2p->probes > 0; at = at->next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        if (!work->op.probe || msi_p2p_request(work)->complete ||
            !msi_message_matches(&work->op, msg->peer, msg->tag))
            continue;
        find(work, msg);
        p2p->probes--;
    }
}

static struct mst_work *find_posted(struct msi_p2p *p2p, int peer, int tag) {
    for (struct msi_list *at = p2p->posted.next; at != &p2p->posted; at = at->next) {
        struct mst_work *work = msi_container(at, struct msi_p2p_request, node)->work;
        if (msi_message_matches(&work->op, peer, tag)) return work;
    }
    return NULL;
}

/* Receives the body of a message without a posted receive, or of one that is dropped. */
static bool keep(struct msi_p2p *p2p, int peer, const struct msi_p2p_header *h, bool dropped) {
    struct msi_p2p_peer *p = &p2p->links[peer];
    struct msi_unexpected_msg *msg = msi_unexpected_keep(&p2p->unexpected, (size_t)h->bytes);
    if (!msg) {
        msi_link_fail(p->listening, MST_ERR_MEMORY, "no memory for a message of %zu bytes with tag %d",
                      (size_t)h->bytes, h->tag);
        return false;
    }
    msg->peer = peer;
    msg->tag = h->tag;
    msg->dtype = h->dtype;
    msg->dropped = dropped;
    p->keeping = msg;
    msi_link_receive(p->listening, &msg->body, msg->data, (size_t)h->bytes);
    if (!dropped) tell_probes(p2p, msg);
    return true;
}

/* Matches a message whose header has arrived, and receives its body. */
static bool open_message(struct msi_p2p *p2p, int peer) {
    struct msi_p2p_peer *p = &p2p->links[peer];
    struct msi_p2p_header h = msi_p2p_read_header(p->header);
    if (h.bytes > SIZE_MAX / 4) {
        msi_link_fail(p->listening, MST_ERR_PROTOCOL, "the header announces %llu bytes",
                      (unsigned long long)h.bytes);
        return false;
    }
    struct mst_work *work = find_posted(p2p, peer, h.tag);
    p->in_body = true;
    p2p->incoming++;
    if (work) {
        struct msi_p2p_request *r = msi_p2p_request(work);
        msi_list_remove(&r->node);
        if (match(p2p, work, peer, &h)) {
            p->receiving = work;
            msi_link_receive(p->listening, &r->body_transfer, work->op.desc.out, (size_t)h.bytes);
            return true;
        }
    }
    return keep(p2p, peer, &h, work != NULL);
}

/* Completes a message whose body has arrived. */
static void close_message(struct msi_p2p *p2p, int peer) {
    struct msi_p2p_peer *p = &p2p->links[peer];
    if (p->receiving) msi_p2p_request(p->receiving)->complete = true;
    if (p->keeping) msi_unexpected_complete(&p2p->unexpected, p->keeping);
    p2p->incoming--;
    p->receiving = NULL;
    p->keeping = NULL;
    p->in_body = false;
}

static bool body_is_there(const struct msi_p2p_peer *p) {
    if (!p->receiving && !p->keeping) return false; /* there was no memory for it */
    return msi_transfer_done(p->receiving ? &msi_p2p_request(p->receiving)->body_transfer
                                          : &p->keeping->body);
}

/* The link to read from. A rank that has connected in the meantime sends nothing on the link that it
 * accepted before. */
static struct msi_link *listen_to(struct msi_p2p *p2p, int peer) {
    struct msi_p2p_peer *p = &p2p->links[peer];
    struct msi_link *in = msi_p2p_incoming(p2p, peer);
    if (p->listening && p->listening != in && p->header_in.data) {
        msi_link_cancel(p->listening, &p->header_in);
        p->header_in.data = NULL;
    }
    p->listening = in;
    return in;
}

/* Receives all messages of a rank that have arrived so far. False if the link is unusable. */
static bool read_peer(struct msi_p2p *p2p, int peer, bool *moved) {
    struct msi_p2p_peer *p = &p2p->links[peer];
    struct msi_link *in = listen_to(p2p, peer);
    for (;;) {
        if (!p->in_body && !p->header_in.data) {
            p->header_in.data = (char *)p->header;
            msi_link_receive(in, &p->header_in, p->header, sizeof p->header);
        }
        if (in->ops->progress(in)) *moved = true;
        if (!p->in_body) {
            if (!msi_transfer_done(&p->header_in)) return in->status == MST_OK;
            p->header_in.data = NULL;
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
    struct msi_comm *comm = p2p->peers->comm;
    struct msi_list *messages = &comm->ops.messages;
    const struct msi_failure *known =
        p2p->links[peer].lost; /* the search for the reason takes time: do it once */
    /* This rank cannot receive: the message may have been one for a receive from any source. */
    bool own = status == MST_ERR_MEMORY || status == MST_ERR_SYSTEM;
    for (struct msi_list *at = messages->next; at != messages; at = at->next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        int from = msi_comm_peer(work);
        bool send = work->op.desc.kind == MST_KIND_SEND;
        if (send || msi_p2p_request(work)->complete || (from != peer && !(own && from < 0))) continue;
        if (work->failure.status != MST_OK) continue;
        mst_status st = known ? msi_comm_repeat(known) : msi_comm_say_cut_off(comm, status, peer, why, true);
        msi_comm_fail(comm, work, st, peer);
        known = &work->failure;
    }
}

void msi_p2p_read(struct msi_p2p *p2p, int peer, bool *moved) {
    if (read_peer(p2p, peer, moved)) return;
    const struct msi_link *in = p2p->links[peer].listening;
    msi_p2p_cut_off(p2p, peer, in->status, in->why);
}
