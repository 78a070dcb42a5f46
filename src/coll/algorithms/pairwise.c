/*
 * pairwise.c - all_to_all in rounds: in round s each rank sends to rank + s and receives from rank - s.
 *
 *      round 1   0 ─▶ 1 ─▶ 2 ─▶ 3 ─▶ 0        n ranks, m elements to each of them
 *      round 2   0 ─▶ 2, 1 ─▶ 3, 2 ─▶ 0, 3 ─▶ 1
 *      round 3   0 ─▶ 3 ─▶ 2 ─▶ 1 ─▶ 0
 *
 * n-1 rounds, (n-1) m elements. Each rank sends to one peer and receives from one peer at a time, so that no
 * receiver is congested, for blocks of any size.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

void msi_plan_pairwise(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    struct msi_span out = msi_plan_share(plan, me), in = msi_plan_from(plan, me);
    uint32_t sent = MSI_NO_STEP, received = MSI_NO_STEP;
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, in.at), msi_ref(MSI_IN, out.at), out.count);
    for (int s = 1; s < n; s++) {
        int to = msi_plus(me, s, n), from = msi_minus(me, s, n);
        uint32_t first = plan->n;
        out = msi_plan_share(plan, to);
        msi_emit_send(plan, to, msi_ref(MSI_IN, out.at), out.count);
        if (plan->n > first) {
            msi_emit_order(plan, sent, first);
            sent = plan->n - 1;
        }
        first = plan->n;
        in = msi_plan_from(plan, from);
        msi_emit_recv(plan, from, msi_ref(MSI_OUT, in.at), in.count);
        if (plan->n > first) {
            msi_emit_order(plan, received, first);
            received = plan->n - 1;
        }
    }
}

void msi_estimate_pairwise(const struct msi_request *request, struct msi_formula *f) {
    int n = request->size, local = request->hosts.largest;
    double count = (double)request->count;
    f->rounds = n - 1;
    f->messages = (n - 1) * msi_pieces(request, count);
    f->raw = (n - 1) * count;
    f->copied = count;
    if (request->hosts.n > 1) {
        f->remote_rounds = 1; /* a round does not wait for the previous one to arrive */
        f->remote_messages = (n - local) * msi_pieces(request, count);
        f->host_raw = (double)local * (n - local) * count;
    }
}
