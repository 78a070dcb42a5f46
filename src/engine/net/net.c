/*
 * net.c - the network engine: collectives among ranks on several hosts, as plans over links. Slots of
 * comm/engine.h.
 *
 *  1. Links are opened when a plan first needs them; the rank with the lower number connects. The first
 *     operation is over only when all ranks of this host have opened their region.
 *  2. In each operation, each rank first sends a header on each link that its plan uses. The header says what
 *     the sender called, so that the receiver finds a mismatch.
 *  3. Plans have different links, and a rank that only sends waits for no header. So a call that is made for
 *     the first time (comm/checked_calls.h) is compared before its plan begins: in round k, rank r sends what
 *     it knows to rank r + 2^k and receives from r - 2^k. After the last round each rank knows whether all
 *     ranks call the same. An all_to_all with splits is compared again at the end, because each split is
 *     known to two ranks only: if a rank finds a wrong one, the others wait and learn of its failure.
 *  4. One collective is under way at a time, so that there is one plan, one run and one set of headers.
 */
#include "base/error.h"
#include "coll/cost/select.h"
#include "coll/executor.h"
#include "engine/engines.h"
#include "engine/native.h"
#include "engine/net/layout.h"
#include "wire/cursor.h"
#include "wireup/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    SPINS = 200, /* a check of a connection is a system call */
    HEADER_BYTES = 16 + 40,
    REPORT_BYTES = 4 + HEADER_BYTES, /* a rank whose call differs, and its header */
    HEADER_COMPARES = 0x80,          /* among the flags: a report follows */
};

_Static_assert((HEADER_COMPARES & (2 * MSI_SIGNED_REJECTED - 1)) == 0, "is no flag of a signature");

/* The link with one other rank. */
struct peer {
    struct msi_wireup w;
    bool sends, receives; /* does the plan send to it, receive from it? */
    bool compares;        /* is it a partner when calls are compared? */
    bool checked;         /* its header was right */
    unsigned char header_out[HEADER_BYTES], header_in[HEADER_BYTES];
    struct msi_transfer out, in;
    struct msi_call_signature signature; /* what it called */
};

enum phase { IDLE, CONNECT, COMPARE, RUN, CONFIRM };

/* The comparison of a call (rule 3). */
struct comparison {
    bool needed;
    bool sent; /* the messages of this round are posted */
    int distance;
    int culprit; /* a rank whose call differs from this rank's, or from another's; -1: none is known */
    unsigned char culprit_header[HEADER_BYTES]; /* its header */
    unsigned char out[HEADER_BYTES + REPORT_BYTES], report[REPORT_BYTES];
    struct msi_transfer to, header, rest;
};

/* The state of the engine. */
struct net {
    struct msi_native native;
    bool open;
    struct msi_listener_wake
        wake; /* ends this rank's sleep: a rank has connected, or there is something else to wait for */
    struct msi_net_layout layout;
    struct msi_plan plan;
    struct msi_exec exec;
    enum phase phase;
    struct comparison comparison;
    uint64_t seq;
    uint32_t history, next_history;     /* hash of the calls before the current one, and with it */
    uint64_t rejected;                  /* the last collective that this rank rejected; 0: none */
    char why[120];                      /* a fault that is described with numbers */
    bool planned;                       /* the plan may be used again, for … */
    struct msi_cost_input cost_input;   /* … this input, … */
    const struct msi_planner *override; /* … if no other algorithm is asked for */
    const struct msi_planner *selected; /* whose plan it is */
    struct mst_work barrier;            /* the first pending call, if it is a barrier; it may be under way */
    struct peer *peers;                 /* by rank */
};

static struct net *net_of(const struct msi_comm *comm) {
    return comm->state;
}

static struct msi_comm *comm_of(const struct net *net) {
    return net->native.peers.comm;
}

static size_t state_bytes(const struct msi_comm *comm) {
    (void)comm;
    return sizeof(struct net);
}

/* Only messages have a state of their own; collectives run one at a time. */
static size_t op_bytes(const struct msi_comm *comm) {
    (void)comm;
    return sizeof(struct msi_p2p_request);
}

/* Leaves a barrier in which other ranks still need this rank: it is completed before the next operation. */
static void leave(struct mst_work *work) {
    struct net *net = net_of(work->comm);
    if (net->native.pending.n == 0) net->barrier = *work;
    msi_pending_add(work->comm, &work->op);
}

/* Completes a pending barrier with the description of an ordinary one. */
static void take_up_barrier(struct net *net, const struct msi_pending_call *call) {
    net->barrier.comm = comm_of(net);
    net->barrier.op = (struct msi_op){.desc = {.root = -1, .peer = -1, .sender = -1},
                                      .call = MSI_KIND_BARRIER,
                                      .flags = call->flags,
                                      .signature = call->signature,
                                      .hash = call->hash};
}

static mst_status make_wake_fd(struct net *net) {
    struct msi_comm *comm = comm_of(net);
    net->wake =
        (struct msi_listener_wake){.group = comm->number, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (net->wake.fd < 0) return msi_fail_errno(errno, "cannot create an eventfd");
    msi_listener_watch(comm->config.endpoint->listener, &net->wake);
    net->open = true;
    return MST_OK;
}

static mst_status open_engine(struct msi_comm *comm, const struct mst_work *first,
                              const struct msi_wait *wait) {
    struct net *net = net_of(comm);
    msi_native_init(comm);
    comm->traits = (struct msi_engine_traits){.spins = SPINS,
                                              .max_fds = 3 * comm->size + 3,
                                              .pollable = true,
                                              .uses_store = true,
                                              .barrier_survives = true};
    if (!net->peers) net->peers = calloc((size_t)comm->size, sizeof *net->peers);
    if (!net->peers) return msi_fail_memory();
    mst_status st = msi_comm_agree(comm, wait);
    if (st == MST_OK && comm->ranks.local > 1) st = msi_peers_open_region(&net->native.peers, wait);
    if (st == MST_OK) st = msi_endpoint_open(comm, wait);
    if (st == MST_ERR_CONFIG) msi_comm_tell_end(comm, st); /* the others would wait for this rank */
    if (st == MST_OK && !net->open) st = make_wake_fd(net);
    bool late = st == MST_ERR_TIMEOUT || st == MST_ERR_CANCELLED;
    if (late && first->op.desc.kind == MST_KIND_BARRIER) msi_pending_add(comm, &first->op);
    return st;
}

/* Closes all links. */
static void hang_up(struct net *net) {
    for (int r = 0; r < comm_of(net)->size; r++) {
        msi_wireup_close(&net->peers[r].w);
        net->peers[r].w = (struct msi_wireup){.open = false};
    }
    net->phase = IDLE;
}

static void close_engine(struct msi_comm *comm) {
    struct net *net = net_of(comm);
    msi_peers_leave(&net->native.peers); /* before other ranks see that links are closed */
    if (net->open) {
        msi_listener_unwatch(comm->config.endpoint->listener, &net->wake);
        close(net->wake.fd);
        hang_up(net);
    }
    msi_exec_free(&net->exec);
    msi_plan_free(&net->plan);
    msi_net_layout_free(&net->layout);
    free(net->peers);
    msi_native_close(comm);
}

/* One step toward a link with the rank. MSI_DONE: the link is open. */
static enum msi_advance connect_peer(struct net *net, struct mst_work *work, int rank) {
    struct msi_wireup *w = &net->peers[rank].w;
    struct msi_peers *peers = &net->native.peers;
    mst_status st = peers->comm->rank < rank ? msi_wireup_call(peers, rank, MSI_COLLECTIVES, w)
                                             : msi_wireup_answer(peers, rank, MSI_COLLECTIVES, w);
    if (st != MST_OK) return msi_fault(work, st, rank, w->why);
    return w->open ? MSI_DONE : MSI_BLOCKED;
}

static void write_header(const struct net *net, const struct mst_work *work, int receiver, unsigned flags,
                         unsigned char out[HEADER_BYTES]) {
    const struct msi_call_signature *s = &work->op.signature;
    struct msi_buf header = {out, 0, HEADER_BYTES, false};
    bool splits = s->flags & MSI_SIGNED_SPLITS;
    msi_put_u64(&header, net->seq);
    msi_put_u32(&header, work->op.hash);
    msi_put_u32(&header, net->history);
    msi_put_u32(&header, (uint32_t)s->kind | (uint32_t)s->dtype << 8 | (uint32_t)s->op << 16 |
                             (s->flags | flags) << 24);
    msi_put_u32(&header, (uint32_t)s->root);
    msi_put_u64(&header, splits ? work->op.desc.in_counts[receiver] : s->count);
    msi_put_u32(&header, s->line);
    msi_buf_add(&header, s->file, sizeof s->file);
}

/* What a header says. */
struct header {
    uint64_t seq;
    uint32_t hash, history;
    bool compares; /* a report follows */
    struct msi_call_signature signature;
};

static struct header read_header(const unsigned char bytes[HEADER_BYTES]) {
    struct msi_reader r = msi_reader(bytes, HEADER_BYTES);
    struct header h = {.seq = msi_read_u64(&r)};
    h.hash = msi_read_u32(&r);
    h.history = msi_read_u32(&r);
    uint32_t kinds = msi_read_u32(&r);
    h.compares = kinds >> 24 & HEADER_COMPARES;
    h.signature = (struct msi_call_signature){.kind = (uint8_t)kinds,
                                              .dtype = (uint8_t)(kinds >> 8),
                                              .op = (uint8_t)(kinds >> 16),
                                              .flags = (uint8_t)(kinds >> 24 & ~(uint32_t)HEADER_COMPARES)};
    h.signature.root = (int32_t)msi_read_u32(&r);
    h.signature.count = msi_read_u64(&r);
    h.signature.line = msi_read_u32(&r);
    memcpy(h.signature.file, msi_read_bytes(&r, sizeof h.signature.file), sizeof h.signature.file);
    return h;
}

/* Why a rank's header does not fit the call of this rank; NULL: it does. */
static const char *find_difference(struct net *net, const struct mst_work *work, int rank,
                                   const struct header *h) {
    if (h->seq != net->seq || h->hash != work->op.hash) return "the calls differ";
    if (h->history != net->history) return "the calls differed some operations earlier";
    if (h->compares != (net->phase != RUN)) return "MUSTER_CHECK is not equal on all ranks";
    if (net->phase != RUN || !(work->op.signature.flags & MSI_SIGNED_SPLITS)) return NULL;
    unsigned long long sent = h->signature.count, expected = work->op.desc.out_counts[rank];
    if (sent == expected) return NULL;
    snprintf(net->why, sizeof net->why, "it sends %llu elements to this rank, which expects %llu", sent,
             expected);
    return net->why;
}

static const struct msi_call_signature *signature_of(const struct mst_work *work, int rank) {
    return rank == work->comm->rank ? &work->op.signature : &net_of(work->comm)->peers[rank].signature;
}

static void describe(struct mst_work *work, struct msi_record *record) {
    const struct net *net = net_of(work->comm);
    if (!msi_op_is_message(&work->op)) record->algorithm = net->selected ? net->selected->name : NULL;
}

/* Finds the ranks that the plan sends to and receives from. */
static void find_peers(struct net *net, bool splits) {
    for (int r = 0; r < comm_of(net)->size; r++) {
        struct peer *p = &net->peers[r];
        p->sends = p->receives = splits && r != comm_of(net)->rank; /* a split of 0 is compared too */
        p->checked = p->compares = false;
    }
    for (uint32_t i = 0; i < net->plan.n; i++) {
        const struct msi_step *s = &net->plan.steps[i];
        if (s->kind == MSI_SEND) net->peers[s->peer].sends = true;
        if (s->kind == MSI_RECV) net->peers[s->peer].receives = true;
    }
}

/* Can the current plan run this request too? A plan with different counts borrows them and is not reused. */
static bool can_reuse_plan(const struct net *net, const struct msi_request *request,
                           const struct msi_cost_input *input) {
    const struct msi_request *a = &net->plan.request;
    const struct msi_cost_input *q = &net->cost_input;
    return net->planned && a->kind == request->kind && a->root == request->root &&
           a->count == request->count && a->in_place == request->in_place && !request->counts &&
           !request->to && q->raw_size == input->raw_size && q->acc_size == input->acc_size &&
           q->deterministic == input->deterministic && net->override == input->tuning->algo.of[request->kind];
}

static enum msi_advance make_plan(struct net *net, struct mst_work *work) {
    struct msi_comm *comm = comm_of(net);
    const struct msi_op *op = &work->op;
    size_t element = op->desc.element ? op->desc.element : 1;
    struct msi_request request = {.rank = comm->rank, .size = comm->size, .hosts = comm->ranks.hosts};
    mst_status st = msi_net_layout_begin(&net->layout, op, &request);
    if (st != MST_OK) return msi_fault(work, st, -1, "out of memory");
    struct msi_cost_input input = {.tuning = comm->config.tuning,
                                   .raw_size = element,
                                   .acc_size = op->reducer ? op->reducer->acc_size : 1,
                                   .deterministic = op->deterministic};
    if (can_reuse_plan(net, &request, &input)) return MSI_MOVED;
    struct msi_selection selection;
    msi_select(&input, &request, &selection);
    request.chunk = selection.chunk;
    net->selected = selection.planner;
    net->planned = false;
    st = msi_plan_make(&net->plan, selection.planner, &request);
    if (st != MST_OK) return msi_fault(work, st, -1, "out of memory");
    net->planned = !request.counts && !request.to;
    net->cost_input = input;
    net->override = comm->config.tuning->algo.of[request.kind];
    return MSI_MOVED;
}

static void take_number(struct net *net, struct mst_work *work) {
    work->seq = ++net->seq;
    net->history = net->next_history;
    net->next_history = msi_history(net->history, work->op.hash);
}

/* The rank at a distance from this one. */
static int rank_at(const struct net *net, int distance) {
    int n = comm_of(net)->size;
    return ((comm_of(net)->rank + distance) % n + n) % n;
}

/* Finds the ranks with which this one compares a call (rule 3). */
static void find_partners(struct net *net) {
    for (int distance = 1; distance < comm_of(net)->size; distance *= 2)
        net->peers[rank_at(net, distance)].compares = net->peers[rank_at(net, -distance)].compares = true;
}

static enum msi_advance begin(struct net *net, struct mst_work *work) {
    enum msi_advance got = make_plan(net, work);
    if (got != MSI_MOVED) return got;
    uint8_t flags = work->op.signature.flags;
    net->comparison.needed = msi_comm_must_compare(comm_of(net), &work->op);
    /* The splits of byte strings come from the root, or were exchanged before. */
    find_peers(net, flags & MSI_SIGNED_SPLITS && (net->comparison.needed || !(flags & MSI_SIGNED_BYTES)));
    take_number(net, work);
    if (net->comparison.needed) find_partners(net);
    net->phase = CONNECT;
    return MSI_MOVED;
}

/* Has that rank of this host not opened the region yet? Until it has, the rank that created the region must
 * not leave. */
static bool is_awaited(const struct msi_peers *peers, int rank) {
    int slot = peers->comm->ranks.slots[rank];
    return peers->region && !peers->all_here && slot >= 0 && !msi_shm_region_here(peers->region, slot);
}

static bool host_is_here(struct msi_peers *peers) {
    if (!peers->region || peers->all_here) return true;
    for (int r = 0; r < peers->comm->size; r++)
        if (is_awaited(peers, r)) return false;
    msi_peers_set_all_here(peers);
    return true;
}

static enum msi_advance connect_all(struct net *net, struct mst_work *work) {
    enum msi_advance all = host_is_here(&net->native.peers) ? MSI_DONE : MSI_BLOCKED;
    for (int r = 0; r < comm_of(net)->size; r++) {
        if (!net->peers[r].sends && !net->peers[r].receives && !net->peers[r].compares) continue;
        enum msi_advance got = connect_peer(net, work, r);
        if (got == MSI_FAILED) return got;
        if (got != MSI_DONE) all = MSI_BLOCKED;
    }
    return all;
}

static enum msi_advance start(struct net *net, struct mst_work *work) {
    for (int r = 0; r < comm_of(net)->size; r++) {
        struct peer *p = &net->peers[r];
        net->layout.links[r] = p->w.link;
        if (p->sends) {
            write_header(net, work, r, 0, p->header_out);
            msi_link_send(p->w.link, &p->out, p->header_out, HEADER_BYTES);
        }
        if (p->receives) msi_link_receive(p->w.link, &p->in, p->header_in, HEADER_BYTES);
    }
    const struct msi_op *op = &work->op;
    struct msi_exec_run run = {.plan = &net->plan,
                               .links = net->layout.links,
                               .in = net->layout.in,
                               .out = net->layout.out,
                               .raw_size = op->desc.element ? op->desc.element : 1,
                               .reducer = op->reducer,
                               .scale = {op->desc.factor, comm_of(net)->size}};
    mst_status st = msi_exec_begin(&net->exec, &run);
    if (st != MST_OK) return msi_fault(work, st, -1, "out of memory");
    net->phase = RUN;
    return MSI_MOVED;
}

/* Another rank has made another call. If it is at a call that this rank has rejected, that is the fault. */
static enum msi_advance mismatch(struct net *net, struct mst_work *work, int rank, const struct header *h,
                                 const char *why) {
    net->peers[rank].signature = h->signature;
    msi_fault(work, MST_ERR_MISMATCH, rank, why);
    if (h->seq == net->rejected) work->fault.seq = h->seq;
    return MSI_FAILED;
}

/* Compares the headers that have arrived with the call of this rank. */
static enum msi_advance check_headers(struct net *net, struct mst_work *work) {
    bool all = true;
    for (int r = 0; r < comm_of(net)->size; r++) {
        struct peer *p = &net->peers[r];
        if (!p->receives || p->checked) continue;
        if (!msi_transfer_done(&p->in)) {
            all = false;
            continue;
        }
        struct header h = read_header(p->header_in);
        const char *why = find_difference(net, work, r, &h);
        if (why) return mismatch(net, work, r, &h, why);
        p->checked = true;
    }
    return all ? MSI_DONE : MSI_BLOCKED;
}

static bool move_links(struct net *net) {
    bool moved = false;
    for (int r = 0; r < comm_of(net)->size; r++) {
        struct msi_link *link = net->peers[r].w.link;
        if (link && msi_link_busy(link)) moved |= link->ops->progress(link);
    }
    return moved;
}

/* Also advances links that the plan has not reached yet: a header there would end every sleep at once. */
static bool move_bytes(struct net *net) {
    bool moved = msi_exec_advance(&net->exec);
    moved |= move_links(net);
    return msi_exec_advance(&net->exec) || moved;
}

static void begin_comparison(struct net *net, enum phase phase) {
    net->comparison.distance = 1;
    net->comparison.sent = false;
    net->comparison.culprit = -1;
    net->phase = phase;
}

/* Posts the messages of a round: this rank's header, and the report of a rank whose call differs. */
static void post_round(struct net *net, const struct mst_work *work) {
    struct comparison *c = &net->comparison;
    int to = rank_at(net, c->distance), from = rank_at(net, -c->distance);
    struct msi_buf report = {c->out + HEADER_BYTES, 0, REPORT_BYTES, false};
    write_header(net, work, to, HEADER_COMPARES, c->out);
    msi_put_u32(&report, (uint32_t)(c->culprit + 1));
    msi_buf_add(&report, c->culprit_header, HEADER_BYTES);
    msi_link_send(net->peers[to].w.link, &c->to, c->out, sizeof c->out);
    msi_link_receive(net->peers[from].w.link, &c->header, net->peers[from].header_in, HEADER_BYTES);
    c->rest = (struct msi_transfer){.len = REPORT_BYTES};
    c->sent = true;
}

/* A rank's call differs from this rank's. Continues, so that all ranks learn it, if that rank compares too. */
static enum msi_advance note_difference(struct net *net, struct mst_work *work, int rank,
                                        const struct header *h, const char *why) {
    struct comparison *c = &net->comparison;
    if (h->seq == net->rejected || !h->compares) return mismatch(net, work, rank, h, why);
    net->peers[rank].signature = h->signature;
    if (c->culprit < 0) {
        memcpy(c->culprit_header, net->peers[rank].header_in, HEADER_BYTES);
        c->culprit = rank;
        work->fault.why = why;
    }
    return MSI_MOVED;
}

/* Reads the header of a round. A rank that does not compare has a call that was made before. */
static enum msi_advance read_partner(struct net *net, struct mst_work *work, int from) {
    struct comparison *c = &net->comparison;
    struct header h = read_header(net->peers[from].header_in);
    const char *why = find_difference(net, work, from, &h);
    enum msi_advance got = why ? note_difference(net, work, from, &h, why) : MSI_MOVED;
    if (got == MSI_MOVED) msi_link_receive(net->peers[from].w.link, &c->rest, c->report, REPORT_BYTES);
    return got;
}

/* Reads the report of a round. */
static void read_report(struct net *net, struct mst_work *work) {
    struct comparison *c = &net->comparison;
    struct msi_reader r = msi_reader(c->report, REPORT_BYTES);
    uint32_t culprit = msi_read_u32(&r);
    if (c->culprit >= 0 || culprit == 0 || culprit > (uint32_t)comm_of(net)->size) return;
    memcpy(c->culprit_header, c->report + REPORT_BYTES - HEADER_BYTES, HEADER_BYTES);
    c->culprit = (int)culprit - 1;
    struct header h = read_header(c->culprit_header);
    net->peers[c->culprit].signature = h.signature;
    work->fault.why = find_difference(net, work, c->culprit, &h);
}

/* The first link that has failed; -1: none. */
static int find_failed(const struct net *net) {
    for (int r = 0; r < comm_of(net)->size; r++)
        if (net->peers[r].compares && net->peers[r].w.link->status != MST_OK) return r;
    return -1;
}

/* Advances a round. MSI_DONE: it is over. */
static enum msi_advance advance_round(struct net *net, struct mst_work *work) {
    struct comparison *c = &net->comparison;
    int from = rank_at(net, -c->distance);
    if (!c->sent) post_round(net, work);
    bool moved = move_links(net);
    if (msi_transfer_done(&c->header) && !c->rest.data) {
        if (read_partner(net, work, from) == MSI_FAILED) return MSI_FAILED;
        moved |= move_links(net);
    }
    if (msi_transfer_done(&c->to) && msi_transfer_done(&c->rest)) {
        read_report(net, work);
        return MSI_DONE;
    }
    int failed = find_failed(net);
    if (failed >= 0 && c->culprit >= 0) return msi_fault(work, MST_ERR_MISMATCH, c->culprit, work->fault.why);
    if (failed >= 0)
        return msi_fault(work, net->peers[failed].w.link->status, failed, net->peers[failed].w.link->why);
    return moved ? MSI_MOVED : MSI_BLOCKED;
}

/* Advances the comparison. MSI_DONE: all ranks have made the same call. */
static enum msi_advance compare(struct net *net, struct mst_work *work) {
    struct comparison *c = &net->comparison;
    for (; c->distance < comm_of(net)->size; c->distance *= 2) {
        enum msi_advance got = advance_round(net, work);
        if (got != MSI_DONE) return got;
        c->sent = false;
    }
    return c->culprit < 0 ? MSI_DONE : msi_fault(work, MST_ERR_MISMATCH, c->culprit, work->fault.why);
}

static enum msi_advance finish(struct net *net, struct mst_work *work) {
    if (net->comparison.needed) msi_set_checked(&comm_of(net)->checked, work->op.hash);
    msi_net_layout_end(&net->layout, &work->op, comm_of(net)->size);
    net->phase = IDLE;
    return MSI_DONE;
}

static enum msi_advance run(struct net *net, struct mst_work *work) {
    bool moved = move_bytes(net);
    enum msi_advance headers = check_headers(net, work);
    if (headers == MSI_FAILED) return headers;
    if (net->exec.status != MST_OK) {
        int culprit = net->exec.culprit;
        return msi_fault(work, net->exec.status, culprit, net->peers[culprit].w.link->why);
    }
    if (headers != MSI_DONE || !msi_exec_over(&net->exec)) return moved ? MSI_MOVED : MSI_BLOCKED;
    if (!net->comparison.needed || !(work->op.signature.flags & MSI_SIGNED_SPLITS)) return finish(net, work);
    begin_comparison(net, CONFIRM);
    return MSI_MOVED;
}

/* The links are open: compares the call, or starts the plan. */
static enum msi_advance connected(struct net *net, struct mst_work *work) {
    if (!net->comparison.needed) return start(net, work);
    begin_comparison(net, COMPARE);
    return MSI_MOVED;
}

static enum msi_advance advance_phase(struct net *net, struct mst_work *work) {
    enum msi_advance got;
    switch (net->phase) {
    case IDLE:
        return begin(net, work);
    case CONNECT:
        got = connect_all(net, work);
        return got == MSI_DONE ? connected(net, work) : got;
    case COMPARE:
        got = compare(net, work);
        return got == MSI_DONE ? start(net, work) : got;
    case RUN:
        return run(net, work);
    default:
        got = compare(net, work);
        return got == MSI_DONE ? finish(net, work) : got;
    }
}

/* Advances through the phases as far as possible. */
static enum msi_advance advance(struct net *net, struct mst_work *work) {
    enum msi_advance got;
    enum phase before;
    do {
        before = net->phase;
        got = advance_phase(net, work);
    } while (got == MSI_MOVED && net->phase != before);
    comm_of(net)->waiting.connecting = net->phase == CONNECT;
    return got;
}

/*
 * Has a rank from which the plan expects nothing called something else? This finds a mismatch if the plans of
 * the ranks have no common link, for example with different roots.
 */
static bool overhear(struct mst_work *work) {
    struct net *net = net_of(work->comm);
    struct msi_peers *peers = &net->native.peers;
    int me = work->comm->rank;
    for (int r = 0; r < work->comm->size && net->phase != IDLE && net->native.pending.n == 0; r++) {
        struct peer *p = &net->peers[r];
        size_t n;
        if (r == me || (p->receives && net->phase == RUN)) continue;
        if (r < me && !p->sends && !p->w.open)
            msi_wireup_answer(peers, r, MSI_COLLECTIVES, &p->w); /* it may have tried to connect */
        struct msi_link *link = p->w.link;
        if (!link || !link->ops->peek || !msi_list_empty(&link->receives)) continue;
        const char *bytes = link->ops->peek(link, &n);
        if (!bytes || n < HEADER_BYTES) continue;
        struct header h = read_header((const unsigned char *)bytes);
        if (h.seq != net->seq || h.hash == work->op.hash) continue;
        p->signature = h.signature;
        msi_fault(work, MST_ERR_MISMATCH, r, "the calls differ");
        return true;
    }
    return false;
}

/* The operation after a barrier that was left reports the barrier's fault. */
static void report_left(struct mst_work *work, const struct mst_work *barrier) {
    work->fault = barrier->fault;
    work->op.signature = barrier->op.signature;
    work->seq = barrier->seq;
}

/* Takes the number of the first pending call. MSI_DONE: it is over. */
static enum msi_advance advance_pending(struct net *net, struct mst_work *work) {
    const struct msi_pending_call *call = net->native.pending.calls;
    if (call->flags & MSI_SIGNED_REJECTED) {
        net->barrier.op.hash = call->hash;
        take_number(net, &net->barrier);
        net->rejected = net->seq;
        return MSI_DONE;
    }
    if (net->phase == IDLE) take_up_barrier(net, call);
    enum msi_advance got = advance(net, &net->barrier);
    if (got == MSI_FAILED) report_left(work, &net->barrier);
    return got;
}

static enum msi_advance step(struct mst_work *work) {
    struct net *net = net_of(work->comm);
    for (; net->native.pending.n; msi_pending_remove(&net->native.pending)) {
        enum msi_advance got = advance_pending(net, work);
        if (got != MSI_DONE) return got;
    }
    return advance(net, work);
}

static void skip(struct msi_comm *comm, const struct msi_op *op) {
    msi_pending_add(comm, op);
}

/* A failed communicator closes its links, so that ranks of other hosts learn of the failure. */
static bool progress(struct msi_comm *comm) {
    struct net *net = net_of(comm);
    bool moved = msi_comm_advance_queue(comm, step, leave);
    if (!msi_list_empty(&comm->ops.messages)) moved |= msi_p2p_progress(&net->native.p2p);
    if (comm->failure.status == MST_OK) return moved;
    hang_up(net);
    msi_p2p_hang_up(&net->native.p2p);
    return moved;
}

/* While this rank connects: can that rank have done its part? It has not if it needs something from this
 * rank, or if its header has not come. */
static bool may_be_over(const struct peer *p) {
    struct msi_link *link = p->w.link;
    size_t n = HEADER_BYTES;
    if (p->sends || p->compares) return false;
    return !link->ops->peek || (link->ops->peek(link, &n) && n >= HEADER_BYTES);
}

static bool waits_for(const struct mst_work *work, int rank) {
    const struct msi_comm *comm = work->comm;
    const struct net *net = net_of(comm);
    const struct peer *p = &net->peers[rank];
    if (net->phase == CONNECT && is_awaited(&net->native.peers, rank)) return true;
    if (!p->receives && !p->sends && !p->compares) return false;
    if (net->phase == CONNECT && p->w.open)
        return comm->hooks.is_gone(comm->hooks.context, rank) && !may_be_over(p);
    return net->phase < COMPARE || msi_link_busy(p->w.link);
}

static int missing(const struct mst_work *work, int *ranks, int max) {
    int n = 0;
    for (int r = 0; r < work->comm->size; r++) {
        if (!waits_for(work, r)) continue;
        if (n < max) ranks[n] = r;
        n++;
    }
    return n;
}

static void accept_links(struct msi_comm *comm) {
    /* It is enough to answer at the endpoint; a connection is taken when this rank expects messages. */
    msi_listener_progress(comm->config.endpoint->listener);
    msi_p2p_accept(&msi_native(comm)->p2p);
}

static bool sleep_begin(struct msi_comm *comm, const struct mst_work *work) {
    struct msi_native *native = msi_native(comm);
    int wake_fd;
    (void)work;
    if (!native->peers.region) return true;
    if (msi_shm_region_asleep(native->peers.region, -1, &wake_fd) != MST_OK) return false;
    accept_links(comm);
    return true;
}

static int poll_fds(struct msi_comm *comm, struct pollfd *fds) {
    const struct net *net = net_of(comm);
    const struct msi_shm_region *region = net->native.peers.region;
    int n = 0;
    if (region) fds[n++] = (struct pollfd){region->wake_fd[0], POLLIN, 0};
    fds[n++] = (struct pollfd){msi_listener_fd(comm->config.endpoint->listener), POLLIN, 0};
    fds[n++] = (struct pollfd){net->wake.fd, POLLIN, 0};
    for (int r = 0; r < comm->size; r++) {
        const struct msi_wireup *w = &net->peers[r].w;
        struct pollfd fd = {.fd = -1};
        if (w->link && msi_link_busy(w->link))
            fd.fd = msi_link_descriptor(w->link, &fd.events);
        else
            fd.fd = msi_wireup_descriptor(w, &fd.events);
        if (fd.fd >= 0) fds[n++] = fd;
    }
    return n + msi_p2p_poll_fds(&net->native.p2p, fds + n, 2 * comm->size);
}

static void sleep_end(struct msi_comm *comm) {
    const struct net *net = net_of(comm);
    uint64_t count;
    ssize_t n = read(net->wake.fd, &count, sizeof count);
    (void)n;
    if (net->native.peers.region) msi_shm_region_awake(net->native.peers.region);
}

static void wake(struct msi_comm *comm) {
    const uint64_t one = 1;
    ssize_t n = write(net_of(comm)->wake.fd, &one, sizeof one);
    (void)n; /* a full eventfd is readable */
}

static uint64_t count(const struct msi_comm *comm) {
    const struct net *net = net_of(comm);
    int pending = net->native.pending.n;
    return net->seq + (uint64_t)(pending && net->phase != IDLE ? pending - 1 : pending);
}

const struct msi_engine msi_net_engine = {
    .skip = skip,
    .state_bytes = state_bytes,
    .op_bytes = op_bytes,
    .open = open_engine,
    .close = close_engine,
    .begin = msi_native_begin,
    .message_now = msi_p2p_message_now,
    .progress = progress,
    .waits_for = waits_for,
    .missing = missing,
    .signature_of = signature_of,
    .has_left = msi_native_has_left,
    .overhear = overhear,
    .accept = accept_links,
    .sleep_begin = sleep_begin,
    .poll_fds = poll_fds,
    .sleep_end = sleep_end,
    .wake = wake,
    .describe = describe,
    .count = count,
};
