/* net.c - collectives over links between hosts. See net.h. */
#include "engine/net/net.h"
#include "base/error.h"
#include "coll/cost/select.h"
#include "coll/executor.h"
#include "engine/net/layout.h"
#include "wire/cursor.h"
#include "wireup/wireup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { HEAD_BYTES = 16 + 40 };

/* What there is with one other rank. */
struct peer {
    struct msi_wireup way;
    bool sends, receives; /* does the plan send to it, receive from it? */
    bool checked;         /* its head was right */
    unsigned char head_out[HEAD_BYTES], head_in[HEAD_BYTES];
    struct msi_transfer out, in;
    struct msi_call_signature told;
};

enum phase { IDLE, CONNECT, RUN };

struct msi_net {
    struct msi_comm *comm;
    struct msi_listener_wake
        wake_fd; /* ends this rank's sleep: it was called, or has other things to wait for */
    struct msi_net_layout layout;
    struct msi_plan plan;
    struct msi_exec exec;
    enum phase phase;
    uint64_t seq;
    bool planned;                     /* the plan may be used again, where … */
    struct msi_cost_input cost_input; /* … this is asked, */
    const struct msi_planner *asked;  /* and no other algorithm asked for */
    const struct msi_planner *chosen; /* whose plan it is */
    int owed;             /* barriers that this rank has given up; the first may be under way … */
    struct mst_work left; /* … and all are like this one */
    struct peer peers[];
};

mst_status msi_net_new(struct msi_comm *comm, struct msi_net **net) {
    struct msi_net *made = calloc(1, sizeof *made + (size_t)comm->size * sizeof *made->peers);
    if (!made) return msi_fail_memory();
    made->comm = comm;
    made->wake_fd =
        (struct msi_listener_wake){.group = comm->number, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (made->wake_fd.fd < 0) {
        free(made);
        return msi_fail_errno(errno, "cannot make an eventfd");
    }
    msi_listener_watch(comm->endpoint->listener, &made->wake_fd);
    *net = made;
    return MST_OK;
}

void msi_net_hang_up(struct msi_net *net) {
    for (int r = 0; r < net->comm->size; r++) {
        msi_wireup_close(&net->peers[r].way);
        net->peers[r].way = (struct msi_wireup){.open = false};
    }
    net->phase = IDLE;
}

void msi_net_free(struct msi_net *net) {
    if (!net) return;
    msi_listener_unwatch(net->comm->endpoint->listener, &net->wake_fd);
    close(net->wake_fd.fd);
    msi_net_hang_up(net);
    msi_exec_free(&net->exec);
    msi_plan_free(&net->plan);
    msi_net_layout_free(&net->layout);
    free(net);
}

/* One step toward a link with the rank. MSI_DONE: there it is. */
static enum msi_advance connect_peer(struct msi_net *net, struct mst_work *op, int rank) {
    struct msi_wireup *way = &net->peers[rank].way;
    mst_status st = net->comm->rank < rank ? msi_wireup_call(net->comm, rank, MSI_COLLECTIVES, way)
                                           : msi_wireup_answer(net->comm, rank, MSI_COLLECTIVES, way);
    if (st != MST_OK) return msi_shm_fail(&op->host, st, rank, way->why);
    return way->open ? MSI_DONE : MSI_BLOCKED;
}

static void write_head(const struct mst_work *op, uint64_t seq, unsigned char out[HEAD_BYTES]) {
    const struct msi_call_signature *told = &op->host.told;
    struct msi_buf head = {out, 0, HEAD_BYTES, false};
    msi_put_u64(&head, seq);
    msi_put_u64(&head, op->host.signature);
    msi_put_u32(&head, (uint32_t)told->kind | (uint32_t)told->dtype << 8 | (uint32_t)told->op << 16 |
                           (uint32_t)told->flags << 24);
    msi_put_u32(&head, (uint32_t)told->root);
    msi_put_u64(&head, told->count);
    msi_put_u32(&head, told->line);
    msi_buf_add(&head, told->file, sizeof told->file);
}

/* Reads what a rank called; true if it is the same as here. */
static bool read_head(struct peer *p, const struct mst_work *op, uint64_t seq) {
    struct msi_reader r = msi_reader(p->head_in, sizeof p->head_in);
    bool same = msi_read_u64(&r) == seq;
    same = msi_read_u64(&r) == op->host.signature && same;
    uint32_t kinds = msi_read_u32(&r);
    p->told = (struct msi_call_signature){.kind = (uint8_t)kinds,
                                          .dtype = (uint8_t)(kinds >> 8),
                                          .op = (uint8_t)(kinds >> 16),
                                          .flags = (uint8_t)(kinds >> 24)};
    p->told.root = (int32_t)msi_read_u32(&r);
    p->told.count = msi_read_u64(&r);
    p->told.line = msi_read_u32(&r);
    memcpy(p->told.file, msi_read_bytes(&r, sizeof p->told.file), sizeof p->told.file);
    return same;
}

const struct msi_call_signature *msi_net_signature(const struct msi_net *net, int rank) {
    return &net->peers[rank].told;
}

const char *msi_net_algorithm(const struct msi_net *net) {
    return net->chosen ? net->chosen->name : NULL;
}

/* Whom the plan talks to. */
static void find_peers(struct msi_net *net) {
    for (int r = 0; r < net->comm->size; r++)
        net->peers[r].sends = net->peers[r].receives = net->peers[r].checked = false;
    for (uint32_t i = 0; i < net->plan.n; i++) {
        const struct msi_step *s = &net->plan.steps[i];
        if (s->kind == MSI_SEND) net->peers[s->peer].sends = true;
        if (s->kind == MSI_RECV) net->peers[s->peer].receives = true;
    }
}

/* Does the plan that is there answer this one too? Shares that differ are borrowed: a plan with them is not used again. */
static bool is_asked_again(const struct msi_net *net, const struct msi_request *request,
                           const struct msi_cost_input *cost_input) {
    const struct msi_request *a = &net->plan.request;
    const struct msi_cost_input *q = &net->cost_input;
    return net->planned && a->kind == request->kind && a->root == request->root &&
           a->count == request->count && a->in_place == request->in_place && !request->counts &&
           !request->to && q->raw_size == cost_input->raw_size && q->acc_size == cost_input->acc_size &&
           q->deterministic == cost_input->deterministic &&
           net->asked == cost_input->tuning->algo.of[request->kind];
}

static enum msi_advance make_plan(struct msi_net *net, struct mst_work *op) {
    struct msi_comm *comm = net->comm;
    struct msi_request request = {.rank = comm->rank, .size = comm->size, .hosts = comm->hosts};
    mst_status st = msi_net_layout_begin(&net->layout, op, &request);
    if (st != MST_OK) return msi_shm_fail(&op->host, st, -1, "out of memory");
    struct msi_cost_input cost_input = {.tuning = comm->tuning,
                                        .raw_size = op->host.element ? op->host.element : 1,
                                        .acc_size = op->host.reducer ? op->host.reducer->acc_size : 1,
                                        .deterministic = op->deterministic};
    if (is_asked_again(net, &request, &cost_input)) return MSI_MOVED;
    struct msi_selection selection;
    msi_select(&cost_input, &request, &selection);
    request.chunk = selection.chunk;
    net->chosen = selection.planner;
    net->planned = false;
    st = msi_plan_make(&net->plan, selection.planner, &request);
    if (st != MST_OK) return msi_shm_fail(&op->host, st, -1, "out of memory");
    net->planned = !request.counts && !request.to;
    net->cost_input = cost_input;
    net->asked = comm->tuning->algo.of[request.kind];
    return MSI_MOVED;
}

static enum msi_advance begin(struct msi_net *net, struct mst_work *op) {
    enum msi_advance got = make_plan(net, op);
    if (got != MSI_MOVED) return got;
    find_peers(net);
    op->host.seq = ++net->seq;
    net->phase = CONNECT;
    return MSI_MOVED;
}

/* A rank of this host that has not opened the region yet: until then its maker must not be done and go. */
static bool is_awaited(const struct msi_comm *comm, int rank) {
    return comm->region && !comm->met && comm->places[rank] >= 0 &&
           !msi_shm_region_here(comm->region, comm->places[rank]);
}

static bool host_has_met(struct msi_comm *comm) {
    if (!comm->region || comm->met) return true;
    for (int r = 0; r < comm->size; r++)
        if (is_awaited(comm, r)) return false;
    msi_comm_met(comm);
    return true;
}

static enum msi_advance connect_all(struct msi_net *net, struct mst_work *op) {
    enum msi_advance all = host_has_met(net->comm) ? MSI_DONE : MSI_BLOCKED;
    for (int r = 0; r < net->comm->size; r++) {
        if (!net->peers[r].sends && !net->peers[r].receives) continue;
        enum msi_advance got = connect_peer(net, op, r);
        if (got == MSI_FAILED) return got;
        if (got != MSI_DONE) all = MSI_BLOCKED;
    }
    return all;
}

static enum msi_advance start(struct msi_net *net, struct mst_work *op) {
    for (int r = 0; r < net->comm->size; r++) {
        struct peer *p = &net->peers[r];
        net->layout.links[r] = p->way.link;
        if (p->sends) {
            write_head(op, net->seq, p->head_out);
            msi_link_send(p->way.link, &p->out, p->head_out, HEAD_BYTES);
        }
        if (p->receives) msi_link_receive(p->way.link, &p->in, p->head_in, HEAD_BYTES);
    }
    struct msi_exec_run run = {.plan = &net->plan,
                               .links = net->layout.links,
                               .in = net->layout.in,
                               .out = net->layout.out,
                               .raw_size = op->host.element ? op->host.element : 1,
                               .reducer = op->host.reducer,
                               .scale = op->host.scale};
    mst_status st = msi_exec_begin(&net->exec, &run);
    if (st != MST_OK) return msi_shm_fail(&op->host, st, -1, "out of memory");
    net->phase = RUN;
    return MSI_MOVED;
}

/* Heads that have come: does everybody do the same? */
static enum msi_advance check_heads(struct msi_net *net, struct mst_work *op) {
    bool all = true;
    for (int r = 0; r < net->comm->size; r++) {
        struct peer *p = &net->peers[r];
        if (!p->receives || p->checked) continue;
        if (!msi_transfer_done(&p->in)) {
            all = false;
            continue;
        }
        if (!read_head(p, op, net->seq))
            return msi_shm_fail(&op->host, MST_ERR_MISMATCH, r, "ranks called different things");
        p->checked = true;
    }
    return all ? MSI_DONE : MSI_BLOCKED;
}

/* Also links that the plan has not come to yet: a head may lie there, and who sleeps on it would wake at once for ever. */
static bool move_bytes(struct msi_net *net) {
    bool moved = msi_exec_advance(&net->exec);
    for (int r = 0; r < net->comm->size; r++) {
        struct msi_link *link = net->peers[r].way.link;
        if (link && msi_link_busy(link)) moved |= link->ops->progress(link);
    }
    return msi_exec_advance(&net->exec) || moved;
}

static enum msi_advance run(struct msi_net *net, struct mst_work *op) {
    bool moved = move_bytes(net);
    enum msi_advance heads = check_heads(net, op);
    if (heads == MSI_FAILED) return heads;
    if (net->exec.status != MST_OK) {
        int culprit = net->exec.culprit;
        return msi_shm_fail(&op->host, net->exec.status, culprit, net->peers[culprit].way.link->why);
    }
    if (heads == MSI_DONE && msi_exec_over(&net->exec)) {
        msi_net_layout_end(&net->layout, op);
        net->phase = IDLE;
        return MSI_DONE;
    }
    return moved ? MSI_MOVED : MSI_BLOCKED;
}

static enum msi_advance advance(struct msi_net *net, struct mst_work *op) {
    enum msi_advance got = MSI_MOVED;
    if (net->phase == IDLE) got = begin(net, op);
    if (got == MSI_MOVED && net->phase == CONNECT) {
        got = connect_all(net, op);
        if (got == MSI_DONE) got = start(net, op);
    }
    return got == MSI_MOVED ? run(net, op) : got;
}

bool msi_net_overhear(struct msi_net *net, struct mst_work *op) {
    for (int r = 0; r < net->comm->size && net->phase != IDLE && net->owed == 0; r++) {
        struct peer *p = &net->peers[r];
        size_t n;
        if (r == net->comm->rank || p->receives) continue;
        if (r < net->comm->rank && !p->sends && !p->way.open)
            msi_wireup_answer(net->comm, r, MSI_COLLECTIVES, &p->way); /* it may have called in vain so far */
        struct msi_link *link = p->way.link;
        if (!link || !link->ops->peek || !msi_list_empty(&link->receives)) continue;
        const char *bytes = link->ops->peek(link, &n);
        if (!bytes || n < HEAD_BYTES) continue;
        memcpy(p->head_in, bytes, HEAD_BYTES);
        struct msi_reader reader = msi_reader(p->head_in, sizeof p->head_in);
        if (msi_read_u64(&reader) != net->seq || read_head(p, op, net->seq)) continue;
        msi_shm_fail(&op->host, MST_ERR_MISMATCH, r, "ranks called different things");
        return true;
    }
    return false;
}

/* What went wrong in a barrier that was given up is said of the operation that comes after it. */
static void blame_left(const struct msi_shm_coll *left, struct msi_shm_coll *host) {
    host->status = left->status;
    host->culprit = left->culprit;
    host->what = left->what;
    host->told = left->told;
    host->seq = left->seq;
}

enum msi_advance msi_net_advance(struct msi_net *net, struct mst_work *op) {
    while (net->owed) {
        enum msi_advance got = advance(net, &net->left);
        if (got == MSI_FAILED) blame_left(&net->left.host, &op->host);
        if (got != MSI_DONE) return got;
        net->owed--;
    }
    return advance(net, op);
}

void msi_net_leave(struct msi_net *net, const struct mst_work *op) {
    net->left = *op;
    net->owed++;
}

bool msi_net_needs(const struct msi_net *net, int rank) {
    const struct peer *p = &net->peers[rank];
    if (net->phase == CONNECT && is_awaited(net->comm, rank)) return true;
    if (!p->receives && !p->sends) return false;
    return !(net->phase == CONNECT && p->way.open) && !(net->phase == RUN && !msi_link_busy(p->way.link));
}

int msi_net_missing(const struct msi_net *net, int *ranks, int max) {
    int n = 0;
    for (int r = 0; r < net->comm->size; r++) {
        if (!msi_net_needs(net, r)) continue;
        if (n < max) ranks[n] = r;
        n++;
    }
    return n;
}

void msi_net_wake(const struct msi_net *net) {
    const uint64_t one = 1;
    ssize_t n = write(net->wake_fd.fd, &one, sizeof one);
    (void)n; /* one that is full has rung */
}

void msi_net_awake(const struct msi_net *net) {
    uint64_t rings;
    ssize_t n = read(net->wake_fd.fd, &rings, sizeof rings);
    (void)n;
}

int msi_net_descriptors(const struct msi_net *net, struct pollfd *fds) {
    int n = 0;
    fds[n++] = (struct pollfd){net->wake_fd.fd, POLLIN, 0};
    for (int r = 0; r < net->comm->size; r++) {
        const struct msi_wireup *way = &net->peers[r].way;
        struct pollfd fd = {.fd = -1};
        if (way->link && msi_link_busy(way->link))
            fd.fd = msi_link_descriptor(way->link, &fd.events);
        else
            fd.fd = msi_wireup_descriptor(way, &fd.events);
        if (fd.fd >= 0) fds[n++] = fd;
    }
    return n;
}

uint64_t msi_net_count(const struct msi_net *net) {
    return net->seq;
}
