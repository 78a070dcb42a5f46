/* incoming.c - the messages that come in: whose they are, and where their bodies go. See p2p.h. */
#include "base/error.h"
#include "p2p/p2p_internal.h"

#include <stdlib.h>

/* The message is known now: is it what the receiver expects? Makes room where that was left to us. */
static bool meet(struct msi_mail *mail, struct mst_work *op, int peer, size_t bytes, mst_dtype dtype) {
    struct msi_message *m = &op->message;
    char who[200];
    m->met = true;
    m->from = peer;
    if (m->peer < 0) msi_comm_number_any(op, peer);
    if (m->allocate) {
        char *data = malloc(bytes + 1);
        if (!data) {
            msi_comm_fail(mail->comm, op, msi_fail_memory(), -1);
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
                             mail->comm->hooks.show(mail->comm->hooks.context, peer, who, sizeof who),
                             element ? bytes / element : bytes, mst_dtype_name(dtype),
                             m->bytes / mst_dtype_size(m->dtype), mst_dtype_name(m->dtype));
    msi_comm_fail(mail->comm, op, st, peer);
    return false;
}

bool msi_mail_take_stray(struct msi_mail *mail, struct mst_work *op) {
    struct msi_stray *stray = msi_strays_find(&mail->strays, &op->message);
    if (!stray) return false;
    if (meet(mail, op, stray->peer, stray->bytes, stray->dtype))
        msi_strays_give(&mail->strays, stray, op);
    else
        msi_strays_drop(&mail->strays, stray);
    return true;
}

static struct mst_work *find_posted(struct msi_mail *mail, int peer, int tag) {
    for (struct msi_list *at = mail->posted.next; at != &mail->posted; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        if (msi_message_fits(&op->message, peer, tag)) return op;
    }
    return NULL;
}

static bool keep(struct msi_mail *mail, struct msi_mail_peer *p, int peer, int tag, size_t bytes,
                 mst_dtype dtype) {
    struct msi_stray *stray = msi_strays_keep(&mail->strays, bytes);
    if (!stray) {
        msi_link_fail(p->listening, MST_ERR_MEMORY, "no memory for a message of %zu bytes with tag %d", bytes,
                      tag);
        return false;
    }
    stray->peer = peer;
    stray->tag = tag;
    stray->dtype = dtype;
    p->keeping = stray;
    msi_link_receive(p->listening, &stray->body, stray->data, bytes);
    return true;
}

/* The head of a message is there: finds out whose it is, and lets the body come. */
static bool open_message(struct msi_mail *mail, int peer) {
    struct msi_mail_peer *p = &mail->peers[peer];
    uint64_t bytes;
    int tag;
    mst_dtype dtype;
    msi_mail_read_head(p->head, &bytes, &tag, &dtype);
    if (bytes > SIZE_MAX / 4) {
        msi_link_fail(p->listening, MST_ERR_PROTOCOL, "a message of %llu bytes", (unsigned long long)bytes);
        return false;
    }
    struct mst_work *op = find_posted(mail, peer, tag);
    p->in_body = true;
    mail->incoming++;
    if (op) {
        msi_list_remove(&op->message.node);
        if (meet(mail, op, peer, (size_t)bytes, dtype)) {
            p->receiving = op;
            msi_link_receive(p->listening, &op->message.body_transfer, op->message.buf, (size_t)bytes);
            return true;
        }
        tag = -1; /* comes in all the same, and is thrown away */
    }
    return keep(mail, p, peer, tag, (size_t)bytes, dtype);
}

/* The body has come. */
static void close_message(struct msi_mail *mail, int peer) {
    struct msi_mail_peer *p = &mail->peers[peer];
    if (p->receiving) p->receiving->message.through = true;
    if (p->keeping) msi_strays_complete(&mail->strays, p->keeping);
    mail->incoming--;
    p->receiving = NULL;
    p->keeping = NULL;
    p->in_body = false;
}

static bool body_is_there(const struct msi_mail_peer *p) {
    if (!p->receiving && !p->keeping) return false; /* there was no memory for it */
    return msi_transfer_done(p->receiving ? &p->receiving->message.body_transfer : &p->keeping->body);
}

/* The link to read from. A rank that has called in the meantime sends nothing on the one that it was called with. */
static struct msi_link *listen_to(struct msi_mail *mail, int peer) {
    struct msi_mail_peer *p = &mail->peers[peer];
    struct msi_link *in = msi_mail_incoming(mail, peer);
    if (p->listening && p->listening != in && p->head_in.data) {
        msi_link_withdraw(p->listening, &p->head_in);
        p->head_in.data = NULL;
    }
    p->listening = in;
    return in;
}

/* All messages of a rank that have come so far. False if the link is of no use any more. */
static bool read_peer(struct msi_mail *mail, int peer, bool *moved) {
    struct msi_mail_peer *p = &mail->peers[peer];
    struct msi_link *in = listen_to(mail, peer);
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
            if (!open_message(mail, peer)) return false;
            *moved = true;
            in->ops->progress(in);
        }
        if (!body_is_there(p)) return in->status == MST_OK;
        close_message(mail, peer);
        if (!msi_mail_expects(mail)) return true;
    }
}

void msi_mail_cut_off(struct msi_mail *mail, int peer, mst_status status, const char *why) {
    struct msi_comm *comm = mail->comm;
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

void msi_mail_read(struct msi_mail *mail, int peer, bool *moved) {
    if (read_peer(mail, peer, moved)) return;
    const struct msi_link *in = mail->peers[peer].listening;
    msi_mail_cut_off(mail, peer, in->status, in->why);
}
