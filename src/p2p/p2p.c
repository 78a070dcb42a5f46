/* p2p.c - sending messages, and the interface to engines. See p2p.h. */
#include "base/error.h"
#include "base/lines.h"
#include "p2p/p2p_internal.h"
#include "wireup/endpoint.h"

#include <sched.h>
#include <stdlib.h>

enum { YIELDS = 64 }; /* for a message that is expected at any moment */

void msi_p2p_init(struct msi_p2p *p2p, struct msi_peers *peers) {
    p2p->peers = peers;
    msi_list_init(&p2p->posted);
    msi_list_init(&p2p->sending);
    msi_unexpected_init(&p2p->unexpected);
}

static mst_status alloc_links(struct msi_p2p *p2p) {
    if (!p2p->links) p2p->links = calloc((size_t)p2p->peers->comm->size, sizeof *p2p->links);
    return p2p->links ? MST_OK : msi_fail_memory();
}

void msi_p2p_free(struct msi_p2p *p2p) {
    if (!p2p->peers) return;
    const struct msi_comm *comm = p2p->peers->comm;
    msi_unexpected_free(&p2p->unexpected);
    for (int r = 0; p2p->links && r < comm->size; r++) {
        struct msi_p2p_peer *p = &p2p->links[r];
        if (r == comm->rank) p->in.link = NULL; /* it is the link of out */
        msi_wireup_close(&p->out);
        msi_wireup_close(&p->in);
        free(p->lost);
    }
    free(p2p->links);
}

static void hang_up(struct msi_wireup *w) {
    if (w->link)
        msi_link_fail(w->link, MST_ERR_PEER_LOST, "the group has failed"); /* removes messages from it */
    msi_wireup_close(w);
    *w = (struct msi_wireup){.open = false};
}

void msi_p2p_hang_up(struct msi_p2p *p2p) {
    for (int r = 0; p2p->links && r < p2p->peers->comm->size; r++) {
        if (r == p2p->peers->comm->rank) continue;
        hang_up(&p2p->links[r].out);
        hang_up(&p2p->links[r].in);
    }
}

/* The link on which this rank sends. */
static struct msi_wireup *outgoing(struct msi_p2p_peer *p) {
    return p->back ? &p->in : &p->out;
}

bool msi_p2p_may_arrive(const struct msi_p2p *p2p, int rank) {
    if (!p2p->links || p2p->peers->comm->ranks.slots[rank] >= 0) return false;
    const struct msi_link *in = msi_p2p_incoming(p2p, rank);
    return in && in->status == MST_OK;
}

/* One step toward a link on which this rank sends. */
static mst_status open_out(struct msi_p2p *p2p, int rank) {
    const struct msi_comm *comm = p2p->peers->comm;
    struct msi_p2p_peer *p = &p2p->links[rank];
    bool connecting = p->out.link || p->out.sockets;
    if (comm->ranks.slots[rank] < 0 && !connecting && p->in.open) p->back = true;
    if (p->back) return MST_OK;
    if (rank != comm->rank) return msi_wireup_call(p2p->peers, rank, MSI_MESSAGES, &p->out);
    mst_status st = p->out.link ? MST_OK : msi_link_open_self(&p->out.link);
    p->in.link = p->out.link;
    p->out.open = p->in.open = st == MST_OK;
    return st;
}

static void post(struct msi_p2p_request *r, struct msi_link *link) {
    const struct msi_op *op = &r->work->op;
    msi_p2p_write_header(op, r->header);
    msi_link_send(link, &r->header_transfer, r->header, sizeof r->header);
    msi_link_send(link, &r->body_transfer, op->desc.in, msi_op_bytes(op));
    r->posted = true;
}

/* Posts sends whose link is open: first opens the links, then posts the sends in their order. */
static void post_sends(struct msi_p2p *p2p) {
    for (struct msi_list *at = p2p->sending.next; at != &p2p->sending; at = at->next) {
        struct msi_p2p_request *r = msi_container(at, struct msi_p2p_request, node);
        int peer = r->work->op.desc.peer;
        struct msi_p2p_peer *p = &p2p->links[peer];
        if (r->posted || r->work->failure.status != MST_OK || outgoing(p)->link) continue;
        mst_status st = p->lost ? msi_comm_repeat(p->lost) : open_out(p2p, peer);
        if (st != MST_OK) msi_comm_fail(p2p->peers->comm, r->work, st, peer);
    }
    for (struct msi_list *at = p2p->sending.next; at != &p2p->sending; at = at->next) {
        struct msi_p2p_request *r = msi_container(at, struct msi_p2p_request, node);
        struct msi_link *link = outgoing(&p2p->links[r->work->op.desc.peer])->link;
        if (!r->posted && link) post(r, link);
    }
}

mst_status msi_p2p_begin(struct msi_p2p *p2p, struct mst_work *work) {
    struct msi_p2p_request *r = msi_p2p_request(work);
    mst_status st = alloc_links(p2p);
    if (st != MST_OK) return st;
    r->work = work;
    r->posted = r->complete = false;
    msi_list_init(&r->node);
    if (work->op.desc.kind == MST_KIND_SEND)
        msi_list_push(&p2p->sending, &r->node);
    else if (work->op.probe)
        msi_p2p_begin_probe(p2p, work);
    else if (!msi_p2p_match_unexpected(p2p, work))
        msi_list_push(&p2p->posted, &r->node);
    return MST_OK;
}

/* Not inline, like receive_now: each function has few registers to save. */
__attribute__((noinline)) static bool send_now(struct msi_p2p *p2p, const struct msi_op *op) {
    const struct msi_wireup *out = outgoing(&p2p->links[op->desc.peer]);
    unsigned char header[MSI_P2P_HEADER];
    if (!out->open || !out->link->ops->send_whole) return false;
    msi_p2p_write_header(op, header);
    return out->link->ops->send_whole(out->link, header, sizeof header, op->desc.in, msi_op_bytes(op));
}

/* Is nothing under way that could involve a message of that rank? */
static bool expects_nothing(const struct msi_p2p *p2p, const struct msi_p2p_peer *p) {
    bool between_messages = !p->in_body && (!p->header_in.data || p->header_in.done == 0);
    return between_messages && msi_list_empty(&p2p->unexpected.kept) && msi_list_empty(&p2p->posted);
}

__attribute__((noinline)) static bool receive_now(struct msi_p2p *p2p, struct msi_op *op) {
    const struct msi_comm *comm = p2p->peers->comm;
    size_t bytes = msi_op_bytes(op), n;
    if (op->desc.peer < 0 || op->bytes) return false;
    const struct msi_p2p_peer *p = &p2p->links[op->desc.peer];
    if (p->lost) return false;
    struct msi_link *in = msi_p2p_incoming(p2p, op->desc.peer);
    if (!in || !in->ops->peek || bytes > in->ops->peek_most - MSI_P2P_HEADER || !expects_nothing(p2p, p))
        return false;
    const char *came = in->ops->peek(in, &n);
    bool oversubscribed = comm->ranks.oversubscribed; /* then the sender may need this processor */
    for (uint32_t i = oversubscribed ? YIELDS : msi_comm_spins(comm);
         !came && i > 0 && !msi_lock_is_awaited(&comm->lock); i--) {
        if (oversubscribed)
            sched_yield();
        else
            msi_relax();
        came = in->ops->peek(in, &n);
    }
    if (!came || n < MSI_P2P_HEADER) return false;
    struct msi_p2p_header h = msi_p2p_read_header(came);
    bool matches =
        msi_message_matches(op, op->desc.peer, h.tag) && h.dtype == op->desc.dtype && h.bytes == bytes;
    if (!matches || bytes > n - MSI_P2P_HEADER) return false;
    if (bytes) msi_read_lines(op->desc.out, came + MSI_P2P_HEADER, bytes);
    in->ops->consume(in, MSI_P2P_HEADER + bytes);
    op->desc.tag = h.tag;
    if (op->sender) *op->sender = op->desc.peer;
    if (op->message) *op->message = (mst_message){op->desc.peer, h.tag, bytes};
    return true;
}

bool msi_p2p_message_now(struct msi_comm *comm, struct msi_op *op) {
    struct msi_p2p *p2p = comm->state;
    if (!p2p->links) return false;
    return op->desc.kind == MST_KIND_SEND ? send_now(p2p, op) : receive_now(p2p, op);
}

static void check_sends(struct msi_p2p *p2p, bool *moved) {
    struct msi_comm *comm = p2p->peers->comm;
    for (struct msi_list *at = p2p->sending.next, *next; at != &p2p->sending; at = next) {
        struct msi_p2p_request *r = msi_container(at, struct msi_p2p_request, node);
        int peer = r->work->op.desc.peer;
        struct msi_wireup *out = outgoing(&p2p->links[peer]);
        next = at->next;
        if (!r->posted || !out->link) continue;
        if (out->link->ops->progress(out->link)) *moved = true;
        bool taken = msi_transfer_done(&r->header_transfer) && msi_transfer_done(&r->body_transfer);
        if (taken) open_out(p2p, peer); /* finds out whether the link is open */
        if (taken && out->open) {       /* even if the other rank has closed the link since */
            msi_list_remove(&r->node);
            r->complete = true;
            *moved = true;
        } else if (out->link->status != MST_OK) {
            mst_status st = msi_comm_say_cut_off(comm, MST_ERR_PEER_LOST, peer, out->link->why, true);
            msi_list_remove(&r->node);
            msi_comm_fail(comm, r->work, st, peer);
        }
    }
}

static bool move(struct msi_p2p *p2p) {
    struct msi_comm *comm = p2p->peers->comm;
    bool moved = false;
    post_sends(p2p);
    check_sends(p2p, &moved);
    if (!msi_p2p_expects(p2p)) return moved;
    for (int r = 0; r < comm->size; r++) {
        struct msi_p2p_peer *p = &p2p->links[r];
        if (p->lost) {
            msi_p2p_cut_off(p2p, r, MST_ERR_PEER_LOST, "");
            continue;
        }
        bool answers = r != comm->rank && !p->comes_back;
        mst_status st = answers ? msi_wireup_answer(p2p->peers, r, MSI_MESSAGES, &p->in) : MST_OK;
        if (st != MST_OK && !msi_comm_hear_failure(comm)) msi_p2p_cut_off(p2p, r, st, p->in.why);
        if (msi_p2p_incoming(p2p, r)) msi_p2p_read(p2p, r, &moved);
    }
    return moved;
}

/*
 * A message has failed because its other rank is lost: closes the links with that rank, and fails the other
 * messages to it and those from it that are incomplete.
 */
static void lose_peer(struct msi_p2p *p2p, const struct mst_work *failed) {
    int peer = msi_comm_peer(failed);
    struct msi_comm *comm = p2p->peers->comm;
    struct msi_list *messages = &comm->ops.messages;
    if (peer < 0 || peer == comm->rank || p2p->links[peer].lost || comm->failure.status != MST_OK) return;
    struct msi_p2p_peer *p = &p2p->links[peer];
    struct msi_failure *kept = malloc(sizeof *kept);
    if (!kept) { /* nothing would tell later messages */
        msi_comm_give_up(comm, failed);
        return;
    }
    *kept = failed->failure;
    hang_up(&p->out);
    hang_up(&p->in);
    if (p->in_body) p2p->incoming--;
    if (p->keeping) {
        p->keeping->receive = NULL;
        p->keeping->dropped = true;
        msi_unexpected_complete(&p2p->unexpected, p->keeping);
    }
    *p = (struct msi_p2p_peer){.lost = kept};
    for (struct msi_list *at = messages->next; at != messages; at = at->next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        bool over = msi_p2p_request(work)->complete || work->failure.status != MST_OK;
        if (!over && msi_comm_peer(work) == peer) work->failure = failed->failure;
    }
}

/* Withdraws a message that failed. False if a part of it was transferred: the link is unusable then. */
static bool withdraw(struct msi_p2p *p2p, struct mst_work *work) {
    struct msi_p2p_request *r = msi_p2p_request(work);
    const struct msi_comm *comm = p2p->peers->comm;
    int peer = work->op.desc.peer;
    bool send = work->op.desc.kind == MST_KIND_SEND;
    msi_list_remove(&r->node);
    if (work->op.probe) p2p->probes--;
    if (work->op.probe || (send && !r->posted)) return true;
    if (send) {
        struct msi_wireup *w = outgoing(&p2p->links[peer]);
        struct msi_link *link = w->link;
        if (!link) return p2p->links[peer].lost; /* another message's failure has closed it */
        bool untouched = msi_link_cancel(link, &r->body_transfer);
        untouched = msi_link_cancel(link, &r->header_transfer) && untouched;
        /* The other rank may know the buffer and must not read it any more. */
        if (!untouched && peer != comm->rank) hang_up(w);
        return untouched;
    }
    msi_unexpected_forget(&p2p->unexpected, work);
    for (int i = 0; i < comm->size; i++)
        if (p2p->links[i].receiving == work) return false;
    return true;
}

bool msi_p2p_progress(struct msi_p2p *p2p) {
    struct msi_comm *comm = p2p->peers->comm;
    struct msi_list *messages = &comm->ops.messages;
    bool moved = comm->failure.status == MST_OK && move(p2p);
    for (struct msi_list *at = messages->next, *next; at != messages; at = next) {
        struct mst_work *work = msi_container(at, struct mst_work, node);
        next = at->next;
        if (msi_p2p_request(work)->complete) {
            msi_comm_tell_message(work, work->source);
        } else {
            if (comm->failure.status != MST_OK && work->failure.status == MST_OK)
                work->failure = comm->failure;
            if (work->failure.status == MST_OK) continue;
            if (work->failure.status == MST_ERR_PEER_LOST) lose_peer(p2p, work);
            if (withdraw(p2p, work))
                msi_comm_unnumber(work);
            else
                msi_comm_give_up(comm, work);
        }
        msi_comm_end(work);
        moved = true;
    }
    return moved;
}

static bool is_reachable(const struct msi_p2p *p2p, int rank) {
    const struct msi_peers *peers = p2p->peers;
    int slot = peers->comm->ranks.slots[rank];
    if (rank == peers->comm->rank || (p2p->links && (p2p->links[rank].out.open || p2p->links[rank].in.open)))
        return true;
    return slot >= 0 && peers->region && msi_shm_region_here(peers->region, slot);
}

bool msi_p2p_needs_store(const struct msi_p2p *p2p, const struct mst_work *work) {
    int peer = msi_comm_peer(work);
    if (peer >= 0) return !is_reachable(p2p, peer);
    for (int r = 0; r < p2p->peers->comm->size; r++)
        if (r != p2p->peers->comm->rank && is_reachable(p2p, r)) return false;
    return true;
}

void msi_p2p_accept(struct msi_p2p *p2p) {
    for (int r = 0; r < p2p->peers->comm->size; r++) {
        if (!msi_wireup_offered(p2p->peers, r, MSI_MESSAGES)) continue;
        if (alloc_links(p2p) != MST_OK) return;
        if (p2p->links[r].lost) continue;                                  /* the offer is an old one */
        msi_wireup_answer(p2p->peers, r, MSI_MESSAGES, &p2p->links[r].in); /* a receive reports the failure */
    }
}

int msi_p2p_poll_fds(const struct msi_p2p *p2p, struct pollfd *fds, int max) {
    int n = 0;
    /* If no message is expected, one that arrived early would end every sleep. */
    bool reads = msi_p2p_expects(p2p);
    for (int r = 0; p2p->links && r < p2p->peers->comm->size && n + 1 < max; r++) {
        const struct msi_p2p_peer *p = &p2p->links[r];
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
