/* mismatch.c - ranks that make different calls. Rank ODD makes the odd one. See struct ranks_case. */
#include "misuse.h"

#include <stddef.h>
#include <string.h>

#define ODDLY   (me == ODD)
#define OPTIONS .group = group, .work = work

/* Different operations */

static mst_status reduce_among_all_reduce(void) {
    if (ODDLY) return mst_reduce(out, SMALL, MST_F32, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status all_reduce_among_reduce(void) {
    if (ODDLY) return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
    return mst_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status large_reduce_among_all_reduce(void) {
    if (ODDLY) return mst_reduce(out, LARGE, MST_F32, OPTIONS);
    return mst_all_reduce(out, LARGE, MST_F32, OPTIONS);
}
static mst_status gather_among_scatter(void) {
    if (ODDLY) return mst_gather(out, in, SMALL, MST_F32, OPTIONS);
    return mst_scatter(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status scatter_among_gather(void) {
    if (ODDLY) return mst_scatter(out, in, SMALL, MST_F32, OPTIONS);
    return mst_gather(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status large_gather_among_scatter(void) {
    if (ODDLY) return mst_gather(out, in, LARGE, MST_F32, OPTIONS);
    return mst_scatter(out, in, LARGE, MST_F32, OPTIONS);
}
static mst_status broadcast_among_all_reduce(void) {
    if (ODDLY) return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status broadcast_among_reduce(void) {
    if (ODDLY) return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
    return mst_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status broadcast_among_gather(void) {
    if (ODDLY) return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
    return mst_gather(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status broadcast_among_scatter(void) {
    if (ODDLY) return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
    return mst_scatter(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status all_gather_among_reduce_scatter(void) {
    if (ODDLY) return mst_all_gather_into_tensor(out, in, SMALL, MST_F32, OPTIONS);
    return mst_reduce_scatter_tensor(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status all_to_all_among_all_gather(void) {
    if (ODDLY) return mst_all_to_all_single(out, in, SMALL, MST_F32, OPTIONS);
    return mst_all_gather_into_tensor(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status large_all_to_all_among_all_gather(void) {
    if (ODDLY) return mst_all_to_all_single(out, in, LARGE, MST_F32, OPTIONS);
    return mst_all_gather_into_tensor(out, in, LARGE, MST_F32, OPTIONS);
}
static mst_status all_gather_among_gather(void) {
    if (ODDLY) return mst_all_gather_into_tensor(out, in, SMALL, MST_F32, OPTIONS);
    return mst_gather(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status two_calls_in_other_order(void) {
    for (int i = 0; i < 2; i++) {
        mst_status st = (i == 0) == ODDLY ? mst_reduce(out, SMALL, MST_F32, .group = group)
                                          : mst_broadcast(out, SMALL, MST_F32, .group = group);
        if (st != MST_OK) return st;
    }
    return MST_OK;
}
static mst_status one_call_left_out(void) {
    mst_status st = ODDLY ? MST_OK : mst_gather(out, in, SMALL, MST_F32, .group = group);
    return st == MST_OK ? mst_all_reduce(out, SMALL, MST_F32, OPTIONS) : st;
}

/* Barriers against collectives */

static mst_status barrier_among_all_reduce(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_broadcast(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_broadcast_from_it(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_broadcast(out, SMALL, MST_F32, .root = ODD, OPTIONS);
}
static mst_status barrier_among_reduce(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_gather(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_gather(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_scatter(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_scatter(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_all_gather(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_all_gather_into_tensor(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_reduce_scatter(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_reduce_scatter_tensor(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_all_to_all(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_all_to_all_single(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status barrier_among_large_all_reduce(void) {
    if (ODDLY) return mst_barrier(OPTIONS);
    return mst_all_reduce(out, LARGE, MST_F32, OPTIONS);
}
static mst_status broadcast_among_barriers(void) {
    if (ODDLY) return mst_broadcast(out, SMALL, MST_F32, .root = ODD, OPTIONS);
    return mst_barrier(OPTIONS);
}
static mst_status reduce_among_barriers(void) {
    if (ODDLY) return mst_reduce(out, SMALL, MST_F32, OPTIONS);
    return mst_barrier(OPTIONS);
}
static mst_status scatter_among_barriers(void) {
    if (ODDLY) return mst_scatter(out, in, SMALL, MST_F32, OPTIONS);
    return mst_barrier(OPTIONS);
}
static mst_status monitored_barrier_among_barriers(void) {
    if (ODDLY) return mst_monitored_barrier(OPTIONS);
    return mst_barrier(OPTIONS);
}
static mst_status all_reduce_among_monitored_barriers(void) {
    if (ODDLY) return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
    return mst_monitored_barrier(OPTIONS);
}

/* Different roots */

static mst_status two_broadcast_roots(void) {
    return mst_broadcast(out, SMALL, MST_F32, .root = ODDLY ? ODD : 0, OPTIONS);
}
/* Both broadcasts were made before by all ranks, so that the roots do not wait. */
static mst_status roots_of_known_broadcasts(void) {
    for (int i = 0; i < 3; i++) {
        mst_status st = mst_broadcast(out, SMALL, MST_F32, .group = group);
        if (st == MST_OK) st = mst_broadcast(out, SMALL, MST_F32, .root = ODD, .group = group);
        if (st != MST_OK) return st;
    }
    return mst_broadcast(out, SMALL, MST_F32, .root = ODDLY ? ODD : 0, OPTIONS);
}
/* The same, but each rank waits for a root. */
static mst_status no_root_of_known_broadcasts(void) {
    mst_status st = mst_broadcast(out, SMALL, MST_F32, .group = group);
    if (st == MST_OK) st = mst_broadcast(out, SMALL, MST_F32, .root = ODD, .group = group);
    if (st != MST_OK) return st;
    return mst_broadcast(out, SMALL, MST_F32, .root = ODDLY ? 0 : ODD, OPTIONS);
}
static mst_status two_large_broadcast_roots(void) {
    return mst_broadcast(out, LARGE, MST_F32, .root = ODDLY ? ODD : 0, OPTIONS);
}
static mst_status every_rank_a_broadcast_root(void) {
    return mst_broadcast(out, SMALL, MST_F32, .root = me, OPTIONS);
}
static mst_status no_broadcast_root(void) {
    return mst_broadcast(out, SMALL, MST_F32, .root = ODDLY ? 0 : ODD, OPTIONS);
}
static mst_status two_reduce_roots(void) {
    return mst_reduce(out, SMALL, MST_F32, .root = ODDLY ? ODD : 0, OPTIONS);
}
static mst_status two_gather_roots(void) {
    return mst_gather(out, in, SMALL, MST_F32, .root = ODDLY ? ODD : 0, OPTIONS);
}
static mst_status two_scatter_roots(void) {
    return mst_scatter(out, in, SMALL, MST_F32, .root = ODDLY ? ODD : 0, OPTIONS);
}
static mst_status no_scatter_root(void) {
    return mst_scatter(out, in, SMALL, MST_F32, .root = ODDLY ? 0 : ODD, OPTIONS);
}

/* Different counts */

static size_t count_of(size_t others) {
    return others + (size_t)ODDLY;
}
static mst_status all_reduce_counts(void) {
    return mst_all_reduce(out, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status large_all_reduce_counts(void) {
    return mst_all_reduce(out, count_of(LARGE), MST_F32, OPTIONS);
}
static mst_status all_reduce_of_nothing(void) {
    return mst_all_reduce(out, ODDLY ? 0 : SMALL, MST_F32, OPTIONS);
}
static mst_status small_among_large_all_reduce(void) {
    return mst_all_reduce(out, ODDLY ? 1 : LARGE, MST_F32, OPTIONS);
}
static mst_status broadcast_counts(void) {
    return mst_broadcast(out, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status broadcast_counts_of_root(void) {
    return mst_broadcast(out, count_of(SMALL), MST_F32, .root = ODD, OPTIONS);
}
static mst_status large_broadcast_counts(void) {
    return mst_broadcast(out, count_of(LARGE), MST_F32, OPTIONS);
}
static mst_status reduce_counts(void) {
    return mst_reduce(out, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status gather_counts(void) {
    return mst_gather(out, in, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status scatter_counts(void) {
    return mst_scatter(out, in, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status all_gather_counts(void) {
    return mst_all_gather_into_tensor(out, in, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status reduce_scatter_counts(void) {
    return mst_reduce_scatter_tensor(out, in, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status all_to_all_counts(void) {
    return mst_all_to_all_single(out, in, count_of(SMALL), MST_F32, OPTIONS);
}
static mst_status list_counts(void) {
    const size_t counts[RANKS_MAX] = {1, count_of(1), 1, 1};
    return mst_all_gather(outs, in, 0, MST_F32, .counts = counts, OPTIONS);
}
static mst_status gather_list_counts(void) {
    const size_t counts[RANKS_MAX] = {2, count_of(8), 2, 2};
    return mst_gather(out, in, counts[mst_get_rank(NULL)], MST_F32, .counts = counts, OPTIONS);
}
static mst_status scatter_list_counts(void) {
    const size_t counts[RANKS_MAX] = {2, count_of(8), 2, 2};
    return mst_scatter(out, in, counts[mst_get_rank(NULL)], MST_F32, .counts = counts, OPTIONS);
}
static mst_status gather_without_counts(void) {
    const size_t counts[RANKS_MAX] = {8, 8, 8, 8};
    return mst_gather(out, in, 8, MST_F32, .counts = ODDLY ? NULL : counts, OPTIONS);
}
static mst_status coalesced_counts(void) {
    const size_t counts[] = {1, count_of(1)};
    return mst_all_reduce_coalesced(outs, counts, 2, MST_F32, OPTIONS);
}
static mst_status coalesced_tensors(void) {
    const size_t counts[] = {1, 1, 1};
    return mst_all_reduce_coalesced(outs, counts, ODDLY ? 3 : 2, MST_F32, OPTIONS);
}

/* Different dtypes and ops */

static mst_status all_reduce_dtypes(void) {
    return mst_all_reduce(out, SMALL, ODDLY ? MST_I32 : MST_F32, OPTIONS);
}
static mst_status all_reduce_same_bytes(void) {
    return mst_all_reduce(out, ODDLY ? SMALL / 2 : SMALL, ODDLY ? MST_F64 : MST_F32, OPTIONS);
}
static mst_status large_all_reduce_dtypes(void) {
    return mst_all_reduce(out, LARGE, ODDLY ? MST_I32 : MST_F32, OPTIONS);
}
static mst_status broadcast_dtypes(void) {
    return mst_broadcast(out, SMALL, ODDLY ? MST_I32 : MST_F32, OPTIONS);
}
static mst_status reduce_dtypes(void) {
    return mst_reduce(out, SMALL, ODDLY ? MST_I32 : MST_F32, OPTIONS);
}
static mst_status gather_dtypes(void) {
    return mst_gather(out, in, SMALL, ODDLY ? MST_I32 : MST_F32, OPTIONS);
}
static mst_status scatter_dtypes(void) {
    return mst_scatter(out, in, SMALL, ODDLY ? MST_F64 : MST_F32, OPTIONS);
}
static mst_status all_gather_dtypes(void) {
    return mst_all_gather_into_tensor(out, in, SMALL, ODDLY ? MST_I32 : MST_F32, OPTIONS);
}
static mst_status all_reduce_ops(void) {
    return mst_all_reduce(out, SMALL, MST_F32, .op = ODDLY ? MST_MAX : MST_SUM, OPTIONS);
}
static mst_status reduce_ops(void) {
    return mst_reduce(out, SMALL, MST_F32, .op = ODDLY ? MST_MAX : MST_SUM, OPTIONS);
}
static mst_status reduce_scatter_ops(void) {
    return mst_reduce_scatter_tensor(out, in, SMALL, MST_F32, .op = ODDLY ? MST_MAX : MST_SUM, OPTIONS);
}
static mst_status deterministic_on_one_rank(void) {
    return mst_all_reduce(out, LARGE, MST_F32, .deterministic = ODDLY, OPTIONS);
}

static mst_status quantized_on_one_rank(void) {
    return mst_all_reduce(out, LARGE, MST_F32, OPTIONS, .quantize = ODDLY ? MST_Q8 : 0);
}

/* Byte strings */

static mst_bytes strings[RANKS_MAX];

static mst_status freed(mst_status st) {
    for (int r = 0; r < size && st == MST_OK; r++) mst_bytes_free(&strings[r]);
    memset(strings, 0, sizeof strings);
    return st;
}
static mst_status broadcast_bytes_among_broadcast(void) {
    if (ODDLY) return freed(mst_broadcast_bytes(strings, "abc", 3, .group = group));
    return mst_broadcast(out, SMALL, MST_F32, .group = group);
}
static mst_status broadcast_among_broadcast_bytes(void) {
    if (ODDLY) return mst_broadcast(out, 1, MST_U64, .group = group);
    return freed(mst_broadcast_bytes(strings, "abc", 3, .group = group));
}
static mst_status all_gather_bytes_among_all_gather(void) {
    if (ODDLY) return freed(mst_all_gather_bytes(strings, "abc", 3, .group = group));
    return mst_all_gather_into_tensor(out, in, 1, MST_U64, .group = group);
}
static mst_status gather_bytes_among_gather(void) {
    if (ODDLY) return mst_gather_bytes(strings, "abc", 3, .group = group);
    return mst_gather(out, in, 1, MST_U64, .group = group);
}
static mst_status scatter_bytes_among_scatter(void) {
    if (ODDLY) return freed(mst_scatter_bytes(strings, NULL, .group = group));
    return mst_scatter(out, in, 2, MST_U64, .group = group);
}
static mst_status gather_bytes_among_all_gather_bytes(void) {
    if (ODDLY) return mst_gather_bytes(strings, "abc", 3, .group = group);
    return freed(mst_all_gather_bytes(strings, "abc", 3, .group = group));
}
static mst_status barrier_among_broadcast_bytes(void) {
    if (ODDLY) return mst_barrier(.group = group);
    return freed(mst_broadcast_bytes(strings, "abc", 3, .group = group));
}
static mst_status barrier_among_gather_bytes(void) {
    mst_status st = ODDLY ? mst_barrier(.group = group) : mst_gather_bytes(strings, "abc", 3, .group = group);
    return me == 0 ? freed(st) : st;
}
static mst_status two_broadcast_bytes_roots(void) {
    return freed(mst_broadcast_bytes(strings, "abc", 3, .root = ODDLY ? ODD : 0, .group = group));
}
static mst_status two_gather_bytes_roots(void) {
    mst_status st = mst_gather_bytes(strings, "abc", 3, .root = ODDLY ? ODD : 0, .group = group);
    return me == 0 || me == ODD ? freed(st) : st;
}
static mst_status two_scatter_bytes_roots(void) {
    mst_bytes own = {0}, all[RANKS_MAX] = {{0}};
    mst_status st = mst_scatter_bytes(&own, all, .root = ODDLY ? ODD : 0, .group = group);
    if (st == MST_OK) mst_bytes_free(&own);
    return st;
}

/* all_to_all with splits that do not agree: others expect 2 elements of each rank */

static mst_status exchange(size_t sent_to_0, size_t expected_of_0) {
    size_t to[RANKS_MAX] = {2, 2, 2, 2}, from[RANKS_MAX] = {2, 2, 2, 2};
    if (ODDLY) to[0] = sent_to_0;
    if (ODDLY) from[0] = expected_of_0;
    return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = to, .out_splits = from, OPTIONS);
}
static mst_status sends_too_much(void) {
    return exchange(3, 2);
}
static mst_status sends_too_little(void) {
    return exchange(1, 2);
}
static mst_status sends_nothing(void) {
    return exchange(0, 2);
}
static mst_status sends_far_too_much(void) {
    return exchange(LARGE, 2);
}
static mst_status expects_too_much(void) {
    return exchange(2, 3);
}
static mst_status expects_too_little(void) {
    return exchange(2, 1);
}
static mst_status expects_nothing(void) {
    return exchange(2, 0);
}
static mst_status list_splits(void) {
    size_t to[RANKS_MAX] = {2, 2, 2, 2}, from[RANKS_MAX] = {2, 2, 2, 2};
    if (ODDLY) to[0] = 5;
    return mst_all_to_all(outs, ins, 0, MST_F32, .in_splits = to, .out_splits = from, OPTIONS);
}
static mst_status splits_on_one_rank(void) {
    size_t to[RANKS_MAX] = {3, 2, 2, 2}, from[RANKS_MAX] = {3, 2, 2, 2};
    if (ODDLY)
        return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = to, .out_splits = from, OPTIONS);
    return mst_all_to_all_single(out, in, 2, MST_F32, OPTIONS);
}

/* Messages: on one host the sender of a large message is not told that the receiver rejected it. */

enum { SEND_MS = 5000 };

static mst_status message_counts(void) {
    if (ODDLY) return mst_send(in, SMALL + 1, MST_F32, 0, OPTIONS);
    return me == 0 ? mst_recv(out, SMALL, MST_F32, ODD, OPTIONS) : MST_OK;
}
static mst_status message_dtypes(void) {
    if (ODDLY) return mst_send(in, SMALL, MST_I32, 0, OPTIONS);
    return me == 0 ? mst_recv(out, SMALL, MST_F32, ODD, OPTIONS) : MST_OK;
}
static mst_status bytes_to_a_tensor(void) {
    if (ODDLY) return mst_send_bytes(in, SMALL * sizeof(float), 0, .group = group);
    return me == 0 ? mst_recv(out, SMALL, MST_F32, ODD, .group = group) : MST_OK;
}
static mst_status large_message_counts(void) {
    if (ODDLY) return mst_send(in, LARGE + 1, MST_F32, 0, .timeout_ms = SEND_MS, OPTIONS);
    return me == 0 ? mst_recv(out, LARGE, MST_F32, ODD, OPTIONS) : MST_OK;
}

/* Calls that match */

static mst_status blocking_and_not(void) {
    mst_work *begun;
    if (!ODDLY) return mst_all_reduce(out, SMALL, MST_F32, .group = group);
    mst_status st = mst_all_reduce(out, SMALL, MST_F32, .group = group, .work = &begun);
    return st == MST_OK ? mst_wait(begun) : st;
}
static void keep(void *inout, const void *other, size_t count, mst_dtype dtype, void *arg) {
    (void)inout, (void)other, (void)count, (void)dtype, (void)arg;
}
/* Rank ODD has created 224 more operations: the bytes of both in the signature are equal. */
static mst_status user_operations(void) {
    mst_op op = MST_SUM;
    for (int i = 0; i <= (ODDLY ? 224 : 0); i++) {
        if (i > 0) mst_op_free(op);
        if (mst_op_create(keep, NULL, &op) != MST_OK) return MST_ERR_INTERNAL;
    }
    mst_status st = mst_all_reduce(out, SMALL, MST_F32, .op = op, OPTIONS);
    mst_op_free(op);
    return st;
}
static mst_status options_that_may_differ(void) {
    if (ODDLY)
        return mst_all_reduce(out, SMALL, MST_F32, .in = in, .log_name = "odd", .timeout_ms = 20000, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}

#define MISMATCH(function, odd, others)                                                                      \
    { #function, EXPECT_MISMATCH, odd, others, function }
#define ANY(function, odd, others)                                                                           \
    { #function, EXPECT_ANY, odd, others, function }
#define RECEIVER(function, odd)                                                                              \
    { #function, EXPECT_RECEIVER, odd, "", function }
#define MATCH(function)                                                                                      \
    { #function, EXPECT_OK, "", "", function }

#define ALL_REDUCE "all_reduce"
#define REDUCE     "(?<!all_)reduce(?!_scatter)"
#define GATHER     "(?<!all_)gather"
#define ALL_GATHER "all_gather"
#define SCATTER    "(?<!reduce_)scatter"
#define BROADCAST  "broadcast"
#define BARRIER    "barrier"
#define SPLITS     "all_to_all.*splits"

const struct ranks_case mismatch_cases[] = {
    MISMATCH(reduce_among_all_reduce, REDUCE, ALL_REDUCE),
    MISMATCH(all_reduce_among_reduce, ALL_REDUCE, REDUCE),
    MISMATCH(user_operations, ALL_REDUCE, ALL_REDUCE),
    MISMATCH(large_reduce_among_all_reduce, REDUCE, ALL_REDUCE),
    MISMATCH(gather_among_scatter, GATHER, SCATTER),
    MISMATCH(scatter_among_gather, SCATTER, GATHER),
    MISMATCH(large_gather_among_scatter, GATHER, SCATTER),
    MISMATCH(broadcast_among_all_reduce, BROADCAST, ALL_REDUCE),
    MISMATCH(broadcast_among_reduce, BROADCAST, REDUCE),
    MISMATCH(broadcast_among_gather, BROADCAST, GATHER),
    MISMATCH(broadcast_among_scatter, BROADCAST, SCATTER),
    MISMATCH(all_gather_among_reduce_scatter, ALL_GATHER, "reduce_scatter"),
    MISMATCH(all_to_all_among_all_gather, "all_to_all", ALL_GATHER),
    MISMATCH(large_all_to_all_among_all_gather, "all_to_all", ALL_GATHER),
    MISMATCH(all_gather_among_gather, ALL_GATHER, GATHER),
    MISMATCH(two_calls_in_other_order, REDUCE, BROADCAST),
    MISMATCH(one_call_left_out, ALL_REDUCE, GATHER),
    MISMATCH(barrier_among_all_reduce, BARRIER, ALL_REDUCE),
    MISMATCH(barrier_among_broadcast, BARRIER, BROADCAST),
    MISMATCH(barrier_among_broadcast_from_it, BARRIER, BROADCAST),
    MISMATCH(barrier_among_reduce, BARRIER, REDUCE),
    MISMATCH(barrier_among_gather, BARRIER, GATHER),
    MISMATCH(barrier_among_scatter, BARRIER, SCATTER),
    MISMATCH(barrier_among_all_gather, BARRIER, ALL_GATHER),
    MISMATCH(barrier_among_reduce_scatter, BARRIER, "reduce_scatter"),
    MISMATCH(barrier_among_all_to_all, BARRIER, "all_to_all"),
    MISMATCH(barrier_among_large_all_reduce, BARRIER, ALL_REDUCE),
    MISMATCH(broadcast_among_barriers, BROADCAST, BARRIER),
    MISMATCH(reduce_among_barriers, REDUCE, BARRIER),
    MISMATCH(scatter_among_barriers, SCATTER, BARRIER),
    MISMATCH(monitored_barrier_among_barriers, "monitored_barrier", "(?<!monitored_)barrier"),
    MISMATCH(all_reduce_among_monitored_barriers, ALL_REDUCE, "monitored_barrier"),
    MISMATCH(two_broadcast_roots, BROADCAST, BROADCAST),
    MISMATCH(no_root_of_known_broadcasts, BROADCAST, BROADCAST),
    {"roots_of_known_broadcasts", EXPECT_LATER, BROADCAST, BROADCAST, roots_of_known_broadcasts},
    MISMATCH(two_large_broadcast_roots, BROADCAST, BROADCAST),
    ANY(every_rank_a_broadcast_root, BROADCAST, BROADCAST),
    MISMATCH(no_broadcast_root, BROADCAST, BROADCAST),
    MISMATCH(two_reduce_roots, REDUCE, REDUCE),
    MISMATCH(two_gather_roots, GATHER, GATHER),
    MISMATCH(two_scatter_roots, SCATTER, SCATTER),
    MISMATCH(no_scatter_root, SCATTER, SCATTER),
    MISMATCH(all_reduce_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(large_all_reduce_counts, "\\b300001\\b", "\\b300000\\b"),
    MISMATCH(all_reduce_of_nothing, "\\b0\\b", "\\b8\\b"),
    MISMATCH(small_among_large_all_reduce, "\\b1\\b", "\\b300000\\b"),
    MISMATCH(broadcast_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(broadcast_counts_of_root, "\\b9\\b", "\\b8\\b"),
    MISMATCH(large_broadcast_counts, "\\b300001\\b", "\\b300000\\b"),
    MISMATCH(reduce_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(gather_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(scatter_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(all_gather_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(reduce_scatter_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(all_to_all_counts, "\\b9\\b", "\\b8\\b"),
    MISMATCH(list_counts, ALL_GATHER, ALL_GATHER),
    MISMATCH(gather_list_counts, GATHER, GATHER),
    MISMATCH(scatter_list_counts, SCATTER, SCATTER),
    MISMATCH(gather_without_counts, GATHER, "counts"),
    MISMATCH(coalesced_counts, "coalesced", "coalesced"),
    MISMATCH(coalesced_tensors, "coalesced", "coalesced|barrier"),
    MISMATCH(all_reduce_dtypes, "i32", "f32"),
    MISMATCH(all_reduce_same_bytes, "f64", "f32"),
    MISMATCH(large_all_reduce_dtypes, "i32", "f32"),
    MISMATCH(broadcast_dtypes, "i32", "f32"),
    MISMATCH(reduce_dtypes, "i32", "f32"),
    MISMATCH(gather_dtypes, "i32", "f32"),
    MISMATCH(scatter_dtypes, "f64", "f32"),
    MISMATCH(all_gather_dtypes, "i32", "f32"),
    MISMATCH(all_reduce_ops, "MAX", "SUM"),
    MISMATCH(reduce_ops, "MAX", "SUM"),
    MISMATCH(reduce_scatter_ops, "MAX", "SUM"),
    MISMATCH(deterministic_on_one_rank, "deterministic", "all_reduce"),
    MISMATCH(quantized_on_one_rank, "SUM, quantised", "\\(SUM\\)"),
    MISMATCH(broadcast_bytes_among_broadcast, "broadcast_bytes", BROADCAST),
    MISMATCH(broadcast_among_broadcast_bytes, BROADCAST, "broadcast_bytes"),
    MISMATCH(all_gather_bytes_among_all_gather, "all_gather_bytes", ALL_GATHER),
    MISMATCH(gather_bytes_among_gather, "gather_bytes", GATHER),
    MISMATCH(scatter_bytes_among_scatter, "scatter_bytes", SCATTER),
    MISMATCH(gather_bytes_among_all_gather_bytes, "gather_bytes", "all_gather_bytes"),
    MISMATCH(barrier_among_broadcast_bytes, BARRIER, "broadcast_bytes"),
    MISMATCH(barrier_among_gather_bytes, BARRIER, "gather_bytes"),
    MISMATCH(two_broadcast_bytes_roots, "broadcast_bytes", "broadcast_bytes"),
    MISMATCH(two_gather_bytes_roots, "gather_bytes", "gather_bytes"),
    MISMATCH(two_scatter_bytes_roots, "scatter_bytes", "scatter_bytes"),
    ANY(sends_too_much, SPLITS, SPLITS),
    ANY(sends_too_little, SPLITS, SPLITS),
    ANY(sends_nothing, SPLITS, SPLITS),
    ANY(sends_far_too_much, SPLITS, SPLITS),
    ANY(expects_too_much, SPLITS, SPLITS),
    ANY(expects_too_little, SPLITS, SPLITS),
    ANY(expects_nothing, SPLITS, SPLITS),
    ANY(list_splits, SPLITS, SPLITS),
    ANY(splits_on_one_rank, SPLITS, SPLITS),
    RECEIVER(message_counts, "\\b9\\b.*\\b8\\b|\\b8\\b.*\\b9\\b"),
    RECEIVER(message_dtypes, "i32"),
    RECEIVER(bytes_to_a_tensor, "bytes|u8"),
    RECEIVER(large_message_counts, "300001.*300000|300000.*300001"),
    MATCH(blocking_and_not),
    MATCH(options_that_may_differ),
    {NULL, EXPECT_OK, NULL, NULL, NULL},
};
