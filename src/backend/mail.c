/* mail.c - messages between two ranks of a comm. See mail.h. */
#include "backend/mail.h"
#include "backend/way.h"
#include "base/error.h"
#include "wire/cursor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { YIELDS = 64 }; /* for a message that is expected at any moment */

/* Bytes of strays that were delivered and are kept for the next ones. */
enum { STRAY_LEAST = 256, SPARE_MOST = 8 << 20 };

/* A message that nobody has asked for yet. */
struct stray {
    struct msi_list node;
    size_t room; /* of data */
    int peer, tag;
    mst_dtype dtype;
    size_t bytes;
    bool complete;
    struct mst_work *taker; /* asked for it while it was coming */
    struct msi_transfer body;
    char data[];
};

/* What there is with one other rank. */
struct peer {
    struct msi_way out, in;               /* that this rank, that the other has called with */
    bool back;                            /* this rank sends on in */
    bool comes_back;                      /* the other sends on out */
    struct msi_link *listening;           /* has head_in, or had it last */
    unsigned char head[MSI_MESSAGE_HEAD]; /* of the message that comes in */
    struct msi_transfer head_in;
    bool in_body;               /* its head is there, its body not yet … */
    struct mst_work *receiving; /* … and goes to this receive, */
    struct stray *keeping;      /* or is kept */
};

struct msi_mail {
    struct msi_comm *comm;
    struct msi_list posted;  /* receives that no message has met, by message.node */
    struct msi_list sending; /* sends under way */
    struct msi_list strays;
    struct msi_list spare; /* strays to use again */
    size_t spare_bytes;
    int incoming; /* ranks of which half a message has come */
    struct peer peers[];
};

mst_status msi_mail_new(struct msi_comm *comm, struct msi_mail **mail) {
    struct msi_mail *made = calloc(1, sizeof *made + (size_t)comm->size * sizeof *made->peers);
    if (!made) return msi_fail_memory();
    made->comm = comm;
    msi_list_init(&made->posted);
    msi_list_init(&made->sending);
    msi_list_init(&made->strays);
    msi_list_init(&made->spare);
    *mail = made;
    return MST_OK;
}

static void free_strays(struct msi_list *list) {
    while (!msi_list_empty(list)) {
        struct stray *stray = msi_container(list->next, struct stray, node);
        msi_list_remove(&stray->node);
        free(stray);
    }
}

void msi_mail_free(struct msi_mail *mail) {
    if (!mail) return;
    free_strays(&mail->strays);
    free_strays(&mail->spare);
    for (int r = 0; r < mail->comm->size; r++) {
        struct peer *p = &mail->peers[r];
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
static struct msi_way *outgoing(struct peer *p) {
    return p->back ? &p->in : &p->out;
}

/* What the other rank sends on; NULL: nothing yet. Whoever has called, sends there. */
static struct msi_link *incoming(const struct msi_mail *mail, int rank) {
    const struct peer *p = &mail->peers[rank];
    bool apart = mail->comm->places[rank] < 0;
    return p->in.link || !apart || !p->out.open ? p->in.link : p->out.link;
}

/* One step toward a link on which this rank sends. */
static mst_status open_out(struct msi_mail *mail, int rank) {
    struct peer *p = &mail->peers[rank];
    bool called = p->out.link || p->out.streams;
    if (mail->comm->places[rank] < 0 && !called && p->in.open) p->back = true;
    if (p->back) return MST_OK;
    if (rank != mail->comm->rank) return msi_way_call(mail->comm, rank, MSI_MESSAGES, &p->out);
    mst_status st = p->out.link ? MST_OK : msi_link_open_self(&p->out.link);
    p->in.link = p->out.link;
    p->out.open = p->in.open = st == MST_OK;
    return st;
}

/* The head of a message: bytes, tag, dtype. */
static void write_head(const struct msi_message *m, unsigned char out[MSI_MESSAGE_HEAD]) {
    uint64_t words[] = {htole64(m->bytes), htole64((uint64_t)m->dtype << 32 | (uint32_t)m->tag)};
    memcpy(out, words, sizeof words);
}

static void read_head(const void *in, uint64_t *bytes, int *tag, mst_dtype *dtype) {
    struct msi_reader r = msi_reader(in, MSI_MESSAGE_HEAD);
    *bytes = msi_read_u64(&r);
    *tag = (int)msi_read_u32(&r);
    *dtype = (mst_dtype)msi_read_u32(&r);
}

static void post(struct mst_work *op, struct msi_link *link) {
    struct msi_message *m = &op->message;
    write_head(m, m->head);
    msi_link_send(link, &m->head_transfer, m->head, sizeof m->head);
    msi_link_send(link, &m->body_transfer, m->buf, m->bytes);
    m->posted = true;
}

/* Posts messages as soon as there is a link for them. First the links, then the messages: those to one rank keep their order. */
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

static bool fits(const struct msi_message *m, int peer, int tag) {
    return (m->peer < 0 || m->peer == peer) && m->tag == tag;
}

/* The message is known now: is it what the receiver expects? Makes room where that was left to us. */
static bool meet(struct msi_mail *mail, struct mst_work *op, int peer, size_t bytes, mst_dtype dtype) {
    struct msi_message *m = &op->message;
    char who[200];
    m->met = true;
    m->from = peer;
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

/* A stray with room for so many bytes; NULL without memory. */
static struct stray *new_stray(struct msi_mail *mail, size_t bytes) {
    struct stray *found = NULL;
    for (struct msi_list *at = mail->spare.next; at != &mail->spare; at = at->next) {
        struct stray *spare = msi_container(at, struct stray, node);
        if (spare->room >= bytes && (!found || spare->room < found->room)) found = spare;
    }
    size_t room = STRAY_LEAST;
    if (found) {
        msi_list_remove(&found->node);
        mail->spare_bytes -= found->room;
        room = found->room;
    } else if (bytes <= SIZE_MAX / 4) {
        while (room < bytes) room *= 2; /* so that the next one fits too */
        found = malloc(sizeof *found + room);
    }
    if (found) *found = (struct stray){.room = room, .bytes = bytes};
    return found;
}

/* Its message was delivered, or thrown away. */
static void end_stray(struct msi_mail *mail, struct stray *stray) {
    msi_list_remove(&stray->node);
    if (stray->room > SPARE_MOST - mail->spare_bytes) {
        free(stray);
        return;
    }
    mail->spare_bytes += stray->room;
    msi_list_push(&mail->spare, &stray->node);
}

static void deliver(struct msi_mail *mail, struct stray *stray, struct mst_work *op) {
    if (stray->bytes) memcpy(op->message.buf, stray->data, stray->bytes);
    op->message.through = true;
    end_stray(mail, stray);
}

/* A message that came before it was asked for. */
static bool take_stray(struct msi_mail *mail, struct mst_work *op) {
    for (struct msi_list *at = mail->strays.next; at != &mail->strays; at = at->next) {
        struct stray *stray = msi_container(at, struct stray, node);
        if (stray->taker || !fits(&op->message, stray->peer, stray->tag)) continue;
        if (!meet(mail, op, stray->peer, stray->bytes, stray->dtype)) {
            stray->tag = -1; /* nobody gets it */
            if (stray->complete) end_stray(mail, stray);
        } else if (stray->complete) {
            deliver(mail, stray, op);
        } else {
            stray->taker = op;
        }
        return true;
    }
    return false;
}

void msi_mail_begin(struct msi_mail *mail, struct mst_work *op) {
    op->message.through = op->message.met = op->message.posted = false;
    msi_list_init(&op->message.node);
    if (op->message.send)
        msi_list_push(&mail->sending, &op->message.node);
    else if (!take_stray(mail, op))
        msi_list_push(&mail->posted, &op->message.node);
}

bool msi_mail_send_now(struct msi_mail *mail, const struct msi_message *m) {
    const struct msi_way *out = outgoing(&mail->peers[m->peer]);
    unsigned char head[MSI_MESSAGE_HEAD];
    if (!out->open || !out->link->ops->send_whole) return false;
    write_head(m, head);
    return out->link->ops->send_whole(out->link, head, sizeof head, m->buf, m->bytes);
}

/* Is nothing under way that a message of that rank could have to do with, besides a receive of it? */
static bool expects_nothing(const struct msi_mail *mail, const struct peer *p) {
    bool between_messages = !p->in_body && (p->head_in.data == NULL || p->head_in.done == 0);
    return between_messages && msi_list_empty(&mail->strays) && msi_list_empty(&mail->posted);
}

bool msi_mail_receive_now(struct msi_mail *mail, const struct msi_message *m) {
    if (m->peer < 0 || m->allocate) return false;
    const struct peer *p = &mail->peers[m->peer];
    struct msi_link *in = incoming(mail, m->peer);
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
    read_head(came, &bytes, &tag, &dtype);
    bool wanted = tag == m->tag && dtype == m->dtype && bytes == m->bytes;
    if (!wanted || bytes > n - MSI_MESSAGE_HEAD) return false;
    if (bytes) memcpy(m->buf, came + MSI_MESSAGE_HEAD, bytes);
    in->ops->drop(in, MSI_MESSAGE_HEAD + bytes);
    if (m->sender) *m->sender = mail->comm->hooks.global(mail->comm->hooks.context, m->peer);
    return true;
}

static struct mst_work *find_posted(struct msi_mail *mail, int peer, int tag) {
    for (struct msi_list *at = mail->posted.next; at != &mail->posted; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, message.node);
        if (fits(&op->message, peer, tag)) return op;
    }
    return NULL;
}

static bool keep(struct msi_mail *mail, struct peer *p, int peer, int tag, size_t bytes, mst_dtype dtype) {
    struct stray *stray = new_stray(mail, bytes);
    if (!stray) {
        msi_link_fail(p->listening, MST_ERR_MEMORY, "no memory for a message of %zu bytes with tag %d", bytes,
                      tag);
        return false;
    }
    stray->peer = peer;
    stray->tag = tag;
    stray->dtype = dtype;
    p->keeping = stray;
    msi_list_push(&mail->strays, &stray->node);
    msi_link_receive(p->listening, &stray->body, stray->data, bytes);
    return true;
}

/* The head of a message is there: finds out whose it is, and lets the body come. */
static bool open_message(struct msi_mail *mail, int peer) {
    struct peer *p = &mail->peers[peer];
    uint64_t bytes;
    int tag;
    mst_dtype dtype;
    read_head(p->head, &bytes, &tag, &dtype);
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
    struct peer *p = &mail->peers[peer];
    struct stray *stray = p->keeping;
    if (p->receiving) p->receiving->message.through = true;
    if (stray) {
        stray->complete = true;
        if (stray->taker)
            deliver(mail, stray, stray->taker);
        else if (stray->tag < 0)
            end_stray(mail, stray);
    }
    mail->incoming--;
    p->receiving = NULL;
    p->keeping = NULL;
    p->in_body = false;
}

static bool body_is_there(const struct peer *p) {
    if (!p->receiving && !p->keeping) return false; /* there was no memory for it */
    return msi_transfer_done(p->receiving ? &p->receiving->message.body_transfer : &p->keeping->body);
}

/* If not, what comes in can stay where it is. */
static bool expects_something(const struct msi_mail *mail) {
    return !msi_list_empty(&mail->sending) || !msi_list_empty(&mail->posted) || mail->incoming > 0;
}

/* The link to read from. A rank that has called in the meantime sends nothing on the one that it was called with. */
static struct msi_link *listen_to(struct msi_mail *mail, int peer) {
    struct peer *p = &mail->peers[peer];
    struct msi_link *in = incoming(mail, peer);
    if (p->listening && p->listening != in && p->head_in.data) {
        msi_link_withdraw(p->listening, &p->head_in);
        p->head_in.data = NULL;
    }
    p->listening = in;
    return in;
}

/* All messages of a rank that have come so far. False if the link is of no use any more. */
static bool read_peer(struct msi_mail *mail, int peer, bool *moved) {
    struct peer *p = &mail->peers[peer];
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
        if (!expects_something(mail)) return true;
    }
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

/* The link from a rank is of no use any more: whoever waits for a message of it waits in vain. */
static void fail_receives(struct msi_mail *mail, int peer) {
    struct msi_comm *comm = mail->comm;
    for (struct msi_list *at = comm->messages.next; at != &comm->messages; at = at->next) {
        struct mst_work *op = msi_container(at, struct mst_work, node);
        const struct msi_message *m = &op->message;
        if (m->send || m->through || (m->met ? m->from : m->peer) != peer) continue;
        const struct msi_link *in = mail->peers[peer].listening;
        msi_comm_fail(comm, op, msi_comm_say_cut_off(comm, in->status, peer, in->why), peer);
    }
}

bool msi_mail_advance(struct msi_mail *mail) {
    bool moved = false;
    post_sends(mail);
    check_sends(mail, &moved);
    if (!expects_something(mail)) return moved;
    for (int r = 0; r < mail->comm->size; r++) {
        struct peer *p = &mail->peers[r];
        if (r != mail->comm->rank && !p->comes_back) msi_way_answer(mail->comm, r, MSI_MESSAGES, &p->in);
        if (incoming(mail, r) && !read_peer(mail, r, &moved) && p->listening->status != MST_OK)
            fail_receives(mail, r);
    }
    return moved;
}

void msi_mail_answer(struct msi_comm *comm) {
    /* The door's answer is enough; who called there is taken in when this rank asks for messages. */
    if (comm->net) msi_listener_progress(comm->door->listener);
    for (int r = 0; r < comm->size; r++) {
        if (!msi_way_offered(comm, r, MSI_MESSAGES)) continue;
        if (!comm->mail && msi_mail_new(comm, &comm->mail) != MST_OK) return;
        msi_way_answer(comm, r, MSI_MESSAGES, &comm->mail->peers[r].in);
    }
}

int msi_mail_descriptors(const struct msi_mail *mail, struct pollfd *fds, int max) {
    int n = 0;
    bool reads =
        mail && expects_something(
                    mail); /* else a message that came early would wake whoever sleeps, again and again */
    for (int r = 0; mail && r < mail->comm->size && n + 1 < max; r++) {
        const struct peer *p = &mail->peers[r];
        struct pollfd out = {.fd = -1}, in = {.fd = -1};
        const struct msi_link *to = p->back ? p->in.link : p->out.link, *from = incoming(mail, r);
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
    for (struct msi_list *at = mail->strays.next; at != &mail->strays; at = at->next) {
        struct stray *stray = msi_container(at, struct stray, node);
        if (stray->taker == op) stray->taker = NULL;
    }
    for (int r = 0; r < mail->comm->size; r++)
        if (mail->peers[r].receiving == op) return false;
    return true;
}
