/*
 * hierarchical.c - minimizes the traffic between hosts; all ranks of a host share the remote traffic.
 *
 *      host A   0 ◀─▶ 1 ◀─▶ 2        H hosts of L ranks, n = H L, m elements
 *               ▲     ▲     ▲
 *               ▼     ▼     ▼        each part p of the buffer has one owner on each host
 *      host B   3 ◀─▶ 4 ◀─▶ 5
 *
 *  all_reduce      the owner of part p on each host reduces it, then a ring of the H owners; the owner
 *                  distributes it on its host. 2 + 2(H-1) rounds; each rank sends (L-1)/L m, (H-1)/H m/L sums
 *                  and as many results to other hosts, and (L-1)/L m; 2 (H-1)/H m leave each host
 *  all_gather      each block goes to one rank on each other host, which distributes it there.
 *                                         2 rounds, (n-1) m elements, L (H-1) m leave each host
 *  reduce_scatter  one rank on each host reduces a block and sends the partial sum to the block's owner.
 *                                         2 rounds, H (L-1) m elements and (H-1) m sums, L (H-1) m leave a
 *                                         host
 *
 * There are as many parts as the largest host has ranks; on a smaller host some ranks own several. Ranks may
 * be assigned to hosts in any order. hierarchical_tree.c has the tree algorithms.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"
#include "coll/host_map.h"

/* The rank on a host that handles the block of `rank`; on its own host, the rank itself. */
static int handler(const struct msi_host_map *map, int host, int rank) {
    return msi_host_map_rank(map, host, map->index[rank]);
}

/* The s-th neighbour on this host, 1 <= s < local. */
static int neighbour(const struct msi_host_map *map, int s) {
    return msi_host_map_rank(map, map->host, map->index[map->me] + s);
}

/* All ranks of the host send a span of IN to the owner, which reduces them into acc. */
static void reduce_on_host(struct msi_plan *plan, const struct msi_host_map *map, int owner,
                           struct msi_span span, struct msi_ref acc) {
    struct msi_ref mine = msi_ref(MSI_IN, span.at);
    if (owner != map->me) {
        msi_emit_send(plan, owner, mine, span.count);
        return;
    }
    msi_emit(plan, MSI_BEGIN, acc, mine, span.count);
    for (int s = 1; s < map->local; s++) {
        struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, span.count);
        msi_emit_recv(plan, neighbour(map, s), raw, span.count);
        msi_emit(plan, MSI_ADD, acc, raw, span.count);
    }
}

/* The owner sends a span of OUT to the other ranks of the host. */
static void broadcast_on_host(struct msi_plan *plan, const struct msi_host_map *map, int owner,
                              struct msi_ref from, struct msi_span span) {
    if (owner != map->me) {
        msi_emit_recv(plan, owner, msi_ref(MSI_OUT, span.at), span.count);
        return;
    }
    for (int s = 1; s < map->local; s++) msi_emit_send(plan, neighbour(map, s), from, span.count);
}

/* Block i of part p in the ring of owners. */
static struct msi_span ring_block(const struct msi_plan *plan, const struct msi_host_map *map, int p, int i) {
    struct msi_span part = msi_part(plan->request.count, plan->request.hosts.largest, p);
    struct msi_span block = msi_part(part.count, map->hosts, i);
    return (struct msi_span){part.at + block.at, block.count};
}

/* Round s of the reduce-scatter among the owners of part p; acc covers the whole buffer. */
static void ring_reduce(struct msi_plan *plan, const struct msi_host_map *map, int p, int s,
                        struct msi_ref acc) {
    int hosts = map->hosts, h = map->host;
    int left = msi_host_map_rank(map, msi_minus(h, 1, hosts), p),
        right = msi_host_map_rank(map, msi_plus(h, 1, hosts), p);
    struct msi_span out = ring_block(plan, map, p, msi_minus(h, (s + 1) % hosts, hosts));
    struct msi_span in = ring_block(plan, map, p, msi_minus(h, (s + 2) % hosts, hosts));
    struct msi_ref got = msi_emit_scratch(plan, MSI_ACC, in.count);
    msi_emit_send(plan, right, msi_ref_plus(acc, out.at), out.count);
    msi_emit_recv(plan, left, got, in.count);
    msi_emit(plan, MSI_MERGE, msi_ref_plus(acc, in.at), got, in.count);
}

/* Round s of the all-gather among the owners of part p. */
static void ring_gather(struct msi_plan *plan, const struct msi_host_map *map, int p, int s) {
    int hosts = map->hosts, h = map->host;
    int left = msi_host_map_rank(map, msi_minus(h, 1, hosts), p),
        right = msi_host_map_rank(map, msi_plus(h, 1, hosts), p);
    struct msi_span out = ring_block(plan, map, p, msi_minus(h, s, hosts));
    struct msi_span in = ring_block(plan, map, p, msi_minus(h, s + 1, hosts));
    msi_emit_send(plan, right, msi_ref(MSI_OUT, out.at), out.count);
    msi_emit_recv(plan, left, msi_ref(MSI_OUT, in.at), in.count);
}

void msi_plan_hierarchical_all_reduce(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    int parts = plan->request.hosts.largest, mine = map.index[map.me];
    struct msi_ref acc = msi_emit_scratch(plan, MSI_ACC, plan->request.count);
    for (int p = 0; p < parts; p++) {
        struct msi_span part = msi_part(plan->request.count, parts, p);
        reduce_on_host(plan, &map, msi_host_map_rank(&map, map.host, p), part, msi_ref_plus(acc, part.at));
    }
    for (int s = 0; s < map.hosts - 1; s++)
        for (int p = mine; p < parts; p += map.local) ring_reduce(plan, &map, p, s, acc);
    for (int p = mine; p < parts; p += map.local) {
        struct msi_span done = ring_block(plan, &map, p, map.host);
        msi_emit(plan, MSI_END, msi_ref(MSI_OUT, done.at), msi_ref_plus(acc, done.at), done.count);
    }
    for (int s = 0; s < map.hosts - 1; s++)
        for (int p = mine; p < parts; p += map.local) ring_gather(plan, &map, p, s);
    for (int s = 0; s < map.hosts; s++)
        for (int p = 0; p < parts; p++) {
            struct msi_span block = ring_block(plan, &map, p, msi_minus(map.host, s, map.hosts));
            broadcast_on_host(plan, &map, msi_host_map_rank(&map, map.host, p), msi_ref(MSI_OUT, block.at),
                              block);
        }
}

void msi_plan_hierarchical_all_gather(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    int me = map.me;
    struct msi_span mine = msi_plan_share(plan, me);
    for (int g = 1; g < map.hosts; g++) {
        int there = handler(&map, msi_plus(map.host, g, map.hosts), me);
        msi_emit_send(plan, there, msi_ref(MSI_IN, 0), mine.count);
    }
    for (int r = 0; r < map.n; r++) {
        struct msi_span block = msi_plan_share(plan, r);
        if (map.of[r] != map.host && handler(&map, map.host, r) == me)
            msi_emit_recv(plan, r, msi_ref(MSI_OUT, block.at), block.count);
    }
    for (int r = 0; r < map.n; r++) {
        struct msi_span block = msi_plan_share(plan, r);
        struct msi_ref from = r == me ? msi_ref(MSI_IN, 0) : msi_ref(MSI_OUT, block.at);
        broadcast_on_host(plan, &map, handler(&map, map.host, r), from, block);
    }
    msi_emit(plan, MSI_COPY, msi_ref(MSI_OUT, mine.at), msi_ref(MSI_IN, 0), mine.count);
}

void msi_plan_hierarchical_reduce_scatter(struct msi_plan *plan) {
    struct msi_host_map map;
    if (!msi_host_map_find(plan, &map)) return;
    struct msi_span mine = msi_plan_share(plan, map.me);
    struct msi_ref sum = msi_emit_scratch(plan, MSI_ACC, mine.count);
    for (int r = 0; r < map.n; r++) {
        int owner = handler(&map, map.host, r);
        struct msi_span block = msi_plan_share(plan, r);
        struct msi_ref acc = sum;
        if (owner == map.me && r != map.me) acc = msi_emit_scratch(plan, MSI_ACC, block.count);
        reduce_on_host(plan, &map, owner, block, acc);
        if (owner == map.me && r != map.me) msi_emit_send(plan, r, acc, block.count);
    }
    for (int g = 1; g < map.hosts; g++) {
        struct msi_ref got = msi_emit_scratch(plan, MSI_ACC, mine.count);
        int there = handler(&map, msi_plus(map.host, g, map.hosts), map.me);
        msi_emit_recv(plan, there, got, mine.count);
        msi_emit(plan, MSI_MERGE, sum, got, mine.count);
    }
    msi_emit(plan, MSI_END, msi_ref(MSI_OUT, 0), sum, mine.count);
}

void msi_estimate_hierarchical_all_reduce(const struct msi_request *request, struct msi_formula *f) {
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

void msi_estimate_hierarchical_all_gather(const struct msi_request *request, struct msi_formula *f) {
    double hosts = request->hosts.n, local = request->hosts.largest, count = (double)request->count;
    f->rounds = local > 1 ? 2 : 1;
    f->remote_rounds = 1;
    f->messages = (hosts * local - 1) * msi_pieces(request, count);
    f->remote_messages = (hosts - 1) * msi_pieces(request, count);
    f->raw = (hosts * local - 1) * count;
    f->host_raw = local * (hosts - 1) * count;
    if (!request->in_place) f->copied = count;
}

void msi_estimate_hierarchical_reduce_scatter(const struct msi_request *request, struct msi_formula *f) {
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
