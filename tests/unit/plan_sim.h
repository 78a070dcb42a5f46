/*
 * plan_sim.h - runs the plans of all ranks in one process, in random order, and sees what comes out.
 *
 * Raw elements are 32 bits, accumulated ones 64, and the way from the one to the other cannot be walked twice unnoticed.
 * A message arrives when both sides have posted it, or, if eager, is taken from its sender before that. What will be
 * received into is spoilt when the receive is posted, scratch is spoilt from the start: a step that does not wait for
 * what it needs gives a wrong result under some seed.
 */
#ifndef TESTS_PLAN_SIM_H
#define TESTS_PLAN_SIM_H

#include "harness.h"

#include "coll/emit.h"
#include "coll/planners.h"

enum sim_op { SIM_SUM, SIM_ORDERED };

struct sim_rank {
    struct msi_plan plan;
    uint32_t *memory[MSI_SPACES]; /* ACC: two words each */
    size_t room[MSI_SPACES], cap[MSI_SPACES];
    uint32_t *waits, *depth, *match, **caught;
    uint8_t *posted, *done;
    size_t steps_cap;
    uint32_t left;
    bool held; /* not started yet */
    uint64_t sent[2], received[2], sends, receives, combined, copied, leaves[2], enters[2]; /* [acc] */
};

struct sim_event {
    int rank;
    uint32_t step;
};

struct sim {
    struct msi_request request;
    struct sim_rank *ranks;
    int cap;
    enum sim_op op;
    bool eager;
    uint64_t seed;
    struct sim_event *events;
    size_t n_events, events_cap;
    uint32_t depth;
    uint32_t *heads;
    size_t heads_cap;
    const size_t *splits; /* all_to_all: splits[a * size + b] from a to b */
    char what[256];
    bool failed;
};

#define SIM_SPOILT 0xdeadbeefu
#define SIM_FACTOR 0x9E3779B97F4A7C15u

static inline uint64_t sim_random(uint64_t *state) {
    uint64_t z = (*state += SIM_FACTOR);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline size_t sim_below(uint64_t *state, size_t n) {
    return (size_t)(((sim_random(state) >> 32) * n) >> 32);
}

/* What rank r has at place i of its input. */
static inline uint32_t sim_value(int rank, size_t i) {
    uint64_t state = (uint64_t)rank << 40 ^ i;
    return (uint32_t)sim_random(&state);
}

#define sim_fault(sim, ...)                                                                                  \
    do {                                                                                                     \
        print_error("%s: ", (sim)->what);                                                                    \
        print_error(__VA_ARGS__);                                                                            \
        print_error("\n");                                                                                   \
        (sim)->failed = true;                                                                                \
    } while (0)

static inline uint64_t sim_begin(uint32_t raw) {
    return raw * SIM_FACTOR;
}
static inline uint64_t sim_add(enum sim_op op, uint64_t acc, uint32_t raw) {
    return (op == SIM_SUM ? acc : acc * 31) + sim_begin(raw);
}
static inline uint64_t sim_merge(enum sim_op op, uint64_t acc, uint64_t other) {
    return op == SIM_SUM ? acc + other : (acc * 33 ^ other) * 5;
}
static inline uint32_t sim_end(uint64_t acc) {
    return (uint32_t)(acc >> 32);
}

static inline void *sim_room(void *old, size_t n, size_t size) {
    void *memory = realloc(old, (n ? n : 1) * size);
    assert_non_null(memory);
    return memory;
}

/* Elements of IN and OUT that a rank has. */
static inline size_t sim_total(const struct sim *sim, int rank, bool in) {
    const struct msi_request *q = &sim->request;
    size_t all = 0, n = (size_t)q->size;
    if (q->kind == MSI_ALL_TO_ALL) {
        if (!sim->splits) return n * q->count;
        for (size_t r = 0; r < n; r++) all += sim->splits[in ? (size_t)rank * n + r : r * n + (size_t)rank];
        return all;
    }
    for (size_t r = 0; r < n; r++) all += q->counts ? q->counts[r] : q->count;
    size_t own = q->counts ? q->counts[rank] : q->count;
    switch (q->kind) {
    case MSI_ALL_REDUCE:
        return q->count;
    case MSI_REDUCE:
        return in || rank == q->root ? q->count : 0;
    case MSI_BROADCAST:
        return in && rank != q->root ? 0 : q->count;
    case MSI_ALL_GATHER:
        return in ? own : all;
    case MSI_GATHER:
        return in ? own : rank == q->root ? all : 0;
    case MSI_REDUCE_SCATTER:
        return in ? all : own;
    case MSI_SCATTER:
        return in ? (rank == q->root ? all : 0) : own;
    default:
        return 0;
    }
}

static inline size_t sim_start(const struct sim *sim, int rank) {
    size_t at = 0;
    if (!sim->request.counts) return (size_t)rank * sim->request.count;
    for (int r = 0; r < rank; r++) at += sim->request.counts[r];
    return at;
}

/* In place: the smaller buffer is its own place in the larger. */
static inline void sim_alias(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    enum msi_coll kind = sim->request.kind;
    size_t in = sim_total(sim, rank, true), out = sim_total(sim, rank, false);
    if (kind == MSI_REDUCE_SCATTER || kind == MSI_SCATTER) {
        if (in) r->memory[MSI_OUT] = r->memory[MSI_IN] + sim_start(sim, rank);
    } else if (out && in) {
        bool whole = kind == MSI_ALL_REDUCE || kind == MSI_REDUCE || kind == MSI_BROADCAST;
        r->memory[MSI_IN] = r->memory[MSI_OUT] + (whole ? 0 : sim_start(sim, rank));
    }
}

static inline void sim_lay_out(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    size_t n[MSI_SPACES] = {sim_total(sim, rank, true), sim_total(sim, rank, false), r->plan.scratch[MSI_RAW],
                            r->plan.scratch[MSI_ACC]};
    for (int space = 0; space < MSI_SPACES; space++) {
        size_t words = space == MSI_ACC ? 2 * n[space] : n[space];
        r->memory[space] = sim_room(NULL, words, sizeof(uint32_t));
        r->room[space] = n[space];
        for (size_t i = 0; i < words; i++) r->memory[space][i] = SIM_SPOILT;
    }
    uint32_t *in = r->memory[MSI_IN], *out = r->memory[MSI_OUT];
    if (sim->request.in_place) sim_alias(sim, rank);
    for (size_t i = 0; i < n[MSI_IN]; i++) r->memory[MSI_IN][i] = sim_value(rank, i);
    /* Whichever of the two is no longer reached is freed now. */
    if (r->memory[MSI_IN] != in) free(in);
    if (r->memory[MSI_OUT] != out) free(out);
}

static inline void sim_drop(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    enum msi_coll kind = sim->request.kind;
    bool in_out = kind == MSI_REDUCE_SCATTER || kind == MSI_SCATTER;
    bool shared =
        sim->request.in_place && sim_total(sim, rank, true) && (in_out || sim_total(sim, rank, false));
    if (!shared || in_out) free(r->memory[MSI_IN]);
    if (!shared || !in_out) free(r->memory[MSI_OUT]);
    free(r->memory[MSI_RAW]);
    free(r->memory[MSI_ACC]);
}

/* Pairs the k-th send of a to b with the k-th receive of b from a; their sizes and types must agree. */
static inline void sim_match(struct sim *sim, int a, int b, uint32_t send, uint32_t receive) {
    struct sim_rank *from = &sim->ranks[a], *to = &sim->ranks[b];
    while (send != MSI_NO_STEP && receive != MSI_NO_STEP) {
        const struct msi_step *s = &from->plan.steps[send], *r = &to->plan.steps[receive];
        if (s->count != r->count || (s->src.space == MSI_ACC) != (r->dst.space == MSI_ACC))
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
    return r->memory[ref.space] + (ref.space == MSI_ACC ? 2 : 1) * ref.at;
}

static inline void sim_release(struct sim *sim, int rank, uint32_t step, uint32_t depth);

static inline size_t sim_words(const struct msi_step *s) {
    bool acc = (s->kind == MSI_SEND ? s->src : s->dst).space == MSI_ACC;
    return acc ? 2 * s->count : s->count;
}

/* A step may start: local work and messages whose both sides are there become events. */
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

static inline void sim_fold(struct sim *sim, int rank, const struct msi_step *s) {
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

static inline void sim_work(struct sim *sim, int rank, const struct msi_step *s) {
    struct sim_rank *r = &sim->ranks[rank];
    if (s->kind == MSI_FOLD) {
        sim_fold(sim, rank, s);
        return;
    }
    bool acc_dst = s->kind == MSI_BEGIN || s->kind == MSI_ADD || s->kind == MSI_MERGE;
    bool acc_src = s->kind == MSI_MERGE || s->kind == MSI_END;
    if ((s->dst.space == MSI_ACC) != acc_dst || (s->src.space == MSI_ACC) != acc_src)
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

static inline void sim_count(struct sim *sim, int rank, const struct msi_step *s) {
    struct sim_rank *a = &sim->ranks[rank], *b = &sim->ranks[s->peer];
    int acc = s->src.space == MSI_ACC;
    const int *of = sim->request.hosts.of;
    a->sent[acc] += s->count;
    b->received[acc] += s->count;
    a->sends++;
    b->receives++;
    if (of && of[rank] != of[s->peer]) {
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
    uint32_t depth = (r->depth[step] > sender->depth[send] ? r->depth[step] : sender->depth[send]) + 1;
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

/* Ranks that are held do nothing. Returns when nothing can move. */
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

/* What rank has to find at place i of OUT; sums are formed in rank order. */
static inline uint32_t sim_wanted(const struct sim *sim, int rank, size_t i) {
    const struct msi_request *q = &sim->request;
    size_t at = i;
    int r = 0;
    bool even = !q->counts && !sim->splits;
    if (q->kind == MSI_ALL_TO_ALL && even)
        return sim_value((int)(i / q->count), (size_t)rank * q->count + i % q->count);
    if (q->kind == MSI_ALL_TO_ALL) {
        size_t n = (size_t)q->size, before = 0;
        for (;; r++) {
            size_t block = sim->splits[(size_t)r * n + (size_t)rank];
            if (at < block) break;
            at -= block;
        }
        for (size_t k = 0; k < (size_t)rank; k++) before += sim->splits[(size_t)r * n + k];
        return sim_value(r, before + at);
    }
    if (q->kind == MSI_BROADCAST) return sim_value(q->root, i);
    if (q->kind == MSI_SCATTER) return sim_value(q->root, sim_start(sim, rank) + i);
    if (q->kind == MSI_ALL_GATHER || q->kind == MSI_GATHER) {
        if (even) return sim_value((int)(i / q->count), i % q->count);
        for (; at >= q->counts[r]; r++) at -= q->counts[r];
        return sim_value(r, at);
    }
    if (q->kind == MSI_REDUCE_SCATTER) at = sim_start(sim, rank) + i;
    uint64_t acc = sim_begin(sim_value(0, at));
    for (r = 1; r < q->size; r++) acc = sim_add(sim->op, acc, sim_value(r, at));
    return sim_end(acc);
}

/* Everything done, nothing changed that is not a result, and the results, if they are to be looked at. */
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
            bool known = r > 0 && sim->request.kind == MSI_ALL_REDUCE;
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
