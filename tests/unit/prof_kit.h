/* prof_kit.h - groups and calls for the tests of profiling. Include it after harness.h. */
#ifndef TESTS_PROF_KIT_H
#define TESTS_PROF_KIT_H

#include <math.h>

#include "prof/summary/op_stats.h"
#include "prof/summary/summary.h"

enum { KIT_RANKS = 64 };

static const int kit_ranks[KIT_RANKS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                         32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                         48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

static inline struct msi_prof_group kit_world(int size) {
    return (struct msi_prof_group){.size = size, .id = "w", .name = "world", .ranks = kit_ranks};
}

static inline struct msi_prof_group kit_group(int number, const char *id, const char *name, const int *ranks,
                                              int size) {
    return (struct msi_prof_group){.number = number, .size = size, .id = id, .name = name, .ranks = ranks};
}

/* A call with its duration as the time on the device. */
static inline struct msi_record kit_call(const struct msi_prof_group *group, const char *name,
                                         enum msi_share share, uint64_t bytes, uint64_t seq, uint64_t ns) {
    return (struct msi_record){.name = name,
                               .call = name,
                               .group = group,
                               .bytes = bytes,
                               .seq = seq,
                               .device = ns,
                               .share = (uint8_t)share};
}

/* One call after the other; without a common clock. */
static inline void kit_add_call(struct msi_op_stats *stats, const struct msi_record *call) {
    struct msi_times times = {
        .begin = (int64_t)stats->run_ns, .lasted = (int64_t)call->device, .waited = (int64_t)call->waited};
    msi_op_stats_add(stats, call, &times, false);
}

static inline void kit_add(struct msi_op_stats *stats, const struct msi_prof_group *group, const char *name,
                           enum msi_share share, uint64_t bytes, uint64_t seq, uint64_t ns) {
    struct msi_record call = kit_call(group, name, share, bytes, seq, ns);
    kit_add_call(stats, &call);
}

/* The buffer as a string, which is the caller's. */
static inline char *kit_text(struct msi_buf *buf) {
    msi_buf_add_u8(buf, 0);
    assert_false(buf->failed);
    return (char *)buf->data;
}

static inline char *kit_table(struct msi_op_stats *const all_stats[], int n, bool show_straggler) {
    struct msi_summary *summary;
    struct msi_buf buf = {0};
    assert_ok(msi_summary_make(all_stats, n, show_straggler, &summary));
    msi_summary_text(summary, &buf);
    msi_summary_free(summary);
    return kit_text(&buf);
}

/* xorshift: the same numbers everywhere. */
static inline uint64_t kit_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

static inline int kit_by_size(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The average without a tenth at each end, as one would write it down. Sorts. */
static inline double kit_mean(uint64_t *values, size_t n) {
    size_t drop = (size_t)nearbyint(0.1 * (double)n);
    double sum = 0;
    qsort(values, n, sizeof *values, kit_by_size);
    for (size_t i = drop; i < n - drop; i++) sum += (double)values[i];
    return n ? sum / (double)(n - 2 * drop) : 0;
}

#endif
