/*
 * lower_bound.c - the least time that an operation can take on this machine, from what limits.h measured.
 *
 * An operation of S bytes (as nccl-tests counts them) among n ranks on h hosts takes at least
 *
 *   - the time until one rank sees what another wrote: a cache line, or between hosts one byte over TCP.
 *     Roots change from call to call, so that calls cannot overlap completely;
 *   - the time to copy and add the bytes of the results. For each element of a result, all inputs but one
 *     are added:
 *
 *                            added in total      copied in total              over TCP in total
 *       all_reduce           (n-1) S             (n-1) S: each result to      2 (h-1) S
 *                                                the n-1 others
 *       reduce_scatter       (n-1) S             -                            (h-1) S
 *       reduce               (n-1) S             -                            (h-1) S
 *       all_gather           -                   n S                          (h-1) S
 *       all_to_all           -                   n S                          S n (h-1)/h
 *       broadcast            -                   (n-1) S                      (h-1) S
 *       gather, scatter      -                   S                            S (h-1)/h
 *       send_recv, half      -                   S for each pair              S for each pair of two hosts
 *       barrier              -                   -                            -
 *
 * Every copy counts once: a backend that reads the buffers of other ranks in place needs no more, one with an
 * intermediate buffer needs two. The work is divided evenly among the processors of the ranks, at the rate
 * that so many processes reach together with arrays of that size. With h > 1 the bytes between hosts go over
 * loopback at its own rate; copies and additions are left out, because they can overlap with it.
 */
#include "bench/ops/ops.h"

struct work {
    double added, copied, crossing;
};

static double crossing_pairs(int n, int h) {
    int pairs = 0;
    for (int rank = 0; rank + 1 < n; rank += 2) pairs += rank * h / n != (rank + 1) * h / n;
    return pairs;
}

static struct work count(const struct ops_case *what, double s) {
    double n = what->ranks, h = what->hosts;
    int pairs = what->ranks / 2;
    switch (what->op) {
    case LOOP_ALL_REDUCE:
        return (struct work){(n - 1) * s, (n - 1) * s, 2 * (h - 1) * s};
    case LOOP_REDUCE_SCATTER:
    case LOOP_REDUCE:
        return (struct work){(n - 1) * s, 0, (h - 1) * s};
    case LOOP_ALL_GATHER:
        return (struct work){0, n * s, (h - 1) * s};
    case LOOP_ALL_TO_ALL:
        return (struct work){0, n * s, s * n * (h - 1) / h};
    case LOOP_BROADCAST:
        return (struct work){0, (n - 1) * s, (h - 1) * s};
    case LOOP_GATHER:
    case LOOP_SCATTER:
        return (struct work){0, s, s * (h - 1) / h};
    case LOOP_SEND_RECV:
        return (struct work){0, pairs * s, crossing_pairs(what->ranks, what->hosts) * s};
    default:
        return (struct work){0};
    }
}

/* Microseconds for so many bytes. Hot buffers stay in the cache into which they fit. */
static double time_of(const struct bench_limits *l, enum limit_kind kind, const struct ops_case *what,
                      double bytes) {
    int p = what->ranks < l->processors ? what->ranks : l->processors;
    double rate = limits_value(l, kind, p, what->buffers == OPS_ROTATE ? 1e18 : bytes / p);
    return rate > 0 ? bytes / rate / 1e3 : 0;
}

double bench_lower_bound(const struct bench_limits *l, const struct ops_case *what, size_t bytes) {
    struct work work = count(what, (double)bytes);
    if (what->ranks == 1) return time_of(l, LIMIT_COPY, what, work.copied);
    if (what->hosts > 1 && (what->op != LOOP_SEND_RECV || work.crossing > 0))
        return limits_value(l, LIMIT_TCP_US, 2, 1) + time_of(l, LIMIT_TCP_GBPS, what, work.crossing);
    return limits_value(l, LIMIT_LINE, 2, 0) + time_of(l, LIMIT_COPY, what, work.copied) +
           time_of(l, LIMIT_ADD, what, work.added);
}
