/*
 * doubling.c - partners at distance 1, 2, 4, …: after k rounds a rank knows 2^k ranks.
 *
 *      0 ◀─▶ 1     2 ◀─▶ 3        mask 1        n ranks, m elements; p = the largest power of two in n, rest = n - p
 *      0 ◀────────▶ 2             mask 2
 *            1 ◀────────▶ 3
 *
 * Where n is no power of two, the first 2 rest ranks form pairs; the odd one hands its input to the even one, sits out,
 * and is given the result at the end: two rounds more.
 *
 *  all_reduce "doubling"      everyone exchanges the whole partial sum; lower rank op higher rank on both sides, so that
 *                             all get the same bits.                       log2 p rounds, m log2 p elements
 *  all_reduce "halving"       Rabenseifner: exchange half of what one still cares for, at distance p/2, p/4, …; then
 *                             gather by doubling.                        2 log2 p rounds, 2 (p-1)/p m elements
 *  reduce_scatter "halving"   its first half; n a power of two.              log2 n rounds, (n-1)/n m elements
 *  all_gather "doubling"      exchange all blocks that one has.              log2 p rounds, (n-1)/n m elements
 *  barrier "dissemination"    tell rank + 2^k, hear from rank - 2^k.    ceil log2 n rounds, 1 element each
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"

/* A rank's place among the p that take part. */
struct place {
    int p, rest;
    int x;          /* 0 … p-1 */
    bool sits_out;  /* an odd rank of the first pairs; its partner is rank - 1 */
    bool has_guest; /* its partner; the guest is rank + 1 */
};

static struct place find_place(const struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    struct place at = {.p = 1 << msi_log2_floor(n)};
    at.rest = n - at.p;
    at.sits_out = me < 2 * at.rest && me % 2 == 1;
    at.has_guest = me < 2 * at.rest && me % 2 == 0;
    at.x = me < 2 * at.rest ? me / 2 : me - at.rest;
    return at;
}

/* The rank at place x; of p, the end of the ranks. */
static int rank_at(const struct place *at, int x) {
    return x < at->rest ? 2 * x : x + at->rest;
}

static void sit_out(struct msi_plan *plan) {
    int partner = plan->request.rank - 1;
    msi_emit_send(plan, partner, msi_ref(MSI_IN, 0), plan->request.count);
    msi_emit_recv(plan, partner, msi_ref(MSI_OUT, 0), plan->request.count);
}

/* acc = my input op my guest's. */
static void take_in_guest(struct msi_plan *plan, struct msi_ref acc) {
    size_t count = plan->request.count;
    struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, count);
    msi_emit(plan, MSI_BEGIN, acc, msi_ref(MSI_IN, 0), count);
    msi_emit_recv(plan, plan->request.rank + 1, raw, count);
    msi_emit(plan, MSI_ADD, acc, raw, count);
}

void msi_plan_doubling_all_reduce(struct msi_plan *plan) {
    struct place at = find_place(plan);
    size_t count = plan->request.count;
    if (at.sits_out) {
        sit_out(plan);
        return;
    }
    struct msi_ref sum = msi_emit_scratch(plan, MSI_ACC, count);
    struct msi_ref other = msi_emit_scratch(plan, MSI_ACC, count);
    if (at.has_guest)
        take_in_guest(plan, sum);
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
    if (at.has_guest) msi_emit_send(plan, plan->request.rank + 1, msi_ref(MSI_OUT, 0), count);
}

/* What the places first … end-1 care for, in the whole. */
static struct msi_span part_of(const struct msi_plan *plan, const struct place *at, int first, int end) {
    if (plan->request.kind == MSI_KIND_REDUCE_SCATTER) return msi_plan_shares(plan, first, end);
    return msi_parts(plan->request.count, at->p, first, end);
}

/* One round of halving: gives away what the other half of the group cares for, and combines what it keeps. */
static void halve(struct msi_plan *plan, const struct place *at, int mask, struct msi_ref acc) {
    bool first = mask == at->p / 2, guests = at->x < at->rest, their_guests = (at->x ^ mask) < at->rest;
    int group = at->x & ~(2 * mask - 1), peer = rank_at(at, at->x ^ mask);
    int keep_from = at->x & mask ? group + mask : group, give_from = at->x & mask ? group : group + mask;
    struct msi_span keep = part_of(plan, at, keep_from, keep_from + mask);
    struct msi_span give = part_of(plan, at, give_from, give_from + mask);
    bool send_raw = first && !guests, recv_raw = first && !their_guests;
    struct msi_ref got = msi_emit_scratch(plan, recv_raw ? MSI_RAW : MSI_ACC, keep.count);
    msi_emit_send(plan, peer, send_raw ? msi_ref(MSI_IN, give.at) : msi_ref_plus(acc, give.at), give.count);
    if (send_raw) msi_emit(plan, MSI_BEGIN, msi_ref_plus(acc, keep.at), msi_ref(MSI_IN, keep.at), keep.count);
    msi_emit_recv(plan, peer, got, keep.count);
    msi_emit(plan, recv_raw ? MSI_ADD : MSI_MERGE, msi_ref_plus(acc, keep.at), got, keep.count);
}

void msi_plan_halving_all_reduce(struct msi_plan *plan) {
    struct place at = find_place(plan);
    size_t count = plan->request.count;
    if (at.sits_out) {
        sit_out(plan);
        return;
    }
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, count);
    if (at.has_guest) take_in_guest(plan, acc);
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
    if (at.has_guest) msi_emit_send(plan, plan->request.rank + 1, msi_ref(MSI_OUT, 0), count);
}

void msi_plan_halving_reduce_scatter(struct msi_plan *plan) {
    struct place at = find_place(plan);
    struct msi_span all = msi_plan_shares(plan, 0, plan->request.size), mine = msi_plan_share(plan, at.x);
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, all.count);
    for (int mask = at.p / 2; mask >= 1; mask /= 2) halve(plan, &at, mask, acc);
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), msi_ref_plus(acc, mine.at), mine.count);
}

/* All blocks but that of the rank that sits out, which has it. */
static void give_or_take_rest(struct msi_plan *plan, int guest, int peer) {
    struct msi_span before = msi_plan_shares(plan, 0, guest);
    struct msi_span behind = msi_plan_shares(plan, guest + 1, plan->request.size);
    struct msi_span both[] = {before, behind};
    for (int i = 0; i < 2; i++) {
        if (peer == guest)
            msi_emit_send(plan, peer, msi_ref(MSI_OUT, both[i].at), both[i].count);
        else
            msi_emit_recv(plan, peer, msi_ref(MSI_OUT, both[i].at), both[i].count);
    }
}

void msi_plan_doubling_all_gather(struct msi_plan *plan) {
    struct place at = find_place(plan);
    int me = plan->request.rank;
    struct msi_span mine = msi_plan_share(plan, me);
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
    if (at.sits_out) {
        msi_emit_send(plan, me - 1, msi_ref(MSI_IN, 0), mine.count);
        give_or_take_rest(plan, me, me - 1);
        return;
    }
    if (at.has_guest) {
        struct msi_span guest = msi_plan_share(plan, me + 1);
        msi_emit_recv(plan, me + 1, msi_ref(MSI_OUT, guest.at), guest.count);
    }
    for (int mask = 1; mask < at.p; mask *= 2) {
        int group = at.x & ~(mask - 1), theirs = group ^ mask, peer = rank_at(&at, at.x ^ mask);
        struct msi_span have = msi_plan_shares(plan, rank_at(&at, group), rank_at(&at, group + mask));
        struct msi_span want = msi_plan_shares(plan, rank_at(&at, theirs), rank_at(&at, theirs + mask));
        msi_emit_send(plan, peer, msi_ref(MSI_OUT, have.at), have.count);
        msi_emit_recv(plan, peer, msi_ref(MSI_OUT, want.at), want.count);
    }
    if (at.has_guest) give_or_take_rest(plan, me + 1, me + 1);
}

void msi_plan_dissemination(struct msi_plan *plan) {
    int n = plan->request.size, me = plan->request.rank;
    struct msi_ref word = msi_emit_scratch(plan, MSI_RAW, 1);
    uint32_t heard = MSI_NO_STEP;
    for (int distance = 1; distance < n; distance *= 2) {
        msi_emit_send(plan, msi_plus(me, distance, n), word, 1);
        msi_emit_order(plan, heard, plan->n - 1);
        msi_emit_recv(plan, msi_minus(me, distance, n), msi_emit_scratch(plan, MSI_RAW, 1), 1);
        msi_emit_order(plan, heard, plan->n - 1);
        heard = plan->n - 1;
    }
}
