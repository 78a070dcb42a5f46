/*
 * loop_data.h - what the loop of loop.h writes into buffers, and how it checks results. Compiles without
 * muster.
 *
 * Element i of rank r is (r + i) % period. Every dtype represents these small numbers and their sums over all
 * ranks exactly, in any order of addition. An expected result is therefore a part of a repeating pattern, or
 * several parts in sequence, and is compared bit by bit.
 */
#ifndef LOOP_DATA_H
#define LOOP_DATA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum loop_op {
    LOOP_ALL_REDUCE,
    LOOP_ALL_GATHER,
    LOOP_REDUCE_SCATTER,
    LOOP_BROADCAST,
    LOOP_REDUCE,
    LOOP_GATHER,
    LOOP_SCATTER,
    LOOP_ALL_TO_ALL,
    LOOP_SEND_RECV, /* half a round trip between the ranks 2i and 2i + 1 */
    LOOP_BARRIER,
    LOOP_OPS,
};

static const char *const loop_op_names[LOOP_OPS] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
    "gather",     "scatter",    "all_to_all",     "send_recv", "barrier",
};

enum { LOOP_PRIME = 61, LOOP_CHUNK = 4096, LOOP_ELEMENT_MOST = 16, LOOP_POISON = 0xff };

struct loop_call {
    enum loop_op op;
    int rank, size, root, in_place;
    size_t count, block; /* elements in total and per rank */
    void *in, *out;      /* a broadcast in place uses out alone */
};

struct loop_dtype {
    const char *name;
    size_t element;         /* bytes */
    int exponent, mantissa; /* bits, of floats and of the real part of complex numbers */
    long exact;             /* integers up to this one are exact */
};

static const struct loop_dtype loop_dtypes[] = {
    {"f64", 8, 11, 52, 1L << 20},   {"f32", 4, 8, 23, 1L << 20}, {"f16", 2, 5, 10, 2048},
    {"bf16", 2, 8, 7, 256},         {"f8e4m3", 1, 4, 3, 16},     {"f8e5m2", 1, 5, 2, 8},
    {"i8", 1, 0, 0, 127},           {"u8", 1, 0, 0, 127},        {"i16", 2, 0, 0, 32767},
    {"u16", 2, 0, 0, 32767},        {"i32", 4, 0, 0, 1L << 20},  {"u32", 4, 0, 0, 1L << 20},
    {"i64", 8, 0, 0, 1L << 20},     {"u64", 8, 0, 0, 1L << 20},  {"c64", 8, 8, 23, 1L << 20},
    {"c128", 16, 11, 52, 1L << 20},
};
enum { LOOP_DTYPES = sizeof loop_dtypes / sizeof loop_dtypes[0] };

/* The bits of an integer. */
static inline uint64_t loop_encode(const struct loop_dtype *dtype, uint64_t value) {
    int power = 0;
    if (dtype->exponent == 0 || value == 0) return value;
    while (value >> (power + 1) != 0) power++;
    uint64_t bias = (UINT64_C(1) << (dtype->exponent - 1)) - 1;
    uint64_t fraction = value - (UINT64_C(1) << power);
    fraction = power <= dtype->mantissa ? fraction << (dtype->mantissa - power)
                                        : fraction >> (power - dtype->mantissa);
    return ((uint64_t)power + bias) << dtype->mantissa | fraction;
}

struct loop_pattern {
    size_t element, period;
    unsigned char bytes[(LOOP_CHUNK + LOOP_PRIME) * LOOP_ELEMENT_MOST];
};

static inline void loop_put(unsigned char *at, size_t element, uint64_t bits) {
    for (size_t k = 0; k < element; k++) /* little-endian, as all supported hosts */
        at[k] = k < sizeof bits ? (unsigned char)(bits >> 8 * k) : 0;
}

/* Element i is the sum of (r + i) % period over the ranks r. */
static inline void loop_make_pattern(struct loop_pattern *p, const struct loop_dtype *dtype, size_t period,
                                     int ranks) {
    p->element = dtype->element;
    p->period = period;
    for (size_t i = 0; i < period; i++) {
        uint64_t sum = 0;
        for (int r = 0; r < ranks; r++) sum += ((size_t)r + i) % period;
        loop_put(p->bytes + i * p->element, p->element, loop_encode(dtype, sum));
    }
    for (size_t i = period * p->element; i < (LOOP_CHUNK + period) * p->element; i++)
        p->bytes[i] = p->bytes[i - period * p->element];
}

static inline const unsigned char *loop_at(const struct loop_pattern *p, size_t i) {
    return p->bytes + i % p->period * p->element;
}

/* Copies into and out of buffers: memcpy for host memory. */
typedef void *loop_copy(void *to, const void *from, size_t bytes);

/* Writes the pattern from the given element on. */
static inline void loop_write_pattern(const struct loop_pattern *p, loop_copy *copy, unsigned char *to,
                                      size_t from, size_t count) {
    for (size_t i = 0; i < count; i += LOOP_CHUNK) {
        size_t n = count - i < LOOP_CHUNK ? count - i : LOOP_CHUNK;
        copy(to + i * p->element, loop_at(p, from + i), n * p->element);
    }
}

/* Counts the elements that differ from the pattern; *first gets the index of the first one. */
static inline size_t loop_differences(const struct loop_pattern *p, loop_copy *copy,
                                      const unsigned char *from_buffer, size_t from, size_t count,
                                      size_t *first) {
    static unsigned char got[LOOP_CHUNK * LOOP_ELEMENT_MOST];
    size_t wrong = 0;
    for (size_t i = 0; i < count; i += LOOP_CHUNK) {
        size_t n = count - i < LOOP_CHUNK ? count - i : LOOP_CHUNK;
        copy(got, from_buffer + i * p->element, n * p->element);
        if (memcmp(got, loop_at(p, from + i), n * p->element) == 0) continue;
        for (size_t k = 0; k < n; k++)
            if (memcmp(got + k * p->element, loop_at(p, from + i + k), p->element) != 0 && wrong++ == 0)
                *first = i + k;
    }
    return wrong;
}

static inline void loop_set_bytes(loop_copy *copy, unsigned char *to, size_t bytes, int value) {
    static unsigned char part[LOOP_CHUNK];
    memset(part, value, sizeof part);
    for (size_t i = 0; i < bytes; i += sizeof part)
        copy(to + i, part, bytes - i < sizeof part ? bytes - i : sizeof part);
}

static inline void loop_poison_bytes(loop_copy *copy, unsigned char *to, size_t bytes) {
    loop_set_bytes(copy, to, bytes, LOOP_POISON);
}

/* The bits of an element as a number. */
static inline unsigned long long loop_bits(const unsigned char *at, size_t element) {
    unsigned long long bits = 0;
    for (size_t k = 0; k < element; k++) bits |= (unsigned long long)at[k] << 8 * k;
    return bits;
}

static inline int loop_reduces(enum loop_op op) {
    return op == LOOP_ALL_REDUCE || op == LOOP_REDUCE_SCATTER || op == LOOP_REDUCE;
}

/* Does this rank get a result of the call? */
static inline int loop_receives(const struct loop_call *c) {
    if (c->op == LOOP_REDUCE || c->op == LOOP_GATHER) return c->rank == c->root;
    return c->op != LOOP_SEND_RECV || (c->rank ^ 1) < c->size;
}

/* The element of the pattern with which block k of the output begins; *length gets the length of a block. */
static inline size_t loop_block_start(const struct loop_call *c, size_t k, size_t *length) {
    size_t mine = (size_t)c->rank * c->block;
    *length =
        c->op == LOOP_ALL_REDUCE || c->op == LOOP_REDUCE || c->op == LOOP_BROADCAST || c->op == LOOP_SEND_RECV
            ? c->count
            : c->block;
    switch (c->op) {
    case LOOP_ALL_REDUCE:
    case LOOP_REDUCE:
        return 0;
    case LOOP_REDUCE_SCATTER:
        return mine;
    case LOOP_ALL_GATHER:
    case LOOP_GATHER:
        return k;
    case LOOP_ALL_TO_ALL:
        return k + mine;
    case LOOP_SCATTER:
        return (size_t)c->root + mine;
    case LOOP_SEND_RECV:
        return (size_t)(c->rank ^ 1);
    default:
        return (size_t)c->root;
    }
}

#endif
