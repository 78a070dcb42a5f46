/*
 * scan.c - rank r gets the reduction of the inputs of ranks 0 … r; exscan: of ranks 0 … r-1.
 *
 *  linear      0 ──▶ 1 ──▶ 2 ──▶ 3        n ranks, buffer of m elements. Each rank adds its input to what it
 *              receives and passes it on, piece by piece.   n-1 rounds, m elements; the last rank waits for
 *              m + (n-2) c with pieces of c elements
 *  doubling    round k: rank r sends its partial result to rank r + 2^k, which puts it before its own. Exscan
 *              first passes all inputs to the next rank.    log2(n) rounds (+1), m elements in each
 *
 * Linear reduces from left to right in rank order. Rank 0 of exscan has no output here.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

/* Receives the reduction of the ranks before this one. */
static struct msi_ref recv_prefix(struct msi_plan *plan) {
    int me = plan->request.rank;
    size_t count = plan->request.count;
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, count);
    if (me > 1) {
        msi_emit_recv(plan, me - 1, acc, count);
        return acc;
    }
    struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, count); /* rank 0 sends its input */
    msi_emit_recv(plan, me - 1, raw, count);
    msi_emit(plan, MSI_BEGIN, acc, raw, count);
    return acc;
}

void msi_plan_linear_scan(struct msi_plan *plan) {
    int me = plan->request.rank, n = plan->request.size;
    size_t count = plan->request.count;
    struct msi_ref in = msi_ref(MSI_IN, 0), out = msi_ref(MSI_OUT, 0);
    if (me == 0) {
        msi_emit_send(plan, 1, in, count);
        msi_emit_reduce_local(plan, out, &in, 1, count);
        return;
    }
    struct msi_ref acc = recv_prefix(plan);
    msi_emit(plan, MSI_ADD, acc, in, count);
    if (me + 1 < n) msi_emit_send(plan, me + 1, acc, count);
    msi_emit(plan, MSI_END, out, acc, count);
}

void msi_plan_linear_exscan(struct msi_plan *plan) {
    int me = plan->request.rank, n = plan->request.size;
    size_t count = plan->request.count;
    struct msi_ref in = msi_ref(MSI_IN, 0);
    if (me == 0) {
        msi_emit_send(plan, 1, in, count);
        return;
    }
    if (me + 1 < n && plan->request.in_place) { /* the output replaces the input before it is added */
        in = msi_emit_scratch(plan, MSI_RAW, count);
        msi_emit(plan, MSI_COPY, in, msi_ref(MSI_IN, 0), count);
    }
    struct msi_ref acc = recv_prefix(plan);
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), acc, count);
    if (me + 1 == n) return;
    msi_emit(plan, MSI_ADD, acc, in, count);
    msi_emit_send(plan, me + 1, acc, count);
}

/* Scans over the ranks from first on. own is the input of this rank. */
static void double_from(struct msi_plan *plan, int first, struct msi_ref own) {
    int me = plan->request.rank, n = plan->request.size;
    size_t count = plan->request.count;
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, count);
    msi_emit(plan, MSI_BEGIN, acc, own, count);
    for (int far = 1; far < n - first; far *= 2) {
        if (me + far < n) msi_emit_send(plan, me + far, acc, count);
        if (me - far < first) continue;
        struct msi_ref before = msi_emit_scratch(plan, MSI_ACC, count);
        msi_emit_recv(plan, me - far, before, count);
        msi_emit(plan, MSI_MERGE, before, acc, count);
        acc = before;
    }
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), acc, count);
}

void msi_plan_doubling_scan(struct msi_plan *plan) {
    double_from(plan, 0, msi_ref(MSI_IN, 0));
}

void msi_plan_doubling_exscan(struct msi_plan *plan) {
    int me = plan->request.rank;
    size_t count = plan->request.count;
    if (me + 1 < plan->request.size) msi_emit_send(plan, me + 1, msi_ref(MSI_IN, 0), count);
    if (me == 0) return;
    struct msi_ref own = msi_emit_scratch(plan, MSI_RAW, count);
    msi_emit_recv(plan, me - 1, own, count);
    double_from(plan, 1, own);
}

void msi_estimate_linear_scan(const struct msi_request *request, struct msi_formula *f) {
    int n = request->size;
    double count = (double)request->count;
    double chunk = request->chunk && (double)request->chunk < count ? (double)request->chunk : count;
    f->rounds = n - 1;
    f->messages = msi_pieces(request, count);
    *(n > 2 ? &f->acc : &f->raw) = count;
    f->combined = count;
    f->copied = 2 * count;
    f->fill = (n - 2) * chunk;
    if (request->hosts.n < 2) return;
    f->remote_rounds = request->hosts.n - 1;
    f->remote_messages = f->messages;
    *(n > 2 ? &f->host_acc : &f->host_raw) = count;
}

void msi_estimate_linear_exscan(const struct msi_request *request, struct msi_formula *f) {
    msi_estimate_linear_scan(request, f);
    if (request->size == 2) f->combined = 0;
    if (request->size > 2 && request->in_place) f->copied += (double)request->count;
}

/*
 * Adds the rounds of n ranks. A message depends on at most log2(n), rounded down, others. The last rank of a
 * host sends all its messages to other hosts.
 */
static void add_doubling(const struct msi_request *request, int n, struct msi_formula *f) {
    double count = (double)request->count, pieces = msi_pieces(request, count);
    int rounds = msi_log2_ceil(n), path = msi_log2_floor(n), local = request->hosts.largest;
    int near = msi_log2_floor(local);
    f->rounds += path;
    f->messages += rounds * pieces;
    f->acc += rounds * count;
    f->combined += rounds * count;
    f->copied += 2 * count;
    if (request->hosts.n < 2) return;
    f->remote_rounds += path > near ? path - near : 0;
    f->remote_messages += rounds * pieces;
    for (int far = 1; far < n; far *= 2) f->host_acc += (far < local ? far : local) * count;
}

void msi_estimate_doubling_scan(const struct msi_request *request, struct msi_formula *f) {
    add_doubling(request, request->size, f);
}

void msi_estimate_doubling_exscan(const struct msi_request *request, struct msi_formula *f) {
    double count = (double)request->count, pieces = msi_pieces(request, count);
    f->rounds = 1;
    f->messages = pieces;
    f->raw = count;
    if (request->hosts.n > 1) {
        f->remote_rounds = 1;
        f->remote_messages = pieces;
        f->host_raw = count;
    }
    add_doubling(request, request->size - 1, f);
}
