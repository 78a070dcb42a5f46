/* emit.c - appends steps to a plan, cut into pieces, with an edge from each step that they depend on. */
#include "coll/emit.h"

#include <string.h>

/* In place, IN and OUT are the same memory. Maps both to one reference. */
static struct msi_ref resolve_in_place(const struct msi_plan *plan, struct msi_ref ref) {
    const struct msi_request *request = &plan->request;
    if (!request->in_place) return ref;
    switch (request->kind) {
    case MSI_KIND_ALL_GATHER:
    case MSI_KIND_GATHER:
        if (ref.space == MSI_IN) return msi_ref(MSI_OUT, ref.at + msi_plan_share(plan, request->rank).at);
        return ref;
    case MSI_KIND_REDUCE_SCATTER:
    case MSI_KIND_SCATTER:
        if (ref.space == MSI_OUT) return msi_ref(MSI_IN, ref.at + msi_plan_share(plan, request->rank).at);
        return ref;
    default:
        return ref.space == MSI_IN ? msi_ref(MSI_OUT, ref.at) : ref;
    }
}

static void add_edge(struct msi_plan *plan, uint32_t from, uint32_t to) {
    if (!msi_grow(&plan->edges, &plan->edges_cap, (size_t)plan->n_edges + 1, sizeof *plan->edges,
                  &plan->failed))
        return;
    plan->edges[plan->n_edges++] = (struct msi_edge){from, to};
    plan->steps[to].waits++;
}

static void touch(struct msi_plan *plan, struct msi_ref ref, size_t count, bool write) {
    uint32_t step = plan->n - 1;
    ref = resolve_in_place(plan, ref);
    plan->hazards.n_found = 0;
    if (write)
        msi_hazards_write(&plan->hazards, ref.space, ref.at, count, step);
    else if (ref.space != MSI_IN || plan->request.in_place) /* otherwise no step writes it */
        msi_hazards_read(&plan->hazards, ref.space, ref.at, count, step);
    for (size_t i = 0; i < plan->hazards.n_found; i++) add_edge(plan, plan->hazards.found[i], step);
}

/* Makes messages to one peer, and messages from one peer, start in order. */
static void chain(struct msi_plan *plan, uint32_t *last) {
    uint32_t step = plan->n - 1;
    if (*last != MSI_NO_STEP) {
        plan->steps[*last].chain = step;
        plan->steps[step].waits++;
    }
    *last = step;
}

static struct msi_step *append(struct msi_plan *plan, struct msi_step step) {
    if (plan->failed ||
        !msi_grow(&plan->steps, &plan->steps_cap, (size_t)plan->n + 1, sizeof *plan->steps, &plan->failed))
        return NULL;
    step.chain = MSI_NO_STEP;
    step.waits = step.after = step.n_after = 0;
    plan->steps[plan->n] = step;
    return &plan->steps[plan->n++];
}

static size_t piece(const struct msi_plan *plan, size_t left) {
    size_t chunk = plan->request.chunk;
    return chunk && left > chunk ? chunk : left;
}

void msi_emit_transfer(struct msi_plan *plan, enum msi_step_kind kind, int peer, struct msi_ref ref,
                       size_t count) {
    bool send = kind == MSI_SEND;
    for (size_t done = 0, n; done < count; done += n) {
        n = piece(plan, count - done);
        struct msi_step step = {.kind = (uint8_t)kind, .peer = peer, .count = n};
        *(send ? &step.src : &step.dst) = msi_ref_plus(ref, done);
        if (!append(plan, step)) return;
        touch(plan, msi_ref_plus(ref, done), n, !send);
        chain(plan, &plan->last[send ? peer : plan->request.size + peer]);
    }
}

void msi_emit_recv_shares(struct msi_plan *plan) {
    int n = plan->request.size;
    for (int s = 1; s < n; s++) {
        int from = msi_minus(plan->request.rank, s, n);
        struct msi_span block = msi_plan_share(plan, from);
        msi_emit_recv(plan, from, msi_ref(MSI_OUT, block.at), block.count);
    }
}

void msi_emit(struct msi_plan *plan, enum msi_step_kind kind, struct msi_ref dst, struct msi_ref src,
              size_t count) {
    struct msi_ref to = resolve_in_place(plan, dst), from = resolve_in_place(plan, src);
    if (kind == MSI_COPY && to.space == from.space && to.at == from.at) return;
    for (size_t done = 0, n; done < count; done += n) {
        n = piece(plan, count - done);
        struct msi_step step = {.kind = (uint8_t)kind,
                                .peer = -1,
                                .dst = msi_ref_plus(dst, done),
                                .src = msi_ref_plus(src, done),
                                .count = n};
        if (!append(plan, step)) return;
        touch(plan, step.src, n, false);
        touch(plan, step.dst, n, true);
    }
}

static void emit_sources(struct msi_plan *plan, enum msi_step_kind kind, struct msi_ref dst,
                         const struct msi_ref *sources, int n_sources, size_t count) {
    for (size_t done = 0, n; done < count; done += n) {
        n = piece(plan, count - done);
        if (!msi_grow(&plan->sources, &plan->sources_cap, (size_t)plan->n_sources + (size_t)n_sources,
                      sizeof *plan->sources, &plan->failed))
            return;
        struct msi_step step = {.kind = (uint8_t)kind,
                                .peer = n_sources,
                                .dst = msi_ref_plus(dst, done),
                                .count = n,
                                .sources = plan->n_sources};
        if (!append(plan, step)) return;
        for (int i = 0; i < n_sources; i++) {
            plan->sources[plan->n_sources] = msi_ref_plus(sources[i], done);
            touch(plan, plan->sources[plan->n_sources++], n, false);
        }
        touch(plan, step.dst, n, true);
    }
}

void msi_emit_reduce_local(struct msi_plan *plan, struct msi_ref dst, const struct msi_ref *sources,
                           int n_sources, size_t count) {
    emit_sources(plan, MSI_REDUCE_LOCAL, dst, sources, n_sources, count);
}

void msi_emit_pack(struct msi_plan *plan, struct msi_ref dst, const struct msi_ref *sources, int n_sources,
                   size_t count) {
    emit_sources(plan, MSI_PACK, dst, sources, n_sources, count);
}

void msi_emit_order(struct msi_plan *plan, uint32_t earlier, uint32_t later) {
    if (earlier != MSI_NO_STEP && later != MSI_NO_STEP && earlier < plan->n && later < plan->n)
        add_edge(plan, earlier, later);
}

struct msi_ref msi_emit_scratch(struct msi_plan *plan, enum msi_space space, size_t count) {
    struct msi_ref ref = {space, plan->scratch[space]};
    plan->scratch[space] += count;
    return ref;
}

struct msi_ref *msi_emit_sources(struct msi_plan *plan, int n) {
    if (!msi_grow(&plan->reduce_local, &plan->reduce_cap, (size_t)n, sizeof *plan->reduce_local,
                  &plan->failed))
        return NULL;
    return plan->reduce_local;
}
