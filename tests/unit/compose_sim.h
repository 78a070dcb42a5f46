/*
 * compose_sim.h - runs the compositions of all ranks in one process, in random order, on an engine that does
 * what its table says and nothing else.
 *
 * What an operation will write is spoilt when it begins; messages are taken when both sides have begun them,
 * collectives when all have. So whatever does not wait for what it needs gives a wrong result under some
 * seed.
 */
#ifndef TESTS_COMPOSE_SIM_H
#define TESTS_COMPOSE_SIM_H

#include "compose_case.h"

struct sim_rank {
    struct msi_composer composer;
    size_t begun, over; /* steps; all before over are */
    size_t begun_collectives;
    bool held;   /* does not begin anything */
    size_t sent; /* bytes that its operations send at the least */
};

struct sim {
    struct world world;
    struct sim_rank ranks[MOST_RANKS];
    uint64_t seed;
    char *room; /* of an operation, while it is executed */
    size_t room_bytes;
    size_t operations;
};

static inline void *sim_scratch(void *context, mst_memory memory, size_t bytes) {
    return new_block(context, memory, bytes);
}

static inline size_t op_len(const mst_backend_op *op, bool in, int r) {
    return msi_op_len(in ? op->in_counts : op->out_counts, op->count, r) * op->element;
}

/* Where the block for or from rank r is, or the only one. */
static inline char *op_block(const mst_backend_op *op, bool in, int r) {
    size_t start = 0;
    if (in && op->in_list) return (char *)(uintptr_t)op->in_list[r];
    if (!in && op->out_list) return op->out_list[r];
    for (int i = 0; i < r && has_parts(op->kind, in); i++) start += op_len(op, in, i);
    return (char *)(uintptr_t)(in ? op->in : op->out) + start;
}

static inline bool op_reads(const mst_backend_op *op, int rank) {
    if (op->kind == MST_KIND_BARRIER || op->kind == MST_KIND_RECV) return false;
    return (op->kind != MST_KIND_BROADCAST && op->kind != MST_KIND_SCATTER) || op->root == rank;
}

static inline bool op_writes(const mst_backend_op *op, int rank) {
    if (op->kind == MST_KIND_BARRIER || op->kind == MST_KIND_SEND) return false;
    return (op->kind != MST_KIND_REDUCE && op->kind != MST_KIND_GATHER) || op->root == rank;
}

/* Bytes of the r-th block that an operation reads or writes; r = 0 where there is one. */
static inline size_t op_bytes(const mst_backend_op *op, bool in, int r) {
    return has_parts(op->kind, in) ? op_len(op, in, r) : op->count * op->element;
}

static inline int op_blocks(const struct sim *sim, const mst_backend_op *op, bool in) {
    return has_parts(op->kind, in) ? sim->world.ranks : 1;
}

/* The memory must be the rank's, and of that sort. */
static inline void sim_check_memory(const struct sim *sim, int rank, const char *at, size_t bytes,
                                    int memory) {
    const struct world_rank *w = &sim->world.of[rank];
    for (int i = 0; i < w->n_blocks; i++) {
        const struct block *b = &w->blocks[i];
        if (at < b->base || at > b->base + b->bytes || bytes > (size_t)(b->base + b->bytes - at)) continue;
        if (memory < 0 || (int)b->memory == memory) return;
    }
    if (bytes)
        fail_msg("%s: rank %d reaches memory that is not its own, or not of kind %d", sim->world.what, rank,
                 memory);
}

/* Do input and output touch? If so, it must be as the header says. */
static inline bool sim_in_place(const struct sim *sim, int rank, const mst_backend_op *op) {
    bool any = false;
    if (!op_reads(op, rank) || !op_writes(op, rank) || op->kind == MST_KIND_BROADCAST) return false;
    for (int i = 0; i < op_blocks(sim, op, true); i++)
        for (int k = 0; k < op_blocks(sim, op, false); k++) {
            char *in = op_block(op, true, i), *out = op_block(op, false, k);
            size_t in_bytes = op_bytes(op, true, i), out_bytes = op_bytes(op, false, k);
            any |= in < out + out_bytes && out < in + in_bytes && in_bytes && out_bytes;
        }
    if (!any) return false;
    int a = has_parts(op->kind, true) ? rank : 0, b = has_parts(op->kind, false) ? rank : 0;
    bool same = op->kind == MST_KIND_ALL_TO_ALL ? op_block(op, true, 0) == op_block(op, false, 0)
                                                : op_block(op, true, a) == op_block(op, false, b);
    if (!same)
        fail_msg("%s: rank %d has an input and an output that overlap partially", sim->world.what, rank);
    return true;
}

/* Does the table have it, as it is asked for? */
static inline void sim_check_legal(const struct sim *sim, int rank, const mst_backend_op *op) {
    const struct msi_composer *c = &sim->ranks[rank].composer;
    const struct world *w = &sim->world;
    unsigned forms = msi_op_forms(op, rank, w->ranks);
    if (sim_in_place(sim, rank, op)) forms |= MST_FORM_IN_PLACE;
    if (w->deterministic && msi_kind_reduces(w->kind) && msi_kind_reduces(op->kind))
        forms |= MST_FORM_DETERMINISTIC;
    if (c->forced >> op->kind & 1 ||
        !msi_rows_have(c->table->rows(), op->kind, op->dtype, op->op, op->memory, forms))
        fail_msg("%s: rank %d is to do %s with forms %#x, which it cannot", w->what, rank,
                 msi_kind_text(op->kind), forms);
    if (op->kind == MST_KIND_BROADCAST && op->root != rank) assert_ptr_equal(op->in, op->out);
    for (int i = 0; op_reads(op, rank) && i < op_blocks(sim, op, true); i++)
        sim_check_memory(sim, rank, op_block(op, true, i), op_bytes(op, true, i), (int)op->memory);
    for (int i = 0; op_writes(op, rank) && i < op_blocks(sim, op, false); i++)
        sim_check_memory(sim, rank, op_block(op, false, i), op_bytes(op, false, i), (int)op->memory);
}

/* What an operation sends at the least. */
static inline size_t sim_cost(const struct sim *sim, int rank, const mst_backend_op *op) {
    size_t all = 0, others = (size_t)sim->world.ranks - 1, one = op->count * op->element;
    for (int r = 0; r < sim->world.ranks; r++)
        if (r != rank) all += op_len(op, true, r);
    switch (op->kind) {
    case MST_KIND_SEND:
        return one;
    case MST_KIND_ALL_GATHER:
        return others * one;
    case MST_KIND_ALL_TO_ALL:
        return all;
    case MST_KIND_GATHER:
    case MST_KIND_REDUCE:
        return rank == op->root ? 0 : one;
    case MST_KIND_SCATTER:
        return rank == op->root ? all : 0;
    default:
        return 0;
    }
}

static inline void sim_begin_op(struct sim *sim, int rank, const mst_backend_op *op) {
    sim_check_legal(sim, rank, op);
    sim->ranks[rank].sent += sim_cost(sim, rank, op);
    sim->operations++;
    if (op->kind < MST_KIND_SEND) sim->ranks[rank].begun_collectives++;
    bool same =
        op->kind == MST_KIND_BROADCAST ? op->root == rank && op->in == op->out : sim_in_place(sim, rank, op);
    for (int i = 0; !same && op_writes(op, rank) && i < op_blocks(sim, op, false); i++)
        if (op_bytes(op, false, i)) memset(op_block(op, false, i), ~SPOILT, op_bytes(op, false, i));
}

static inline void sim_fold(const struct sim *sim, int rank, const struct msi_part *step) {
    const mst_backend_op *op = &step->op;
    struct msi_reduce_scale scale = {.factor = op->factor, .ranks = sim->world.ranks};
    const void *sources[MOST_RANKS];
    assert_in_range(step->blocks, 1, sim->world.ranks);
    for (int i = 0; i < step->blocks; i++) {
        sources[i] = (const char *)step->from + (size_t)i * step->bytes;
        sim_check_memory(sim, rank, sources[i], op->count * op->element, (int)op->memory);
    }
    sim_check_memory(sim, rank, step->to, op->count * op->element, (int)op->memory);
    msi_reducer_get(op->dtype, op->op)
        ->reduce_local(step->to, NULL, sources, step->blocks, op->count, &scale);
}

/* Begins the next step of a rank, if it may. */
static inline bool sim_begin(struct sim *sim, int rank) {
    struct sim_rank *s = &sim->ranks[rank];
    if (s->held || s->begun == s->composer.n) return false;
    struct msi_part *step = &s->composer.steps[s->begun];
    if ((step->kind != MSI_PART_OP || step->after) && s->over < s->begun) return false;
    s->begun++;
    if (step->kind == MSI_PART_OP) {
        sim_begin_op(sim, rank, &step->op);
        return true;
    }
    if (step->kind == MSI_PART_COPY) {
        sim_check_memory(sim, rank, step->from, step->bytes, -1);
        sim_check_memory(sim, rank, step->to, step->bytes, -1);
        memcpy(step->to, step->from, step->bytes); /* the sanitizer sees whether they overlap */
    } else {
        sim_fold(sim, rank, step);
    }
    step->over = true;
    return true;
}

static inline char *sim_room(struct sim *sim, size_t bytes) {
    if (bytes > sim->room_bytes) {
        sim->room = realloc(sim->room, sim->room_bytes = bytes);
        assert_non_null(sim->room);
    }
    return sim->room;
}

/* Puts all inputs of a collective into the room, rank behind rank. */
static inline void sim_collect(struct sim *sim, mst_backend_op *const *ops, size_t *starts) {
    size_t bytes = 0, at = 0;
    int n = sim->world.ranks;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < op_blocks(sim, ops[r], true); i++) bytes += op_bytes(ops[r], true, i);
    char *room = sim_room(sim, bytes + 1);
    for (int r = 0; r < n; r++) {
        starts[r] = at;
        for (int i = 0; op_reads(ops[r], r) && i < op_blocks(sim, ops[r], true); i++) {
            size_t len = op_bytes(ops[r], true, i);
            if (len) memcpy(room + at, op_block(ops[r], true, i), len);
            at += len;
        }
    }
}

/* In the order of ranks only if that was asked for. */
static inline void sim_reduce(struct sim *sim, const mst_backend_op *op, char *to, const size_t *starts,
                              size_t offset) {
    struct msi_reduce_scale scale = {.factor = op->factor, .ranks = sim->world.ranks};
    const void *sources[MOST_RANKS];
    int n = sim->world.ranks;
    for (int r = 0; r < n; r++)
        sources[sim->world.deterministic ? r : n - 1 - r] = sim->room + starts[r] + offset;
    if (op->count) msi_reducer_get(op->dtype, op->op)->reduce_local(to, NULL, sources, n, op->count, &scale);
}

/* What a rank gets of a collective whose inputs are in the room. */
static inline void sim_deliver(struct sim *sim, mst_backend_op *const *ops, int rank, const size_t *starts) {
    const mst_backend_op *op = ops[rank];
    bool parts = has_parts(op->kind, true);
    if (!op_writes(op, rank)) return;
    for (int i = 0; i < op_blocks(sim, op, false); i++) {
        int from = has_parts(op->kind, false) ? i : op->root < 0 ? 0 : op->root;
        size_t offset = 0, bytes = op_bytes(op, false, i);
        for (int r = 0; parts && r < rank; r++) offset += op_len(ops[from], true, r);
        assert_int_equal(bytes, parts ? op_len(ops[from], true, rank) : ops[from]->count * op->element);
        if (msi_kind_reduces(op->kind))
            sim_reduce(sim, op, op_block(op, false, i), starts, offset);
        else if (bytes)
            memcpy(op_block(op, false, i), sim->room + starts[from] + offset, bytes);
    }
}

static inline void sim_check_alike(const struct sim *sim, const mst_backend_op *a, const mst_backend_op *b) {
    bool uneven = a->in_counts || a->out_counts;
    if (a->kind != b->kind || a->dtype != b->dtype || a->root != b->root ||
        (!uneven && a->count != b->count) || uneven != (b->in_counts || b->out_counts) ||
        (msi_kind_reduces(a->kind) && a->op != b->op))
        fail_msg("%s: one rank does %s of %zu %s at %d, another %s of %zu %s at %d", sim->world.what,
                 msi_kind_text(a->kind), a->count, mst_dtype_name(a->dtype), a->root, msi_kind_text(b->kind),
                 b->count, mst_dtype_name(b->dtype), b->root);
}

/* The k-th collective that a rank has begun; NULL: it has not yet. */
static inline struct msi_part *sim_collective(struct sim_rank *s, size_t k) {
    for (size_t i = 0; i < s->begun; i++)
        if (s->composer.steps[i].kind == MSI_PART_OP && s->composer.steps[i].op.kind < MST_KIND_SEND &&
            k-- == 0)
            return &s->composer.steps[i];
    return NULL;
}

static inline bool sim_execute(struct sim *sim, size_t k) {
    struct msi_part *steps[MOST_RANKS] = {NULL};
    mst_backend_op *ops[MOST_RANKS] = {NULL};
    size_t starts[MOST_RANKS];
    for (int r = 0; r < sim->world.ranks; r++) {
        if (sim->ranks[r].begun_collectives <= k) return false;
        steps[r] = sim_collective(&sim->ranks[r], k);
        ops[r] = &steps[r]->op;
        sim_check_alike(sim, ops[0], ops[r]);
    }
    if (ops[0]->kind != MST_KIND_BARRIER) sim_collect(sim, ops, starts);
    for (int r = 0; r < sim->world.ranks; r++) {
        if (ops[0]->kind != MST_KIND_BARRIER) sim_deliver(sim, ops, r, starts);
        steps[r]->over = true;
    }
    return true;
}

/* The first message of a rank to or from another that is under way. */
static inline struct msi_part *sim_message(struct sim_rank *s, mst_kind kind, int peer, int tag) {
    for (size_t i = s->over; i < s->begun; i++) {
        struct msi_part *step = &s->composer.steps[i];
        if (step->kind == MSI_PART_OP && !step->over && step->op.kind == kind && step->op.peer == peer &&
            step->op.tag == tag)
            return step;
    }
    return NULL;
}

static inline bool sim_carry(struct sim *sim, int from, const struct msi_part *step) {
    int to = step->op.peer;
    struct msi_part *send = sim_message(&sim->ranks[from], MST_KIND_SEND, to, step->op.tag);
    struct msi_part *receive = sim_message(&sim->ranks[to], MST_KIND_RECV, from, step->op.tag);
    if (!receive) return false;
    assert_int_equal(send->op.count, receive->op.count);
    assert_int_equal(send->op.dtype, receive->op.dtype);
    memcpy(receive->op.out, send->op.in, send->op.count * send->op.element);
    send->over = receive->over = true;
    return true;
}

/* Ends something that the rank has under way, if that can be. */
static inline bool sim_finish(struct sim *sim, int rank) {
    struct sim_rank *s = &sim->ranks[rank];
    size_t k = 0;
    for (size_t i = 0; i < s->begun; i++) {
        struct msi_part *step = &s->composer.steps[i];
        bool collective = step->kind == MSI_PART_OP && step->op.kind < MST_KIND_SEND;
        k += collective;
        if (step->over) continue;
        if (collective ? sim_execute(sim, k - 1)
                       : step->op.kind == MST_KIND_SEND && sim_carry(sim, rank, step))
            return true;
    }
    return false;
}

static inline bool sim_move(struct sim *sim) {
    int n = sim->world.ranks, first = (int)below(&sim->seed, (size_t)n);
    bool eager = below(&sim->seed, 2);
    for (int i = 0; i < n; i++) {
        int rank = (first + i) % n;
        struct sim_rank *s = &sim->ranks[rank];
        bool moved = eager ? sim_begin(sim, rank) || sim_finish(sim, rank)
                           : sim_finish(sim, rank) || sim_begin(sim, rank);
        if (!moved) continue;
        for (int r = 0; r < n; r++)
            for (s = &sim->ranks[r]; s->over < s->begun && s->composer.steps[s->over].over;) s->over++;
        return true;
    }
    return false;
}

static inline bool sim_done(const struct sim *sim, int rank) {
    return sim->ranks[rank].over == sim->ranks[rank].composer.n;
}

static inline void sim_say_stuck(const struct sim *sim) {
    for (int r = 0; r < sim->world.ranks; r++)
        for (size_t i = sim->ranks[r].over; i < sim->ranks[r].composer.n; i++) {
            const struct msi_part *step = &sim->ranks[r].composer.steps[i];
            if (step->over) continue;
            print_error("rank %d, step %zu%s: %s, peer %d, count %zu\n", r, i,
                        i < sim->ranks[r].begun ? ", begun" : "",
                        step->kind == MSI_PART_COPY           ? "copy"
                        : step->kind == MSI_PART_REDUCE_LOCAL ? "fold"
                                                              : msi_kind_text(step->op.kind),
                        step->op.peer, step->op.count);
        }
    fail_msg("%s: nobody can move", sim->world.what);
}

/* Runs what all ranks have composed. Nobody leaves a barrier before all have come. */
static inline void sim_run(struct sim *sim) {
    int late = (int)below(&sim->seed, (size_t)sim->world.ranks), n = sim->world.ranks;
    for (int r = 0; r < n; r++) {
        struct sim_rank *s = &sim->ranks[r];
        s->begun = s->over = s->begun_collectives = s->sent = 0;
        s->held = r == late && sim->world.kind == MST_KIND_BARRIER;
    }
    while (sim_move(sim)) continue;
    for (int r = 0; r < n && sim->world.kind == MST_KIND_BARRIER && n > 1; r++)
        if (sim_done(sim, r)) fail_msg("%s: rank %d did not wait for %d", sim->world.what, r, late);
    sim->ranks[late].held = false;
    while (sim_move(sim)) continue;
    for (int r = 0; r < n; r++)
        if (!sim_done(sim, r)) sim_say_stuck(sim);
}

static inline void sim_free(struct sim *sim) {
    for (int r = 0; r < MOST_RANKS; r++) free(sim->ranks[r].composer.steps);
    free(sim->room);
}

#endif
