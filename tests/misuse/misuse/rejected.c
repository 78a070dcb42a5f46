/* rejected.c - the call of one rank is rejected because of its arguments; the other ranks call correctly. */
#include "misuse.h"

#include <stddef.h>

#define ODDLY   (me == ODD)
#define OPTIONS .group = group, .work = work

static mst_status dtype_of_all_reduce(void) {
    if (ODDLY) return mst_all_reduce(out, SMALL, (mst_dtype)99, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status null_buffer_of_all_reduce(void) {
    if (ODDLY) return mst_all_reduce(NULL, SMALL, MST_F32, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status op_of_all_reduce(void) {
    if (ODDLY) return mst_all_reduce(out, SMALL, MST_F32, .op = MST_BAND, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status missing_dtype_of_all_reduce(void) {
    if (ODDLY) return mst_all_reduce(out, SMALL, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status count_of_large_all_reduce(void) {
    if (ODDLY) return mst_all_reduce(out, SIZE_MAX / 2, MST_F32, OPTIONS);
    return mst_all_reduce(out, LARGE, MST_F32, OPTIONS);
}
static mst_status overlap_of_all_reduce(void) {
    if (ODDLY) return mst_all_reduce(out + 1, SMALL, MST_F32, .in = out, OPTIONS);
    return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status null_buffer_of_broadcast(void) {
    if (ODDLY) return mst_broadcast(NULL, SMALL, MST_F32, OPTIONS);
    return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
}
static mst_status null_buffer_of_broadcast_root(void) {
    if (ODDLY) return mst_broadcast(NULL, SMALL, MST_F32, .root = ODD, OPTIONS);
    return mst_broadcast(out, SMALL, MST_F32, .root = ODD, OPTIONS);
}
static mst_status root_of_broadcast(void) {
    if (ODDLY) return mst_broadcast(out, SMALL, MST_F32, .root = size, OPTIONS);
    return mst_broadcast(out, SMALL, MST_F32, OPTIONS);
}
static mst_status root_of_reduce(void) {
    if (ODDLY) return mst_reduce(out, SMALL, MST_F32, .root = -3, OPTIONS);
    return mst_reduce(out, SMALL, MST_F32, OPTIONS);
}
static mst_status op_of_barrier(void) {
    if (ODDLY) return mst_barrier(.op = MST_MAX, OPTIONS);
    return mst_barrier(OPTIONS);
}
static mst_status timeout_of_barrier(void) {
    if (ODDLY) return mst_barrier(.timeout_ms = -1, OPTIONS);
    return mst_barrier(OPTIONS);
}
static mst_status timeout_of_monitored_barrier(void) {
    if (ODDLY) return mst_monitored_barrier(.timeout_ms = -1, OPTIONS);
    return mst_monitored_barrier(OPTIONS);
}
static mst_status tag_of_all_gather(void) {
    if (ODDLY) return mst_all_gather_into_tensor(out, in, SMALL, MST_F32, .tag = 1, OPTIONS);
    return mst_all_gather_into_tensor(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status null_list_of_all_gather(void) {
    if (ODDLY) return mst_all_gather(NULL, in, SMALL, MST_F32, OPTIONS);
    return mst_all_gather(outs, in, SMALL, MST_F32, OPTIONS);
}
static mst_status overlap_of_reduce_scatter(void) {
    if (ODDLY) return mst_reduce_scatter_tensor(in + 1, in, SMALL, MST_F32, OPTIONS);
    return mst_reduce_scatter_tensor(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status null_input_of_gather(void) {
    if (ODDLY) return mst_gather(out, NULL, SMALL, MST_F32, OPTIONS);
    return mst_gather(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status null_output_of_gather_root(void) {
    if (ODDLY) return mst_gather(NULL, in, SMALL, MST_F32, .root = ODD, OPTIONS);
    return mst_gather(out, in, SMALL, MST_F32, .root = ODD, OPTIONS);
}
static mst_status null_output_of_scatter(void) {
    if (ODDLY) return mst_scatter(NULL, in, SMALL, MST_F32, OPTIONS);
    return mst_scatter(out, in, SMALL, MST_F32, OPTIONS);
}
static mst_status null_input_of_scatter_root(void) {
    if (ODDLY) return mst_scatter(out, NULL, SMALL, MST_F32, .root = ODD, OPTIONS);
    return mst_scatter(out, in, SMALL, MST_F32, .root = ODD, OPTIONS);
}
static mst_status one_kind_of_splits(void) {
    const size_t splits[RANKS_MAX] = {2, 2, 2, 2};
    if (ODDLY) return mst_all_to_all_single(out, in, 2, MST_F32, .in_splits = splits, OPTIONS);
    return mst_all_to_all_single(out, in, 2, MST_F32, OPTIONS);
}
static mst_status splits_for_itself(void) {
    size_t to[RANKS_MAX] = {2, 2, 2, 2}, from[RANKS_MAX] = {2, 2, 2, 2};
    if (ODDLY) to[ODD] = 3;
    if (ODDLY)
        return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = to, .out_splits = from, OPTIONS);
    return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = to, .out_splits = from, OPTIONS);
}
static mst_status null_counts_of_coalesced(void) {
    const size_t counts[] = {1, 1};
    if (ODDLY) return mst_all_reduce_coalesced(outs, NULL, 2, MST_F32, OPTIONS);
    return mst_all_reduce_coalesced(outs, counts, 2, MST_F32, OPTIONS);
}
static mst_status second_tensor_of_coalesced(void) {
    const size_t counts[] = {1, 1};
    void *bufs[] = {out, ODDLY ? NULL : out + 1};
    if (ODDLY) return mst_all_reduce_coalesced(bufs, counts, 2, MST_F32, OPTIONS);
    return mst_all_reduce_coalesced(bufs, counts, 2, MST_F32, OPTIONS);
}

/* A string that is not freed: it was not created. */
static mst_bytes strings[RANKS_MAX];

static mst_status null_output_of_broadcast_bytes(void) {
    if (ODDLY) return mst_broadcast_bytes(NULL, "abc", 3, .group = group);
    return mst_broadcast_bytes(strings, "abc", 3, .group = group);
}
static mst_status null_input_of_all_gather_bytes(void) {
    if (ODDLY) return mst_all_gather_bytes(strings, NULL, 3, .group = group);
    return mst_all_gather_bytes(strings, "abc", 3, .group = group);
}
static mst_status root_of_gather_bytes(void) {
    if (ODDLY) return mst_gather_bytes(strings, "abc", 3, .root = 99, .group = group);
    return mst_gather_bytes(strings, "abc", 3, .group = group);
}
static mst_status null_input_of_scatter_bytes_root(void) {
    const mst_bytes all[RANKS_MAX] = {{0}};
    if (ODDLY) return mst_scatter_bytes(strings, NULL, .root = ODD, .group = group);
    return mst_scatter_bytes(strings, all, .root = ODD, .group = group);
}
static mst_status work_of_broadcast_bytes(void) {
    mst_work *begun;
    if (ODDLY) return mst_broadcast_bytes(strings, "abc", 3, .group = group, .work = &begun);
    return mst_broadcast_bytes(strings, "abc", 3, .group = group);
}
/* Rank ODD corrects its call, which does not make up for the call that the others know as rejected. */
static mst_status corrected_all_reduce(void) {
    if (ODDLY) mst_all_reduce(out, SMALL, (mst_dtype)99, .group = group);
    return mst_all_reduce(out, SMALL, MST_F32, .group = group);
}

static mst_status rejected_many_times(void) {
    mst_status st = MST_OK;
    if (!ODDLY) return mst_all_reduce(out, SMALL, MST_F32, OPTIONS);
    for (int i = 0; i < 20; i++) st = mst_barrier(.op = MST_MAX, .group = group);
    return st;
}

/* All ranks make the same invalid call: no rank waits, and the group stays usable. */
static mst_status rejected_on_all_ranks(void) {
    return mst_all_reduce(out, SMALL, (mst_dtype)99, OPTIONS);
}
static mst_status root_rejected_on_all_ranks(void) {
    return mst_broadcast(out, SMALL, MST_F32, .root = size, OPTIONS);
}
static mst_status different_rejections(void) {
    if (ODDLY) return mst_barrier(.op = MST_MAX, OPTIONS);
    return mst_broadcast(NULL, SMALL, MST_F32, OPTIONS);
}

#define REJECTED(function, reason)                                                                           \
    { #function, EXPECT_REJECTED, reason, reason, function }
#define INVALID(function)                                                                                    \
    { #function, EXPECT_INVALID, "", "", function }

const struct ranks_case rejected_cases[] = {
    REJECTED(dtype_of_all_reduce, "99 is not a valid dtype"),
    REJECTED(null_buffer_of_all_reduce, "buf is NULL"),
    REJECTED(op_of_all_reduce, "BAND is not defined for f32"),
    REJECTED(missing_dtype_of_all_reduce, "too few positional arguments"),
    REJECTED(count_of_large_all_reduce, "count"),
    REJECTED(overlap_of_all_reduce, "overlap"),
    REJECTED(null_buffer_of_broadcast, "buf is NULL"),
    REJECTED(null_buffer_of_broadcast_root, "buf is NULL"),
    REJECTED(root_of_broadcast, "\\.root"),
    REJECTED(root_of_reduce, "\\.root"),
    REJECTED(op_of_barrier, "does not use \\.op"),
    REJECTED(timeout_of_barrier, "\\.timeout_ms"),
    REJECTED(timeout_of_monitored_barrier, "\\.timeout_ms"),
    REJECTED(tag_of_all_gather, "does not use \\.tag"),
    REJECTED(null_list_of_all_gather, "outs is NULL"),
    REJECTED(overlap_of_reduce_scatter, "overlap"),
    REJECTED(null_input_of_gather, "in is NULL"),
    REJECTED(null_output_of_gather_root, "out is NULL"),
    REJECTED(null_output_of_scatter, "out is NULL"),
    REJECTED(null_input_of_scatter_root, "in is NULL"),
    REJECTED(one_kind_of_splits, "out_splits is missing"),
    REJECTED(splits_for_itself, "splits"),
    REJECTED(null_counts_of_coalesced, "counts is NULL"),
    REJECTED(second_tensor_of_coalesced, "NULL"),
    REJECTED(null_output_of_broadcast_bytes, "out is NULL"),
    REJECTED(null_input_of_all_gather_bytes, "data is NULL"),
    REJECTED(root_of_gather_bytes, "\\.root"),
    REJECTED(null_input_of_scatter_bytes_root, "ins is NULL"),
    REJECTED(work_of_broadcast_bytes, "\\.work"),
    {"corrected_all_reduce", EXPECT_REJECTER, "99 is not a valid dtype", "all_reduce", corrected_all_reduce},
    REJECTED(rejected_many_times, "does not use \\.op"),
    INVALID(rejected_on_all_ranks),
    INVALID(root_rejected_on_all_ranks),
    INVALID(different_rejections),
    {NULL, EXPECT_OK, NULL, NULL, NULL},
};
