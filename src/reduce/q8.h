/*
 * q8.h - MST_Q8: arrays of f32 in blocks of 32 values that share a scale.
 *
 *   bytes 0-3     scale d, f32 in the byte order of the host: the largest magnitude / 127, at least 2^-126
 *   bytes 4-35    32 numbers q from -127 to 127 as int8; value 8 j + i is byte 4 + 4 i + j
 *
 *  1. A value is q d. It differs from the input by at most 1.0001 d / 2, that is by 1/254 of the largest
 *     magnitude of its block, or by 2^-127 if that is more. A block of zeros stays zero.
 *  2. If a value of a block is infinite or NaN, d is NaN, and so are all 32 values.
 *  3. The last block is filled up with zeros.
 *  4. Every variant gives the same bits, except that a NaN may be any NaN. Arrays may be unaligned.
 *
 * The scale is an f32, because an f16 overflows for inputs above 8e6 and is too coarse below 1e-2. The order
 * of the bytes lets every processor pack four vectors into one with shifts alone.
 */
#ifndef MSI_REDUCE_Q8_H
#define MSI_REDUCE_Q8_H

#include <stddef.h>

enum { MSI_Q8_VALUES = 32, MSI_Q8_BLOCK = 36 };

/* The bytes of the blocks of so many values. */
static inline size_t msi_q8_bytes(size_t count) {
    return (count + MSI_Q8_VALUES - 1) / MSI_Q8_VALUES * MSI_Q8_BLOCK;
}

struct msi_q8 {
    void (*pack)(void *blocks, const void *values, size_t count);
    void (*unpack)(void *values, const void *blocks, size_t count, int divisor); /* blocks / divisor */
    void (*add)(void *values, const void *blocks, size_t count);                 /* values += blocks */
};

/* The fastest one for this processor. */
const struct msi_q8 *msi_q8_get(void);
/* For tests: that of a variant (reduce.h). */
const struct msi_q8 *msi_q8_variant(const char *variant);

#endif
