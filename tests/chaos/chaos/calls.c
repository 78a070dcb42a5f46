/* calls.c - the calls of a random program. See calls.h. */
#include "calls.h"

#include <string.h>

int32_t value(const struct step *s, int rank, size_t i) {
    return (int32_t)((s->number * 7 + (uint64_t)rank * 13 + i) & 1023);
}

/* What a rank gets in element i of its result. */

static int32_t sum_of(const struct step *s, int ranks, size_t i) {
    int32_t sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(s, r, i);
    return sum;
}

static int32_t reduced(const struct step *s, size_t i) {
    return sum_of(s, s->team->size, i);
}

static int32_t scanned(const struct step *s, size_t i) {
    return sum_of(s, s->team->rank + 1, i);
}

static int32_t scanned_before(const struct step *s, size_t i) {
    return sum_of(s, s->team->rank, i);
}

static int32_t of_root(const struct step *s, size_t i) {
    return value(s, s->root, i);
}

static int32_t of_last(const struct step *s, size_t i) {
    return value(s, s->last, i);
}

static int32_t gathered(const struct step *s, size_t i) {
    return value(s, (int)(i / s->n), i % s->n);
}

static int32_t scattered(const struct step *s, size_t i) {
    return value(s, s->root, (size_t)s->team->rank * s->n + i);
}

static int32_t exchanged(const struct step *s, size_t i) {
    return value(s, (int)(i / s->n), (size_t)s->team->rank * s->n + i % s->n);
}

static int32_t reduced_block(const struct step *s, size_t i) {
    return reduced(s, (size_t)s->team->rank * s->n + i);
}

/* The coalesced calls have two tensors, of n/2 elements and of the others. */
static int32_t gathered_twice(const struct step *s, size_t i) {
    size_t first = s->n / 2, size = (size_t)s->team->size;
    if (i < size * first) return value(s, (int)(i / first), i % first);
    i -= size * first;
    return value(s, (int)(i / (s->n - first)), first + i % (s->n - first));
}

static int32_t reduced_twice(const struct step *s, size_t i) {
    size_t first = s->n / 2, size = (size_t)s->team->size, rank = (size_t)s->team->rank;
    return reduced(s, i < first ? rank * first + i : size * first + rank * (s->n - first) + i - first);
}

/* The calls. */

#define ON .group = s->team->group, .work = s->async
#define CALL(name, ...)                                                                                      \
    static mst_status name(struct step *s) {                                                                 \
        return mst_##name(__VA_ARGS__, ON);                                                                  \
    }
CALL(all_reduce, s->out, s->n, MST_I32, .in = s->in)
CALL(inference_all_reduce, s->out, s->n, MST_I32, .in = s->in)
CALL(broadcast, s->out, s->n, MST_I32, .in = s->in, .root = s->root)
CALL(reduce, s->out, s->n, MST_I32, .in = s->in, .root = s->root)
CALL(scan, s->out, s->n, MST_I32, .in = s->in)
CALL(exscan, s->out, s->n, MST_I32, .in = s->in)
CALL(all_gather_into_tensor, s->out, s->in, s->n, MST_I32)
CALL(reduce_scatter_tensor, s->out, s->in, s->n, MST_I32)
CALL(gather, s->out, s->in, s->n, MST_I32, .root = s->root)
CALL(scatter, s->out, s->in, s->n, MST_I32, .root = s->root)
CALL(all_to_all_single, s->out, s->in, s->n, MST_I32)

/* The list forms. */
static void list(const struct step *s, int32_t *first, void *blocks[RANKS_MOST]) {
    for (int r = 0; r < s->team->size; r++) blocks[r] = first + (size_t)r * s->n;
}

static mst_status all_gather(struct step *s) {
    void *outs[RANKS_MOST];
    list(s, s->out, outs);
    return mst_all_gather(outs, s->in, s->n, MST_I32, ON);
}

static mst_status reduce_scatter(struct step *s) {
    void *ins[RANKS_MOST];
    list(s, s->in, ins);
    return mst_reduce_scatter(s->out, (const void *const *)ins, s->n, MST_I32, ON);
}

static mst_status all_to_all(struct step *s) {
    void *ins[RANKS_MOST], *outs[RANKS_MOST];
    list(s, s->in, ins);
    list(s, s->out, outs);
    return mst_all_to_all(outs, (const void *const *)ins, s->n, MST_I32, ON);
}

/* Two tensors in one buffer: times is the number of blocks in each. */
#define TENSORS(buffer, times)                                                                               \
    { buffer, (buffer) + s->n / 2 * (size_t)(times) }
#define TENSOR_COUNTS                                                                                        \
    { s->n / 2, s->n - s->n / 2 }

static mst_status all_reduce_coalesced(struct step *s) {
    s->out = s->in;
    return mst_all_reduce_coalesced(((void *[])TENSORS(s->in, 1)), ((size_t[])TENSOR_COUNTS), 2, MST_I32, ON);
}

static mst_status broadcast_coalesced(struct step *s) {
    s->out = s->in;
    return mst_broadcast_coalesced(((void *[])TENSORS(s->in, 1)), ((size_t[])TENSOR_COUNTS), 2, MST_I32,
                                   .root = s->root, ON);
}

static mst_status all_gather_coalesced(struct step *s) {
    void *outs[] = TENSORS(s->out, s->team->size);
    const void *ins[] = TENSORS(s->in, 1);
    return mst_all_gather_coalesced(outs, ins, ((size_t[])TENSOR_COUNTS), 2, MST_I32, ON);
}

static mst_status reduce_scatter_coalesced(struct step *s) {
    void *outs[] = TENSORS(s->out, 1);
    const void *ins[] = TENSORS(s->in, s->team->size);
    return mst_reduce_scatter_coalesced(outs, ins, ((size_t[])TENSOR_COUNTS), 2, MST_I32, ON);
}

/* Byte strings: moves those that a call has returned into the output. */
static void unpack(const struct step *s, mst_bytes *strings, int n) {
    for (int r = 0; r < n; r++) {
        if (strings[r].len == s->n * sizeof *s->out)
            memcpy(s->out + (size_t)r * s->n, strings[r].data, strings[r].len);
        mst_bytes_free(&strings[r]);
    }
}

static mst_status broadcast_bytes(struct step *s) {
    mst_bytes got = {0};
    mst_status st =
        mst_broadcast_bytes(&got, s->in, s->n * sizeof *s->in, .root = s->root, .group = s->team->group);
    unpack(s, &got, st == MST_OK);
    return st;
}

static mst_status all_gather_bytes(struct step *s) {
    mst_bytes got[RANKS_MOST] = {{0}};
    mst_status st = mst_all_gather_bytes(got, s->in, s->n * sizeof *s->in, .group = s->team->group);
    unpack(s, got, st == MST_OK ? s->team->size : 0);
    return st;
}

static mst_status gather_bytes(struct step *s) {
    mst_bytes got[RANKS_MOST] = {{0}};
    mst_status st =
        mst_gather_bytes(got, s->in, s->n * sizeof *s->in, .root = s->root, .group = s->team->group);
    unpack(s, got, st == MST_OK && s->team->rank == s->root ? s->team->size : 0);
    return st;
}

static mst_status scatter_bytes(struct step *s) {
    mst_bytes got = {0}, parts[RANKS_MOST];
    for (int r = 0; r < s->team->size; r++)
        parts[r] = (mst_bytes){(char *)(s->in + (size_t)r * s->n), s->n * sizeof *s->in};
    mst_status st = mst_scatter_bytes(&got, parts, .root = s->root, .group = s->team->group);
    unpack(s, &got, st == MST_OK);
    return st;
}

/* A message to the next rank and one from the last. A tag of its own keeps the steps apart. */
#define TAG .tag = (int)(s->number & 0xffff), .group = s->team->group

static mst_status ring(struct step *s) {
    mst_work *works[2] = {NULL, NULL};
    int from = s->number / 3 % 2 ? s->last : MST_ANY_SOURCE;
    mst_status st = mst_irecv(s->out, s->n, MST_I32, from, .work = &works[0], TAG);
    if (st != MST_OK) return st;
    st = note(s->async ? mst_isend(s->in, s->n, MST_I32, s->next, .work = &works[1], TAG)
                       : mst_send(s->in, s->n, MST_I32, s->next, TAG));
    mst_status received = mst_wait_all(works, 2);
    return st == MST_OK ? received : st;
}

static mst_status ring_at_once(struct step *s) {
    return mst_send_recv(s->out, s->n, s->last, s->in, s->n, s->next, MST_I32, TAG);
}

static mst_status ring_batch(struct step *s) {
    int tag = (int)(s->number & 0xffff);
    mst_p2p messages[] = {{s->in, s->n, MST_I32, s->next, tag, true},
                          {s->out, s->n, MST_I32, s->last, tag, false}};
    mst_work *works[2];
    mst_status st = mst_batch_isend_irecv(messages, 2, works, .group = s->team->group);
    return st == MST_OK ? mst_wait_all(works, 2) : st;
}

static mst_status ring_probed(struct step *s) {
    mst_work *work;
    mst_message found;
    mst_status st = mst_isend(s->in, s->n, MST_I32, s->next, .work = &work, TAG);
    if (st != MST_OK) return st;
    mst_status received = note(mst_probe(s->last, &found, TAG));
    if (received == MST_OK)
        received = note(mst_recv(s->out, found.bytes / sizeof *s->out, MST_I32, found.sender, TAG));
    st = mst_wait(work);
    return received == MST_OK ? st : received;
}

/* Every other rank sends first. */
static mst_status ring_bytes(struct step *s) {
    if (s->team->size == 1) return ring_at_once(s);
    mst_bytes got = {0};
    mst_status st = MST_OK;
    for (int turn = 0; turn < 2 && st == MST_OK; turn++)
        st = turn == s->team->rank % 2 ? mst_send_bytes(s->in, s->n * sizeof *s->in, s->next, TAG)
                                       : mst_recv_bytes(&got, s->last, TAG);
    unpack(s, &got, st == MST_OK);
    mst_bytes_free(&got);
    return st;
}

static mst_status barrier(struct step *s) {
    return mst_barrier(ON);
}

static mst_status monitored_barrier(struct step *s) {
    return mst_monitored_barrier(ON);
}

static mst_status agree(struct step *s) {
    uint64_t flags = ~(UINT64_C(1) << s->team->rank);
    mst_status st = mst_agree(&flags, .group = s->team->group);
    s->out[0] = st == MST_OK && ~flags == (UINT64_C(1) << s->team->size) - 1 ? of_root(s, 0) : -1;
    return st;
}

const struct kind kinds[] = {
#define KIND(call, wanted, flags)                                                                            \
    { call, wanted, flags, #call }
    KIND(all_reduce, reduced, PLACE | WORK),
    KIND(inference_all_reduce, reduced, PLACE | WORK),
    KIND(broadcast, of_root, PLACE | WORK),
    KIND(reduce, reduced, PLACE | ROOT | WORK),
    KIND(scan, scanned, PLACE | WORK),
    KIND(exscan, scanned_before, PLACE | WORK),
    KIND(all_gather_into_tensor, gathered, OUTS | WORK),
    KIND(reduce_scatter_tensor, reduced_block, INS | WORK),
    KIND(gather, gathered, OUTS | ROOT | WORK),
    KIND(scatter, scattered, INS | WORK),
    KIND(all_to_all_single, exchanged, INS | OUTS | WORK),
    KIND(all_gather, gathered, OUTS | WORK),
    KIND(reduce_scatter, reduced_block, INS | WORK),
    KIND(all_to_all, exchanged, INS | OUTS | WORK),
    KIND(all_reduce_coalesced, reduced, WORK),
    KIND(broadcast_coalesced, of_root, WORK),
    KIND(all_gather_coalesced, gathered_twice, OUTS | WORK),
    KIND(reduce_scatter_coalesced, reduced_twice, INS | WORK),
    KIND(broadcast_bytes, of_root, 0),
    KIND(all_gather_bytes, gathered, OUTS),
    KIND(gather_bytes, gathered, OUTS | ROOT),
    KIND(scatter_bytes, scattered, INS),
    KIND(ring, of_last, WORK),
    KIND(ring_at_once, of_last, 0),
    KIND(ring_batch, of_last, 0),
    KIND(ring_probed, of_last, 0),
    KIND(ring_bytes, of_last, 0),
    KIND(barrier, NULL, NONE | WORK),
    KIND(monitored_barrier, NULL, NONE | WORK),
    KIND(agree, of_root, ONE),
#undef KIND
};
const size_t n_kinds = sizeof kinds / sizeof *kinds;
