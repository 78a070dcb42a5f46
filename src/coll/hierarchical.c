/*
 * hierarchical.c - little between hosts, the rest within them; every rank of a host has a part in what leaves it.
 *
 *      host A   0 ◀─▶ 1 ◀─▶ 2        H hosts of L ranks, n = H L, m elements
 *               ▲     ▲     ▲
 *               ▼     ▼     ▼        part p of the whole is the business of one owner on each host
 *      host B   3 ◀─▶ 4 ◀─▶ 5
 *
 *  all_reduce      part p goes to its owner on each host, which adds up; a ring of the H owners finishes it; the owner
 *                  hands it out.          2 + 2(H-1) rounds; each rank sends (L-1)/L m, (H-1)/H m/L partial sums and as
 *                  many results to other hosts, and (L-1)/L m; 2 (H-1)/H m leave each host
 *  all_gather      each block goes to one rank on each other host, which hands it out there.
 *                                         2 rounds, (n-1) m elements, L (H-1) m leave each host
 *  reduce_scatter  each block is added up by one rank on each host, and the sums are sent to its owner.
 *                                         2 rounds, H (L-1) m elements and (H-1) m sums, L (H-1) m leave each host
 *  broadcast       binomial among one rank per host, then within each host.  ceil log2 H + ceil log2 L rounds
 *  reduce          the same way back.
 *
 * There are as many parts as the largest host has ranks; on a smaller one some ranks own several. Ranks may lie on the
 * hosts in any order.
 */
#include "coll/emit.h"
#include "coll/planners.h"

struct house {
    int n, hosts;
    const int *of;       /* the host of each rank */
    const int *sorted;   /* the ranks, host by host */
    const int *first;    /* of each host, in sorted; and the end */
    const int *index;    /* of each rank, within its host */
    int me, host, local; /* local: ranks on my host */
};

static bool look_around(struct msi_plan *plan, struct house *house) {
    int n = plan->request.size, hosts = plan->request.hosts.n;
    const int *of = plan->request.hosts.of;
    if (hosts < 1) return false; /* the planner has refused */
    if (!msi_grow(&plan->ranks, &plan->ranks_cap, 2 * (size_t)n + (size_t)hosts + 1, sizeof *plan->ranks,
                  &plan->failed))
        return false;
    int *sorted = plan->ranks, *index = sorted + n, *first = index + n;
    for (int h = 0; h <= hosts; h++) first[h] = 0;
    for (int r = 0; r < n; r++) index[r] = first[of[r] + 1]++;
    for (int h = 0; h < hosts; h++) first[h + 1] += first[h];
    for (int r = 0; r < n; r++) sorted[first[of[r]] + index[r]] = r;
    *house = (struct house){n, hosts, of, sorted, first, index, plan->request.rank, 0, 0};
    house->host = of[house->me];
    house->local = first[house->host + 1] - first[house->host];
    return true;
}

static int ranks_on(const struct house *house, int host) {
    return house->first[host + 1] - house->first[host];
}

/* Who on a host deals with part p; and with the block of a rank, which on its own host is the rank itself. */
static int owner(const struct house *house, int host, int p) {
    return house->sorted[house->first[host] + p % ranks_on(house, host)];
}
static int handler(const struct house *house, int host, int rank) {
    return owner(house, host, house->index[rank]);
}

/* The s-th neighbour on my host, s from 1 to local - 1. */
static int neighbour(const struct house *house, int s) {
    return owner(house, house->host, house->index[house->me] + s);
}

/* Everyone on the host sends its values of a span of IN to one of them, who adds them up at acc. */
static void add_up_on_host(struct msi_plan *plan, const struct house *house, int who, struct msi_span span,
                           struct msi_ref acc) {
    struct msi_ref mine = msi_ref(MSI_IN, span.at);
    if (who != house->me) {
        msi_emit_send(plan, who, mine, span.count);
        return;
    }
    msi_emit(plan, MSI_BEGIN, acc, mine, span.count);
    for (int s = 1; s < house->local; s++) {
        struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, span.count);
        msi_emit_recv(plan, neighbour(house, s), raw, span.count);
        msi_emit(plan, MSI_ADD, acc, raw, span.count);
    }
}

/* One of the host has a span of OUT, the others get it. */
static void hand_out_on_host(struct msi_plan *plan, const struct house *house, int who, struct msi_ref from,
                             struct msi_span span) {
    if (who != house->me) {
        msi_emit_recv(plan, who, msi_ref(MSI_OUT, span.at), span.count);
        return;
    }
    for (int s = 1; s < house->local; s++) msi_emit_send(plan, neighbour(house, s), from, span.count);
}

/* Block i of part p as the ring of owners cuts it. */
static struct msi_span ring_block(const struct msi_plan *plan, const struct house *house, int p, int i) {
    struct msi_span part = msi_part(plan->request.count, plan->request.hosts.largest, p);
    struct msi_span block = msi_part(part.count, house->hosts, i);
    return (struct msi_span){part.at + block.at, block.count};
}

/* Round s of the reduce-scatter among the owners of part p; acc covers the whole buffer. */
static void ring_reduce(struct msi_plan *plan, const struct house *house, int p, int s, struct msi_ref acc) {
    int hosts = house->hosts, h = house->host;
    int left = owner(house, msi_minus(h, 1, hosts), p), right = owner(house, msi_plus(h, 1, hosts), p);
    struct msi_span out = ring_block(plan, house, p, msi_minus(h, (s + 1) % hosts, hosts));
    struct msi_span in = ring_block(plan, house, p, msi_minus(h, (s + 2) % hosts, hosts));
    struct msi_ref got = msi_emit_scratch(plan, MSI_ACC, in.count);
    msi_emit_send(plan, right, msi_ref_plus(acc, out.at), out.count);
    msi_emit_recv(plan, left, got, in.count);
    msi_emit(plan, MSI_MERGE, msi_ref_plus(acc, in.at), got, in.count);
}

/* Round s of the all-gather among them. */
static void ring_gather(struct msi_plan *plan, const struct house *house, int p, int s) {
    int hosts = house->hosts, h = house->host;
    int left = owner(house, msi_minus(h, 1, hosts), p), right = owner(house, msi_plus(h, 1, hosts), p);
    struct msi_span out = ring_block(plan, house, p, msi_minus(h, s, hosts));
    struct msi_span in = ring_block(plan, house, p, msi_minus(h, s + 1, hosts));
    msi_emit_send(plan, right, msi_ref(MSI_OUT, out.at), out.count);
    msi_emit_recv(plan, left, msi_ref(MSI_OUT, in.at), in.count);
}

void msi_plan_hierarchical_all_reduce(struct msi_plan *plan) {
    struct house house;
    if (!look_around(plan, &house)) return;
    int parts = plan->request.hosts.largest, mine = house.index[house.me];
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, plan->request.count);
    for (int p = 0; p < parts; p++) {
        struct msi_span part = msi_part(plan->request.count, parts, p);
        add_up_on_host(plan, &house, owner(&house, house.host, p), part, msi_ref_plus(acc, part.at));
    }
    for (int s = 0; s < house.hosts - 1; s++)
        for (int p = mine; p < parts; p += house.local) ring_reduce(plan, &house, p, s, acc);
    for (int p = mine; p < parts; p += house.local) {
        struct msi_span done = ring_block(plan, &house, p, house.host);
        msi_emit(plan, MSI_END, msi_ref(MSI_OUT, done.at), msi_ref_plus(acc, done.at), done.count);
    }
    for (int s = 0; s < house.hosts - 1; s++)
        for (int p = mine; p < parts; p += house.local) ring_gather(plan, &house, p, s);
    for (int s = 0; s < house.hosts; s++)
        for (int p = 0; p < parts; p++) {
            struct msi_span block = ring_block(plan, &house, p, msi_minus(house.host, s, house.hosts));
            hand_out_on_host(plan, &house, owner(&house, house.host, p), msi_ref(MSI_OUT, block.at), block);
        }
}

void msi_plan_hierarchical_all_gather(struct msi_plan *plan) {
    struct house house;
    if (!look_around(plan, &house)) return;
    int me = house.me;
    struct msi_span mine = msi_plan_share(plan, me);
    for (int g = 1; g < house.hosts; g++) {
        int there = handler(&house, msi_plus(house.host, g, house.hosts), me);
        msi_emit_send(plan, there, msi_ref(MSI_IN, 0), mine.count);
    }
    for (int r = 0; r < house.n; r++) {
        struct msi_span block = msi_plan_share(plan, r);
        if (house.of[r] != house.host && handler(&house, house.host, r) == me)
            msi_emit_recv(plan, r, msi_ref(MSI_OUT, block.at), block.count);
    }
    for (int r = 0; r < house.n; r++) {
        struct msi_span block = msi_plan_share(plan, r);
        struct msi_ref from = r == me ? msi_ref(MSI_IN, 0) : msi_ref(MSI_OUT, block.at);
        hand_out_on_host(plan, &house, handler(&house, house.host, r), from, block);
    }
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
}

void msi_plan_hierarchical_reduce_scatter(struct msi_plan *plan) {
    struct house house;
    if (!look_around(plan, &house)) return;
    struct msi_span mine = msi_plan_share(plan, house.me);
    struct msi_ref sum = msi_emit_scratch(plan, MSI_ACC, mine.count);
    for (int r = 0; r < house.n; r++) {
        int who = handler(&house, house.host, r);
        struct msi_span block = msi_plan_share(plan, r);
        struct msi_ref acc = sum;
        if (who == house.me && r != house.me) acc = msi_emit_scratch(plan, MSI_ACC, block.count);
        add_up_on_host(plan, &house, who, block, acc);
        if (who == house.me && r != house.me) msi_emit_send(plan, r, acc, block.count);
    }
    for (int g = 1; g < house.hosts; g++) {
        struct msi_ref got = msi_emit_scratch(plan, MSI_ACC, mine.count);
        int there = handler(&house, msi_plus(house.host, g, house.hosts), house.me);
        msi_emit_recv(plan, there, got, mine.count);
        msi_emit(plan, MSI_MERGE, sum, got, mine.count);
    }
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), sum, mine.count);
}

/* The rank that speaks for a host in a broadcast. */
static int speaker(const struct house *house, int host, int root) {
    return host == house->of[root] ? root : house->sorted[house->first[host]];
}

void msi_plan_hierarchical_broadcast(struct msi_plan *plan) {
    struct house house;
    if (!look_around(plan, &house)) return;
    int root = plan->request.root, me = house.me, hosts = house.hosts, home = house.of[root];
    size_t count = plan->request.count;
    struct msi_ref here = msi_ref(me == root ? MSI_IN : MSI_OUT, 0);
    int first = speaker(&house, house.host, root);
    int v = msi_minus(house.host, home, hosts), bit = 1;
    if (me == first) {
        for (; bit < hosts && !(v & bit); bit *= 2) continue;
        if (v) msi_emit_recv(plan, speaker(&house, msi_plus(v - bit, home, hosts), root), here, count);
        for (bit /= 2; bit >= 1; bit /= 2)
            if (v + bit < hosts)
                msi_emit_send(plan, speaker(&house, msi_plus(v + bit, home, hosts), root), here, count);
    }
    int start = house.index[first];
    v = msi_minus(house.index[me], start, house.local);
    for (bit = 1; bit < house.local && !(v & bit); bit *= 2) continue;
    if (v) msi_emit_recv(plan, owner(&house, house.host, start + v - bit), here, count);
    for (bit /= 2; bit >= 1; bit /= 2)
        if (v + bit < house.local)
            msi_emit_send(plan, owner(&house, house.host, start + v + bit), here, count);
    if (me == root) msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, 0), here, count);
}

/* Binomial, as children see it: is the one at distance v + bit a leaf among n? */
static bool is_leaf(int v, int bit, int n) {
    return bit == 1 || v + bit + 1 >= n;
}

/* Takes in what a rank has added up, or its input alone, if it is a leaf. */
static void take_in(struct msi_plan *plan, int from, bool raw, struct msi_ref sum) {
    size_t count = plan->request.count;
    struct msi_ref got = msi_emit_scratch(plan, raw ? MSI_RAW : MSI_ACC, count);
    msi_emit_recv(plan, from, got, count);
    msi_emit(plan, raw ? MSI_ADD : MSI_MERGE, sum, got, count);
}

void msi_plan_hierarchical_reduce(struct msi_plan *plan) {
    struct house house;
    if (!look_around(plan, &house)) return;
    int root = plan->request.root, hosts = house.hosts, home = house.of[root];
    int first = speaker(&house, house.host, root), start = house.index[first];
    int v = msi_minus(house.index[house.me], start, house.local), h = msi_minus(house.host, home, hosts);
    size_t count = plan->request.count;
    struct msi_ref in = msi_ref(MSI_IN, 0), sum = {MSI_IN, 0};
    bool alone = v ? is_leaf(v & (v - 1), v & -v, house.local)
                   : house.local == 1 && h && is_leaf(h & (h - 1), h & -h, hosts);
    if (!alone) {
        sum = msi_emit_scratch(plan, MSI_ACC, count);
        msi_emit(plan, MSI_BEGIN, sum, in, count);
    }
    for (int bit = 1; v + bit < house.local && !(v & bit); bit *= 2)
        take_in(plan, owner(&house, house.host, start + v + bit), is_leaf(v, bit, house.local), sum);
    for (int bit = 1; v == 0 && h + bit < hosts && !(h & bit); bit *= 2) {
        int host = msi_plus(h + bit, home, hosts);
        take_in(plan, speaker(&house, host, root), ranks_on(&house, host) == 1 && is_leaf(h, bit, hosts),
                sum);
    }
    if (v)
        msi_emit_send(plan, owner(&house, house.host, start + (v & (v - 1))), sum, count);
    else if (h)
        msi_emit_send(plan, speaker(&house, msi_plus(h & (h - 1), home, hosts), root), sum, count);
    else
        msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), sum, count);
}

/*
 * Two binomial trees, one upon the other. The depth of one is the most digits 1 of a number below n; its root has a child for
 * each digit.
 */
static void price_trees(const struct msi_request *request, struct msi_formula *f) {
    int hosts = request->hosts.n, local = request->hosts.largest;
    double children = msi_log2_ceil(hosts), pieces = msi_pieces(request, (double)request->count);
    f->remote_rounds = msi_log2_floor(hosts);
    f->rounds = f->remote_rounds + msi_log2_floor(local);
    f->messages = (children + msi_log2_ceil(local)) * pieces;
    f->remote_messages = children * pieces;
}

void msi_price_hierarchical_reduce(const struct msi_request *request, struct msi_formula *f) {
    double count = (double)request->count;
    double far = msi_log2_ceil(request->hosts.n), near = msi_log2_ceil(request->hosts.largest);
    price_trees(request, f);
    f->raw = count;
    f->acc = (far + near - 1) * count;
    f->host_raw = near > 0 ? 0 : count;
    f->host_acc = far * count - f->host_raw;
    f->combined = (far + near) * count;
    f->copied = 2 * count;
}

void msi_price_hierarchical_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    double hosts = request->hosts.n, local = request->hosts.largest, count = (double)request->count;
    double part = count / local, block = part / hosts;
    f->rounds = 2 * hosts;
    f->remote_rounds = 2 * (hosts - 1);
    f->messages = (local - 1) * msi_pieces(request, part) +
                  (2 * (hosts - 1) + (local - 1) * hosts) * msi_pieces(request, block);
    f->remote_messages = 2 * (hosts - 1) * msi_pieces(request, block);
    f->raw = 2 * (local - 1) * part + (hosts - 1) * block;
    f->acc = (hosts - 1) * block;
    f->host_raw = f->host_acc = local * (hosts - 1) * block;
    f->combined = (local - 1) * part + (hosts - 1) * block;
    f->copied = part + block;
    if (local == 1) f->rounds -= 2;
}

void msi_price_hierarchical_all_gather(const struct msi_request *request, struct msi_formula *f) {
    double hosts = request->hosts.n, local = request->hosts.largest, count = (double)request->count;
    f->rounds = local > 1 ? 2 : 1;
    f->remote_rounds = 1;
    f->messages = (hosts * local - 1) * msi_pieces(request, count);
    f->remote_messages = (hosts - 1) * msi_pieces(request, count);
    f->raw = (hosts * local - 1) * count;
    f->host_raw = local * (hosts - 1) * count;
    if (!request->in_place) f->copied = count;
}

void msi_price_hierarchical_reduce_scatter(const struct msi_request *request, struct msi_formula *f) {
    double hosts = request->hosts.n, local = request->hosts.largest, count = (double)request->count;
    f->rounds = local > 1 ? 2 : 1;
    f->remote_rounds = 1;
    f->messages = (hosts * local - 1) * msi_pieces(request, count);
    f->remote_messages = (hosts - 1) * msi_pieces(request, count);
    f->raw = hosts * (local - 1) * count;
    f->acc = (hosts - 1) * count;
    f->host_acc = local * (hosts - 1) * count;
    f->combined = (hosts * (local - 1) + hosts - 1) * count;
    f->copied = (hosts + 1) * count;
}

void msi_price_hierarchical_broadcast(const struct msi_request *request, struct msi_formula *f) {
    double count = (double)request->count;
    double far = msi_log2_ceil(request->hosts.n), near = msi_log2_ceil(request->hosts.largest);
    price_trees(request, f);
    f->raw = (far + near) * count;
    f->host_raw = far * count;
    if (!request->in_place) f->copied = count;
    if (request->chunk && request->chunk < request->count) f->fill = (f->rounds - 1) * (double)request->chunk;
}
