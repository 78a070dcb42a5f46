/* p2p.c - messages between two ranks of a comm. See p2p.h. */
#include "base/error.h"
#include "p2p/p2p_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { YIELDS = 64 }; /* for a message that is expected at any moment */

mst_status msi_p2p_new(struct msi_comm *comm, struct msi_p2p **p2p) {
    struct msi_p2p *made = calloc(1, sizeof *made + (size_t)comm->size * sizeof *made->peers);
    if (!made) return msi_fail_memory();
    made->comm = comm;
    msi_list_init(&made->posted);
    msi_list_init(&made->sending);
    msi_unexpected_init(&made->unexpected);
    *p2p = made;
    return MST_OK;
}

void msi_p2p_free(struct msi_p2p *p2p) {
    if (!p2p) return;
    msi_unexpected_free(&p2p->unexpected);
    for (int r = 0; r < p2p->comm->size; r++) {
        struct msi_p2p_peer *p = &p2p->peers[r];
        if (r == p2p->comm->rank) p->in.link = NULL; /* it is out's */
        msi_wireup_close(&p->out);
        msi_wireup_close(&p->in);
    }
    free(p2p);
}

static void hang_up(struct msi_wireup *way) {
    if (way->link)
        msi_link_fail(way->link, MST_ERR_PEER_LOST, "the group has failed"); /* takes messages off it */
    msi_wireup_close(way);
    *way = (struct msi_wireup){.open = false};
}

void msi_p2p_hang_up(struct msi_p2p *p2p) {
    for (int r = 0; r < p2p->comm->size; r++) {
        if (r == p2p->comm->rank) continue;
        hang_up(&p2p->peers[r].out);
        hang_up(&p2p->peers[r].in);
    }
}

/* What this rank sends on. */
static struct msi_wireup *outgoing(struct msi_p2p_peer *p) {
    return p->back ? &p->in : &p->out;
}

/* One step toward a link on which this rank sends. */
static mst_status open_out(struct msi_p2p *p2p, int rank) {
    struct msi_p2p_peer *p = &p2p->peers[rank];
    bool called = p->out.link || p->out.streams;
    if (p2p->comm->places[rank] < 0 && !called && p->in.open) p->back = true;
    if (p->back) return MST_OK;
    if (rank != p2p->comm->rank) return msi_wireup_call(p2p->comm, rank, MSI_MESSAGES, &p->out);
    mst_status st = p->out.link ? MST_OK : msi_link_open_self(&p->out.link);
    p->in.link = p->out.link;
    p->out.open = p->in.open = st == MST_OK;
    return st;
}

static void post(struct mst_work *op, struct msi_link *link) {
    struct msi_message *m = &op->message;
    msi_p2p_write_head(m, m->head);
    msi_link_send(link, &m->head_transfer, m->head, sizeof m->head);
    msi_link_send(link, &m->body_transfer, m->buf, m->bytes);
    m->posted = true;
}

/* Posts messages as soon as there is a link for them. First the links, then the messages, which keep their order. */
static void post_sends(struct msi_p2p *p2p) {
    for (struct msi_list *at = p2p->sending.next; at != &p2p->sending; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        int peer = op->message.peer;
        mst_status st =
            op->message.posted || outgoing(&p2p->peers[peer])->link ? MST_OK : open_out(p2p, peer);
        if (st != MST_OK) msi_comm_fail(p2p->comm, op, st, peer);
    }
    for (struct msi_list *at = p2p->sending.next; at != &p2p->sending; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        struct msi_link *link = outgoing(&p2p->peers[op->message.peer])->link;
        if (!op->message.posted && link) post(op, link);
    }
}

void msi_p2p_begin(struct msi_p2p *p2p, struct mst_work *op) {
    op->message.through = op->message.met = op->message.posted = false;
    msi_list_init(&op->message.node);
    if (op->message.send)
        msi_list_push(&p2p->sending, &op->message.node);
    else if (!msi_p2p_match_unexpected(p2p, op))
        msi_list_push(&p2p->posted, &op->message.node);
}

bool msi_p2p_send_now(struct msi_p2p *p2p, const struct msi_message *m) {
    const struct msi_wireup *out = outgoing(&p2p->peers[m->peer]);
    unsigned char head[MSI_MESSAGE_HEAD];
    if (!out->open || !out->link->ops->send_whole) return false;
    msi_p2p_write_head(m, head);
    return out->link->ops->send_whole(out->link, head, sizeof head, m->buf, m->bytes);
}

/* Is nothing under way that a message of that rank could have to do with, besides a receive of it? */
static bool expects_nothing(const struct msi_p2p *p2p, const struct msi_p2p_peer *p) {
    bool between_messages = !p->in_body && (p->head_in.data == NULL || p->head_in.done == 0);
    return between_messages && msi_list_empty(&p2p->unexpected.kept) && msi_list_empty(&p2p->posted);
}

bool msi_p2p_receive_now(struct msi_p2p *p2p, const struct msi_message *m) {
    if (m->peer < 0 || m->allocate) return false;
    const struct msi_p2p_peer *p = &p2p->peers[m->peer];
    struct msi_link *in = msi_p2p_incoming(p2p, m->peer);
    if (!in || !in->ops->peek || m->bytes > in->ops->peek_most - MSI_MESSAGE_HEAD || !expects_nothing(p2p, p))
        return false;
    size_t n;
    const char *came = in->ops->peek(in, &n);
    bool oversubscribed = p2p->comm->oversubscribed; /* then the sender may need this processor */
    for (uint32_t i = oversubscribed ? YIELDS : msi_comm_spins(p2p->comm); !came && i > 0; i--) {
        if (oversubscribed)
            sched_yield();
        else
            msi_relax();
        came = in->ops->peek(in, &n);
    }
    if (!came || n < MSI_MESSAGE_HEAD) return false;
    uint64_t bytes;
    int tag;
    mst_dtype dtype;
    msi_p2p_read_head(came, &bytes, &tag, &dtype);
    bool wanted = tag == m->tag && dtype == m->dtype && bytes == m->bytes;
    if (!wanted || bytes > n - MSI_MESSAGE_HEAD) return false;
    if (bytes) memcpy(m->buf, came + MSI_MESSAGE_HEAD, bytes);
    in->ops->consume(in, MSI_MESSAGE_HEAD + bytes);
    if (m->sender) *m->sender = p2p->comm->hooks.global(p2p->comm->hooks.context, m->peer);
    return true;
}

static void check_sends(struct msi_p2p *p2p, bool *moved) {
    for (struct msi_list *at = p2p->sending.next, *next; at != &p2p->sending; at = next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        struct msi_message *m = &op->message;
        struct msi_wireup *out = outgoing(&p2p->peers[m->peer]);
        next = at->next;
        if (!m->posted) continue;
        if (out->link->ops->progress(out->link)) *moved = true;
        bool taken = msi_transfer_done(&m->head_transfer) && msi_transfer_done(&m->body_transfer);
        if (taken) open_out(p2p, m->peer); /* finds out whether it is open */
        if (taken && out->open) {          /* also where the other side has closed since */
            msi_list_remove(&m->node);
            m->through = true;
            *moved = true;
        } else if (out->link->status != MST_OK) {
            mst_status st = msi_comm_say_cut_off(p2p->comm, MST_ERR_PEER_LOST, m->peer, out->link->why);
            msi_list_remove(&m->node);
            msi_comm_fail(p2p->comm, op, st, m->peer);
        }
    }
}

bool msi_p2p_advance(struct msi_p2p *p2p) {
    bool moved = false;
    post_sends(p2p);
    check_sends(p2p, &moved);
    if (!msi_p2p_expects(p2p)) return moved;
    for (int r = 0; r < p2p->comm->size; r++) {
        struct msi_p2p_peer *p = &p2p->peers[r];
        bool answers = r != p2p->comm->rank && !p->comes_back;
        mst_status st = answers ? msi_wireup_answer(p2p->comm, r, MSI_MESSAGES, &p->in) : MST_OK;
        if (st != MST_OK && !msi_comm_heard(p2p->comm)) msi_p2p_cut_off(p2p, r, st, p->in.why);
        if (msi_p2p_incoming(p2p, r)) msi_p2p_read(p2p, r, &moved);
    }
    return moved;
}

void msi_p2p_answer(struct msi_comm *comm) {
    /* The endpoint's answer is enough; who called there is taken in when this rank asks for messages. */
    if (comm->net) msi_listener_progress(comm->endpoint->listener);
    for (int r = 0; r < comm->size; r++) {
        if (!msi_wireup_offered(comm, r, MSI_MESSAGES)) continue;
        if (!comm->p2p && msi_p2p_new(comm, &comm->p2p) != MST_OK) return;
        msi_wireup_answer(comm, r, MSI_MESSAGES,
                          &comm->p2p->peers[r].in); /* a receive finds out if it fails */
    }
}

int msi_p2p_descriptors(const struct msi_p2p *p2p, struct pollfd *fds, int max) {
    int n = 0;
    /* If nothing is expected, a message that came early would wake whoever sleeps, again and again. */
    bool reads = p2p && msi_p2p_expects(p2p);
    for (int r = 0; p2p && r < p2p->comm->size && n + 1 < max; r++) {
        const struct msi_p2p_peer *p = &p2p->peers[r];
        struct pollfd out = {.fd = -1}, in = {.fd = -1};
        const struct msi_link *to = p->back ? p->in.link : p->out.link, *from = msi_p2p_incoming(p2p, r);
        out.fd = msi_wireup_descriptor(&p->out, &out.events);
        if (to && !msi_list_empty(&to->sends)) out.fd = msi_link_descriptor(to, &out.events);
        if (from && reads && (from != to || out.fd < 0)) in.fd = msi_link_descriptor(from, &in.events);
        if (out.fd >= 0) fds[n++] = out;
        if (in.fd >= 0) fds[n++] = in;
    }
    return n;
}

bool msi_p2p_withdraw(struct msi_p2p *p2p, struct mst_work *op) {
    struct msi_message *m = &op->message;
    msi_list_remove(&m->node);
    if (m->send && !m->posted) return true;
    if (m->send) {
        struct msi_wireup *way = outgoing(&p2p->peers[m->peer]);
        struct msi_link *link = way->link;
        if (!link) return false; /* another message's end was its end */
        bool untouched = msi_link_cancel(link, &m->body_transfer);
        untouched = msi_link_cancel(link, &m->head_transfer) && untouched;
        /* Nobody shall read the buffer any more, of which the other side may know. */
        if (!untouched && m->peer != p2p->comm->rank) hang_up(way);
        return untouched;
    }
    msi_unexpected_forget(&p2p->unexpected, op);
    for (int r = 0; r < p2p->comm->size; r++)
        if (p2p->peers[r].receiving == op) return false;
    return true;
}
