/*
 * reduce_kit.h - helpers of the reduction tests: a slow reference with double arithmetic and tables of
 * values, data with special values, and a comparison of elements.
 */
#ifndef TESTS_UNIT_REDUCE_KIT_H
#define TESTS_UNIT_REDUCE_KIT_H

#include "harness.h"

#include "float_kit.h"
#include "reduce/reduce.h"

#include <float.h>

static inline bool kit_is_small(mst_dtype dtype) {
    return kit_format(dtype) && mst_dtype_size(dtype) < 4;
}

static inline uint64_t kit_read(const void *from, size_t size) {
    uint64_t code = 0;
    memcpy(&code, from, size); /* muster supports only little-endian machines */
    return code;
}

static inline double kit_value(mst_dtype dtype, uint64_t code) {
    double d;
    float f;
    uint32_t half = (uint32_t)code;
    if (dtype == MST_F64) return memcpy(&d, &code, 8), d;
    if (dtype == MST_F32) return memcpy(&f, &half, 4), (double)f;
    return kit_decode(dtype, code);
}

/* Equal bits; all NaNs are equal. */
static inline bool kit_same(mst_dtype dtype, const void *a, const void *b) {
    size_t size = mst_dtype_size(dtype);
    if (!memcmp(a, b, size)) return true;
    if (!kit_format(dtype)) return false;
    double x = kit_value(dtype, kit_read(a, size)), y = kit_value(dtype, kit_read(b, size));
    return x != x && y != y;
}

static inline void kit_assert_same(const char *what, mst_dtype dtype, const void *a, const void *b,
                                   size_t count) {
    if (kit_part(dtype) != dtype) {
        kit_assert_same(what, kit_part(dtype), a, b, 2 * count);
        return;
    }
    size_t size = mst_dtype_size(dtype);
    for (size_t i = 0; i < count * size; i += size)
        if (!kit_same(dtype, (const char *)a + i, (const char *)b + i))
            fail_msg("%s, %s: element %zu of %zu is %#llx, not %#llx", what, mst_dtype_name(dtype), i / size,
                     count, (unsigned long long)kit_read((const char *)a + i, size),
                     (unsigned long long)kit_read((const char *)b + i, size));
}

static inline uint64_t kit_random(void) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Random bits; every other float is near 1 or special, so that sums are meaningful. */
static inline void kit_fill(mst_dtype dtype, void *to, size_t count) {
    if (kit_part(dtype) != dtype) {
        kit_fill(kit_part(dtype), to, 2 * count);
        return;
    }
    size_t size = mst_dtype_size(dtype);
    const struct kit_format *f = kit_format(dtype);
    for (size_t i = 0; i < count; i++) {
        uint64_t code = kit_random();
        if (f && code % 2) {
            uint64_t one = ((1ull << (f->exponent - 1)) - 1) << f->mantissa,
                     top = 1ull << (f->exponent + f->mantissa);
            const uint64_t special[] = {
                0, 1, 1ull << f->mantissa, kit_end(f) - 1, kit_end(f), kit_end(f) | 1};
            code = (code & top) | (code % 16 == 1 ? special[code / 16 % 6]
                                                  : one ^ (code >> 5 & ((1ull << (f->mantissa + 1)) - 1)));
        } else if (dtype == MST_BOOL && code % 4) {
            code %= 2;
        }
        memcpy((char *)to + i * size, &code, size);
    }
}

#endif
