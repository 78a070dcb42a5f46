/*
 * hierarchical_tree.c - a binomial tree among one leader rank of each host, and a binomial tree within each
 * host.
 *
 *      host A   0 ─┬─ 1          host B   4 ─┬─ 5          H hosts of L ranks, n = H L, m elements
 *      (root)   │  └─ 2 ── 3     (leader 4)  └─ 6 ── 7
 *               └─────────────────┘
 *
 *  broadcast  among the leaders, then within each host.  log2 H + log2 L rounds, m for each child of the root
 *  reduce     the reverse.
 *  barrier    up within each host, dissemination among the leaders, down within each host.
 *                                                         2 log2 L + ceil log2 H rounds
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"
#include "coll/host_map.h"

/* The leader of a host: the root on its own host, else the first rank. */
static int leader(const struct msi_host_map *map, int host, int root) {
    return host == map->of[root] ? root : map->sorted[map->first[host]];
}

void msi_plan_hierarchical_broadcast(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    int root = plan->request.root, me = map.me, hosts = map.hosts, root_host = map.of[root];
    size_t count = plan->request.count;
    struct msi_ref here = msi_ref(me == root ? MSI_IN : MSI_OUT, 0);
    int first = leader(&map, map.host, root);
    int v = msi_minus(map.host, root_host, hosts), bit = 1;
    if (me == first) {
        for (; bit < hosts && !(v & bit); bit *= 2) continue;
        if (v) msi_emit_recv(plan, leader(&map, msi_plus(v - bit, root_host, hosts), root), here, count);
        for (bit /= 2; bit >= 1; bit /= 2)
            if (v + bit < hosts)
                msi_emit_send(plan, leader(&map, msi_plus(v + bit, root_host, hosts), root), here, count);
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

/* Is the child v + bit of v a leaf of the binomial tree of n nodes? */
static bool is_leaf(int v, int bit, int n) {
    return bit == 1 || v + bit + 1 >= n;
}

/* Receives the partial sum of a rank, or its raw input if it is a leaf, and reduces it into sum. */
static void recv_and_reduce(struct msi_plan *plan, int from, bool raw, struct msi_ref sum) {
    size_t count = plan->request.count;
    struct msi_ref got = msi_emit_scratch(plan, raw ? MSI_RAW : MSI_ACC, count);
    msi_emit_recv(plan, from, got, count);
    msi_emit(plan, raw ? MSI_ADD : MSI_MERGE, sum, got, count);
}

void msi_plan_hierarchical_reduce(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    int root = plan->request.root, hosts = map.hosts, root_host = map.of[root];
    int first = leader(&map, map.host, root), start = map.index[first];
    int v = msi_minus(map.index[map.me], start, map.local), h = msi_minus(map.host, root_host, hosts);
    size_t count = plan->request.count;
    struct msi_ref in = msi_ref(MSI_IN, 0), sum = {MSI_IN, 0};
    bool leaf = v ? is_leaf(v & (v - 1), v & -v, map.local)
                  : map.local == 1 && h && is_leaf(h & (h - 1), h & -h, hosts);
    if (!leaf) {
        sum = msi_emit_scratch(plan, MSI_ACC, count);
        msi_emit(plan, MSI_BEGIN, sum, in, count);
    }
    for (int bit = 1; v + bit < map.local && !(v & bit); bit *= 2)
        recv_and_reduce(plan, msi_host_map_rank(&map, map.host, start + v + bit), is_leaf(v, bit, map.local),
                        sum);
    for (int bit = 1; v == 0 && h + bit < hosts && !(h & bit); bit *= 2) {
        int host = msi_plus(h + bit, root_host, hosts);
        recv_and_reduce(plan, leader(&map, host, root),
                        msi_host_map_ranks(&map, host) == 1 && is_leaf(h, bit, hosts), sum);
    }
    if (v)
        msi_emit_send(plan, msi_host_map_rank(&map, map.host, start + (v & (v - 1))), sum, count);
    else if (h)
        msi_emit_send(plan, leader(&map, msi_plus(h & (h - 1), root_host, hosts), root), sum, count);
    else
        msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), sum, count);
}

/* Two nested binomial trees. Depth: the maximum number of 1 bits below n. The root has a child per bit. */
static void estimate_trees(const struct msi_request *request, struct msi_formula *f) {
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
    estimate_trees(request, f);
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
    estimate_trees(request, f);
    f->raw = (far + near) * count;
    f->host_raw = far * count;
    if (!request->in_place) f->copied = count;
    if (request->chunk && request->chunk < request->count) f->fill = (f->rounds - 1) * (double)request->chunk;
}

/* The messages of a barrier. Each waits for the last receive before it. */
struct signals {
    struct msi_plan *plan;
    uint32_t received; /* the last receive */
};

static void send_signal(struct signals *signals, int rank) {
    msi_emit_send(signals->plan, rank, msi_emit_scratch(signals->plan, MSI_RAW, 1), 1);
    msi_emit_order(signals->plan, signals->received, signals->plan->n - 1);
}

static void recv_signal(struct signals *signals, int rank) {
    msi_emit_recv(signals->plan, rank, msi_emit_scratch(signals->plan, MSI_RAW, 1), 1);
    msi_emit_order(signals->plan, signals->received, signals->plan->n - 1);
    signals->received = signals->plan->n - 1;
}

void msi_plan_hierarchical_barrier(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    struct signals signals = {plan, MSI_NO_STEP};
    int h = map.host, hosts = map.hosts, v = map.index[map.me];
    for (int bit = 1; v + bit < map.local && !(v & bit); bit *= 2)
        recv_signal(&signals, msi_host_map_rank(&map, h, v + bit));
    if (v) {
        send_signal(&signals, msi_host_map_rank(&map, h, v & (v - 1)));
        recv_signal(&signals, msi_host_map_rank(&map, h, v & (v - 1)));
    }
    for (int distance = 1; v == 0 && distance < hosts; distance *= 2) {
        send_signal(&signals, msi_host_map_rank(&map, msi_plus(h, distance, hosts), 0));
        recv_signal(&signals, msi_host_map_rank(&map, msi_minus(h, distance, hosts), 0));
    }
    int bit = 1;
    while (v + bit < map.local && !(v & bit)) bit *= 2;
    for (bit /= 2; bit >= 1; bit /= 2)
        if (v + bit < map.local) send_signal(&signals, msi_host_map_rank(&map, h, v + bit));
}

void msi_estimate_hierarchical_barrier(const struct msi_request *request, struct msi_formula *f) {
    int hosts = request->hosts.n, local = request->hosts.largest;
    f->remote_rounds = f->remote_messages = f->host_raw = msi_log2_ceil(hosts);
    f->rounds = 2 * msi_log2_floor(local) + f->remote_rounds;
    f->messages = f->raw = msi_log2_ceil(hosts) + msi_log2_ceil(local);
}
