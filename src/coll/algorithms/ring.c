/*
 * ring.c - each rank receives from its left neighbour and sends to its right neighbour.
 *
 *      0 ──▶ 1 ──▶ 2 ──▶ 3        n ranks, buffer of m elements, block b belongs to rank b
 *      ▲                 │
 *      └─────────────────┘
 *
 *  all_gather      round s: rank r sends block r-s, receives block r-s-1.      n-1 rounds, (n-1)/n m elements
 *  reduce_scatter  block b starts at rank b+1; each rank on the way to rank b adds its input. The first hop
 *                  carries raw inputs, the others partial sums.       n-1 rounds, (n-1)/n m elements
 *  all_reduce      reduce_scatter, then all_gather.                 2(n-1) rounds, 2 (n-1)/n m elements
 *  reduce          reduce_scatter, then every block to the root.      n rounds, the root receives 2 (n-1)/n m
 *  broadcast       a chain from the root, cut into chunks of c elements.  n-1 rounds, m elements; the last
 *                  rank waits for m + (n-2) c
 *
 * Moves the minimum number of bytes, between neighbours only; one neighbour per host is remote.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

/* Passes the blocks around the ring until all are in OUT. own is this rank's block. */
static void ring_gather(struct msi_plan *plan, struct msi_ref own) {
    int n = plan->request.size, me = plan->request.rank;
    int left = msi_minus(me, 1, n), right = msi_plus(me, 1, n);
    for (int s = 0; s < n - 1; s++) {
        struct msi_span out = msi_plan_share(plan, msi_minus(me, s, n));
        struct msi_span in = msi_plan_share(plan, msi_minus(me, s + 1, n));
        msi_emit_send(plan, right, s == 0 ? own : msi_ref(MSI_OUT, out.at), out.count);
        msi_emit_recv(plan, left, msi_ref(MSI_OUT, in.at), in.count);
    }
}

static size_t largest_share(const struct msi_plan *plan) {
    size_t largest = 0;
    for (int r = 0; r < plan->request.size; r++) {
        size_t count = msi_plan_share(plan, r).count;
        if (count > largest) largest = count;
    }
    return largest;
}

/* Writes the sum of this rank's block to out. Two buffers hold the partial sums in transit alternately. */
static void ring_reduce(struct msi_plan *plan, struct msi_ref out) {
    int n = plan->request.size, me = plan->request.rank;
    int left = msi_minus(me, 1, n), right = msi_plus(me, 1, n);
    size_t largest = largest_share(plan);
    struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, largest);
    struct msi_ref acc[2] = {msi_emit_scratch(plan, MSI_ACC, largest),
                             msi_emit_scratch(plan, MSI_ACC, largest)};
    struct msi_span first = msi_plan_share(plan, left);
    msi_emit_send(plan, right, msi_ref(MSI_IN, first.at), first.count);
    for (int s = 0; s < n - 1; s++) {
        struct msi_span block = msi_plan_share(plan, msi_minus(me, (s + 2) % n, n));
        struct msi_ref sum = acc[s % 2], mine = msi_ref(MSI_IN, block.at);
        if (s == 0) {
            msi_emit(plan, MSI_BEGIN, sum, mine, block.count);
            msi_emit_recv(plan, left, raw, block.count);
            msi_emit(plan, MSI_ADD, sum, raw, block.count);
        } else {
            msi_emit_recv(plan, left, sum, block.count);
            msi_emit(plan, MSI_ADD, sum, mine, block.count);
        }
        if (s < n - 2)
            msi_emit_send(plan, right, sum, block.count);
        else
            msi_emit(plan, MSI_END, out, sum, block.count);
    }
}

void msi_plan_ring_all_gather(struct msi_plan *plan) {
    struct msi_span mine = msi_plan_share(plan, plan->request.rank);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
    ring_gather(plan, msi_ref(MSI_IN, 0));
}

void msi_plan_ring_reduce_scatter(struct msi_plan *plan) {
    ring_reduce(plan, msi_ref(MSI_OUT, 0));
}

void msi_plan_ring_all_reduce(struct msi_plan *plan) {
    struct msi_ref mine = msi_ref(MSI_OUT, msi_plan_share(plan, plan->request.rank).at);
    ring_reduce(plan, mine);
    ring_gather(plan, mine);
}

void msi_plan_ring_reduce(struct msi_plan *plan) {
    int root = plan->request.root;
    struct msi_span mine = msi_plan_share(plan, plan->request.rank);
    if (plan->request.rank != root) {
        struct msi_ref sum = msi_emit_scratch(plan, MSI_RAW, mine.count);
        ring_reduce(plan, sum);
        msi_emit_send(plan, root, sum, mine.count);
        return;
    }
    ring_reduce(plan, msi_ref(MSI_OUT, mine.at));
    msi_emit_recv_shares(plan);
}

void msi_plan_ring_broadcast(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank, root = plan->request.root;
    size_t count = plan->request.count;
    int distance = msi_minus(me, root, n);
    struct msi_ref here = msi_ref(distance ? MSI_OUT : MSI_IN, 0);
    if (distance > 0) msi_emit_recv(plan, msi_minus(me, 1, n), here, count);
    if (distance < n - 1) msi_emit_send(plan, msi_plus(me, 1, n), here, count);
    if (distance == 0) msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), here, count);
}

/* Adds sequential rounds of one block each. One rank of each host sends all blocks that leave it. */
static void add_rounds(const struct msi_request *request, double rounds, double block, bool acc,
                       struct msi_formula *f) {
    bool remote = request->hosts.n > 1;
    f->rounds += rounds;
    f->messages += rounds * msi_pieces(request, block);
    *(acc ? &f->acc : &f->raw) += rounds * block;
    if (remote) f->remote_messages += rounds * msi_pieces(request, block);
    if (remote) *(acc ? &f->host_acc : &f->host_raw) += rounds * block;
}

/* A block enters each host once on its way around the ring; the blocks travel concurrently. */
static void add_remote_rounds(const struct msi_request *request, struct msi_formula *f) {
    int hosts = request->hosts.n;
    if (hosts > 1) f->remote_rounds += hosts < request->size ? hosts : hosts - 1;
}

static void estimate_ring_reduce(const struct msi_request *request, double block, struct msi_formula *f) {
    int n = request->size;
    add_remote_rounds(request, f);
    add_rounds(request, 1, block, false, f);
    add_rounds(request, n - 2, block, true, f);
    f->combined += (n - 1) * block;
    f->copied += 2 * block;
}

void msi_estimate_ring_all_gather(const struct msi_request *request, struct msi_formula *f) {
    add_rounds(request, request->size - 1, (double)request->count, false, f);
    add_remote_rounds(request, f);
    if (!request->in_place) f->copied += (double)request->count;
}

void msi_estimate_ring_reduce_scatter(const struct msi_request *request, struct msi_formula *f) {
    estimate_ring_reduce(request, (double)request->count, f);
}

void msi_estimate_ring_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    double block = (double)request->count / request->size;
    estimate_ring_reduce(request, block, f);
    add_rounds(request, request->size - 1, block, false, f);
    add_remote_rounds(request, f);
}

void msi_estimate_ring_reduce(const struct msi_request *request, struct msi_formula *f) {
    int n = request->size;
    double block = (double)request->count / n;
    estimate_ring_reduce(request, block, f);
    f->rounds += 1;
    f->messages += (n - 1) * msi_pieces(request, block);
    f->raw += (n - 1) * block;
    if (request->hosts.n < 2) return;
    f->remote_rounds += 1;
    f->remote_messages += (n - request->hosts.largest) * msi_pieces(request, block);
    f->host_raw += request->hosts.largest * block;
}

void msi_estimate_ring_broadcast(const struct msi_request *request, struct msi_formula *f) {
    int n = request->size;
    double count = (double)request->count;
    double chunk = request->chunk && (double)request->chunk < count ? (double)request->chunk : count;
    f->rounds = n - 1;
    f->messages = msi_pieces(request, count);
    f->raw = count;
    f->fill = (n - 2) * chunk;
    if (!request->in_place) f->copied = count;
    if (request->hosts.n < 2) return;
    f->remote_rounds = request->hosts.n - 1;
    f->remote_messages = f->messages;
    f->host_raw = count;
}
