/*
 * doubling.c - recursive doubling: ranks exchange at distance 1, 2, 4, …; after k rounds a rank has the data
 * of 2^k ranks.
 *
 *      0 ◀─▶ 1     2 ◀─▶ 3        mask 1   n ranks, m elements; p: largest power of two <= n; rest = n - p
 *      0 ◀────────▶ 2             mask 2
 *            1 ◀────────▶ 3
 *
 * If n is not a power of two, the first 2 rest ranks form pairs. The odd rank of a pair is an extra rank: it
 * sends its input to the even rank before the rounds and receives the result after them, which adds two
 * rounds.
 *
 *  all_reduce "doubling"      ranks exchange the whole partial sum; both compute lower op higher rank, so
 *                             that all results have the same bits.        log2 p rounds, m log2 p elements
 *  all_reduce "halving"       Rabenseifner: exchange half of the remaining part, at distance p/2, p/4, …;
 *                             then gather by doubling.                  2 log2 p rounds, 2 (p-1)/p m elements
 *  reduce_scatter "halving"   the first half of it; n a power of two.       log2 n rounds, (n-1)/n m elements
 *  all_gather "doubling"      exchange all blocks received so far.          log2 p rounds, (n-1)/n m elements
 *  barrier "dissemination"    send to rank + 2^k, receive from rank - 2^k. ceil log2 n rounds, 1 element each
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

/* The position of a rank among the p ranks of the rounds. */
struct position {
    int p, rest;
    int x;          /* 0 … p-1 */
    bool is_extra;  /* takes no part in the rounds; its partner is rank - 1 */
    bool has_extra; /* its extra rank is rank + 1 */
};

static struct position find_position(const struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    struct position at = {.p = 1 << msi_log2_floor(n)};
    at.rest = n - at.p;
    at.is_extra = me < 2 * at.rest && me % 2 == 1;
    at.has_extra = me < 2 * at.rest && me % 2 == 0;
    at.x = me < 2 * at.rest ? me / 2 : me - at.rest;
    return at;
}

/* The rank at position x; for x = p, the number of ranks. */
static int rank_at(const struct position *at, int x) {
    return x < at->rest ? 2 * x : x + at->rest;
}

static void plan_extra_rank(struct msi_plan *plan) {
    int partner = plan->request.rank - 1;
    msi_emit_send(plan, partner, msi_ref(MSI_IN, 0), plan->request.count);
    msi_emit_recv(plan, partner, msi_ref(MSI_OUT, 0), plan->request.count);
}

/* acc = this rank's input op the extra rank's input. */
static void add_extra_rank(struct msi_plan *plan, struct msi_ref acc) {
    size_t count = plan->request.count;
    struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, count);
    msi_emit(plan, MSI_BEGIN, acc, msi_ref(MSI_IN, 0), count);
    msi_emit_recv(plan, plan->request.rank + 1, raw, count);
    msi_emit(plan, MSI_ADD, acc, raw, count);
}

void msi_plan_doubling_all_reduce(struct msi_plan *plan) {
    struct position at = find_position(plan);
    size_t count = plan->request.count;
    if (at.is_extra) {
        plan_extra_rank(plan);
        return;
    }
    struct msi_ref sum = msi_emit_scratch(plan, MSI_ACC, count);
    struct msi_ref other = msi_emit_scratch(plan, MSI_ACC, count);
    if (at.has_extra)
        add_extra_rank(plan, sum);
    else
        msi_emit(plan, MSI_BEGIN, sum, msi_ref(MSI_IN, 0), count);
    for (int mask = 1; mask < at.p; mask *= 2) {
        int peer = rank_at(&at, at.x ^ mask);
        msi_emit_send(plan, peer, sum, count);
        msi_emit_recv(plan, peer, other, count);
        if (at.x & mask) {
            struct msi_ref higher = sum;
            sum = other;
            other = higher;
        }
        msi_emit(plan, MSI_MERGE, sum, other, count);
    }
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), sum, count);
    if (at.has_extra) msi_emit_send(plan, plan->request.rank + 1, msi_ref(MSI_OUT, 0), count);
}

/* The part of the buffer that belongs to the positions first … end-1. */
static struct msi_span part_of(const struct msi_plan *plan, const struct position *at, int first, int end) {
    if (plan->request.kind == MSI_KIND_REDUCE_SCATTER) return msi_plan_shares(plan, first, end);
    return msi_parts(plan->request.count, at->p, first, end);
}

/* One round of halving: sends the part of the other half of the group, receives and reduces its own part. */
static void halve(struct msi_plan *plan, const struct position *at, int mask, struct msi_ref acc) {
    bool first = mask == at->p / 2, extra = at->x < at->rest, peer_extra = (at->x ^ mask) < at->rest;
    int group = at->x & ~(2 * mask - 1), peer = rank_at(at, at->x ^ mask);
    int keep_first = at->x & mask ? group + mask : group, send_first = at->x & mask ? group : group + mask;
    struct msi_span keep = part_of(plan, at, keep_first, keep_first + mask);
    struct msi_span send = part_of(plan, at, send_first, send_first + mask);
    bool send_raw = first && !extra, recv_raw = first && !peer_extra;
    struct msi_ref got = msi_emit_scratch(plan, recv_raw ? MSI_RAW : MSI_ACC, keep.count);
    msi_emit_send(plan, peer, send_raw ? msi_ref(MSI_IN, send.at) : msi_ref_plus(acc, send.at), send.count);
    if (send_raw) msi_emit(plan, MSI_BEGIN, msi_ref_plus(acc, keep.at), msi_ref(MSI_IN, keep.at), keep.count);
    msi_emit_recv(plan, peer, got, keep.count);
    msi_emit(plan, recv_raw ? MSI_ADD : MSI_MERGE, msi_ref_plus(acc, keep.at), got, keep.count);
}

void msi_plan_halving_all_reduce(struct msi_plan *plan) {
    struct position at = find_position(plan);
    size_t count = plan->request.count;
    if (at.is_extra) {
        plan_extra_rank(plan);
        return;
    }
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, count);
    if (at.has_extra) add_extra_rank(plan, acc);
    for (int mask = at.p / 2; mask >= 1; mask /= 2) halve(plan, &at, mask, acc);
    struct msi_span mine = part_of(plan, &at, at.x, at.x + 1);
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, mine.at), msi_ref_plus(acc, mine.at), mine.count);
    for (int mask = 1; mask < at.p; mask *= 2) {
        int group = at.x & ~(mask - 1), peer = rank_at(&at, at.x ^ mask);
        struct msi_span have = part_of(plan, &at, group, group + mask);
        struct msi_span want = part_of(plan, &at, group ^ mask, (group ^ mask) + mask);
        msi_emit_send(plan, peer, msi_ref(MSI_OUT, have.at), have.count);
        msi_emit_recv(plan, peer, msi_ref(MSI_OUT, want.at), want.count);
    }
    if (at.has_extra) msi_emit_send(plan, plan->request.rank + 1, msi_ref(MSI_OUT, 0), count);
}

void msi_plan_halving_reduce_scatter(struct msi_plan *plan) {
    struct position at = find_position(plan);
    struct msi_span all = msi_plan_shares(plan, 0, plan->request.size), mine = msi_plan_share(plan, at.x);
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, all.count);
    for (int mask = at.p / 2; mask >= 1; mask /= 2) halve(plan, &at, mask, acc);
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), msi_ref_plus(acc, mine.at), mine.count);
}

/* Sends the extra rank all blocks but its own, or receives them on it. */
static void transfer_others(struct msi_plan *plan, int extra, int peer) {
    struct msi_span before = msi_plan_shares(plan, 0, extra);
    struct msi_span behind = msi_plan_shares(plan, extra + 1, plan->request.size);
    enum msi_step_kind kind = peer == extra ? MSI_SEND : MSI_RECV;
    msi_emit_transfer(plan, kind, peer, msi_ref(MSI_OUT, before.at), before.count);
    msi_emit_transfer(plan, kind, peer, msi_ref(MSI_OUT, behind.at), behind.count);
}

void msi_plan_doubling_all_gather(struct msi_plan *plan) {
    struct position at = find_position(plan);
    int me = plan->request.rank;
    struct msi_span mine = msi_plan_share(plan, me);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
    if (at.is_extra) {
        msi_emit_send(plan, me - 1, msi_ref(MSI_IN, 0), mine.count);
        transfer_others(plan, me, me - 1);
        return;
    }
    if (at.has_extra) {
        struct msi_span extra = msi_plan_share(plan, me + 1);
        msi_emit_recv(plan, me + 1, msi_ref(MSI_OUT, extra.at), extra.count);
    }
    for (int mask = 1; mask < at.p; mask *= 2) {
        int group = at.x & ~(mask - 1), theirs = group ^ mask, peer = rank_at(&at, at.x ^ mask);
        struct msi_span have = msi_plan_shares(plan, rank_at(&at, group), rank_at(&at, group + mask));
        struct msi_span want = msi_plan_shares(plan, rank_at(&at, theirs), rank_at(&at, theirs + mask));
        msi_emit_send(plan, peer, msi_ref(MSI_OUT, have.at), have.count);
        msi_emit_recv(plan, peer, msi_ref(MSI_OUT, want.at), want.count);
    }
    if (at.has_extra) transfer_others(plan, me + 1, me + 1);
}

void msi_plan_dissemination(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    struct msi_ref token = msi_emit_scratch(plan, MSI_RAW, 1);
    uint32_t received = MSI_NO_STEP;
    for (int distance = 1; distance < n; distance *= 2) {
        msi_emit_send(plan, msi_plus(me, distance, n), token, 1);
        msi_emit_order(plan, received, plan->n - 1);
        msi_emit_recv(plan, msi_minus(me, distance, n), msi_emit_scratch(plan, MSI_RAW, 1), 1);
        msi_emit_order(plan, received, plan->n - 1);
        received = plan->n - 1;
    }
}
