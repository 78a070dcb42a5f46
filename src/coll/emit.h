/*
 * emit.h - what planners write their steps with, and the rank arithmetic that they share.
 *
 * Each call appends one step, or several where the chunk cuts it; those with nothing to move append none. Planners are
 * called with at least two ranks.
 */
#ifndef MSI_COLL_EMIT_H
#define MSI_COLL_EMIT_H

#include "coll/plan.h"

struct msi_span {
    size_t at, count;
};

void msi_emit_send(struct msi_plan *plan, int peer, struct msi_ref src, size_t count);
void msi_emit_recv(struct msi_plan *plan, int peer, struct msi_ref dst, size_t count);
/* Local work. A copy onto itself, as happens in place, is left out. */
void msi_emit(struct msi_plan *plan, enum msi_step_kind kind, struct msi_ref dst, struct msi_ref src,
              size_t count);
void msi_emit_reduce_local(struct msi_plan *plan, struct msi_ref dst, const struct msi_ref *sources, int n,
                           size_t count);
/* The step `later` waits for `earlier` though no memory makes it. Either may be MSI_NO_STEP. */
void msi_emit_order(struct msi_plan *plan, uint32_t earlier, uint32_t later);

/* Elements of RAW or ACC that no other step uses. */
struct msi_ref msi_emit_scratch(struct msi_plan *plan, enum msi_space space, size_t count);
/* Room for n sources of a fold, valid until the next such call; NULL without memory. */
struct msi_ref *msi_emit_sources(struct msi_plan *plan, int n);

/* The share of a rank, or of the ranks first … end-1: in gathers and scatters its block, else a part of the whole. */
struct msi_span msi_plan_share(const struct msi_plan *plan, int rank);
struct msi_span msi_plan_shares(const struct msi_plan *plan, int first, int end);
/* all_to_all: what goes to a rank, in IN, and what comes from it, in OUT. */
struct msi_span msi_plan_to(const struct msi_plan *plan, int rank);
struct msi_span msi_plan_from(const struct msi_plan *plan, int rank);

static inline struct msi_ref msi_ref(enum msi_space space, size_t at) {
    return (struct msi_ref){space, at};
}

static inline struct msi_ref msi_ref_plus(struct msi_ref ref, size_t n) {
    return (struct msi_ref){ref.space, ref.at + n};
}

/* The part of [0, total) that is number i when it is cut into n parts as equal as can be. */
static inline struct msi_span msi_part(size_t total, int n, int i) {
    size_t each = total / (size_t)n, more = total % (size_t)n, k = (size_t)i;
    return (struct msi_span){k * each + (k < more ? k : more), each + (k < more)};
}

/* Parts first … end-1 of n. */
static inline struct msi_span msi_parts(size_t total, int n, int first, int end) {
    size_t at = msi_part(total, n, first).at;
    return (struct msi_span){at, (end == n ? total : msi_part(total, n, end).at) - at};
}

/* Places on a circle of n: a + b, and a - b, for b from 0 to n. */
static inline int msi_plus(int a, int b, int n) {
    return (a + b) % n;
}
static inline int msi_minus(int a, int b, int n) {
    return (a - b + n) % n;
}

static inline int msi_log2_floor(int n) {
    int k = 0;
    while (n >> (k + 1)) k++;
    return k;
}
static inline int msi_log2_ceil(int n) {
    return n <= 1 ? 0 : msi_log2_floor(n - 1) + 1;
}

#endif
