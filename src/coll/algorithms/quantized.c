/*
 * quantized.c - all_reduce with .quantize: quantised elements (reduce/q8.h) between hosts, sums of f32 on
 * each host.
 *
 *      host A   0 ── 1        H hosts of L ranks, m elements
 *               ║    ║
 *      host B   2 ── 3        each part p of the buffer has one owner on each host, as in hierarchical.c
 *
 *  The owner of part p on each host reduces it in f32 and quantises one block for the owner on each other
 *  host. Each owner adds the blocks that it receives to its sum, quantises the result and sends it to the
 *  other owners and to the other ranks of its host, which also get the blocks of the other owners. All ranks,
 *  also the owner, convert the same bytes, so that they have the same result.
 *
 *  2 + 2 rounds (2 with one rank per host); each rank sends (L-1)/L m elements, and quantised 2 (H-1)/H m/L
 *  to other hosts and m (L-1)/L on its host; 2 (H-1)/H m quantised elements leave each host.
 *
 * A value of the result differs from the exact one by at most the sum, over the other hosts, of what their
 * quantised sums differ, and what the quantised total differs. Each is 1/254 of the largest magnitude of a
 * block of 32 values. That does not depend on the number of rounds, because there are two quantisations
 * between any input and the result.
 */
#include "coll/algorithms/planners.h"
#include "coll/emit.h"
#include "coll/host_map.h"
#include "reduce/q8.h"

static size_t whole_groups(size_t count) {
    return (count + MSI_Q8_VALUES - 1) / MSI_Q8_VALUES * MSI_Q8_VALUES;
}

struct layout {
    struct msi_host_map map;
    size_t count;
    int parts;
    struct msi_ref sum, sent, result; /* each covers the whole buffer; sum: IN if nothing is added to it */
};

/* Part p, and the block of it that the owner on a host sums. They begin at blocks of the quantisation. */
static struct msi_span span_of(const struct layout *l, int p, int host) {
    size_t groups = whole_groups(l->count) / MSI_Q8_VALUES;
    struct msi_span s = msi_part(groups, l->parts, p);
    if (host >= 0) {
        struct msi_span block = msi_part(s.count, l->map.hosts, host);
        s = (struct msi_span){s.at + block.at, block.count};
    }
    size_t at = s.at * MSI_Q8_VALUES, end = (s.at + s.count) * MSI_Q8_VALUES;
    if (end > l->count) end = l->count;
    return (struct msi_span){at, s.count ? end - at : 0};
}

static int owner(const struct layout *l, int host, int p) {
    return msi_host_map_rank(&l->map, host, p);
}

static int neighbour(const struct layout *l, int s) {
    return msi_host_map_rank(&l->map, l->map.host, l->map.index[l->map.me] + s);
}

/* Reduces part p of the ranks of this host at its owner. */
static void reduce_on_host(struct msi_plan *plan, const struct layout *l, int p) {
    struct msi_span part = span_of(l, p, -1);
    struct msi_ref sum = msi_ref_plus(l->sum, part.at), in = msi_ref(MSI_IN, part.at);
    int to = owner(l, l->map.host, p);
    if (to != l->map.me) {
        msi_emit_send(plan, to, in, part.count);
        return;
    }
    if (l->map.local > 1) msi_emit(plan, MSI_BEGIN, sum, in, part.count);
    for (int s = 1; s < l->map.local; s++) {
        struct msi_ref raw = msi_emit_scratch(plan, MSI_RAW, part.count);
        msi_emit_recv(plan, neighbour(l, s), raw, part.count);
        msi_emit(plan, MSI_ADD, sum, raw, part.count);
    }
}

/* Scratch for quantised elements begins at blocks. */
static struct msi_ref packed_scratch(struct msi_plan *plan, size_t count) {
    return msi_emit_scratch(plan, MSI_PACKED, whole_groups(count));
}

/* Quantises the blocks of part p for the other hosts. */
static void send_blocks(struct msi_plan *plan, const struct layout *l, int p) {
    for (int s = 1; s < l->map.hosts; s++) {
        int host = msi_plus(l->map.host, s, l->map.hosts);
        struct msi_span block = span_of(l, p, host);
        struct msi_ref sum = msi_ref_plus(l->sum, block.at), sent = msi_ref_plus(l->sent, block.at);
        msi_emit_pack(plan, sent, &sum, 1, block.count);
        msi_emit_send(plan, owner(l, host, p), sent, block.count);
    }
}

/* Receives those of this host's block of part p, adds them and quantises the result. */
static void sum_block(struct msi_plan *plan, const struct layout *l, int p) {
    struct msi_span own = span_of(l, p, l->map.host);
    struct msi_ref *sources = msi_emit_sources(plan, l->map.hosts);
    if (!sources) return;
    sources[0] = msi_ref_plus(l->sum, own.at);
    for (int s = 1; s < l->map.hosts; s++) {
        sources[s] = packed_scratch(plan, own.count);
        msi_emit_recv(plan, owner(l, msi_minus(l->map.host, s, l->map.hosts), p), sources[s], own.count);
    }
    msi_emit_pack(plan, msi_ref_plus(l->result, own.at), sources, l->map.hosts, own.count);
}

/* The block of part p that a host has summed: to this rank, and from this rank if it owns the part. */
static void distribute(struct msi_plan *plan, const struct layout *l, int p, int host) {
    struct msi_span block = span_of(l, p, host);
    struct msi_ref result = msi_ref_plus(l->result, block.at);
    int here = owner(l, l->map.host, p);
    if (here != l->map.me)
        msi_emit_recv(plan, here, result, block.count);
    else if (host != l->map.host)
        msi_emit_recv(plan, owner(l, host, p), result, block.count);
    else
        for (int s = 1; s < l->map.hosts; s++)
            msi_emit_send(plan, owner(l, msi_plus(host, s, l->map.hosts), p), result, block.count);
    for (int s = 1; s < l->map.local && here == l->map.me; s++)
        msi_emit_send(plan, neighbour(l, s), result, block.count);
    msi_emit(plan, MSI_UNPACK, msi_ref(MSI_OUT, block.at), result, block.count);
}

void msi_plan_quantized_all_reduce(struct msi_plan *plan) {
    struct layout l = {.count = plan->request.count, .parts = plan->request.hosts.largest};
    if (!msi_host_map_find(plan, &l.map)) return;
    plan->request.chunk = whole_groups(plan->request.chunk);
    int mine = l.map.index[l.map.me], local = l.map.local;
    l.sum = local > 1 ? msi_emit_scratch(plan, MSI_ACC, l.count) : msi_ref(MSI_IN, 0);
    l.sent = packed_scratch(plan, l.count);
    l.result = packed_scratch(plan, l.count);
    for (int p = 0; p < l.parts; p++) reduce_on_host(plan, &l, p);
    for (int p = mine; p < l.parts; p += local) send_blocks(plan, &l, p);
    for (int p = mine; p < l.parts; p += local) sum_block(plan, &l, p);
    for (int s = 0; s < l.map.hosts; s++)
        for (int p = 0; p < l.parts; p++) distribute(plan, &l, p, msi_minus(l.map.host, s, l.map.hosts));
}

/* Quantised elements count as 9/32 of one: 36 bytes are 32 elements. That is right for f32. */
void msi_estimate_quantized_all_reduce(const struct msi_request *request, struct msi_formula *f) {
    struct msi_request cut = *request;
    double hosts = request->hosts.n, local = request->hosts.largest, count = (double)request->count;
    double part = count / local, block = part / hosts, packed = (double)MSI_Q8_BLOCK / MSI_Q8_VALUES / 4;
    cut.chunk = whole_groups(request->chunk);
    f->rounds = local == 1 ? 2 : 4;
    f->remote_rounds = 2;
    f->messages = (local - 1) * msi_pieces(&cut, part) +
                  (2 * (hosts - 1) + (local - 1) * hosts) * msi_pieces(&cut, block);
    f->remote_messages = 2 * (hosts - 1) * msi_pieces(&cut, block);
    f->raw = (local - 1) * part + packed * ((local - 1) * part + 2 * (hosts - 1) * block);
    f->host_raw = packed * 2 * local * (hosts - 1) * block;
    f->combined = (local - 1) * part + (hosts - 1) * block;
    f->copied = part + block + count;
}
