/*
 * hierarchical_tree.c - a binomial tree among one rank of each host, its speaker, and one within each host.
 *
 *      host A   0 ─┬─ 1          host B   4 ─┬─ 5          H hosts of L ranks, n = H L, m elements
 *      (root)   │  └─ 2 ── 3     (speaker)   └─ 6 ── 7
 *               └─────────────────┘
 *
 *  broadcast  among the speakers, then within each host.       log2 H + log2 L rounds, m for each child of the root
 *  reduce     the same way back.
 *  barrier    within each host up, among the speakers by dissemination, and down again.   2 log2 L + ceil log2 H rounds
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"
#include "coll/host_map.h"

/* The rank that speaks for a host: the root, where it is there. */
static int speaker(const struct msi_host_map *map, int host, int root) {
    return host == map->of[root] ? root : map->sorted[map->first[host]];
}

void msi_plan_hierarchical_broadcast(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    int root = plan->request.root, me = map.me, hosts = map.hosts, home = map.of[root];
    size_t count = plan->request.count;
    struct msi_ref here = msi_ref(me == root ? MSI_IN : MSI_OUT, 0);
    int first = speaker(&map, map.host, root);
    int v = msi_minus(map.host, home, hosts), bit = 1;
    if (me == first) {
        for (; bit < hosts && !(v & bit); bit *= 2) continue;
        if (v) msi_emit_recv(plan, speaker(&map, msi_plus(v - bit, home, hosts), root), here, count);
        for (bit /= 2; bit >= 1; bit /= 2)
            if (v + bit < hosts)
                msi_emit_send(plan, speaker(&map, msi_plus(v + bit, home, hosts), root), here, count);
    }
    int start = map.index[first];
    v = msi_minus(map.index[me], start, map.local);
    for (bit = 1; bit < map.local && !(v & bit); bit *= 2) continue;
    if (v) msi_emit_recv(plan, msi_host_map_rank(&map, map.host, start + v - bit), here, count);
    for (bit /= 2; bit >= 1; bit /= 2)
        if (v + bit < map.local)
            msi_emit_send(plan, msi_host_map_rank(&map, map.host, start + v + bit), here, count);
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
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    int root = plan->request.root, hosts = map.hosts, home = map.of[root];
    int first = speaker(&map, map.host, root), start = map.index[first];
    int v = msi_minus(map.index[map.me], start, map.local), h = msi_minus(map.host, home, hosts);
    size_t count = plan->request.count;
    struct msi_ref in = msi_ref(MSI_IN, 0), sum = {MSI_IN, 0};
    bool alone = v ? is_leaf(v & (v - 1), v & -v, map.local)
                   : map.local == 1 && h && is_leaf(h & (h - 1), h & -h, hosts);
    if (!alone) {
        sum = msi_emit_scratch(plan, MSI_ACC, count);
        msi_emit(plan, MSI_BEGIN, sum, in, count);
    }
    for (int bit = 1; v + bit < map.local && !(v & bit); bit *= 2)
        take_in(plan, msi_host_map_rank(&map, map.host, start + v + bit), is_leaf(v, bit, map.local), sum);
    for (int bit = 1; v == 0 && h + bit < hosts && !(h & bit); bit *= 2) {
        int host = msi_plus(h + bit, home, hosts);
        take_in(plan, speaker(&map, host, root),
                msi_host_map_ranks(&map, host) == 1 && is_leaf(h, bit, hosts), sum);
    }
    if (v)
        msi_emit_send(plan, msi_host_map_rank(&map, map.host, start + (v & (v - 1))), sum, count);
    else if (h)
        msi_emit_send(plan, speaker(&map, msi_plus(h & (h - 1), home, hosts), root), sum, count);
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

void msi_estimate_hierarchical_reduce(const struct msi_request *request, struct msi_formula *f) {
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

void msi_estimate_hierarchical_broadcast(const struct msi_request *request, struct msi_formula *f) {
    double count = (double)request->count;
    double far = msi_log2_ceil(request->hosts.n), near = msi_log2_ceil(request->hosts.largest);
    price_trees(request, f);
    f->raw = (far + near) * count;
    f->host_raw = far * count;
    if (!request->in_place) f->copied = count;
    if (request->chunk && request->chunk < request->count) f->fill = (f->rounds - 1) * (double)request->chunk;
}

/* Steps of a barrier, each behind what was heard before it. */
struct words {
    struct msi_plan *plan;
    uint32_t heard; /* the last receive */
};

static void tell(struct words *words, int rank) {
    msi_emit_send(words->plan, rank, msi_emit_scratch(words->plan, MSI_RAW, 1), 1);
    msi_emit_order(words->plan, words->heard, words->plan->n - 1);
}

static void hear(struct words *words, int rank) {
    msi_emit_recv(words->plan, rank, msi_emit_scratch(words->plan, MSI_RAW, 1), 1);
    msi_emit_order(words->plan, words->heard, words->plan->n - 1);
    words->heard = words->plan->n - 1;
}

void msi_plan_hierarchical_barrier(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    struct words words = {plan, MSI_NO_STEP};
    int h = map.host, hosts = map.hosts, v = map.index[map.me];
    for (int bit = 1; v + bit < map.local && !(v & bit); bit *= 2)
        hear(&words, msi_host_map_rank(&map, h, v + bit));
    if (v) {
        tell(&words, msi_host_map_rank(&map, h, v & (v - 1)));
        hear(&words, msi_host_map_rank(&map, h, v & (v - 1)));
    }
    for (int distance = 1; v == 0 && distance < hosts; distance *= 2) {
        tell(&words, msi_host_map_rank(&map, msi_plus(h, distance, hosts), 0));
        hear(&words, msi_host_map_rank(&map, msi_minus(h, distance, hosts), 0));
    }
    int bit = 1;
    while (v + bit < map.local && !(v & bit)) bit *= 2;
    for (bit /= 2; bit >= 1; bit /= 2)
        if (v + bit < map.local) tell(&words, msi_host_map_rank(&map, h, v + bit));
}

void msi_estimate_hierarchical_barrier(const struct msi_request *request, struct msi_formula *f) {
    int hosts = request->hosts.n, local = request->hosts.largest;
    f->remote_rounds = f->remote_messages = f->host_raw = msi_log2_ceil(hosts);
    f->rounds = 2 * msi_log2_floor(local) + f->remote_rounds;
    f->messages = f->raw = msi_log2_ceil(hosts) + msi_log2_ceil(local);
}
