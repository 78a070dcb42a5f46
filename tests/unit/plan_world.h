/*
 * plan_world.h - the ranks of a simulated world: their memory, its initial content, the expected results, and
 * an arithmetic that detects mistakes. Raw elements have 32 bits, accumulated elements 64 bits, and
 * converting twice gives a wrong result. SIM_ORDERED is an operation that is neither commutative nor
 * associative.
 */
#ifndef TESTS_PLAN_WORLD_H
#define TESTS_PLAN_WORLD_H

#include "harness.h"

#include "coll/algorithms/planners.h"
#include "coll/emit.h"
#include "reduce/q8.h"

enum sim_op { SIM_SUM, SIM_ORDERED };

/* Has the space accumulated elements? Quantising them changes nothing here. */
static inline bool sim_is_acc(enum msi_space space) {
    return space == MSI_ACC || space == MSI_PACKED;
}

struct sim_rank {
    struct msi_plan plan;
    uint32_t *memory[MSI_SPACES]; /* ACC, PACKED: two words each */
    size_t room[MSI_SPACES], cap[MSI_SPACES];
    uint32_t *waits, *depth, *match, **caught;
    uint8_t *posted, *done;
    size_t steps_cap;
    uint32_t left;
    bool held; /* not started yet */
    uint64_t far_sends, far_receives;
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
    uint32_t far; /* rounds that a message between hosts takes; 0: one */
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

/* Element i of the input of rank r. */
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
    if (q->kind == MSI_KIND_ALL_TO_ALL) {
        if (!sim->splits) return n * q->count;
        for (size_t r = 0; r < n; r++) all += sim->splits[in ? (size_t)rank * n + r : r * n + (size_t)rank];
        return all;
    }
    for (size_t r = 0; r < n; r++) all += q->counts ? q->counts[r] : q->count;
    size_t own = q->counts ? q->counts[rank] : q->count;
    switch (q->kind) {
    case MSI_KIND_ALL_REDUCE:
    case MSI_KIND_SCAN:
        return q->count;
    case MSI_KIND_EXSCAN:
        return in || rank ? q->count : 0;
    case MSI_KIND_REDUCE:
        return in || rank == q->root ? q->count : 0;
    case MSI_KIND_BROADCAST:
        return in && rank != q->root ? 0 : q->count;
    case MSI_KIND_ALL_GATHER:
        return in ? own : all;
    case MSI_KIND_GATHER:
        return in ? own : rank == q->root ? all : 0;
    case MSI_KIND_REDUCE_SCATTER:
        return in ? all : own;
    case MSI_KIND_SCATTER:
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

/* In place: the smaller buffer is this rank's block of the larger. */
static inline void sim_alias(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    enum msi_kind kind = sim->request.kind;
    size_t in = sim_total(sim, rank, true), out = sim_total(sim, rank, false);
    if (kind == MSI_KIND_REDUCE_SCATTER || kind == MSI_KIND_SCATTER) {
        if (in) r->memory[MSI_OUT] = r->memory[MSI_IN] + sim_start(sim, rank);
    } else if (out && in) {
        bool whole = kind == MSI_KIND_ALL_REDUCE || kind == MSI_KIND_REDUCE || kind == MSI_KIND_BROADCAST ||
                     kind == MSI_KIND_SCAN || kind == MSI_KIND_EXSCAN;
        r->memory[MSI_IN] = r->memory[MSI_OUT] + (whole ? 0 : sim_start(sim, rank));
    }
}

static inline void sim_lay_out(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    size_t n[MSI_SPACES] = {sim_total(sim, rank, true), sim_total(sim, rank, false), r->plan.scratch[MSI_RAW],
                            r->plan.scratch[MSI_ACC], r->plan.scratch[MSI_PACKED]};
    for (int space = 0; space < MSI_SPACES; space++) {
        size_t words = sim_is_acc((enum msi_space)space) ? 2 * n[space] : n[space];
        r->memory[space] = sim_room(NULL, words, sizeof(uint32_t));
        r->room[space] = n[space];
        for (size_t i = 0; i < words; i++) r->memory[space][i] = SIM_SPOILT;
    }
    uint32_t *in = r->memory[MSI_IN], *out = r->memory[MSI_OUT];
    if (sim->request.in_place) sim_alias(sim, rank);
    for (size_t i = 0; i < n[MSI_IN]; i++) r->memory[MSI_IN][i] = sim_value(rank, i);
    /* Frees the buffer that is no longer used. */
    if (r->memory[MSI_IN] != in) free(in);
    if (r->memory[MSI_OUT] != out) free(out);
}

static inline void sim_drop(struct sim *sim, int rank) {
    struct sim_rank *r = &sim->ranks[rank];
    enum msi_kind kind = sim->request.kind;
    bool in_out = kind == MSI_KIND_REDUCE_SCATTER || kind == MSI_KIND_SCATTER;
    bool shared =
        sim->request.in_place && sim_total(sim, rank, true) && (in_out || sim_total(sim, rank, false));
    if (!shared || in_out) free(r->memory[MSI_IN]);
    if (!shared || !in_out) free(r->memory[MSI_OUT]);
    free(r->memory[MSI_RAW]);
    free(r->memory[MSI_ACC]);
    free(r->memory[MSI_PACKED]);
}

/* The expected element i of OUT; sums are computed in rank order. */
static inline uint32_t sim_wanted(const struct sim *sim, int rank, size_t i) {
    const struct msi_request *q = &sim->request;
    size_t at = i;
    int r = 0;
    bool even = !q->counts && !sim->splits;
    if (q->kind == MSI_KIND_ALL_TO_ALL && even)
        return sim_value((int)(i / q->count), (size_t)rank * q->count + i % q->count);
    if (q->kind == MSI_KIND_ALL_TO_ALL) {
        size_t n = (size_t)q->size, before = 0;
        for (;; r++) {
            size_t block = sim->splits[(size_t)r * n + (size_t)rank];
            if (at < block) break;
            at -= block;
        }
        for (size_t k = 0; k < (size_t)rank; k++) before += sim->splits[(size_t)r * n + k];
        return sim_value(r, before + at);
    }
    if (q->kind == MSI_KIND_BROADCAST) return sim_value(q->root, i);
    if (q->kind == MSI_KIND_SCATTER) return sim_value(q->root, sim_start(sim, rank) + i);
    if (q->kind == MSI_KIND_ALL_GATHER || q->kind == MSI_KIND_GATHER) {
        if (even) return sim_value((int)(i / q->count), i % q->count);
        for (; at >= q->counts[r]; r++) at -= q->counts[r];
        return sim_value(r, at);
    }
    if (q->kind == MSI_KIND_REDUCE_SCATTER) at = sim_start(sim, rank) + i;
    uint64_t acc = sim_begin(sim_value(0, at));
    int end = q->kind == MSI_KIND_SCAN ? rank + 1 : q->kind == MSI_KIND_EXSCAN ? rank : q->size;
    for (r = 1; r < end; r++) acc = sim_add(sim->op, acc, sim_value(r, at));
    return sim_end(acc);
}

#endif
