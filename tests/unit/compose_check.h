/* compose_check.h - what must have come out of an operation of compose_case.h: by arithmetic of its own,
 * element by element. */
#ifndef TESTS_COMPOSE_CHECK_H
#define TESTS_COMPOSE_CHECK_H

#include "compose_case.h"

static inline uint32_t read_bits(const void *from, size_t element) {
    uint32_t bits = 0;
    memcpy(&bits, from, element);
    return bits;
}

/* Integers wrap in their type, and are divided then. */
static inline uint32_t reduce_integers(const struct world *w, size_t i) {
    uint32_t sum = bits_at(w, 0, i);
    for (int r = 1; r < w->ranks; r++) {
        uint32_t next = bits_at(w, r, i);
        if (w->op == MST_MAX)
            sum = value_of(w->dtype, next) > value_of(w->dtype, sum) ? next : sum;
        else
            sum += next;
    }
    if (w->op == MST_AVG)
        return w->dtype == MST_U8 ? (uint8_t)sum / (uint32_t)w->ranks : (uint32_t)((int32_t)sum / w->ranks);
    return sum;
}

static inline bool is_close(const struct world *w, size_t i, uint32_t got) {
    double value = value_of(w->dtype, bits_at(w, 0, i)), sum = value, size = fabs(value), most = value;
    double scale = w->op == MST_AVG ? 1.0 / w->ranks : w->op == MST_PREMUL_SUM ? 0.3 : 1;
    for (int r = 1; r < w->ranks; r++) {
        value = value_of(w->dtype, bits_at(w, r, i));
        sum += value;
        size += fabs(value);
        if (value > most) most = value;
    }
    double epsilon = w->dtype == MST_BF16 ? 0x1p-8 : 0x1p-23;
    if (w->op == MST_MAX) return value_of(w->dtype, got) == most;
    return fabs(value_of(w->dtype, got) - sum * scale) <= (w->ranks + 2) * epsilon * size * scale;
}

/* A part of a rank's output: element i is all ranks' element start + i reduced, or one's (from >= 0). */
static inline void check_piece(const struct world *w, int rank, const char *at, size_t len, int from,
                               size_t start) {
    size_t element = mst_dtype_size(w->dtype);
    for (size_t i = 0; i < len; i++) {
        uint32_t got = read_bits(at + i * element, element),
                 mask = element == 4 ? ~0u : (1u << 8 * element) - 1;
        bool right = from >= 0            ? got == (bits_at(w, from, start + i) & mask)
                     : is_float(w->dtype) ? is_close(w, start + i, got)
                                          : got == (reduce_integers(w, start + i) & mask);
        if (!right) fail_msg("%s: rank %d has %#x at %zu of %zu", w->what, rank, got, i, len);
    }
}

/* The bits that native gives: folded in the order of ranks. */
static inline void check_exactly(const struct world *w, int rank, const char *at, size_t len, size_t start) {
    size_t element = mst_dtype_size(w->dtype), bytes = len * element;
    struct msi_reduce_scale scale = {.factor = 0.3, .ranks = w->ranks};
    char *room = malloc(bytes * (size_t)w->ranks + 1);
    const void *sources[MOST_RANKS];
    assert_non_null(room);
    for (int r = 0; r < w->ranks; r++) {
        sources[r] = room + (size_t)r * bytes;
        fill(w, r, room + (size_t)r * bytes, start, len);
    }
    if (len) msi_reducer_get(w->dtype, w->op)->reduce_local(room, NULL, sources, w->ranks, len, &scale);
    if (memcmp(at, room, bytes) != 0) fail_msg("%s: rank %d has other bits than native", w->what, rank);
    free(room);
}

/* Afterwards the piece counts as unchanged. */
static inline void forgive(struct world_rank *rank, const char *at, size_t bytes) {
    for (int i = 0; i < rank->n_blocks && bytes; i++) {
        struct block *b = &rank->blocks[i];
        if (at >= b->base && at < b->base + b->bytes && b->before)
            memcpy(b->base + (at - b->base), b->before + (at - b->base), bytes);
    }
}

static inline void check_output(struct world *w, int r) {
    struct world_rank *rank = &w->of[r];
    bool reduces = msi_kind_reduces(w->kind), parts = has_parts(w->kind, false);
    size_t element = mst_dtype_size(w->dtype), at = 0;
    size_t start =
        w->kind == MST_KIND_REDUCE_SCATTER || w->kind == MST_KIND_SCATTER ? block_start(w, r, r) : 0;
    for (int b = 0; b < (parts ? w->ranks : 1); b++) {
        size_t len = parts ? block_len(w, b, r) : out_len(w, r);
        char *out = rank->op.out_list ? rank->out_list[b] : (char *)rank->op.out + at * element;
        if (w->kind == MST_KIND_ALL_TO_ALL) start = block_start(w, b, r);
        check_piece(w, r, out, len, reduces ? -1 : parts ? b : w->root, start);
        if (reduces && w->deterministic) check_exactly(w, r, out, len, start);
        at += len;
    }
}

/* Buffers may overlap only by design, so nothing is put back before all of it was looked at. */
static inline void forgive_output(struct world *w, int r) {
    struct world_rank *rank = &w->of[r];
    size_t element = mst_dtype_size(w->dtype);
    if (!rank->op.out_list) {
        forgive(rank, rank->op.out, out_len(w, r) * element);
        return;
    }
    for (int b = 0; b < w->ranks; b++) forgive(rank, rank->out_list[b], block_len(w, b, r) * element);
}

static inline void world_check(struct world *w) {
    if (w->kind == MST_KIND_BARRIER) return;
    for (int r = 0; r < w->ranks; r++)
        if (is_writer(w, r)) check_output(w, r);
    for (int r = 1; r < w->ranks && w->kind == MST_KIND_ALL_REDUCE; r++)
        if (memcmp(w->of[r].op.out, w->of[0].op.out, w->count * mst_dtype_size(w->dtype)) != 0)
            fail_msg("%s: ranks 0 and %d have different bits", w->what, r);
    for (int r = 0; r < w->ranks; r++) {
        struct world_rank *rank = &w->of[r];
        if (is_writer(w, r)) forgive_output(w, r);
        for (int i = 0; i < rank->n_blocks; i++)
            if (rank->blocks[i].before &&
                memcmp(rank->blocks[i].base, rank->blocks[i].before, rank->blocks[i].bytes) != 0)
                fail_msg("%s: rank %d has memory changed that is none of its output", w->what, r);
    }
}

#endif
