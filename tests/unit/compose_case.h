/*
 * compose_case.h - an operation as all ranks of a simulated world ask for it: where its buffers lie, what is
 * in them at first, and what must be in them at the end. Nothing here knows how it is done.
 */
#ifndef TESTS_COMPOSE_CASE_H
#define TESTS_COMPOSE_CASE_H

#include "harness.h"

#include "engine/module/compose.h"
#include "reduce/reduce.h"

#include <math.h>

enum { MOST_RANKS = 6, MOST_BLOCKS = 64, SPOILT = 0x5a };

/* Memory of a rank: the caller's, or what the composition took. */
struct block {
    char *base, *before; /* before: what the caller had in it */
    size_t bytes;
    mst_memory memory;
};

struct world_rank {
    mst_backend_op op;
    mst_memory memory;
    struct block blocks[MOST_BLOCKS];
    int n_blocks;
    const void *in_list[MOST_RANKS];
    void *out_list[MOST_RANKS];
    size_t in_counts[MOST_RANKS], out_counts[MOST_RANKS];
};

struct world {
    int ranks;
    mst_kind kind;
    mst_dtype dtype;
    mst_op op;
    int root;
    size_t count;
    bool deterministic, uneven, lists;
    bool in_place[MOST_RANKS];            /* what this means depends on the kind */
    size_t counts[MOST_RANKS];            /* uneven: elements of each rank's block */
    size_t pairs[MOST_RANKS][MOST_RANKS]; /* uneven all_to_all: from, to */
    struct world_rank of[MOST_RANKS];
    uint64_t seed;
    char what[200];
};

static inline uint64_t mix(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline size_t below(uint64_t *state, size_t n) {
    return (size_t)((((*state = mix(*state)) >> 32) * n) >> 32);
}

static inline bool is_float(mst_dtype dtype) {
    return dtype == MST_F32 || dtype == MST_BF16;
}

/* What a rank has at place i of its input, as bits. */
static inline uint32_t bits_at(const struct world *w, int rank, size_t i) {
    uint32_t random = (uint32_t)mix(w->seed ^ (uint64_t)rank << 40 ^ i), bits;
    float f = (float)(int32_t)(random & 0xffffff) * 0x1p-22f - 2;
    memcpy(&bits, &f, sizeof bits);
    return w->dtype == MST_F32 ? bits : w->dtype == MST_BF16 ? bits >> 16 : random;
}

/* Not inline: gcc 12 at -O2 on x86-64 drops the shift to bf16 and back when it sees both. */
__attribute__((noinline, unused)) static double value_of(mst_dtype dtype, uint32_t bits) {
    float f;
    if (dtype == MST_U8) return (double)(uint8_t)bits;
    if (dtype == MST_I32) return (double)(int32_t)bits;
    if (dtype == MST_BF16) bits <<= 16;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static inline void fill(const struct world *w, int rank, void *to, size_t start, size_t count) {
    size_t element = mst_dtype_size(w->dtype);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_at(w, rank, start + i);
        memcpy((char *)to + i * element, &bits,
               element); /* little-endian, as all machines that muster runs on */
    }
}

/* Elements from a rank's block to another's, and before them in its input. */
static inline size_t block_len(const struct world *w, int from, int to) {
    if (!w->uneven) return w->count;
    return w->kind == MST_KIND_ALL_TO_ALL   ? w->pairs[from][to]
           : w->kind == MST_KIND_ALL_GATHER ? w->counts[from]
                                            : w->counts[to];
}

static inline size_t block_start(const struct world *w, int from, int to) {
    size_t sum = 0;
    for (int r = 0; r < to; r++) sum += block_len(w, from, r);
    return sum;
}

static inline char *new_block(struct world_rank *rank, mst_memory memory, size_t bytes) {
    assert_true(rank->n_blocks < MOST_BLOCKS);
    struct block *b = &rank->blocks[rank->n_blocks++];
    *b = (struct block){.base = malloc(bytes ? bytes : 1), .bytes = bytes, .memory = memory};
    assert_non_null(b->base);
    memset(b->base, SPOILT, bytes);
    return b->base;
}

/* Which kinds have a block for each rank. */
static inline bool has_parts(mst_kind kind, bool in) {
    if (kind == MST_KIND_ALL_TO_ALL) return true;
    return in ? kind == MST_KIND_REDUCE_SCATTER || kind == MST_KIND_SCATTER
              : kind == MST_KIND_ALL_GATHER || kind == MST_KIND_GATHER;
}

static inline bool is_rooted(mst_kind kind) {
    return kind == MST_KIND_BROADCAST || kind == MST_KIND_REDUCE || kind == MST_KIND_GATHER ||
           kind == MST_KIND_SCATTER;
}

/* Elements of the input and the output of a rank. */
static inline size_t in_len(const struct world *w, int rank) {
    return has_parts(w->kind, true) ? block_start(w, rank, w->ranks) : block_len(w, rank, 0);
}

static inline size_t out_len(const struct world *w, int rank) {
    size_t sum = 0;
    if (!has_parts(w->kind, false)) return block_len(w, 0, rank);
    for (int r = 0; r < w->ranks; r++) sum += block_len(w, r, rank);
    return sum;
}

/* Where the smaller of two buffers lies in the larger, if it does. */
static inline size_t own_start(const struct world *w, int rank) {
    bool in = has_parts(w->kind, true), out = has_parts(w->kind, false);
    size_t sum = 0;
    if (in == out) return 0;
    for (int r = 0; r < rank; r++) sum += in ? block_len(w, rank, r) : block_len(w, r, rank);
    return sum;
}

static inline bool is_reader(const struct world *w, int rank) {
    bool from_root = w->kind == MST_KIND_BROADCAST || w->kind == MST_KIND_SCATTER;
    return w->kind != MST_KIND_BARRIER && (!from_root || rank == w->root);
}

static inline bool is_writer(const struct world *w, int rank) {
    bool to_root = w->kind == MST_KIND_REDUCE || w->kind == MST_KIND_GATHER;
    return w->kind != MST_KIND_BARRIER && (!to_root || rank == w->root);
}

/* Buffers one behind the other; what a rank does not need is not there, or must be left alone. */
static inline void lay_out_flat(struct world *w, int r) {
    struct world_rank *rank = &w->of[r];
    size_t element = mst_dtype_size(w->dtype), in = in_len(w, r) * element, out = out_len(w, r) * element;
    bool rooted_elsewhere = is_rooted(w->kind) && r != w->root, inside = w->in_place[r];
    char *large = NULL;
    if (rooted_elsewhere && w->kind == MST_KIND_BROADCAST) inside = true;
    if (rooted_elsewhere && (w->kind == MST_KIND_GATHER || w->kind == MST_KIND_SCATTER)) {
        bool gather = w->kind == MST_KIND_GATHER;
        large = inside ? new_block(rank, rank->memory, gather ? out : in) : NULL;
        char *small = new_block(rank, rank->memory, gather ? in : out);
        rank->op.in = gather ? small : large;
        rank->op.out = gather ? large : small;
    } else if (inside) {
        large = new_block(rank, rank->memory, in > out ? in : out);
        bool in_is_large = has_parts(w->kind, true), out_is_large = has_parts(w->kind, false);
        size_t own = own_start(w, r) * element;
        rank->op.in = large + (out_is_large && !in_is_large ? own : 0);
        rank->op.out = large + (in_is_large && !out_is_large ? own : 0);
    } else {
        rank->op.in = new_block(rank, rank->memory, in);
        rank->op.out = new_block(rank, rank->memory, out);
    }
    if (is_reader(w, r)) fill(w, r, (char *)(uintptr_t)rank->op.in, 0, in / element);
}

/* Blocks that lie apart; in place the own one, or all of an all_to_all, is both. */
static inline void lay_out_lists(struct world *w, int r) {
    struct world_rank *rank = &w->of[r];
    size_t element = mst_dtype_size(w->dtype);
    bool ins = has_parts(w->kind, true), outs = has_parts(w->kind, false);
    for (int i = 0; i < w->ranks; i++) {
        size_t in = block_len(w, r, i), out = block_len(w, i, r), longer = in > out ? in : out;
        bool both = ins && outs && w->in_place[r];
        if (ins) {
            char *block = new_block(rank, rank->memory, (both ? longer : in) * element);
            fill(w, r, block, block_start(w, r, i), in);
            rank->in_list[i] = block;
        }
        if (outs)
            rank->out_list[i] =
                both ? (void *)(uintptr_t)rank->in_list[i] : new_block(rank, rank->memory, out * element);
    }
    if (ins) rank->op.in_list = rank->in_list;
    if (outs) rank->op.out_list = rank->out_list;
    if (!ins) {
        char *in = w->in_place[r] ? rank->out_list[r] : new_block(rank, rank->memory, in_len(w, r) * element);
        fill(w, r, in, 0, in_len(w, r));
        rank->op.in = in;
    }
    if (!outs)
        rank->op.out = w->in_place[r] ? (void *)(uintptr_t)rank->in_list[r]
                                      : new_block(rank, rank->memory, out_len(w, r) * element);
}

static inline void set_counts(struct world *w, int r) {
    struct world_rank *rank = &w->of[r];
    for (int i = 0; i < w->ranks; i++) {
        rank->in_counts[i] = block_len(w, r, i);
        rank->out_counts[i] = block_len(w, i, r);
    }
    if (has_parts(w->kind, true)) rank->op.in_counts = rank->in_counts;
    if (has_parts(w->kind, false)) rank->op.out_counts = rank->out_counts;
    if (w->kind != MST_KIND_ALL_TO_ALL) rank->op.count = w->counts[r];
}

/* Gives every rank its operation and buffers. */
static inline void world_begin(struct world *w) {
    for (int r = 0; r < w->ranks; r++) {
        struct world_rank *rank = &w->of[r];
        rank->n_blocks = 0;
        rank->op = (mst_backend_op){.kind = w->kind,
                                    .dtype = w->dtype,
                                    .element = mst_dtype_size(w->dtype),
                                    .op = w->op,
                                    .factor = 0.3,
                                    .root = is_rooted(w->kind) ? w->root : -1,
                                    .peer = -1,
                                    .count = w->kind == MST_KIND_BARRIER ? 0 : w->count,
                                    .memory = rank->memory,
                                    .sender = -1};
        if (w->uneven) set_counts(w, r);
        if (w->kind == MST_KIND_BARRIER) continue;
        if (w->lists)
            lay_out_lists(w, r);
        else
            lay_out_flat(w, r);
        for (int i = 0; i < rank->n_blocks; i++) {
            struct block *b = &rank->blocks[i];
            b->before = malloc(b->bytes ? b->bytes : 1);
            assert_non_null(b->before);
            memcpy(b->before, b->base, b->bytes);
        }
    }
}

static inline void world_end(struct world *w) {
    for (int r = 0; r < w->ranks; r++)
        for (int i = 0; i < w->of[r].n_blocks; i++) {
            free(w->of[r].blocks[i].base);
            free(w->of[r].blocks[i].before);
        }
}

#endif
