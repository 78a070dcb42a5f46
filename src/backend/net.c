/* net.c - collectives over links between hosts. See net.h. */
#include "backend/net.h"
#include "backend/door.h"
#include "backend/net_layout.h"
#include "base/error.h"
#include "base/hash.h"
#include "coll/choose.h"
#include "coll/executor.h"
#include "transport/dial.h"
#include "wire/cursor.h"

#include <stdio.h>
#include <stdlib.h>

enum { COLLECTIVES = 0, HEAD_BYTES = 16 + 40 };

/* What there is with one other rank. */
struct peer {
    struct msi_link *link;
    struct msi_dial dial;
    bool dialling;
    bool sends, receives; /* does the plan send to it, receive from it? */
    bool checked;         /* its head was right */
    unsigned char head_out[HEAD_BYTES], head_in[HEAD_BYTES];
    struct msi_transfer out, in;
    struct msi_told told;
};

enum phase { IDLE, CONNECT, RUN };

struct msi_net {
    struct msi_comm *comm;
    struct msi_net_layout layout;
    struct msi_plan plan;
    struct msi_exec exec;
    enum phase phase;
    uint64_t group, seq;
    const struct msi_planner *planner; /* of the plan; NULL before there is one */
    struct peer peers[];
};

mst_status msi_net_new(struct msi_comm *comm, struct msi_net **net) {
    static const uint64_t key[2] = {3, 4};
    struct msi_net *made = calloc(1, sizeof *made + (size_t)comm->size * sizeof *made->peers);
    if (!made) return msi_fail_memory();
    made->comm = comm;
    made->group = msi_hash(comm->key, strlen(comm->key), key);
    *net = made;
    return MST_OK;
}

void msi_net_hang_up(struct msi_net *net) {
    for (int r = 0; r < net->comm->size; r++) {
        struct peer *p = &net->peers[r];
        if (p->link) p->link->ops->close(p->link);
        if (p->dialling) msi_dial_end(&p->dial);
        p->link = NULL;
        p->dialling = false;
    }
    net->phase = IDLE;
}

void msi_net_free(struct msi_net *net) {
    if (!net) return;
    msi_net_hang_up(net);
    msi_exec_free(&net->exec);
    msi_plan_free(&net->plan);
    msi_net_layout_free(&net->layout);
    free(net);
}

void msi_net_call(struct msi_net *net, int rank, uint32_t channel, struct msi_dial *dial) {
    struct msi_comm *comm = net->comm;
    void *context = comm->hooks.context;
    struct msi_address to = {.port = comm->ports[rank]};
    struct msi_hello hello = {comm->door->world, net->group,
                              (uint32_t)comm->hooks.global(context, comm->rank),
                              (uint32_t)comm->hooks.global(context, rank), channel};
    snprintf(to.host, sizeof to.host, "%s", comm->hooks.address(context, rank));
    msi_dial_begin(dial, &to, &hello);
}

int msi_net_take(struct msi_net *net, int rank, uint32_t channel) {
    struct msi_comm *comm = net->comm;
    msi_listener_progress(comm->door->listener);
    return msi_listener_take(comm->door->listener, net->group, comm->hooks.global(comm->hooks.context, rank),
                             (int)channel);
}

/* One step toward a link with the rank. MSI_DONE: there it is. */
static enum msi_advance connect_peer(struct msi_net *net, struct mst_work *op, int rank) {
    struct peer *p = &net->peers[rank];
    int fd = -1;
    if (p->link) return MSI_DONE;
    if (net->comm->rank > rank) {
        fd = msi_net_take(net, rank, COLLECTIVES);
    } else {
        if (!p->dialling) msi_net_call(net, rank, COLLECTIVES, &p->dial);
        p->dialling = true;
        enum msi_dial_state state = msi_dial_progress(&p->dial, &fd);
        if (state == MSI_DIAL_FAILED) {
            msi_dial_end(&p->dial);
            p->dialling = false; /* and again, where that may help */
            if (p->dial.status != MST_ERR_UNREACHABLE)
                return msi_host_fail(&op->host, p->dial.status, rank, p->dial.why);
        }
        if (state == MSI_DIAL_DONE) p->dialling = false;
    }
    if (fd < 0) return MSI_BLOCKED;
    mst_status st = msi_link_open_tcp(fd, &p->link);
    return st == MST_OK ? MSI_DONE : msi_host_fail(&op->host, st, rank, "no link");
}

static void write_head(const struct mst_work *op, uint64_t seq, unsigned char out[HEAD_BYTES]) {
    const struct msi_told *told = &op->host.told;
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
    p->told = (struct msi_told){.kind = (uint8_t)kinds,
                                .dtype = (uint8_t)(kinds >> 8),
                                .op = (uint8_t)(kinds >> 16),
                                .flags = (uint8_t)(kinds >> 24)};
    p->told.root = (int32_t)msi_read_u32(&r);
    p->told.count = msi_read_u64(&r);
    p->told.line = msi_read_u32(&r);
    memcpy(p->told.file, msi_read_bytes(&r, sizeof p->told.file), sizeof p->told.file);
    return same;
}

const struct msi_told *msi_net_told(const struct msi_net *net, int rank) {
    return &net->peers[rank].told;
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

static bool same_request(const struct msi_request *a, const struct msi_request *b) {
    return a->kind == b->kind && a->root == b->root && a->count == b->count && a->chunk == b->chunk &&
           a->in_place == b->in_place && !b->counts && !b->to;
}

static enum msi_advance make_plan(struct msi_net *net, struct mst_work *op) {
    struct msi_comm *comm = net->comm;
    struct msi_request request = {.rank = comm->rank, .size = comm->size, .hosts = comm->hosts};
    mst_status st = msi_net_layout_begin(&net->layout, op, &request);
    if (st != MST_OK) return msi_host_fail(&op->host, st, -1, "out of memory");
    struct msi_question question = {.model = &msi_model_default,
                                    .algo = comm->algo,
                                    .raw_size = op->host.element ? op->host.element : 1,
                                    .acc_size = op->host.reducer ? op->host.reducer->acc_size : 1,
                                    .deterministic = op->deterministic};
    struct msi_choice choice;
    msi_choose(&question, &request, &choice);
    request.chunk = choice.chunk;
    if (net->planner == choice.planner && same_request(&net->plan.request, &request)) return MSI_MOVED;
    net->planner = NULL;
    st = msi_plan_make(&net->plan, choice.planner, &request);
    if (st != MST_OK) return msi_host_fail(&op->host, st, -1, "out of memory");
    bool again = !request.counts && !request.to; /* those are borrowed: a plan with them is not used again */
    net->planner = again ? choice.planner : NULL;
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

static enum msi_advance connect_all(struct msi_net *net, struct mst_work *op) {
    enum msi_advance all = MSI_DONE;
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
        net->layout.links[r] = p->link;
        if (p->sends) {
            write_head(op, net->seq, p->head_out);
            msi_link_send(p->link, &p->out, p->head_out, HEAD_BYTES);
        }
        if (p->receives) msi_link_receive(p->link, &p->in, p->head_in, HEAD_BYTES);
    }
    struct msi_exec_run run = {.plan = &net->plan,
                               .links = net->layout.links,
                               .in = net->layout.in,
                               .out = net->layout.out,
                               .raw_size = op->host.element ? op->host.element : 1,
                               .reducer = op->host.reducer,
                               .scale = op->host.scale};
    mst_status st = msi_exec_begin(&net->exec, &run);
    if (st != MST_OK) return msi_host_fail(&op->host, st, -1, "out of memory");
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
            return msi_host_fail(&op->host, MST_ERR_MISMATCH, r, "ranks called different things");
        p->checked = true;
    }
    return all ? MSI_DONE : MSI_BLOCKED;
}

static enum msi_advance run(struct msi_net *net, struct mst_work *op) {
    bool moved = msi_exec_poll(&net->exec);
    enum msi_advance heads = check_heads(net, op);
    if (heads == MSI_FAILED) return heads;
    if (net->exec.status != MST_OK) {
        int culprit = net->exec.culprit;
        return msi_host_fail(&op->host, net->exec.status, culprit, net->peers[culprit].link->why);
    }
    if (heads == MSI_DONE && msi_exec_over(&net->exec)) {
        msi_net_layout_end(&net->layout, op);
        net->phase = IDLE;
        return MSI_DONE;
    }
    return moved ? MSI_MOVED : MSI_BLOCKED;
}

enum msi_advance msi_net_advance(struct msi_net *net, struct mst_work *op) {
    enum msi_advance got = MSI_MOVED;
    if (net->phase == IDLE) got = begin(net, op);
    if (got == MSI_MOVED && net->phase == CONNECT) {
        got = connect_all(net, op);
        if (got == MSI_DONE) got = start(net, op);
    }
    return got == MSI_MOVED ? run(net, op) : got;
}

int msi_net_missing(const struct msi_net *net, int *ranks, int max) {
    int n = 0;
    for (int r = 0; r < net->comm->size; r++) {
        const struct peer *p = &net->peers[r];
        bool waits = p->receives || p->sends;
        if (!waits || (net->phase == CONNECT && p->link) || (net->phase == RUN && !msi_link_busy(p->link)))
            continue;
        if (n < max) ranks[n] = r;
        n++;
    }
    return n;
}

int msi_net_descriptors(const struct msi_net *net, struct pollfd *fds, int max) {
    int n = 0;
    for (int r = 0; r < net->comm->size && n < max; r++) {
        const struct peer *p = &net->peers[r];
        struct pollfd fd = {.fd = -1};
        if (p->link && msi_link_busy(p->link))
            fd.fd = p->link->ops->descriptor(p->link, &fd.events);
        else if (p->dialling)
            fd.fd = msi_dial_descriptor(&p->dial, &fd.events);
        if (fd.fd >= 0) fds[n++] = fd;
    }
    return n;
}
