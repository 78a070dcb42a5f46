/* messages.c - point-to-point messages, and byte strings whose length only the sender knows. */
#include "suite.h"

enum { TAGS = 3 };

/* Each case has its own tags, so that receives from any source match no message of another case. */
static int tag_of(const struct run *run, int k) {
    if (suite.device && !(run->shape.operation->traits & BYTES_ONLY))
        return 0; /* the order of the messages suffices */
    return (int)(run->shape.id % 100000) * TAGS + k;
}

static mst_call message(const struct run *run, const mst_call *call, int tag) {
    mst_call one = *call;
    one.tag = tag_of(run, tag);
    return one;
}

/* Sends to a group rank, blocking or with a work as the case says, or always with a work. */
static mst_status send_to(struct run *run, const mst_call *call, int peer, int tag, const void *data,
                          size_t count, bool work) {
    mst_call one = message(run, call, tag);
    bool begins = work || run->shape.how != BLOCKING;
    if (begins) one.work = &run->works[run->n_works++];
    if (!begins || run->shape.id % 3 == 0) return mst_send_with(data, count, run->shape.dtype, peer, &one);
    return mst_isend_with(data, count, run->shape.dtype, peer, &one);
}

/* Receives from a group rank; or from any source: then sets *sender. */
static mst_status receive_from(struct run *run, const mst_call *call, int peer, int tag, void *data,
                               size_t count, int *sender) {
    mst_call one = message(run, call, tag);
    one.sender = sender;
    if (run->shape.how == BLOCKING) return mst_recv_with(data, count, run->shape.dtype, peer, &one);
    one.work = &run->works[run->n_works++];
    if (run->shape.id % 3 == 0) return mst_recv_with(data, count, run->shape.dtype, peer, &one);
    return mst_irecv_with(data, count, run->shape.dtype, peer, &one);
}

static int right(const struct run *run) {
    return (run->me + 1) % run->n;
}

static int left(const struct run *run) {
    return (run->me + run->n - 1) % run->n;
}

/* The root sends a block to each other rank. */
static void plan_send(struct run *run) {
    size_t count = run->shape.count;
    if (run->me == run->shape.root)
        before(add_in(run, count * (size_t)run->n), COPY, run->me, 0, count * (size_t)run->n);
    else
        after(add_out(run, count), COPY, run->shape.root, (size_t)run->me * count, count);
}

static mst_status call_send(struct run *run, mst_call *call) {
    size_t count = run->shape.count;
    mst_status st = MST_OK;
    if (run->me != run->shape.root) {
        run->senders[0] = -1;
        return receive_from(run, call, run->shape.root, 0, run->out_list[0], count, &run->senders[0]);
    }
    for (int r = 0; r < run->n && st == MST_OK; r++)
        if (r != run->me)
            st = send_to(run, call, r, 0, (const char *)run->in_list[0] + (size_t)r * count * run->element,
                         count, false);
    return st;
}

static void settle_send(struct run *run) {
    if (run->me != run->shape.root && run->senders[0] != run->shape.root)
        fail_case(run, ".sender is %d, expected %d", run->senders[0], run->shape.root);
}

/* Sends to the right and receives from the left; a single rank sends to itself. */
static void plan_ring(struct run *run) {
    before(add_in(run, run->shape.count), COPY, run->me, 0, run->shape.count);
    after(add_out(run, run->shape.count), COPY, left(run), 0, run->shape.count);
}

static mst_status call_ring(struct run *run, mst_call *call) {
    mst_status st = send_to(run, call, right(run), 0, run->in_list[0], run->shape.count, true);
    if (st != MST_OK) return st;
    return receive_from(run, call, left(run), 0, run->out_list[0], run->shape.count, NULL);
}

static mst_status call_send_recv(struct run *run, mst_call *call) {
    mst_call one = message(run, call, 0);
    size_t count = run->shape.count;
    return mst_send_recv_with(run->out_list[0], count, left(run), run->in_list[0], count, right(run),
                              run->shape.dtype, &one);
}

/* The root receives from any source. */
static void plan_any_source(struct run *run) {
    size_t count = run->shape.count;
    if (run->me != run->shape.root) before(add_in(run, count), COPY, run->me, 0, count);
    for (int r = 1; r < run->n && run->me == run->shape.root; r++) add_out(run, count);
}

static mst_status call_any_source(struct run *run, mst_call *call) {
    mst_status st = MST_OK;
    if (run->me != run->shape.root)
        return send_to(run, call, run->shape.root, 0, run->in_list[0], run->shape.count, false);
    for (int k = 0; k < run->n - 1 && st == MST_OK; k++) {
        run->senders[k] = -1;
        st = receive_from(run, call, MST_ANY_SOURCE, 0, run->out_list[k], run->shape.count, &run->senders[k]);
    }
    return st;
}

static void settle_any_source(struct run *run) {
    bool seen[RANKS_MAX] = {false};
    for (int k = 0; k < run->n_outs; k++) {
        int rank = run->senders[k];
        if (rank < 0 || rank >= run->n || rank == run->me || seen[rank])
            fail_case(run, "receive %d: .sender is %d, which did not send, or has been received before", k,
                      run->senders[k]);
        seen[rank] = true;
        after(&run->outs[k], COPY, rank, 0, run->shape.count);
    }
}

/* Receives in another order than that of sending. */
static void plan_tags(struct run *run) {
    size_t count = run->shape.count;
    for (int k = 0; k < TAGS; k++) {
        before(add_in(run, count), COPY, run->me, (size_t)k * count, count);
        after(add_out(run, count), COPY, left(run), (size_t)k * count, count);
    }
}

static mst_status call_tags(struct run *run, mst_call *call) {
    mst_status st = MST_OK;
    for (int k = 0; k < TAGS && st == MST_OK; k++)
        st = send_to(run, call, right(run), k, run->in_list[k], run->shape.count, true);
    for (int k = TAGS - 1; k >= 0 && st == MST_OK; k--)
        st = receive_from(run, call, left(run), k, run->out_list[k], run->shape.count, NULL);
    return st;
}

/* Several messages of one tag arrive in the order in which they were sent. */
static mst_status call_ordered(struct run *run, mst_call *call) {
    mst_status st = MST_OK;
    for (int k = 0; k < TAGS && st == MST_OK; k++)
        st = send_to(run, call, right(run), 0, run->in_list[k], run->shape.count, true);
    for (int k = 0; k < TAGS && st == MST_OK; k++)
        st = receive_from(run, call, left(run), 0, run->out_list[k], run->shape.count, NULL);
    return st;
}

/* All ranks to all ranks, including themselves, in an order that would deadlock if executed one by one. */
static void plan_batch(struct run *run) {
    size_t count = run->shape.count;
    for (int r = 0; r < run->n; r++) {
        before(add_in(run, count), COPY, run->me, (size_t)r * count, count);
        after(add_out(run, count), COPY, r, (size_t)run->me * count, count);
    }
}

static mst_status call_batch(struct run *run, mst_call *call) {
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < run->n; r++) {
            bool send = pass == run->me % 2;
            run->messages[n++] =
                (mst_p2p){.send = send,
                          .buf = send ? (void *)(uintptr_t)run->in_list[r] : run->out_list[r],
                          .count = run->shape.count,
                          .dtype = run->shape.dtype,
                          .peer = r,
                          .tag = tag_of(run, 0)};
        }
    run->n_works = n;
    return mst_batch_isend_irecv(run->messages, (size_t)n, run->works, .group = call->group);
}

/* Byte strings: lengths differ from rank to rank. */
static size_t length(const struct run *run, int rank) {
    return rank % 3 == 2 ? 0 : run->shape.count + (size_t)rank * 5;
}

static void plan_bytes(struct run *run) {
    for (int r = 0; r < run->n; r++) before(add_in(run, length(run, r)), COPY, run->me, 0, length(run, r));
}

static void check_bytes(const struct run *run, int rank, size_t len, mst_bytes *bytes) {
    if (bytes->len != len) fail_case(run, "from rank %d: %zu bytes, expected %zu", rank, bytes->len, len);
    for (size_t i = 0; i < len; i++) {
        unsigned char wanted;
        input_at(run, rank, i, &wanted);
        if ((unsigned char)bytes->data[i] != wanted)
            fail_case(run, "from rank %d: first wrong index %zu of %zu: got %d, expected %d", rank, i, len,
                      (unsigned char)bytes->data[i], wanted);
    }
    if (bytes->data && bytes->data[len]) fail_case(run, "from rank %d: no NUL after the last byte", rank);
    mst_bytes_free(bytes);
    if (bytes->data || bytes->len) fail_case(run, "mst_bytes_free did not clear the struct");
}

static mst_status call_broadcast_bytes(struct run *run, mst_call *call) {
    int root = run->shape.root;
    mst_bytes out = {0};
    const void *data = run->me == root ? run->ins[root].data : NULL;
    mst_status st = mst_broadcast_bytes_with(&out, data, data ? length(run, root) : 0, call);
    if (st == MST_OK) check_bytes(run, root, length(run, root), &out);
    return st;
}

static mst_status call_all_gather_bytes(struct run *run, mst_call *call) {
    mst_bytes outs[RANKS_MAX] = {{0}};
    mst_status st = mst_all_gather_bytes_with(outs, run->in_list[run->me], length(run, run->me), call);
    for (int r = 0; r < run->n && st == MST_OK; r++) check_bytes(run, r, length(run, r), &outs[r]);
    return st;
}

static mst_status call_gather_bytes(struct run *run, mst_call *call) {
    mst_bytes outs[RANKS_MAX] = {{0}};
    bool root = run->me == run->shape.root;
    mst_status st =
        mst_gather_bytes_with(root ? outs : NULL, run->in_list[run->me], length(run, run->me), call);
    for (int r = 0; r < run->n && st == MST_OK && root; r++) check_bytes(run, r, length(run, r), &outs[r]);
    return st;
}

static mst_status call_scatter_bytes(struct run *run, mst_call *call) {
    mst_bytes ins[RANKS_MAX], out = {0};
    for (int r = 0; r < run->n; r++) ins[r] = (mst_bytes){run->ins[r].data, length(run, r)};
    mst_status st = mst_scatter_bytes_with(&out, run->me == run->shape.root ? ins : NULL, call);
    if (st == MST_OK) check_bytes(run, run->shape.root, length(run, run->me), &out);
    return st;
}

/* The root sends to each other rank. */
static mst_status call_send_bytes(struct run *run, mst_call *call) {
    mst_call one = message(run, call, 0);
    mst_status st = MST_OK;
    if (run->me != run->shape.root) {
        mst_bytes out = {0};
        st = mst_recv_bytes_with(&out, run->shape.root, &one);
        if (st == MST_OK) check_bytes(run, run->shape.root, length(run, run->me), &out);
        return st;
    }
    for (int r = 0; r < run->n && st == MST_OK; r++)
        if (r != run->me) st = mst_send_bytes_with(run->in_list[r], length(run, r), r, &one);
    return st;
}

const struct operation messaging[] = {
    {"send", OWN_WORKS, plan_send, call_send, settle_send},
    {"ring", OWN_WORKS, plan_ring, call_ring, NULL},
    {"send_recv", BLOCKS_ONLY, plan_ring, call_send_recv, NULL},
    {"any_source", OWN_WORKS | TAGGED, plan_any_source, call_any_source, settle_any_source},
    {"tags", OWN_WORKS | TAGGED, plan_tags, call_tags, NULL},
    {"ordered", OWN_WORKS, plan_tags, call_ordered, NULL},
    {"batch_isend_irecv", OWN_WORKS, plan_batch, call_batch, NULL},
    {"broadcast_bytes", BLOCKS_ONLY | BYTES_ONLY | ROOTED, plan_bytes, call_broadcast_bytes, NULL},
    {"all_gather_bytes", BLOCKS_ONLY | BYTES_ONLY, plan_bytes, call_all_gather_bytes, NULL},
    {"gather_bytes", BLOCKS_ONLY | BYTES_ONLY | ROOTED, plan_bytes, call_gather_bytes, NULL},
    {"scatter_bytes", BLOCKS_ONLY | BYTES_ONLY | ROOTED, plan_bytes, call_scatter_bytes, NULL},
    {"send_bytes", BLOCKS_ONLY | BYTES_ONLY, plan_bytes, call_send_bytes, NULL},
    {0},
};
