/*
 * vec.h - loops over floats that compilers vectorize without permission to reorder sums: each sum has
 * VEC_LANES partial sums, so its bits do not depend on the width of the vectors.
 */
#ifndef GPT_NN_VEC_H
#define GPT_NN_VEC_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VEC_LANES = 16 };

static inline float vec_reduce(const float parts[VEC_LANES]) {
    float sum[VEC_LANES];
    memcpy(sum, parts, sizeof sum);
    for (int half = VEC_LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

static inline float vec_sum(const float *x, size_t n) {
    float parts[VEC_LANES] = {0};
    size_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES)
        for (int l = 0; l < VEC_LANES; l++) parts[l] += x[i + (size_t)l];
    for (; i < n; i++) parts[i % VEC_LANES] += x[i];
    return vec_reduce(parts);
}

static inline float vec_dot(const float *restrict x, const float *restrict y, size_t n) {
    float parts[VEC_LANES] = {0};
    size_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES)
        for (int l = 0; l < VEC_LANES; l++) parts[l] += x[i + (size_t)l] * y[i + (size_t)l];
    for (; i < n; i++) parts[i % VEC_LANES] += x[i] * y[i];
    return vec_reduce(parts);
}

static inline double vec_squares(const float *x, size_t n) {
    double parts[VEC_LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES)
        for (int l = 0; l < VEC_LANES; l++) parts[l] += (double)x[i + (size_t)l] * (double)x[i + (size_t)l];
    for (; i < n; i++) parts[i % VEC_LANES] += (double)x[i] * (double)x[i];
    for (int l = 0; l < VEC_LANES; l++) sum += parts[l];
    return sum;
}

/* Uses the compiler's vector types, because it turns a plain loop into branches. */
static inline float vec_max(const float *x, size_t n) {
    typedef __attribute__((vector_size(VEC_LANES * sizeof(float)))) float floats;
    typedef __attribute__((vector_size(VEC_LANES * sizeof(float)))) int32_t bits;
    floats parts = (floats){0} - INFINITY, next;
    size_t i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        memcpy(&next, x + i, sizeof next);
        bits larger = next > parts;
        parts = (floats)((larger & (bits)next) | (~larger & (bits)parts));
    }
    float max = parts[0];
    for (int l = 1; l < VEC_LANES; l++) max = parts[l] > max ? parts[l] : max;
    for (; i < n; i++) max = x[i] > max ? x[i] : max;
    return max;
}

static inline void vec_add(float *restrict to, const float *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] += from[i];
}

static inline void vec_scale(float *x, float by, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] *= by;
}

/* e^x with an error of at most 2 ulp; the result is limited to 2^-126 and 2^127. */
static inline float vec_exp(float x) {
    /* 1.5 * 2^23: adding it rounds to an integer, which is in the low bits of the sum. */
    const float shift = 12582912.0f;
    float y = x * 1.44269504f;
    y = y < -126 ? -126 : y;
    y = y > 127 ? 127 : y;
    float whole = y + shift;
    uint32_t bits;
    memcpy(&bits, &whole, sizeof bits);
    whole -= shift;
    float r = x - whole * 0.693145752f - whole * 1.42860677e-6f; /* ln 2 in two parts */
    r = r < -0.35f ? -0.35f : r;
    r = r > 0.35f ? 0.35f : r;
    float p = 1 + r * (1 + r * (0.5f + r * (0.166666657f + r * (0.0416664155f +
                                                                r * (0.00833345205f + r * 0.00138888066f)))));
    uint32_t power = ((bits - 0x4b400000u) << 23) + 0x3f800000u;
    float two;
    memcpy(&two, &power, sizeof two);
    return p * two;
}

#endif
