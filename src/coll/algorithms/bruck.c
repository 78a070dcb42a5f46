/*
 * bruck.c - logarithmic rounds for any number of ranks: in round k each rank exchanges at distance 2^k.
 *
 *      round 0   0 ◀─ 1 ◀─ 2 ◀─ 3 ◀─ 4 ◀─ 0        n ranks, m elements each
 *      round 1   0 ◀─ 2 ◀─ 4 ◀─ 1 ◀─ 3 ◀─ 0
 *      round 2   0 ◀─ 4 ◀─ 3 ◀─ 2 ◀─ 1 ◀─ 0        (one block: all that are missing)
 *
 *  all_gather  rank r has the blocks r … r + 2^k - 1 and sends those that rank r - 2^k lacks; two messages if
 *              the ranks wrap around.                  log2 n rounds, up to one more, (n-1) m elements
 *  all_to_all  the block for rank r + j is in slot j. In round k, the slots whose bit k is set go to rank
 *              r + 2^k in one message. Equal blocks.   ceil log2 n rounds, about (n/2) m log2 n elements
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

/* The blocks of count ranks from first on, modulo n: one or two spans. */
static int wrapped_spans(const struct msi_plan *plan, int first, int count, struct msi_span spans[2]) {
    int n = plan->request.size;
    if (first + count <= n) {
        spans[0] = msi_plan_shares(plan, first, first + count);
        return 1;
    }
    spans[0] = msi_plan_shares(plan, first, n);
    spans[1] = msi_plan_shares(plan, 0, first + count - n);
    return 2;
}

void msi_plan_bruck_all_gather(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    struct msi_span mine = msi_plan_share(plan, me), spans[2];
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
    for (int have = 1; have < n; have *= 2) {
        int missing = have < n - have ? have : n - have;
        int parts = wrapped_spans(plan, me, missing, spans);
        for (int i = 0; i < parts; i++)
            msi_emit_send(plan, msi_minus(me, have, n), msi_ref(MSI_OUT, spans[i].at), spans[i].count);
        parts = wrapped_spans(plan, msi_plus(me, have, n), missing, spans);
        for (int i = 0; i < parts; i++)
            msi_emit_recv(plan, msi_plus(me, have, n), msi_ref(MSI_OUT, spans[i].at), spans[i].count);
    }
}

/* Copies the slots with this bit set to consecutive blocks at packed, or back. Returns their number. */
static int pack(struct msi_plan *plan, int bit, struct msi_ref slots, struct msi_ref packed, bool back) {
    int n = plan->request.size, done = 0;
    size_t count = plan->request.count;
    for (int from = bit; from < n; from += 2 * bit) {
        int run = from + bit < n ? bit : n - from;
        struct msi_ref a = msi_ref_plus(slots, (size_t)from * count);
        struct msi_ref b = msi_ref_plus(packed, (size_t)done * count);
        msi_emit(plan, MSI_COPY, back ? a : b, back ? b : a, (size_t)run * count);
        done += run;
    }
    return done;
}

void msi_plan_bruck_all_to_all(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    size_t count = plan->request.count, size = (size_t)n;
    struct msi_ref slots = msi_emit_scratch(plan, MSI_RAW, size * count);
    struct msi_ref out = msi_emit_scratch(plan, MSI_RAW, size * count);
    struct msi_ref in = msi_emit_scratch(plan, MSI_RAW, size * count);
    size_t rotation = (size_t)me * count;
    msi_emit(plan, MSI_COPY, slots, msi_ref(MSI_IN, rotation), size * count - rotation);
    msi_emit(plan, MSI_COPY, msi_ref_plus(slots, size * count - rotation), msi_ref(MSI_IN, 0), rotation);
    for (int bit = 1; bit < n; bit *= 2) {
        int blocks = pack(plan, bit, slots, out, false);
        msi_emit_send(plan, msi_plus(me, bit, n), out, (size_t)blocks * count);
        msi_emit_recv(plan, msi_minus(me, bit, n), in, (size_t)blocks * count);
        pack(plan, bit, slots, in, true);
    }
    for (int j = 0; j < n; j++) {
        size_t from = (size_t)msi_minus(me, j, n) * count;
        msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, from), msi_ref_plus(slots, (size_t)j * count), count);
    }
}

void msi_estimate_bruck_all_gather(const struct msi_request *request, struct msi_formula *f) {
    int n = request->size, local = request->hosts.largest;
    double count = (double)request->count;
    bool remote = request->hosts.n > 1;
    for (int have = 1; have < n; have *= 2) {
        int missing = have < n - have ? have : n - have, far = have < local ? have : local;
        /* The last round does not wait for blocks that it does not send. */
        int round = have == missing ? msi_log2_floor(have) + 1 : 1 + msi_log2_ceil(missing);
        if (round > f->rounds) f->rounds = round;
        /* In every round but the first, the spans of some rank wrap around. */
        f->messages += msi_pieces(request, missing * count) + (missing > 1 ? 1 : 0);
        f->raw += missing * count;
        /* A block enters each host at most once. */
        if (remote) f->remote_rounds = f->rounds < request->hosts.n ? f->rounds : request->hosts.n;
        if (remote) f->remote_messages = f->messages;
        if (remote) f->host_raw += far * missing * count;
    }
    if (!request->in_place) f->copied = count;
}

void msi_estimate_bruck_all_to_all(const struct msi_request *request, struct msi_formula *f) {
    int n = request->size, local = request->hosts.largest;
    double count = (double)request->count;
    bool remote = request->hosts.n > 1;
    f->copied = 2 * n * count;
    for (int bit = 1; bit < n; bit *= 2) {
        int rest = n % (2 * bit), far = bit < local ? bit : local;
        int blocks = n / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
        f->rounds++;
        f->messages += msi_pieces(request, blocks * count);
        f->raw += blocks * count;
        f->copied += 2 * blocks * count;
        if (remote && f->remote_rounds < request->hosts.n) f->remote_rounds++;
        if (remote) f->remote_messages = f->messages;
        if (remote) f->host_raw += far * blocks * count;
    }
}
