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
 *  4. One collective is under way at a time, so that there is one run and one set of headers. The plans of
 *     the last calls are kept.
 */
#include "engine/net/net.h"
#include "base/error.h"
#include "engine/engines.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    SPINS = 200,          /* a check of a connection is a system call */
    LARGE_PLAN = 1 << 20, /* bytes of a rank; a plan takes less time than sending so many */
};

static size_t state_bytes(const struct msi_comm *comm) {
    (void)comm;
    return sizeof(struct msi_net);
}

/* Only messages have a state of their own; collectives run one at a time. */
static size_t op_bytes(const struct msi_comm *comm) {
    (void)comm;
    return sizeof(struct msi_p2p_request);
}

/* Leaves a barrier in which other ranks still need this rank: it is completed before the next operation. */
static void leave(struct mst_work *work) {
    struct msi_net *net = msi_net_of(work->comm);
    if (net->native.pending.n == 0) net->barrier = *work;
    msi_pending_add(work->comm, &work->op);
}

/* Completes a pending barrier with the description of an ordinary one. */
static void take_up_barrier(struct msi_net *net, const struct msi_pending_call *call) {
    net->barrier.comm = msi_net_comm(net);
    net->barrier.op = (struct msi_op){.desc = {.root = -1, .peer = -1, .sender = -1},
                                      .call = MSI_KIND_BARRIER,
                                      .flags = call->flags,
                                      .signature = call->signature,
                                      .hash = call->hash};
}

static mst_status make_wake_fd(struct msi_net *net) {
    struct msi_comm *comm = msi_net_comm(net);
    net->wake =
        (struct msi_listener_wake){.group = comm->number, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (net->wake.fd < 0) return msi_fail_errno(errno, "cannot create an eventfd");
    msi_listener_watch(comm->config.endpoint->listener, &net->wake);
    net->open = true;
    return MST_OK;
}

static mst_status open_engine(struct msi_comm *comm, const struct mst_work *first,
                              const struct msi_wait *wait) {
    struct msi_net *net = msi_net_of(comm);
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
    return msi_native_opened(comm, first, st);
}

/* Closes all links. */
static void hang_up(struct msi_net *net) {
    for (int r = 0; r < msi_net_comm(net)->size; r++) {
        msi_wireup_close(&net->peers[r].w);
        net->peers[r].w = (struct msi_wireup){.open = false};
    }
    net->phase = MSI_NET_IDLE;
}

static void close_engine(struct msi_comm *comm) {
    struct msi_net *net = msi_net_of(comm);
    msi_peers_leave(&net->native.peers); /* before other ranks see that links are closed */
    if (net->open) {
        msi_listener_unwatch(comm->config.endpoint->listener, &net->wake);
        close(net->wake.fd);
        hang_up(net);
    }
    msi_exec_free(&net->exec);
    for (int i = 0; i < MSI_NET_PLANS; i++) msi_plan_free(&net->plans[i].plan);
    msi_net_layout_free(&net->layout);
    free(net->peers);
    msi_native_close(comm);
}

/* One step toward a link with the rank. MSI_DONE: the link is open. */
static enum msi_advance connect_peer(struct msi_net *net, struct mst_work *work, int rank) {
    struct msi_wireup *w = &net->peers[rank].w;
    struct msi_peers *peers = &net->native.peers;
    mst_status st = peers->comm->rank < rank ? msi_wireup_call(peers, rank, MSI_COLLECTIVES, w)
                                             : msi_wireup_answer(peers, rank, MSI_COLLECTIVES, w);
    if (st != MST_OK) return msi_fault(work, st, rank, w->why);
    return w->open ? MSI_DONE : MSI_BLOCKED;
}

static const struct msi_call_signature *signature_of(const struct mst_work *work, int rank) {
    return rank == work->comm->rank ? &work->op.signature : &msi_net_of(work->comm)->peers[rank].signature;
}

static void describe(struct mst_work *work, struct msi_record *record) {
    const struct msi_net *net = msi_net_of(work->comm);
    if (!msi_op_is_message(&work->op)) record->algorithm = net->current ? net->current->selected->name : NULL;
}

/* Finds the ranks that the plan sends to and receives from. */
static void find_peers(struct msi_net *net, bool splits) {
    for (int r = 0; r < msi_net_comm(net)->size; r++) {
        struct msi_net_peer *p = &net->peers[r];
        p->sends = p->receives = splits && r != msi_net_comm(net)->rank; /* a split of 0 is compared too */
        p->checked = p->compares = false;
    }
    for (uint32_t i = 0; i < net->current->plan.n; i++) {
        const struct msi_step *s = &net->current->plan.steps[i];
        if (s->kind == MSI_SEND) net->peers[s->peer].sends = true;
        if (s->kind == MSI_RECV) net->peers[s->peer].receives = true;
    }
}

/* Can the plan run this request too? A plan with different counts borrows them and is not reused. */
static bool can_reuse(const struct msi_net_plan *made, const struct msi_request *request,
                      const struct msi_cost_input *input) {
    const struct msi_request *a = &made->plan.request;
    const struct msi_cost_input *q = &made->input;
    return made->reusable && a->kind == request->kind && a->root == request->root &&
           a->count == request->count && a->in_place == request->in_place &&
           a->quantize == request->quantize && !request->counts && !request->to &&
           q->raw_size == input->raw_size && q->acc_size == input->acc_size &&
           q->deterministic == input->deterministic &&
           made->override == input->tuning->algo.of[request->kind];
}

static struct msi_net_plan *find_plan(struct msi_net *net, const struct msi_request *request,
                                      const struct msi_cost_input *input) {
    for (int i = 0; i < MSI_NET_PLANS; i++)
        if (can_reuse(&net->plans[i], request, input)) return &net->plans[i];
    return NULL;
}

/* The plan to replace. */
static struct msi_net_plan *next_plan(struct msi_net *net, const struct msi_request *request,
                                      const struct msi_cost_input *input) {
    if (request->counts || request->to || request->count > LARGE_PLAN / input->raw_size) return net->plans;
    net->replaced = net->replaced % (MSI_NET_PLANS - 1) + 1;
    return &net->plans[net->replaced];
}

static mst_status make_plan(struct msi_net *net, struct msi_request *request,
                            const struct msi_cost_input *input) {
    struct msi_net_plan *made = next_plan(net, request, input);
    struct msi_selection selection;
    msi_select(input, request, &selection);
    request->chunk = selection.chunk;
    made->reusable = false;
    made->selected = selection.planner;
    made->input = *input;
    made->override = input->tuning->algo.of[request->kind];
    mst_status st = msi_plan_make(&made->plan, selection.planner, request);
    if (st == MST_OK) made->reusable = !request->counts && !request->to;
    net->current = made;
    return st;
}

static enum msi_advance choose_plan(struct msi_net *net, struct mst_work *work) {
    struct msi_comm *comm = msi_net_comm(net);
    const struct msi_op *op = &work->op;
    size_t element = op->desc.element ? op->desc.element : 1, unit = msi_unit_of(op->user);
    struct msi_request request = {.rank = comm->rank, .size = comm->size, .hosts = comm->ranks.hosts};
    mst_status st = msi_net_layout_begin(&net->layout, op, &request);
    if (st != MST_OK) return msi_fault(work, st, -1, "out of memory");
    struct msi_cost_input input = {.tuning = comm->config.tuning,
                                   .raw_size = element * unit,
                                   .acc_size = op->reducer ? op->reducer->acc_size * unit : 1,
                                   .deterministic = op->deterministic};
    struct msi_net_plan *kept = find_plan(net, &request, &input);
    if (kept)
        net->current = kept;
    else if (make_plan(net, &request, &input) != MST_OK)
        return msi_fault(work, MST_ERR_MEMORY, -1, "out of memory");
    return MSI_MOVED;
}

static void take_number(struct msi_net *net, struct mst_work *work) {
    work->seq = ++net->seq;
    net->history = net->next_history;
    net->next_history = msi_history(net->history, work->op.hash);
    msi_comm_numbered(work);
}

static enum msi_advance begin(struct msi_net *net, struct mst_work *work) {
    enum msi_advance got = choose_plan(net, work);
    if (got != MSI_MOVED) return got;
    uint8_t flags = work->op.signature.flags;
    net->comparison.needed = msi_comm_must_compare(msi_net_comm(net), &work->op);
    /* The splits of byte strings come from the root, or were exchanged before. */
    find_peers(net, flags & MSI_SIGNED_SPLITS && (net->comparison.needed || !(flags & MSI_SIGNED_BYTES)));
    take_number(net, work);
    if (net->comparison.needed) msi_net_find_partners(net);
    net->phase = MSI_NET_CONNECT;
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

static enum msi_advance connect_all(struct msi_net *net, struct mst_work *work) {
    enum msi_advance all = host_is_here(&net->native.peers) ? MSI_DONE : MSI_BLOCKED;
    for (int r = 0; r < msi_net_comm(net)->size; r++) {
        if (!net->peers[r].sends && !net->peers[r].receives && !net->peers[r].compares) continue;
        enum msi_advance got = connect_peer(net, work, r);
        if (got == MSI_FAILED) return got;
        if (got != MSI_DONE) all = MSI_BLOCKED;
    }
    return all;
}

static enum msi_advance start(struct msi_net *net, struct mst_work *work) {
    for (int r = 0; r < msi_net_comm(net)->size; r++) {
        struct msi_net_peer *p = &net->peers[r];
        net->layout.links[r] = p->w.link;
        if (p->sends) {
            msi_net_write_header(net, work, r, 0, p->header_out);
            msi_link_send(p->w.link, &p->out, p->header_out, MSI_NET_HEADER_BYTES);
        }
        if (p->receives) msi_link_receive(p->w.link, &p->in, p->header_in, MSI_NET_HEADER_BYTES);
    }
    const struct msi_op *op = &work->op;
    struct msi_exec_run run = {.plan = &net->current->plan,
                               .links = net->layout.links,
                               .in = net->layout.in,
                               .out = net->layout.out,
                               .raw_size = (op->desc.element ? op->desc.element : 1) * msi_unit_of(op->user),
                               .unit = msi_unit_of(op->user),
                               .reducer = op->reducer,
                               .scale = msi_op_scale(op, msi_net_comm(net)->size),
                               .divisor = 1};
    if (op->quantize && op->desc.op == MST_AVG) { /* quantised elements are divided, their sums are not */
        run.reducer = msi_reducer_get(op->desc.dtype, MST_SUM);
        run.divisor = msi_net_comm(net)->size;
    }
    mst_status st = msi_exec_begin(&net->exec, &run);
    if (st != MST_OK) return msi_fault(work, st, -1, "out of memory");
    net->phase = MSI_NET_RUN;
    return MSI_MOVED;
}

/* Compares the headers that have arrived with the call of this rank. A rank from which the plan receives
 * nothing else may be lost before its header has arrived. */
static enum msi_advance check_headers(struct msi_net *net, struct mst_work *work) {
    bool all = true;
    int lost = -1;
    for (int r = 0; r < msi_net_comm(net)->size; r++) {
        struct msi_net_peer *p = &net->peers[r];
        if (!p->receives || p->checked) continue;
        if (!msi_transfer_done(&p->in)) {
            all = false;
            if (lost < 0 && p->w.link->status != MST_OK) lost = r;
            continue;
        }
        struct msi_net_header h = msi_net_read_header(p->header_in);
        const char *why = msi_net_find_difference(net, work, r, &h);
        if (why) return msi_net_mismatch(net, work, r, &h, why);
        p->checked = true;
    }
    if (lost >= 0)
        return msi_fault(work, net->peers[lost].w.link->status, lost, net->peers[lost].w.link->why);
    return all ? MSI_DONE : MSI_BLOCKED;
}

/* Also advances links that the plan has not reached yet: a header there would end every sleep at once. */
static bool move_bytes(struct msi_net *net) {
    bool moved = msi_exec_advance(&net->exec);
    moved |= msi_net_move_links(net);
    return msi_exec_advance(&net->exec) || moved;
}

static enum msi_advance finish(struct msi_net *net, struct mst_work *work) {
    if (net->comparison.needed) msi_set_checked(&msi_net_comm(net)->checked, work->op.hash);
    msi_net_layout_end(&net->layout, &work->op, msi_net_comm(net)->size);
    net->phase = MSI_NET_IDLE;
    return MSI_DONE;
}

static enum msi_advance run(struct msi_net *net, struct mst_work *work) {
    bool moved = move_bytes(net);
    enum msi_advance headers = check_headers(net, work);
    if (headers == MSI_FAILED) return headers;
    if (net->exec.status != MST_OK) {
        int culprit = net->exec.culprit;
        return msi_fault(work, net->exec.status, culprit, net->peers[culprit].w.link->why);
    }
    if (headers != MSI_DONE || !msi_exec_over(&net->exec)) return moved ? MSI_MOVED : MSI_BLOCKED;
    if (!net->comparison.needed || !(work->op.signature.flags & MSI_SIGNED_SPLITS)) return finish(net, work);
    msi_net_begin_comparison(net, MSI_NET_CONFIRM);
    return MSI_MOVED;
}

/* The links are open: compares the call, or starts the plan. */
static enum msi_advance connected(struct msi_net *net, struct mst_work *work) {
    if (!net->comparison.needed) return start(net, work);
    msi_net_begin_comparison(net, MSI_NET_COMPARE);
    return MSI_MOVED;
}

static enum msi_advance advance_phase(struct msi_net *net, struct mst_work *work) {
    enum msi_advance got;
    switch (net->phase) {
    case MSI_NET_IDLE:
        return begin(net, work);
    case MSI_NET_CONNECT:
        got = connect_all(net, work);
        return got == MSI_DONE ? connected(net, work) : got;
    case MSI_NET_COMPARE:
        got = msi_net_compare(net, work);
        return got == MSI_DONE ? start(net, work) : got;
    case MSI_NET_RUN:
        return run(net, work);
    default:
        got = msi_net_compare(net, work);
        return got == MSI_DONE ? finish(net, work) : got;
    }
}

/* Advances through the phases as far as possible. */
static enum msi_advance advance(struct msi_net *net, struct mst_work *work) {
    enum msi_advance got;
    enum msi_net_phase before;
    do {
        before = net->phase;
        got = advance_phase(net, work);
    } while (got == MSI_MOVED && net->phase != before);
    msi_net_comm(net)->waiting.connecting = net->phase == MSI_NET_CONNECT;
    return got;
}

/*
 * Has a rank from which the plan expects nothing called something else? This finds a mismatch if the plans of
 * the ranks have no common link, for example with different roots.
 */
static bool overhear(struct mst_work *work) {
    struct msi_net *net = msi_net_of(work->comm);
    struct msi_peers *peers = &net->native.peers;
    int me = work->comm->rank;
    for (int r = 0; r < work->comm->size && net->phase != MSI_NET_IDLE && net->native.pending.n == 0; r++) {
        struct msi_net_peer *p = &net->peers[r];
        size_t n;
        if (r == me || (p->receives && net->phase == MSI_NET_RUN)) continue;
        if (r < me && !p->sends && !p->w.open)
            msi_wireup_answer(peers, r, MSI_COLLECTIVES, &p->w); /* it may have tried to connect */
        struct msi_link *link = p->w.link;
        if (!link || !link->ops->peek || !msi_list_empty(&link->receives)) continue;
        const char *bytes = link->ops->peek(link, &n);
        if (!bytes || n < MSI_NET_HEADER_BYTES) continue;
        struct msi_net_header h = msi_net_read_header((const unsigned char *)bytes);
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
static enum msi_advance advance_pending(struct msi_net *net, struct mst_work *work) {
    const struct msi_pending_call *call = net->native.pending.calls;
    if (call->flags & MSI_SIGNED_REJECTED) {
        take_up_barrier(net, call);
        take_number(net, &net->barrier);
        return MSI_DONE;
    }
    if (net->phase == MSI_NET_IDLE) take_up_barrier(net, call);
    enum msi_advance got = advance(net, &net->barrier);
    if (got == MSI_FAILED) report_left(work, &net->barrier);
    return got;
}

static enum msi_advance step(struct mst_work *work) {
    struct msi_net *net = msi_net_of(work->comm);
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
    struct msi_net *net = msi_net_of(comm);
    bool moved = msi_comm_advance_queue(comm, step, leave);
    if (!msi_list_empty(&comm->ops.messages)) moved |= msi_p2p_progress(&net->native.p2p);
    if (comm->failure.status == MST_OK) return moved;
    hang_up(net);
    msi_p2p_hang_up(&net->native.p2p);
    return moved;
}

/* While this rank connects: can that rank have done its part? It has not if it needs something from this
 * rank, or if its header has not come. */
static bool may_be_over(const struct msi_net_peer *p) {
    struct msi_link *link = p->w.link;
    size_t n = MSI_NET_HEADER_BYTES;
    if (p->sends || p->compares) return false;
    return !link->ops->peek || (link->ops->peek(link, &n) && n >= MSI_NET_HEADER_BYTES);
}

static bool waits_for(const struct mst_work *work, int rank) {
    const struct msi_comm *comm = work->comm;
    const struct msi_net *net = msi_net_of(comm);
    const struct msi_net_peer *p = &net->peers[rank];
    if (net->phase == MSI_NET_CONNECT && is_awaited(&net->native.peers, rank)) return true;
    if (!p->receives && !p->sends && !p->compares) return false;
    if (net->phase == MSI_NET_CONNECT && p->w.open)
        return comm->hooks.is_gone(comm->hooks.context, rank) && !may_be_over(p);
    return net->phase < MSI_NET_COMPARE || msi_link_busy(p->w.link);
}

/* Has the other rank closed the connection? What it sent before can be received. */
static bool has_hung_up(const struct msi_link *link) {
    short events;
    struct pollfd ask = {.fd = msi_link_descriptor(link, &events), .events = POLLRDHUP};
    return poll(&ask, 1, 0) > 0;
}

/* While this rank connects, a rank that has left may have sent, but cannot have received from it. */
static bool may_arrive(const struct mst_work *work, int rank) {
    const struct msi_net *net = msi_net_of(work->comm);
    const struct msi_net_peer *p = &net->peers[rank];
    if (msi_op_is_message(&work->op)) return msi_p2p_may_arrive(&net->native.p2p, rank);
    if (work->comm->ranks.slots[rank] >= 0 || !p->w.link || p->w.link->status != MST_OK) return false;
    if (net->phase != MSI_NET_CONNECT) return true;
    return p->w.open && !p->sends && !p->compares && (!has_hung_up(p->w.link) || may_be_over(p));
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

/* A rank that must connect finds the other one in the store. Ranks of a host find their region there. */
static bool needs_store(const struct mst_work *work) {
    const struct msi_net *net = msi_net_of(work->comm);
    if (msi_op_is_message(&work->op)) return msi_p2p_needs_store(&net->native.p2p, work);
    for (int r = 0; r < work->comm->size && net->phase == MSI_NET_CONNECT; r++) {
        const struct msi_net_peer *p = &net->peers[r];
        if (is_awaited(&net->native.peers, r)) return true;
        if ((p->sends || p->receives || p->compares) && !p->w.open && work->comm->ranks.slots[r] < 0)
            return true;
    }
    return false;
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
    if (msi_shm_region_asleep(native->peers.region, 0, &wake_fd) != MST_OK) return false;
    accept_links(comm);
    return true;
}

static int poll_fds(struct msi_comm *comm, struct pollfd *fds) {
    const struct msi_net *net = msi_net_of(comm);
    const struct msi_shm_region *region = net->native.peers.region;
    int n = 0;
    if (region) fds[n++] = (struct pollfd){region->wake_fd, POLLIN, 0};
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
    const struct msi_net *net = msi_net_of(comm);
    uint64_t count;
    ssize_t n = read(net->wake.fd, &count, sizeof count);
    (void)n;
    if (net->native.peers.region) msi_shm_region_awake(net->native.peers.region);
}

static void wake(struct msi_comm *comm) {
    const uint64_t one = 1;
    ssize_t n = write(msi_net_of(comm)->wake.fd, &one, sizeof one);
    (void)n; /* a full eventfd is readable */
}

static uint64_t count(const struct msi_comm *comm) {
    const struct msi_net *net = msi_net_of(comm);
    int pending = net->native.pending.n;
    return net->seq + (uint64_t)(pending && net->phase != MSI_NET_IDLE ? pending - 1 : pending);
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
    .may_arrive = may_arrive,
    .needs_store = needs_store,
    .signature_of = signature_of,
    .cause_of = msi_native_cause_of,
    .news = msi_native_news,
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
