/*
 * direct.c - every rank exchanges with every other rank in one round.
 *
 *      0 ◀──▶ 1          n ranks, buffer of m elements, block b belongs to rank b
 *      ▲ ╲  ╱ ▲
 *      ▼ ╱  ╲ ▼
 *      2 ◀──▶ 3
 *
 *  all_gather, all_to_all     one message to each rank.                       1 round, (n-1)/n m elements
 *  reduce_scatter             rank b receives block b of all inputs and reduces them in rank order.  the same
 *  all_reduce, reduce         reduce_scatter, then all_gather, or all blocks to root.  2 rounds, 2 (n-1)/n m
 *  "oneshot" of these two     every rank, or the root, receives all inputs whole.  1 round, (n-1) m elements
 *  gather, scatter, broadcast the root exchanges with each rank.              1 round
 *
 * Messages carry only inputs and final results, and every rank reduces in rank order. So the result is
 * rounded once, and it depends on the inputs alone, bit for bit. The cost is n-1 messages per rank, which
 * congests receivers at scale.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

enum { PIECES = 4 }; /* of each rank, in scratch */

/* Sends each other rank its block of IN, or the whole of it. */
static void send_all(struct msi_plan *plan, bool whole) {
    int n = plan->request.size, me = plan->request.rank;
    for (int s = 1; s < n; s++) {
        struct msi_span block = {0, plan->request.count};
        if (!whole) block = msi_plan_share(plan, msi_plus(me, s, n));
        msi_emit_send(plan, msi_plus(me, s, n), msi_ref(MSI_IN, block.at), block.count);
    }
}

/*
 * Receives a part of every other rank's IN, and reduces all of them in rank order. What is received is
 * reduced while it is in the cache: a large part reuses scratch of a few pieces per rank.
 */
static void recv_and_reduce(struct msi_plan *plan, struct msi_ref out, struct msi_span part) {
    int n = plan->request.size, me = plan->request.rank;
    size_t window = plan->request.chunk * PIECES;
    struct msi_ref *sources = msi_emit_sources(plan, n);
    if (!sources) return;
    if (window == 0 || window > part.count) window = part.count;
    struct msi_ref all = msi_emit_scratch(plan, MSI_RAW, (size_t)(n - 1) * window);
    for (int r = 0; r < n; r++) sources[r] = msi_ref_plus(all, (size_t)(r < me ? r : r - 1) * window);
    for (size_t done = 0, count; done < part.count; done += count) {
        count = part.count - done < window ? part.count - done : window;
        for (int s = 1; s < n; s++) {
            int from = msi_plus(me, s, n);
            msi_emit_recv(plan, from, sources[from], count);
        }
        sources[me] = msi_ref(MSI_IN, part.at + done);
        msi_emit_reduce_local(plan, msi_ref_plus(out, done), sources, n, count);
    }
}

/* Sends this rank's block to every other rank, and receives theirs into OUT. */
static void exchange_blocks(struct msi_plan *plan, struct msi_ref own) {
    int n = plan->request.size, me = plan->request.rank;
    size_t count = msi_plan_share(plan, me).count;
    for (int s = 1; s < n; s++) msi_emit_send(plan, msi_plus(me, s, n), own, count);
    msi_emit_recv_shares(plan);
}

void msi_plan_direct_reduce_scatter(struct msi_plan *plan) {
    send_all(plan, false);
    recv_and_reduce(plan, msi_ref(MSI_OUT, 0), msi_plan_share(plan, plan->request.rank));
}

void msi_plan_direct_all_reduce(struct msi_plan *plan) {
    struct msi_span mine = msi_plan_share(plan, plan->request.rank);
    send_all(plan, false);
    recv_and_reduce(plan, msi_ref(MSI_OUT, mine.at), mine);
    exchange_blocks(plan, msi_ref(MSI_OUT, mine.at));
}

void msi_plan_oneshot_all_reduce(struct msi_plan *plan) {
    send_all(plan, true);
    recv_and_reduce(plan, msi_ref(MSI_OUT, 0), (struct msi_span){0, plan->request.count});
}

void msi_plan_direct_reduce(struct msi_plan *plan) {
    int me = plan->request.rank, root = plan->request.root;
    struct msi_span mine = msi_plan_share(plan, me);
    send_all(plan, false);
    if (me != root) {
        struct msi_ref sum = msi_emit_scratch(plan, MSI_RAW, mine.count);
        recv_and_reduce(plan, sum, mine);
        msi_emit_send(plan, root, sum, mine.count);
        return;
    }
    recv_and_reduce(plan, msi_ref(MSI_OUT, mine.at), mine);
    msi_emit_recv_shares(plan);
}

void msi_plan_oneshot_reduce(struct msi_plan *plan) {
    struct msi_span all = {0, plan->request.count};
    if (plan->request.rank == plan->request.root)
        recv_and_reduce(plan, msi_ref(MSI_OUT, 0), all);
    else
        msi_emit_send(plan, plan->request.root, msi_ref(MSI_IN, 0), all.count);
}

void msi_plan_direct_all_gather(struct msi_plan *plan) {
    struct msi_span mine = msi_plan_share(plan, plan->request.rank);
    exchange_blocks(plan, msi_ref(MSI_IN, 0));
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
}

void msi_plan_direct_gather(struct msi_plan *plan) {
    int me = plan->request.rank, root = plan->request.root;
    struct msi_span mine = msi_plan_share(plan, me);
    if (me != root) {
        msi_emit_send(plan, root, msi_ref(MSI_IN, 0), mine.count);
        return;
    }
    msi_emit_recv_shares(plan);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
}

void msi_plan_direct_scatter(struct msi_plan *plan) {
    int me = plan->request.rank, root = plan->request.root;
    struct msi_span mine = msi_plan_share(plan, me);
    if (me != root) {
        msi_emit_recv(plan, root, msi_ref(MSI_OUT, 0), mine.count);
        return;
    }
    send_all(plan, false);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), msi_ref(MSI_IN, mine.at), mine.count);
}

void msi_plan_direct_broadcast(struct msi_plan *plan) {
    size_t count = plan->request.count;
    if (plan->request.rank != plan->request.root) {
        msi_emit_recv(plan, plan->request.root, msi_ref(MSI_OUT, 0), count);
        return;
    }
    send_all(plan, true);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), msi_ref(MSI_IN, 0), count);
}

void msi_plan_direct_all_to_all(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    for (int s = 1; s < n; s++) {
        int to = msi_plus(me, s, n), from = msi_minus(me, s, n);
        struct msi_span out = msi_plan_share(plan, to), in = msi_plan_from(plan, from);
        msi_emit_send(plan, to, msi_ref(MSI_IN, out.at), out.count);
        msi_emit_recv(plan, from, msi_ref(MSI_OUT, in.at), in.count);
    }
    struct msi_span out = msi_plan_share(plan, me), in = msi_plan_from(plan, me);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, in.at), msi_ref(MSI_IN, out.at), out.count);
}

/* Adds a round in which every rank, or only the root, sends each other rank a message of so many elements. */
static void add_round(const struct msi_request *request, double elements, bool root_alone,
                      struct msi_formula *f) {
    int n = request->size, local = request->hosts.largest;
    f->rounds += 1;
    f->messages += (n - 1) * msi_pieces(request, elements);
    f->raw += (n - 1) * elements;
    if (request->hosts.n > 1) {
        f->remote_rounds += 1;
        f->remote_messages += (n - local) * msi_pieces(request, elements);
        f->host_raw += (root_alone ? 1.0 : local) * (n - local) * elements;
    }
}

void msi_estimate_direct_reduce_scatter(const struct msi_request *request, struct msi_formula *f) {
    add_round(request, (double)request->count, false, f);
    f->combined = (request->size - 1) * (double)request->count;
}

void msi_estimate_direct_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    double block = (double)request->count / request->size;
    add_round(request, block, false, f);
    add_round(request, block, false, f);
    f->combined = (request->size - 1) * block;
}

void msi_estimate_oneshot_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    msi_estimate_direct_reduce_scatter(request, f);
}

void msi_estimate_direct_reduce(const struct msi_request *request, struct msi_formula *f) {
    double block = (double)request->count / request->size;
    add_round(request, block, false, f);
    add_round(request, block, true, f);
    f->combined = (request->size - 1) * block;
}

void msi_estimate_oneshot_reduce(const struct msi_request *request, struct msi_formula *f) {
    add_round(request, (double)request->count, true, f);
    f->combined = (request->size - 1) * (double)request->count;
}

void msi_estimate_direct_all_gather(const struct msi_request *request, struct msi_formula *f) {
    add_round(request, (double)request->count, false, f);
    if (!request->in_place) f->copied = (double)request->count;
}

void msi_estimate_direct_gather(const struct msi_request *request, struct msi_formula *f) {
    add_round(request, (double)request->count, true, f);
    if (!request->in_place) f->copied = (double)request->count;
}

void msi_estimate_direct_scatter(const struct msi_request *request, struct msi_formula *f) {
    msi_estimate_direct_gather(request, f);
}
void msi_estimate_direct_broadcast(const struct msi_request *request, struct msi_formula *f) {
    msi_estimate_direct_gather(request, f);
}

void msi_estimate_direct_all_to_all(const struct msi_request *request, struct msi_formula *f) {
    add_round(request, (double)request->count, false, f);
    f->copied = (double)request->count;
}
