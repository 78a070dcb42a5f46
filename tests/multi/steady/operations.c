/* operations.c - the calls that steady.c counts. Other tests check their results. */
#include "steady.h"

enum { SMALL = 17, SIZES = 5, TAG = 3 };

static float *in_at(const struct setting *at, size_t i) {
    return (float *)at->in + i;
}

static float *out_at(const struct setting *at, size_t i) {
    return (float *)at->out + i;
}

static mst_status barrier(const struct setting *at, mst_call *call, int call_number) {
    (void)at;
    (void)call_number;
    return mst_barrier_with(call);
}

static mst_status broadcast(const struct setting *at, mst_call *call, int call_number) {
    call->root = call_number % at->size;
    return mst_broadcast_with(at->out, SMALL, MST_F32, call);
}

static mst_status all_reduce(const struct setting *at, mst_call *call, int call_number) {
    (void)call_number;
    return mst_all_reduce_with(at->out, SMALL, MST_F32, call);
}

static mst_status all_reduce_large(const struct setting *at, mst_call *call, int call_number) {
    (void)call_number;
    call->in = at->in;
    return mst_all_reduce_with(at->out, STEADY_LARGE, MST_F32, call);
}

/* Another size in each call. */
static mst_status all_reduce_changing(const struct setting *at, mst_call *call, int call_number) {
    static const size_t sizes[SIZES] = {1, 300, SMALL, 5000, 40};
    return mst_all_reduce_with(at->out, sizes[call_number % SIZES], call_number % 2 ? MST_F32 : MST_BF16,
                               call);
}

static mst_status inference_all_reduce(const struct setting *at, mst_call *call, int call_number) {
    (void)call_number;
    return mst_inference_all_reduce_with(at->out, SMALL, MST_F32, call);
}

static mst_status reduce(const struct setting *at, mst_call *call, int call_number) {
    call->root = call_number % at->size;
    call->in = at->in;
    return mst_reduce_with(at->out, SMALL, MST_F32, call);
}

static mst_status scan(const struct setting *at, mst_call *call, int call_number) {
    (void)call_number;
    call->in = at->in;
    return mst_scan_with(at->out, SMALL, MST_F32, call);
}

static mst_status exscan(const struct setting *at, mst_call *call, int call_number) {
    (void)call_number;
    call->in = at->in;
    return mst_exscan_with(at->out, SMALL, MST_F32, call);
}

static mst_status all_gather_into_tensor(const struct setting *at, mst_call *call, int call_number) {
    return mst_all_gather_into_tensor_with(at->out, at->in, call_number % 50 ? SMALL : STEADY_LARGE, MST_F32,
                                           call);
}

static mst_status reduce_scatter_tensor(const struct setting *at, mst_call *call, int call_number) {
    return mst_reduce_scatter_tensor_with(at->out, at->in, call_number % 50 ? SMALL : STEADY_LARGE, MST_F32,
                                          call);
}

static mst_status gather(const struct setting *at, mst_call *call, int call_number) {
    call->root = call_number % at->size;
    return mst_gather_with(at->out, at->in, SMALL, MST_F32, call);
}

static mst_status scatter(const struct setting *at, mst_call *call, int call_number) {
    call->root = call_number % at->size;
    return mst_scatter_with(at->out, at->in, SMALL, MST_F32, call);
}

static mst_status all_to_all_single(const struct setting *at, mst_call *call, int call_number) {
    (void)call_number;
    return mst_all_to_all_single_with(at->out, at->in, SMALL, MST_F32, call);
}

/* Number of elements from rank a to rank b; different in consecutive calls. */
static size_t block(int a, int b, int call_number) {
    return (size_t)(a + 2 * b + call_number) % SIZES;
}

static mst_status all_to_all_uneven(const struct setting *at, mst_call *call, int call_number) {
    size_t to[STEADY_RANKS], from[STEADY_RANKS];
    for (int r = 0; r < at->size; r++) {
        to[r] = block(at->me, r, call_number);
        from[r] = block(r, at->me, call_number);
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

/* A separate buffer for each rank; with call_number, of different lengths. */
static struct lists lists(const struct setting *at, int call_number) {
    struct lists made;
    for (int r = 0; r < STEADY_RANKS; r++) {
        made.ins[r] = in_at(at, (size_t)r * 2 * SMALL);
        made.outs[r] = out_at(at, (size_t)r * 2 * SMALL);
        made.counts[r] = SMALL + block(0, r, call_number);
    }
    return made;
}

static mst_status all_to_all(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    return mst_all_to_all_with(l.outs, l.ins, SMALL, MST_F32, call);
}

static mst_status all_gather(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    return mst_all_gather_with(l.outs, at->in, SMALL, MST_F32, call);
}

static mst_status all_gather_uneven(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    call->counts = l.counts;
    return mst_all_gather_with(l.outs, at->in, 0, MST_F32, call);
}

static mst_status reduce_scatter(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    return mst_reduce_scatter_with(at->out, l.ins, SMALL, MST_F32, call);
}

static mst_status reduce_scatter_uneven(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    call->counts = l.counts;
    return mst_reduce_scatter_with(at->out, l.ins, 0, MST_F32, call);
}

static mst_status all_reduce_coalesced(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    return mst_all_reduce_coalesced_with(l.outs, l.counts, 2, MST_F32, call);
}

static mst_status broadcast_coalesced(const struct setting *at, mst_call *call, int call_number) {
    struct lists l = lists(at, call_number);
    return mst_broadcast_coalesced_with(l.outs, l.counts, 2, MST_F32, call);
}

static int right(const struct setting *at) {
    return (at->me + 1) % at->size;
}

static int left(const struct setting *at) {
    return (at->me + at->size - 1) % at->size;
}

/* Around the ring: rank 0 sends first, the others receive first. */
static mst_status send_recv(const struct setting *at, mst_call *call, int call_number) {
    mst_status st = MST_OK;
    (void)call_number;
    for (int step = 0; step < 2 && st == MST_OK; step++) {
        bool sends = (at->me == 0) == (step == 0);
        st = sends ? mst_send_with(at->in, SMALL, MST_F32, right(at), call)
                   : mst_recv_with(at->out, SMALL, MST_F32, left(at), call);
    }
    return st;
}

/* All ranks send before they receive, so messages arrive unexpected. */
static mst_status send_early(const struct setting *at, mst_call *call, int call_number) {
    size_t count = call_number % 50 ? SMALL : STEADY_LARGE / 100;
    mst_status st = mst_send_with(at->in, count, MST_F32, right(at), call);
    return st == MST_OK ? mst_recv_with(at->out, count, MST_F32, left(at), call) : st;
}

/* Both directions at once: small messages that go at once, and large ones. */
static mst_status send_recv_at_once(const struct setting *at, mst_call *call, int call_number) {
    size_t count = call_number % 50 ? SMALL : STEADY_LARGE / 100;
    return mst_send_recv_with(at->out, count, left(at), at->in, count, right(at), MST_F32, call);
}

/* The messages are unexpected, and received with any tag. */
static mst_status probe_recv(const struct setting *at, mst_call *call, int call_number) {
    mst_message m;
    (void)call_number;
    call->tag = TAG;
    mst_status st = mst_send_with(at->in, SMALL, MST_F32, right(at), call);
    call->tag = MST_ANY_TAG;
    if (st == MST_OK) st = mst_probe_with(left(at), &m, call);
    return st == MST_OK ? mst_recv_with(at->out, SMALL, MST_F32, MST_ANY_SOURCE, call) : st;
}

static mst_status isend_irecv(const struct setting *at, mst_call *call, int call_number) {
    mst_work **works = call->work;
    (void)call_number;
    call->tag = TAG;
    mst_status st = mst_isend_with(at->in, SMALL, MST_F32, right(at), call);
    call->work = works + 1;
    return st == MST_OK ? mst_irecv_with(at->out, SMALL, MST_F32, left(at), call) : st;
}

/* Messages between all pairs of ranks. */
static mst_status batch(const struct setting *at, mst_call *call, int call_number) {
    mst_p2p ops[STEADY_WORKS];
    mst_call rest = {.size = sizeof rest, .site = call->site, .group = call->group};
    (void)call_number;
    for (int r = 0; r < at->size; r++) {
        size_t offset = (size_t)r * SMALL;
        ops[2 * r] = (mst_p2p){in_at(at, offset), SMALL, MST_F32, r, TAG, true};
        ops[2 * r + 1] = (mst_p2p){out_at(at, offset), SMALL, MST_F32, r, TAG, false};
    }
    return mst_batch_isend_irecv_with(ops, 2 * (size_t)at->size, call->work, &rest);
}

/* An iteration of a reducer, with a bucket that is copied and one in place. */
static mst_bucket_reducer *reducers[STEADY_GROUPS];
static mst_status bucket(const struct setting *at, mst_call *call, int call_number) {
    static const mst_group *groups[STEADY_GROUPS];
    mst_status st = MST_OK;
    int i = 0;
    (void)call_number;
    while (reducers[i] && groups[i] != call->group) i++;
    if (!reducers[i]) {
        groups[i] = call->group;
        mst_tensor tensors[] = {{in_at(at, 0), STEADY_LARGE, MST_F32, NULL},
                                {out_at(at, 0), SMALL, MST_F32, NULL},
                                {out_at(at, 2 * SMALL), SMALL, MST_F32, NULL}};
        st = mst_bucket_create(tensors, 3, &reducers[i], .bucket_bytes = 4096, .group = call->group);
    }
    for (size_t t = 0; t < 3 && st == MST_OK; t++) st = mst_bucket_ready(reducers[i], t);
    return st == MST_OK ? mst_bucket_wait(reducers[i]) : st;
}

void free_reducers(void) {
    for (int i = 0; i < STEADY_GROUPS; i++) {
        mst_bucket_free(reducers[i]);
        reducers[i] = NULL;
    }
}

const struct operation operations[] = {
    {"barrier", barrier, ALL_FORMS},
    {"broadcast", broadcast, ALL_FORMS},
    {"all_reduce", all_reduce, ALL_FORMS},
    {"all_reduce of a large tensor", all_reduce_large, ALL_FORMS},
    {"all_reduce of changing sizes", all_reduce_changing, ALL_FORMS},
    {"inference_all_reduce", inference_all_reduce, ALL_FORMS},
    {"reduce", reduce, ALL_FORMS},
    {"scan", scan, ALL_FORMS},
    {"exscan", exscan, ALL_FORMS},
    {"all_gather_into_tensor", all_gather_into_tensor, ALL_FORMS},
    {"reduce_scatter_tensor", reduce_scatter_tensor, ALL_FORMS},
    {"gather", gather, ALL_FORMS},
    {"scatter", scatter, ALL_FORMS},
    {"all_to_all_single", all_to_all_single, ALL_FORMS},
    {"all_to_all_single of uneven blocks", all_to_all_uneven, ALL_FORMS},
    {"all_to_all", all_to_all, ALL_FORMS},
    {"all_gather", all_gather, ALL_FORMS},
    {"all_gather of uneven blocks", all_gather_uneven, ALL_FORMS},
    {"reduce_scatter", reduce_scatter, ALL_FORMS},
    {"reduce_scatter of uneven blocks", reduce_scatter_uneven, ALL_FORMS},
    {"all_reduce_coalesced", all_reduce_coalesced, ALL_FORMS},
    {"broadcast_coalesced", broadcast_coalesced, ALL_FORMS},
    {"send and recv", send_recv, BLOCKING_ONLY},
    {"send before recv", send_early, BLOCKING_ONLY},
    {"send_recv", send_recv_at_once, BLOCKING_ONLY},
    {"send, probe and recv", probe_recv, BLOCKING_ONLY},
    {"isend and irecv", isend_irecv, WORKS_ONLY},
    {"batch_isend_irecv", batch, WORKS_ONLY},
    {"bucket", bucket, WORKS_ONLY},
    {0},
};
