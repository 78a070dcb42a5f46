/*
 * emit.h - functions with which planners append steps, and the rank arithmetic that planners share.
 *
 * A call appends one step for each piece of the request's chunk, and none for zero elements. Planners run
 * with at least two ranks.
 */
#ifndef MSI_COLL_EMIT_H
#define MSI_COLL_EMIT_H

#include "coll/plan.h"

struct msi_span {
    size_t at, count;
};

/* kind is MSI_SEND or MSI_RECV. */
void msi_emit_transfer(struct msi_plan *plan, enum msi_step_kind kind, int peer, struct msi_ref ref,
                       size_t count);
static inline void msi_emit_send(struct msi_plan *plan, int peer, struct msi_ref src, size_t count) {
    msi_emit_transfer(plan, MSI_SEND, peer, src, count);
}
static inline void msi_emit_recv(struct msi_plan *plan, int peer, struct msi_ref dst, size_t count) {
    msi_emit_transfer(plan, MSI_RECV, peer, dst, count);
}
/* Receives the share of every other rank into its block of OUT. */
void msi_emit_recv_shares(struct msi_plan *plan);
/* Local work. Omits a copy of memory onto itself, which happens in place. */
void msi_emit(struct msi_plan *plan, enum msi_step_kind kind, struct msi_ref dst, struct msi_ref src,
              size_t count);
void msi_emit_reduce_local(struct msi_plan *plan, struct msi_ref dst, const struct msi_ref *sources, int n,
                           size_t count);
void msi_emit_pack(struct msi_plan *plan, struct msi_ref dst, const struct msi_ref *sources, int n,
                   size_t count);
/*
 * Makes the step `later` wait for `earlier` without a memory dependency. Does nothing if one is MSI_NO_STEP.
 */
void msi_emit_order(struct msi_plan *plan, uint32_t earlier, uint32_t later);

/* Allocates elements of RAW or ACC scratch. */
struct msi_ref msi_emit_scratch(struct msi_plan *plan, enum msi_space space, size_t count);
/* An array for n sources of such a step, valid until the next call; NULL without memory. */
struct msi_ref *msi_emit_sources(struct msi_plan *plan, int n);

/*
 * The share of a rank, or of the ranks first … end-1: in gathers and scatters its block, in all_to_all the
 * block of IN for it, else a part of the whole.
 */
struct msi_span msi_plan_share(const struct msi_plan *plan, int rank);
struct msi_span msi_plan_shares(const struct msi_plan *plan, int first, int end);
/* all_to_all: the block of OUT from a rank. */
struct msi_span msi_plan_from(const struct msi_plan *plan, int rank);

static inline struct msi_ref msi_ref(enum msi_space space, size_t at) {
    return (struct msi_ref){space, at};
}

static inline struct msi_ref msi_ref_plus(struct msi_ref ref, size_t n) {
    return (struct msi_ref){ref.space, ref.at + n};
}

/* Part i of [0, total) cut into n parts whose sizes differ by at most one. */
static inline struct msi_span msi_part(size_t total, int n, int i) {
    size_t each = total / (size_t)n, more = total % (size_t)n, k = (size_t)i;
    return (struct msi_span){k * each + (k < more ? k : more), each + (k < more)};
}

/* Parts first … end-1 of n. */
static inline struct msi_span msi_parts(size_t total, int n, int first, int end) {
    size_t at = msi_part(total, n, first).at;
    return (struct msi_span){at, (end == n ? total : msi_part(total, n, end).at) - at};
}

/* a + b and a - b modulo n, for 0 <= b <= n. */
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
