/* p2p.c - messages between two ranks of a comm. See p2p.h. */
#include "base/error.h"
#include "p2p/p2p_internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { YIELDS = 64 }; /* for a message that is expected at any moment */

mst_status msi_mail_new(struct msi_comm *comm, struct msi_mail **mail) {
    struct msi_mail *made = calloc(1, sizeof *made + (size_t)comm->size * sizeof *made->peers);
    if (!made) return msi_fail_memory();
    made->comm = comm;
    msi_list_init(&made->posted);
    msi_list_init(&made->sending);
    msi_strays_init(&made->strays);
    *mail = made;
    return MST_OK;
}

void msi_mail_free(struct msi_mail *mail) {
    if (!mail) return;
    msi_strays_free(&mail->strays);
    for (int r = 0; r < mail->comm->size; r++) {
        struct msi_mail_peer *p = &mail->peers[r];
        if (r == mail->comm->rank) p->in.link = NULL; /* it is out's */
        msi_way_close(&p->out);
        msi_way_close(&p->in);
    }
    free(mail);
}

static void hang_up(struct msi_way *way) {
    if (way->link)
        msi_link_fail(way->link, MST_ERR_PEER_LOST, "the group has failed"); /* takes messages off it */
    msi_way_close(way);
    *way = (struct msi_way){.open = false};
}

void msi_mail_hang_up(struct msi_mail *mail) {
    for (int r = 0; r < mail->comm->size; r++) {
        if (r == mail->comm->rank) continue;
        hang_up(&mail->peers[r].out);
        hang_up(&mail->peers[r].in);
    }
}

/* What this rank sends on. */
static struct msi_way *outgoing(struct msi_mail_peer *p) {
    return p->back ? &p->in : &p->out;
}

/* One step toward a link on which this rank sends. */
static mst_status open_out(struct msi_mail *mail, int rank) {
    struct msi_mail_peer *p = &mail->peers[rank];
    bool called = p->out.link || p->out.streams;
    if (mail->comm->places[rank] < 0 && !called && p->in.open) p->back = true;
    if (p->back) return MST_OK;
    if (rank != mail->comm->rank) return msi_way_call(mail->comm, rank, MSI_MESSAGES, &p->out);
    mst_status st = p->out.link ? MST_OK : msi_link_open_self(&p->out.link);
    p->in.link = p->out.link;
    p->out.open = p->in.open = st == MST_OK;
    return st;
}

static void post(struct mst_work *op, struct msi_link *link) {
    struct msi_message *m = &op->message;
    msi_mail_write_head(m, m->head);
    msi_link_send(link, &m->head_transfer, m->head, sizeof m->head);
    msi_link_send(link, &m->body_transfer, m->buf, m->bytes);
    m->posted = true;
}

/* Posts messages as soon as there is a link for them. First the links, then the messages, which keep their order. */
static void post_sends(struct msi_mail *mail) {
    for (struct msi_list *at = mail->sending.next; at != &mail->sending; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        int peer = op->message.peer;
        mst_status st =
            op->message.posted || outgoing(&mail->peers[peer])->link ? MST_OK : open_out(mail, peer);
        if (st != MST_OK) msi_comm_fail(mail->comm, op, st, peer);
    }
    for (struct msi_list *at = mail->sending.next; at != &mail->sending; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        struct msi_link *link = outgoing(&mail->peers[op->message.peer])->link;
        if (!op->message.posted && link) post(op, link);
    }
}

void msi_mail_begin(struct msi_mail *mail, struct mst_work *op) {
    op->message.through = op->message.met = op->message.posted = false;
    msi_list_init(&op->message.node);
    if (op->message.send)
        msi_list_push(&mail->sending, &op->message.node);
    else if (!msi_mail_take_stray(mail, op))
        msi_list_push(&mail->posted, &op->message.node);
}

bool msi_mail_send_now(struct msi_mail *mail, const struct msi_message *m) {
    const struct msi_way *out = outgoing(&mail->peers[m->peer]);
    unsigned char head[MSI_MESSAGE_HEAD];
    if (!out->open || !out->link->ops->send_whole) return false;
    msi_mail_write_head(m, head);
    return out->link->ops->send_whole(out->link, head, sizeof head, m->buf, m->bytes);
}

/* Is nothing under way that a message of that rank could have to do with, besides a receive of it? */
static bool expects_nothing(const struct msi_mail *mail, const struct msi_mail_peer *p) {
    bool between_messages = !p->in_body && (p->head_in.data == NULL || p->head_in.done == 0);
    return between_messages && msi_list_empty(&mail->strays.kept) && msi_list_empty(&mail->posted);
}

bool msi_mail_receive_now(struct msi_mail *mail, const struct msi_message *m) {
    if (m->peer < 0 || m->allocate) return false;
    const struct msi_mail_peer *p = &mail->peers[m->peer];
    struct msi_link *in = msi_mail_incoming(mail, m->peer);
    if (!in || !in->ops->look || m->bytes > in->ops->look_most - MSI_MESSAGE_HEAD ||
        !expects_nothing(mail, p))
        return false;
    size_t n;
    const char *came = in->ops->look(in, &n);
    bool crowded = mail->comm->crowded; /* then the sender may need this processor */
    for (uint32_t i = crowded ? YIELDS : msi_comm_spins(mail->comm); !came && i > 0; i--) {
        if (crowded)
            sched_yield();
        else
            msi_relax();
        came = in->ops->look(in, &n);
    }
    if (!came || n < MSI_MESSAGE_HEAD) return false;
    uint64_t bytes;
    int tag;
    mst_dtype dtype;
    msi_mail_read_head(came, &bytes, &tag, &dtype);
    bool wanted = tag == m->tag && dtype == m->dtype && bytes == m->bytes;
    if (!wanted || bytes > n - MSI_MESSAGE_HEAD) return false;
    if (bytes) memcpy(m->buf, came + MSI_MESSAGE_HEAD, bytes);
    in->ops->drop(in, MSI_MESSAGE_HEAD + bytes);
    if (m->sender) *m->sender = mail->comm->hooks.global(mail->comm->hooks.context, m->peer);
    return true;
}

static void check_sends(struct msi_mail *mail, bool *moved) {
    for (struct msi_list *at = mail->sending.next, *next; at != &mail->sending; at = next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        struct msi_message *m = &op->message;
        struct msi_way *out = outgoing(&mail->peers[m->peer]);
        next = at->next;
        if (!m->posted) continue;
        if (out->link->ops->progress(out->link)) *moved = true;
        bool taken = msi_transfer_done(&m->head_transfer) && msi_transfer_done(&m->body_transfer);
        if (taken) open_out(mail, m->peer); /* finds out whether it is open */
        if (taken && out->open) {           /* also where the other side has closed since */
            msi_list_remove(&m->node);
            m->through = true;
            *moved = true;
        } else if (out->link->status != MST_OK) {
            mst_status st = msi_comm_say_cut_off(mail->comm, MST_ERR_PEER_LOST, m->peer, out->link->why);
            msi_list_remove(&m->node);
            msi_comm_fail(mail->comm, op, st, m->peer);
        }
    }
}

bool msi_mail_advance(struct msi_mail *mail) {
    bool moved = false;
    post_sends(mail);
    check_sends(mail, &moved);
    if (!msi_mail_expects(mail)) return moved;
    for (int r = 0; r < mail->comm->size; r++) {
        struct msi_mail_peer *p = &mail->peers[r];
        bool answers = r != mail->comm->rank && !p->comes_back;
        mst_status st = answers ? msi_way_answer(mail->comm, r, MSI_MESSAGES, &p->in) : MST_OK;
        if (st != MST_OK && !msi_comm_heard(mail->comm)) msi_mail_cut_off(mail, r, st, p->in.why);
        if (msi_mail_incoming(mail, r)) msi_mail_read(mail, r, &moved);
    }
    return moved;
}

void msi_mail_answer(struct msi_comm *comm) {
    /* The door's answer is enough; who called there is taken in when this rank asks for messages. */
    if (comm->net) msi_listener_progress(comm->door->listener);
    for (int r = 0; r < comm->size; r++) {
        if (!msi_way_offered(comm, r, MSI_MESSAGES)) continue;
        if (!comm->mail && msi_mail_new(comm, &comm->mail) != MST_OK) return;
        msi_way_answer(comm, r, MSI_MESSAGES, &comm->mail->peers[r].in); /* a receive finds out if it fails */
    }
}

int msi_mail_descriptors(const struct msi_mail *mail, struct pollfd *fds, int max) {
    int n = 0;
    /* If nothing is expected, a message that came early would wake whoever sleeps, again and again. */
    bool reads = mail && msi_mail_expects(mail);
    for (int r = 0; mail && r < mail->comm->size && n + 1 < max; r++) {
        const struct msi_mail_peer *p = &mail->peers[r];
        struct pollfd out = {.fd = -1}, in = {.fd = -1};
        const struct msi_link *to = p->back ? p->in.link : p->out.link, *from = msi_mail_incoming(mail, r);
        out.fd = msi_way_descriptor(&p->out, &out.events);
        if (to && !msi_list_empty(&to->sends)) out.fd = to->ops->descriptor(to, &out.events);
        if (from && reads && (from != to || out.fd < 0)) in.fd = from->ops->descriptor(from, &in.events);
        if (out.fd >= 0) fds[n++] = out;
        if (in.fd >= 0) fds[n++] = in;
    }
    return n;
}

bool msi_mail_withdraw(struct msi_mail *mail, struct mst_work *op) {
    struct msi_message *m = &op->message;
    msi_list_remove(&m->node);
    if (m->send && !m->posted) return true;
    if (m->send) {
        struct msi_way *way = outgoing(&mail->peers[m->peer]);
        struct msi_link *link = way->link;
        if (!link) return false; /* another message's end was its end */
        bool untouched = msi_link_withdraw(link, &m->body_transfer);
        untouched = msi_link_withdraw(link, &m->head_transfer) && untouched;
        /* Nobody shall read the buffer any more, of which the other side may know. */
        if (!untouched && m->peer != mail->comm->rank) hang_up(way);
        return untouched;
    }
    msi_strays_forget(&mail->strays, op);
    for (int r = 0; r < mail->comm->size; r++)
        if (mail->peers[r].receiving == op) return false;
    return true;
}
