/* float_kit.h - what the bits of each float dtype mean, for tests: slow, by double arithmetic. */
#ifndef TESTS_FLOAT_KIT_H
#define TESTS_FLOAT_KIT_H

#include <math.h>
#include <muster/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A float format: bits of exponent and mantissa; whether the largest exponent holds numbers. */
struct kit_format {
    int exponent, mantissa;
    bool no_infinity;
};

/* The dtype of the two parts of a complex dtype; any other dtype itself. */
static inline mst_dtype kit_part(mst_dtype dtype) {
    return dtype == MST_C64 ? MST_F32 : dtype == MST_C128 ? MST_F64 : dtype;
}

static inline const struct kit_format *kit_format(mst_dtype dtype) {
    static const struct kit_format formats[MST_DTYPE_COUNT] = {
        [MST_F64] = {11, 52, false}, [MST_F32] = {8, 23, false},  [MST_F16] = {5, 10, false},
        [MST_BF16] = {8, 7, false},  [MST_F8E4M3] = {4, 3, true}, [MST_F8E5M2] = {5, 2, false},
    };
    return formats[dtype].exponent ? &formats[dtype] : NULL;
}

/* The code of the least value that is no number: infinity, or NaN where there is none. */
static inline uint64_t kit_end(const struct kit_format *f) {
    return f->no_infinity ? (1ull << (f->exponent + f->mantissa)) - 1
                          : ((1ull << f->exponent) - 1) << f->mantissa;
}

/* What a code without its sign would be worth if all exponents held numbers. */
static inline double kit_magnitude(const struct kit_format *f, uint64_t code) {
    int exponent = (int)(code >> f->mantissa), bias = (1 << (f->exponent - 1)) - 1;
    double mantissa = (double)(code & ((1ull << f->mantissa) - 1));
    if (exponent == 0) return ldexp(mantissa, 1 - bias - f->mantissa);
    return ldexp(mantissa + ldexp(1, f->mantissa), exponent - bias - f->mantissa);
}

static inline double kit_decode(mst_dtype dtype, uint64_t code) {
    const struct kit_format *f = kit_format(dtype);
    uint64_t top = 1ull << (f->exponent + f->mantissa), size = code & (top - 1);
    double value = size < kit_end(f)                       ? kit_magnitude(f, size)
                   : size == kit_end(f) && !f->no_infinity ? INFINITY
                                                           : NAN;
    return code & top ? -value : value;
}

/* Rounds to the nearest of all values, of two the even one. */
static inline uint64_t kit_encode(mst_dtype dtype, double value) {
    const struct kit_format *f = kit_format(dtype);
    uint64_t sign = signbit(value) ? 1ull << (f->exponent + f->mantissa) : 0;
    int least = 2 - (1 << (f->exponent - 1)), exponent;
    if (value != value) return sign | (kit_end(f) + !f->no_infinity);
    value = fabs(value);
    if (value == 0 || isinf(value)) return sign | (value == 0 ? 0 : kit_end(f));
    frexp(value, &exponent);
    exponent = exponent - 1 < least ? least : exponent - 1;
    double steps = nearbyint(ldexp(value, f->mantissa - exponent));
    /* A carry into the next power of two comes out right: the codes of all numbers are in one sequence. */
    uint64_t code = ((uint64_t)(exponent - least) << f->mantissa) + (uint64_t)steps;
    return sign | (code < kit_end(f) ? code : kit_end(f));
}

#endif
