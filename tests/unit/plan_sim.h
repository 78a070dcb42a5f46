/*
 * plan_sim.h - runs the plans of all ranks in one process, in random order, and checks the results.
 *
 * A message arrives when both sides have posted it; an eager message leaves its sender before that. Posting a
 * receive overwrites its buffer with garbage, and scratch starts as garbage. So a missing dependency gives a
 * wrong result with some seed.
 */
#ifndef TESTS_PLAN_SIM_H
#define TESTS_PLAN_SIM_H

#include "plan_world.h"

/* May a message go from one space to the other? */
static inline bool sim_fits(enum msi_space from, enum msi_space to) {
    return (from == MSI_ACC) == (to == MSI_ACC) && (from == MSI_PACKED) == (to == MSI_PACKED);
}

/* Pairs the k-th send of a to b with the k-th receive of b from a; their sizes and types must agree. */
static inline void sim_match(struct sim *sim, int a, int b, uint32_t send, uint32_t receive) {
    struct sim_rank *from = &sim->ranks[a], *to = &sim->ranks[b];
    while (send != MSI_NO_STEP && receive != MSI_NO_STEP) {
        const struct msi_step *s = &from->plan.steps[send], *r = &to->plan.steps[receive];
        if (s->count != r->count || !sim_fits(s->src.space, r->dst.space))
            sim_fault(sim, "message from %d to %d: sends %zu of space %d, receives %zu of space %d", a, b,
                      s->count, s->src.space, r->count, r->dst.space);
        from->match[send] = receive;
        to->match[receive] = send;
        send = s->chain;
        receive = r->chain;
    }
    if (send != receive) sim_fault(sim, "a message from %d to %d has no other side", a, b);
}

static inline void sim_match_all(struct sim *sim) {
    size_t n = (size_t)sim->request.size;
    if (sim->heads_cap < 2 * n * n)
        sim->heads = sim_room(sim->heads, sim->heads_cap = 2 * n * n, sizeof(uint32_t));
    for (size_t i = 0; i < 2 * n * n; i++) sim->heads[i] = MSI_NO_STEP;
    for (size_t a = 0; a < n; a++) {
        const struct msi_plan *plan = &sim->ranks[a].plan;
        for (uint32_t i = plan->n; i-- > 0;) {
            size_t peer = (size_t)plan->steps[i].peer;
            if (plan->steps[i].kind == MSI_SEND) sim->heads[a * n + peer] = i;
            if (plan->steps[i].kind == MSI_RECV) sim->heads[(n + peer) * n + a] = i;
        }
    }
    for (size_t a = 0; a < n && !sim->failed; a++)
        for (size_t b = 0; b < n && !sim->failed; b++)
            if (sim->heads[a * n + b] != sim->heads[(n + a) * n + b] || sim->heads[a * n + b] != MSI_NO_STEP)
                sim_match(sim, (int)a, (int)b, sim->heads[a * n + b], sim->heads[(n + a) * n + b]);
}

static inline void sim_push(struct sim *sim, int rank, uint32_t step) {
    if (sim->n_events == sim->events_cap) {
        sim->events_cap = sim->events_cap ? 2 * sim->events_cap : 256;
        sim->events = sim_room(sim->events, sim->events_cap, sizeof *sim->events);
    }
    sim->events[sim->n_events++] = (struct sim_event){rank, step};
}

static inline uint32_t *sim_at(struct sim *sim, int rank, struct msi_ref ref, size_t count) {
    struct sim_rank *r = &sim->ranks[rank];
    if (ref.at + count > r->room[ref.space])
        sim_fault(sim, "rank %d reaches %zu of %zu elements of space %d", rank, ref.at + count,
                  r->room[ref.space], ref.space);
    return r->memory[ref.space] + (sim_is_acc(ref.space) ? 2 : 1) * ref.at;
}

static inline void sim_release(struct sim *sim, int rank, uint32_t step, uint32_t depth);

static inline size_t sim_words(const struct msi_step *s) {
    bool acc = sim_is_acc((s->kind == MSI_SEND ? s->src : s->dst).space);
    return acc ? 2 * s->count : s->count;
}

/* A step may start: local work, and messages that both sides have posted, become events. */
static inline void sim_post(struct sim *sim, int rank, uint32_t step) {
    struct sim_rank *r = &sim->ranks[rank];
    const struct msi_step *s = &r->plan.steps[step];
    r->posted[step] = 1;
    if (s->kind == MSI_SEND || s->kind == MSI_RECV) {
        struct sim_rank *peer = &sim->ranks[s->peer];
        bool receives = s->kind == MSI_RECV;
        if (receives) {
            uint32_t *dst = sim_at(sim, rank, s->dst, s->count);
            if (sim->failed) return;
            for (size_t i = 0; i < sim_words(s); i++) dst[i] = SIM_SPOILT;
        }
        uint32_t match = r->match[step];
        if (!receives && sim->eager)
            sim_push(sim, rank, step);
        else if (sim->eager ? peer->caught[match] != NULL : peer->posted[match])
            sim_push(sim, receives ? rank : s->peer, receives ? step : match);
        if (s->chain != MSI_NO_STEP) sim_release(sim, rank, s->chain, r->depth[step]);
    } else {
        sim_push(sim, rank, step);
    }
}

static inline void sim_release(struct sim *sim, int rank, uint32_t step, uint32_t depth) {
    struct sim_rank *r = &sim->ranks[rank];
    if (r->depth[step] < depth) r->depth[step] = depth;
    if (--r->waits[step] == 0 && !r->held) sim_post(sim, rank, step);
}

static inline void sim_finish(struct sim *sim, int rank, uint32_t step, uint32_t depth) {
    struct sim_rank *r = &sim->ranks[rank];
    const struct msi_step *s = &r->plan.steps[step];
    r->done[step] = 1;
    r->left--;
    if (depth > sim->depth) sim->depth = depth;
    for (uint32_t i = 0; i < s->n_after; i++) sim_release(sim, rank, r->plan.after[s->after + i], depth);
}

static inline uint64_t sim_get(const uint32_t *p) {
    return (uint64_t)p[1] << 32 | p[0];
}
static inline void sim_put(uint32_t *p, uint64_t value) {
    p[0] = (uint32_t)value;
    p[1] = (uint32_t)(value >> 32);
}

static inline void sim_reduce_local(struct sim *sim, int rank, const struct msi_step *s) {
    const struct msi_ref *sources = sim->ranks[rank].plan.sources + s->sources;
    uint32_t *dst = sim_at(sim, rank, s->dst, s->count);
    for (int k = 0; k < s->peer; k++) sim_at(sim, rank, sources[k], s->count);
    for (size_t i = 0; i < s->count && !sim->failed; i++) {
        uint64_t acc = 0;
        for (int k = 0; k < s->peer; k++) {
            uint32_t raw = *sim_at(sim, rank, msi_ref_plus(sources[k], i), 1);
            acc = k ? sim_add(sim->op, acc, raw) : sim_begin(raw);
        }
        dst[i] = sim_end(acc);
    }
    sim->ranks[rank].combined += (uint64_t)(s->peer - 1) * s->count;
}

static inline void sim_pack(struct sim *sim, int rank, const struct msi_step *s) {
    const struct msi_ref *sources = sim->ranks[rank].plan.sources + s->sources;
    uint32_t *dst = sim_at(sim, rank, s->dst, s->count);
    if (s->dst.space != MSI_PACKED || s->dst.at % MSI_Q8_VALUES)
        sim_fault(sim, "rank %d packs at %zu of space %d", rank, s->dst.at, s->dst.space);
    for (int k = 0; k < s->peer; k++) {
        const uint32_t *src = sim_at(sim, rank, sources[k], s->count);
        bool acc = sim_is_acc(sources[k].space);
        if (k && (sources[k].space != MSI_PACKED || sources[k].at % MSI_Q8_VALUES))
            sim_fault(sim, "rank %d adds at %zu of space %d", rank, sources[k].at, sources[k].space);
        for (size_t i = 0; i < s->count && !sim->failed; i++) {
            uint64_t one = acc ? sim_get(src + 2 * i) : sim_begin(src[i]);
            sim_put(dst + 2 * i, k ? sim_get(dst + 2 * i) + one : one);
        }
    }
}

static inline void sim_work(struct sim *sim, int rank, const struct msi_step *s) {
    struct sim_rank *r = &sim->ranks[rank];
    if (s->kind == MSI_REDUCE_LOCAL) {
        sim_reduce_local(sim, rank, s);
        return;
    }
    if (s->kind == MSI_PACK) {
        sim_pack(sim, rank, s);
        return;
    }
    bool acc_dst = s->kind == MSI_BEGIN || s->kind == MSI_ADD || s->kind == MSI_MERGE;
    bool acc_src = s->kind == MSI_MERGE || s->kind == MSI_END, unpacks = s->kind == MSI_UNPACK;
    if ((s->dst.space == MSI_ACC) != acc_dst || (s->src.space == MSI_ACC) != acc_src ||
        (s->src.space == MSI_PACKED) != unpacks || s->dst.space == MSI_PACKED ||
        (unpacks && s->src.at % MSI_Q8_VALUES))
        sim_fault(sim, "rank %d: a step of kind %d has the wrong types", rank, s->kind);
    uint32_t *dst = sim_at(sim, rank, s->dst, s->count), *src = sim_at(sim, rank, s->src, s->count);
    for (size_t i = 0; i < s->count && !sim->failed; i++) {
        switch (s->kind) {
        case MSI_COPY:
            dst[i] = src[i];
            break;
        case MSI_BEGIN:
            sim_put(dst + 2 * i, sim_begin(src[i]));
            break;
        case MSI_ADD:
            sim_put(dst + 2 * i, sim_add(sim->op, sim_get(dst + 2 * i), src[i]));
            break;
        case MSI_MERGE:
            sim_put(dst + 2 * i, sim_merge(sim->op, sim_get(dst + 2 * i), sim_get(src + 2 * i)));
            break;
        default:
            dst[i] = sim_end(sim_get(src + 2 * i));
        }
    }
    *(s->kind == MSI_ADD || s->kind == MSI_MERGE ? &r->combined : &r->copied) += s->count;
}

static inline bool sim_leaves(const struct sim *sim, int a, int b) {
    const int *of = sim->request.hosts.of;
    return of && of[a] != of[b];
}

static inline void sim_count(struct sim *sim, int rank, const struct msi_step *s) {
    struct sim_rank *a = &sim->ranks[rank], *b = &sim->ranks[s->peer];
    int acc = sim_is_acc(s->src.space);
    a->sent[acc] += s->count;
    b->received[acc] += s->count;
    a->sends++;
    b->receives++;
    if (sim_leaves(sim, rank, s->peer)) {
        a->far_sends++;
        b->far_receives++;
        a->leaves[acc] += s->count;
        b->enters[acc] += s->count;
    }
}

static inline void sim_catch(struct sim *sim, int rank, uint32_t step) {
    struct sim_rank *r = &sim->ranks[rank];
    const struct msi_step *s = &r->plan.steps[step];
    size_t words = sim_words(s);
    r->caught[step] = sim_room(NULL, words, sizeof(uint32_t));
    memcpy(r->caught[step], sim_at(sim, rank, s->src, s->count), words * sizeof(uint32_t));
    sim_count(sim, rank, s);
    uint32_t match = r->match[step];
    if (sim->ranks[s->peer].posted[match]) sim_push(sim, s->peer, match);
    sim_finish(sim, rank, step, r->depth[step] + 1);
}

/* A message arrives; step is the receiver's. */
static inline void sim_arrive(struct sim *sim, int rank, uint32_t step) {
    struct sim_rank *r = &sim->ranks[rank];
    const struct msi_step *s = &r->plan.steps[step];
    struct sim_rank *sender = &sim->ranks[s->peer];
    uint32_t send = r->match[step];
    const struct msi_step *from = &sender->plan.steps[send];
    uint32_t way = sim->far && sim_leaves(sim, rank, s->peer) ? sim->far : 1;
    uint32_t sent = sender->depth[send] + way, asked = r->depth[step] + (sim->eager ? 0 : way);
    uint32_t depth = sent > asked ? sent : asked; /* an eager message travels before its receive is posted */
    const uint32_t *data = sender->caught[send];
    if (!data) data = sim_at(sim, s->peer, from->src, from->count);
    uint32_t *dst = sim_at(sim, rank, s->dst, s->count);
    if (sim->failed) return;
    memcpy(dst, data, sim_words(s) * sizeof(uint32_t));
    free(sender->caught[send]);
    sender->caught[send] = NULL;
    sim_finish(sim, rank, step, depth);
    if (sim->eager) return;
    sim_count(sim, s->peer, from);
    sim_finish(sim, s->peer, send, depth);
}

static inline void sim_step(struct sim *sim) {
    size_t pick = sim_below(&sim->seed, sim->n_events);
    struct sim_event event = sim->events[pick];
    sim->events[pick] = sim->events[--sim->n_events];
    struct sim_rank *r = &sim->ranks[event.rank];
    const struct msi_step *s = &r->plan.steps[event.step];
    if (s->kind == MSI_SEND) {
        sim_catch(sim, event.rank, event.step);
    } else if (s->kind == MSI_RECV) {
        sim_arrive(sim, event.rank, event.step);
    } else {
        sim_work(sim, event.rank, s);
        sim_finish(sim, event.rank, event.step, r->depth[event.step]);
    }
}

static inline void sim_prepare(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    uint32_t n = r->plan.n;
    if (r->steps_cap < n || !r->waits) {
        r->steps_cap = n + 16;
        r->waits = sim_room(r->waits, r->steps_cap, sizeof *r->waits);
        r->depth = sim_room(r->depth, r->steps_cap, sizeof *r->depth);
        r->match = sim_room(r->match, r->steps_cap, sizeof *r->match);
        r->caught = sim_room(r->caught, r->steps_cap, sizeof *r->caught);
        r->posted = sim_room(r->posted, r->steps_cap, 1);
        r->done = sim_room(r->done, r->steps_cap, 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        r->waits[i] = r->plan.steps[i].waits + 1;
        r->depth[i] = 0;
        r->match[i] = MSI_NO_STEP;
        r->caught[i] = NULL;
        r->posted[i] = r->done[i] = 0;
    }
    r->left = n;
    r->sends = r->receives = r->combined = r->copied = 0;
    r->far_sends = r->far_receives = 0;
    for (int t = 0; t < 2; t++) r->sent[t] = r->received[t] = r->leaves[t] = r->enters[t] = 0;
}

/* Makes the plans of all ranks. */
static inline void sim_plan(struct sim *sim, const struct msi_planner *planner) {
    struct msi_request *q = &sim->request;
    size_t n = (size_t)q->size;
    if (sim->cap < q->size) {
        sim->ranks = sim_room(sim->ranks, n, sizeof *sim->ranks);
        memset(sim->ranks + sim->cap, 0, (n - (size_t)sim->cap) * sizeof *sim->ranks);
        sim->cap = q->size;
    }
    size_t *from = sim_room(NULL, n, sizeof *from);
    for (int r = 0; r < q->size; r++) {
        q->rank = r;
        if (sim->splits) {
            for (size_t i = 0; i < n; i++) from[i] = sim->splits[i * n + (size_t)r];
            q->to = sim->splits + (size_t)r * n;
            q->from = from;
        }
        assert_ok(msi_plan_make(&sim->ranks[r].plan, planner, q));
        sim_prepare(sim, r);
        sim_lay_out(sim, r);
    }
    free(from);
    sim->depth = 0;
    sim->n_events = 0;
    sim->failed = false;
    sim_match_all(sim);
}

/* Runs until no event is left. Held ranks do nothing. */
static inline void sim_go(struct sim *sim) {
    for (int r = 0; r < sim->request.size; r++)
        for (uint32_t i = 0; i < sim->ranks[r].plan.n && !sim->ranks[r].held && !sim->failed; i++)
            sim_release(sim, r, i, 0);
    while (sim->n_events && !sim->failed) sim_step(sim);
}

static inline void sim_end_run(struct sim *sim) {
    for (int r = 0; r < sim->request.size; r++) {
        for (uint32_t i = 0; i < sim->ranks[r].plan.n; i++) free(sim->ranks[r].caught[i]);
        sim_drop(sim, r);
    }
}

static inline void sim_free(struct sim *sim) {
    for (int r = 0; r < sim->cap; r++) {
        struct sim_rank *k = &sim->ranks[r];
        msi_plan_free(&k->plan);
        free(k->waits);
        free(k->depth);
        free(k->match);
        free(k->caught);
        free(k->posted);
        free(k->done);
    }
    free(sim->ranks);
    free(sim->events);
    free(sim->heads);
}

/* Checks that all steps are done, that inputs are unchanged and, if wanted, the results. */
static inline void sim_check(struct sim *sim, bool results) {
    for (int r = 0; r < sim->request.size && !sim->failed; r++) {
        struct sim_rank *k = &sim->ranks[r];
        if (k->left) {
            uint32_t i = 0;
            while (k->done[i]) i++;
            sim_fault(sim, "deadlock: rank %d has not done step %u, kind %d, peer %d", r, i,
                      k->plan.steps[i].kind, k->plan.steps[i].peer);
        }
        for (size_t i = 0; i < k->room[MSI_OUT] && results && !sim->failed; i++) {
            bool known = r > 0 && sim->request.kind == MSI_KIND_ALL_REDUCE;
            uint32_t wanted = known ? sim->ranks[0].memory[MSI_OUT][i] : sim_wanted(sim, r, i);
            if (k->memory[MSI_OUT][i] != wanted)
                sim_fault(sim, "rank %d has %x at %zu, should be %x", r, k->memory[MSI_OUT][i], i, wanted);
        }
        for (size_t i = 0; i < k->room[MSI_IN] && !sim->request.in_place && !sim->failed; i++)
            if (k->memory[MSI_IN][i] != sim_value(r, i))
                sim_fault(sim, "rank %d: its input changed at %zu", r, i);
    }
}

#endif
