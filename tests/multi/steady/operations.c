/* operations.c - the calls that steady.c watches. What they compute is for others to check. */
#include "steady.h"

enum { SMALL = 17, SIZES = 5, TAG = 3 };

static float *in_at(const struct setting *at, size_t i) {
    return (float *)at->in + i;
}

static float *out_at(const struct setting *at, size_t i) {
    return (float *)at->out + i;
}

static mst_status barrier(const struct setting *at, mst_call *call, int turn) {
    (void)at;
    (void)turn;
    return mst_barrier_with(call);
}

static mst_status broadcast(const struct setting *at, mst_call *call, int turn) {
    call->src = turn % at->size;
    return mst_broadcast_with(at->out, SMALL, MST_F32, call);
}

static mst_status all_reduce(const struct setting *at, mst_call *call, int turn) {
    (void)turn;
    return mst_all_reduce_with(at->out, SMALL, MST_F32, call);
}

static mst_status all_reduce_large(const struct setting *at, mst_call *call, int turn) {
    (void)turn;
    call->in = at->in;
    return mst_all_reduce_with(at->out, STEADY_LARGE, MST_F32, call);
}

/* A size that is never that of the call before. */
static mst_status all_reduce_changing(const struct setting *at, mst_call *call, int turn) {
    static const size_t sizes[SIZES] = {1, 300, SMALL, 5000, 40};
    return mst_all_reduce_with(at->out, sizes[turn % SIZES], turn % 2 ? MST_F32 : MST_BF16, call);
}

static mst_status inference_all_reduce(const struct setting *at, mst_call *call, int turn) {
    (void)turn;
    return mst_inference_all_reduce_with(at->out, SMALL, MST_F32, call);
}

static mst_status reduce(const struct setting *at, mst_call *call, int turn) {
    call->dst = turn % at->size;
    call->in = at->in;
    return mst_reduce_with(at->out, SMALL, MST_F32, call);
}

static mst_status all_gather_into_tensor(const struct setting *at, mst_call *call, int turn) {
    return mst_all_gather_into_tensor_with(at->out, at->in, turn % 50 ? SMALL : STEADY_LARGE, MST_F32, call);
}

static mst_status reduce_scatter_tensor(const struct setting *at, mst_call *call, int turn) {
    return mst_reduce_scatter_tensor_with(at->out, at->in, turn % 50 ? SMALL : STEADY_LARGE, MST_F32, call);
}

static mst_status gather(const struct setting *at, mst_call *call, int turn) {
    call->dst = turn % at->size;
    return mst_gather_with(at->out, at->in, SMALL, MST_F32, call);
}

static mst_status scatter(const struct setting *at, mst_call *call, int turn) {
    call->src = turn % at->size;
    return mst_scatter_with(at->out, at->in, SMALL, MST_F32, call);
}

static mst_status all_to_all_single(const struct setting *at, mst_call *call, int turn) {
    (void)turn;
    return mst_all_to_all_single_with(at->out, at->in, SMALL, MST_F32, call);
}

/* What rank a sends to rank b; in no two calls behind one another the same. */
static size_t block(int a, int b, int turn) {
    return (size_t)(a + 2 * b + turn) % SIZES;
}

static mst_status all_to_all_uneven(const struct setting *at, mst_call *call, int turn) {
    size_t to[STEADY_RANKS], from[STEADY_RANKS];
    for (int r = 0; r < at->size; r++) {
        to[r] = block(at->me, r, turn);
        from[r] = block(r, at->me, turn);
    }
    call->in_splits = to;
    call->out_splits = from;
    return mst_all_to_all_single_with(at->out, at->in, 0, MST_F32, call);
}

struct lists {
    const void *ins[STEADY_RANKS];
    void *outs[STEADY_RANKS];
    size_t counts[STEADY_RANKS];
};

/* A buffer for each rank, apart from each other; with turn, of different lengths. */
static struct lists lists(const struct setting *at, int turn) {
    struct lists made;
    for (int r = 0; r < STEADY_RANKS; r++) {
        made.ins[r] = in_at(at, (size_t)r * 2 * SMALL);
        made.outs[r] = out_at(at, (size_t)r * 2 * SMALL);
        made.counts[r] = SMALL + block(0, r, turn);
    }
    return made;
}

static mst_status all_to_all(const struct setting *at, mst_call *call, int turn) {
    struct lists l = lists(at, turn);
    return mst_all_to_all_with(l.outs, l.ins, SMALL, MST_F32, call);
}

static mst_status all_gather(const struct setting *at, mst_call *call, int turn) {
    struct lists l = lists(at, turn);
    return mst_all_gather_with(l.outs, at->in, SMALL, MST_F32, call);
}

static mst_status all_gather_uneven(const struct setting *at, mst_call *call, int turn) {
    struct lists l = lists(at, turn);
    call->counts = l.counts;
    return mst_all_gather_with(l.outs, at->in, 0, MST_F32, call);
}

static mst_status reduce_scatter(const struct setting *at, mst_call *call, int turn) {
    struct lists l = lists(at, turn);
    return mst_reduce_scatter_with(at->out, l.ins, SMALL, MST_F32, call);
}

static mst_status reduce_scatter_uneven(const struct setting *at, mst_call *call, int turn) {
    struct lists l = lists(at, turn);
    call->counts = l.counts;
    return mst_reduce_scatter_with(at->out, l.ins, 0, MST_F32, call);
}

static mst_status all_reduce_coalesced(const struct setting *at, mst_call *call, int turn) {
    struct lists l = lists(at, turn);
    return mst_all_reduce_coalesced_with(l.outs, l.counts, 2, MST_F32, call);
}

static int right(const struct setting *at) {
    return (at->me + 1) % at->size;
}

static int left(const struct setting *at) {
    return (at->me + at->size - 1) % at->size;
}

/* Round the ring, the first rank sending before it receives and the others after. */
static mst_status send_recv(const struct setting *at, mst_call *call, int turn) {
    mst_status st = MST_OK;
    (void)turn;
    for (int step = 0; step < 2 && st == MST_OK; step++) {
        bool sends = (at->me == 0) == (step == 0);
        call->dst = right(at);
        call->src = left(at);
        st = sends ? mst_send_with(at->in, SMALL, MST_F32, call)
                   : mst_recv_with(at->out, SMALL, MST_F32, call);
    }
    return st;
}

/* All send before they receive: what comes meanwhile is kept. */
static mst_status send_early(const struct setting *at, mst_call *call, int turn) {
    size_t count = turn % 50 ? SMALL : STEADY_LARGE / 100;
    call->dst = right(at);
    call->src = left(at);
    mst_status st = mst_send_with(at->in, count, MST_F32, call);
    return st == MST_OK ? mst_recv_with(at->out, count, MST_F32, call) : st;
}

static mst_status isend_irecv(const struct setting *at, mst_call *call, int turn) {
    mst_work **works = call->work;
    (void)turn;
    call->tag = TAG;
    call->dst = right(at);
    mst_status st = mst_isend_with(at->in, SMALL, MST_F32, call);
    call->work = works + 1;
    call->src = left(at);
    return st == MST_OK ? mst_irecv_with(at->out, SMALL, MST_F32, call) : st;
}

/* Everybody with everybody. */
static mst_status batch(const struct setting *at, mst_call *call, int turn) {
    mst_p2p ops[STEADY_WORKS];
    mst_call rest = {.size = sizeof rest, .site = call->site, .group = call->group};
    (void)turn;
    for (int r = 0; r < at->size; r++) {
        size_t offset = (size_t)r * SMALL;
        ops[2 * r] = (mst_p2p){in_at(at, offset), SMALL, MST_F32, r, TAG, true};
        ops[2 * r + 1] = (mst_p2p){out_at(at, offset), SMALL, MST_F32, r, TAG, false};
    }
    return mst_batch_isend_irecv_with(ops, 2 * (size_t)at->size, call->work, &rest);
}

const struct operation operations[] = {
    {"barrier", barrier, ANY_WAY},
    {"broadcast", broadcast, ANY_WAY},
    {"all_reduce", all_reduce, ANY_WAY},
    {"all_reduce of a large tensor", all_reduce_large, ANY_WAY},
    {"all_reduce of changing sizes", all_reduce_changing, ANY_WAY},
    {"inference_all_reduce", inference_all_reduce, ANY_WAY},
    {"reduce", reduce, ANY_WAY},
    {"all_gather_into_tensor", all_gather_into_tensor, ANY_WAY},
    {"reduce_scatter_tensor", reduce_scatter_tensor, ANY_WAY},
    {"gather", gather, ANY_WAY},
    {"scatter", scatter, ANY_WAY},
    {"all_to_all_single", all_to_all_single, ANY_WAY},
    {"all_to_all_single of uneven blocks", all_to_all_uneven, ANY_WAY},
    {"all_to_all", all_to_all, ANY_WAY},
    {"all_gather", all_gather, ANY_WAY},
    {"all_gather of uneven blocks", all_gather_uneven, ANY_WAY},
    {"reduce_scatter", reduce_scatter, ANY_WAY},
    {"reduce_scatter of uneven blocks", reduce_scatter_uneven, ANY_WAY},
    {"all_reduce_coalesced", all_reduce_coalesced, ANY_WAY},
    {"send and recv", send_recv, BLOCKS_ONLY},
    {"send before recv", send_early, BLOCKS_ONLY},
    {"isend and irecv", isend_irecv, WORKS_ONLY},
    {"batch_isend_irecv", batch, WORKS_ONLY},
    {0},
};
