/* test_reduce_values.c - compares reductions with a slow reference: conversions, rounding, special values. */
#include "reduce_kit.h"

static const mst_dtype small_floats[] = {MST_F16, MST_BF16, MST_F8E4M3, MST_F8E5M2};

static void check_narrowing(mst_dtype dtype, const float *values, size_t count) {
    static uint64_t wanted[1024], got[1024];
    size_t size = mst_dtype_size(dtype);
    assert_true(count <= COUNT_OF(wanted));
    for (size_t i = 0; i < count; i++) {
        uint64_t code = kit_encode(dtype, (double)values[i]);
        memcpy((char *)wanted + i * size, &code, size);
    }
    for (const char *const *v = msi_reduce_variants(); *v; v++) {
        msi_reducer_variant(*v, dtype, MST_SUM)->end(got, values, count, NULL);
        kit_assert_same(*v, dtype, got, wanted, count);
    }
}

/* Every code has the value of its format and survives a reduce_local of one input. */
static void widening_is_exact(void **state) {
    (void)state;
    for (size_t d = 0; d < COUNT_OF(small_floats); d++)
        for (const char *const *v = msi_reduce_variants(); *v; v++) {
            const struct msi_reducer *r = msi_reducer_variant(*v, small_floats[d], MST_SUM);
            size_t size = mst_dtype_size(small_floats[d]), count = (size_t)1 << (8 * size);
            static uint16_t codes[65536], back[65536];
            static float wide[65536], wanted[65536];
            const void *in[] = {codes};
            for (size_t i = 0; i < count; i++) {
                memcpy((char *)codes + i * size, &i, size);
                wanted[i] = (float)kit_decode(small_floats[d], i);
            }
            r->begin(wide, codes, count, NULL);
            kit_assert_same(*v, MST_F32, wide, wanted, count);
            r->reduce_local(back, NULL, in, 1, count, NULL);
            kit_assert_same(*v, small_floats[d], back, codes, count);
        }
}

/* The float that is so many steps away from a non-negative one. */
static float beside(float value, int places) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += (uint32_t)places;
    memcpy(&value, &bits, sizeof bits); /* below zero: NaN, also a valid case */
    return value;
}

/* Each value, the halfway point to the next, and their neighbours, with both signs. */
static void narrowing_rounds_to_nearest_even(void **state) {
    (void)state;
    for (size_t d = 0; d < COUNT_OF(small_floats); d++) {
        const struct kit_format *f = kit_format(small_floats[d]);
        for (uint64_t code = 0; code < kit_end(f); code++) {
            float value = (float)kit_magnitude(f, code);
            float half = (float)((kit_magnitude(f, code) + kit_magnitude(f, code + 1)) / 2), list[12];
            const float points[6] = {value, beside(value, 1), beside(value, -1),
                                     half,  beside(half, 1),  beside(half, -1)};
            for (int i = 0; i < 12; i++) list[i] = i < 6 ? points[i] : -points[i - 6];
            check_narrowing(small_floats[d], list, 12);
        }
    }
}

static void narrowing_takes_any_float(void **state) {
    (void)state;
    static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7f800001, 0x7fffffff,
                                       0xffffffff, 0x7fc00000, 0x7f7fffff, 0xff7fffff,
                                       0x00000001, 0x80000001, 0x007fffff, 0x80000000};
    float values[1024];
    for (size_t d = 0; d < COUNT_OF(small_floats); d++) {
        memcpy(values, special, sizeof special);
        check_narrowing(small_floats[d], values, COUNT_OF(special));
        for (int round = 0; round < 200; round++) {
            for (int i = 0; i < 1024; i++) {
                uint32_t bits = (uint32_t)kit_random();
                memcpy(&values[i], &bits, sizeof bits);
            }
            check_narrowing(small_floats[d], values, 1024);
        }
    }
}

static float in_f32(mst_op op, float a, float b) {
    if (op == MST_PRODUCT) return a * b;
    if (op == MST_MIN || op == MST_MAX)
        return a != a || b != b ? NAN : (op == MST_MIN ? b < a : b > a) ? b : a;
    return a + b;
}

static double in_f64(mst_op op, double a, double b) {
    if (op == MST_PRODUCT) return a * b;
    if (op == MST_MIN || op == MST_MAX)
        return a != a || b != b ? (double)NAN : (op == MST_MIN ? b < a : b > a) ? b : a;
    return a + b;
}

static uint64_t in_integers(mst_dtype dtype, mst_op op, uint64_t a, uint64_t b) {
    bool is_signed = dtype == MST_I8 || dtype == MST_I16 || dtype == MST_I32 || dtype == MST_I64;
    bool less = is_signed ? (int64_t)b < (int64_t)a : b < a;
    switch ((int)op) {
    case MST_PRODUCT:
        return a * b;
    case MST_MIN:
        return less ? b : a;
    case MST_MAX:
        return less ? a : b;
    case MST_BAND:
        return a & b;
    case MST_BOR:
        return a | b;
    case MST_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

/* A code as 64 bits, with its sign where the dtype has one. */
static uint64_t extend(mst_dtype dtype, uint64_t code) {
    switch ((int)dtype) {
    case MST_I8:
        return (uint64_t)(int8_t)code;
    case MST_I16:
        return (uint64_t)(int16_t)code;
    case MST_I32:
        return (uint64_t)(int32_t)code;
    case MST_U8:
        return (uint8_t)code;
    case MST_U16:
        return (uint16_t)code;
    case MST_U32:
        return (uint32_t)code;
    default:
        return code;
    }
}

static uint64_t integers(mst_dtype dtype, mst_op op, const uint64_t *codes, int n, int ranks) {
    uint64_t r = extend(dtype, codes[0]);
    for (int k = 1; k < n; k++) r = extend(dtype, in_integers(dtype, op, r, extend(dtype, codes[k])));
    if (op != MST_AVG) return r;
    bool is_signed = dtype == MST_I8 || dtype == MST_I16 || dtype == MST_I32 || dtype == MST_I64;
    return is_signed ? (uint64_t)((int64_t)r / ranks) : r / (uint64_t)ranks;
}

static uint64_t bools(mst_op op, const uint64_t *codes, int n) {
    bool all = true, any = false, odd = false;
    for (int k = 0; k < n; k++) {
        all = all && codes[k];
        any = any || codes[k];
        odd = odd != !!codes[k];
    }
    return op == MST_BXOR ? odd : op == MST_PRODUCT || op == MST_MIN || op == MST_BAND ? all : any;
}

/* The sum in f32 or f64, left to right, rounded once. */
static uint64_t floats(mst_dtype dtype, mst_op op, const uint64_t *codes, int n,
                       struct msi_reduce_scale scale) {
    uint64_t code = 0;
    double d = 0;
    float f = 0;
    for (int k = 0; k < n; k++) {
        double value = kit_value(dtype, codes[k]);
        double x = op == MST_PREMUL_SUM ? value * scale.factor : value;
        float y = op == MST_PREMUL_SUM ? (float)value * (float)scale.factor : (float)value;
        d = k ? in_f64(op, d, x) : x;
        f = k ? in_f32(op, f, y) : y;
    }
    if (op == MST_AVG) d /= scale.ranks, f /= (float)scale.ranks;
    if (dtype == MST_F64) return memcpy(&code, &d, 8), code;
    if (dtype == MST_F32) return memcpy(&code, &f, 4), code;
    return kit_encode(dtype, (double)f);
}

/* An element of a complex dtype: a sum of each part, or the product from left to right. */
static void complexes(mst_dtype dtype, mst_op op, const void *const *in, int n, size_t i,
                      const struct msi_reduce_scale *scale, void *wanted) {
    mst_dtype part = kit_part(dtype);
    size_t size = mst_dtype_size(part);
    uint64_t codes[2][4];
    for (int k = 0; k < n; k++)
        for (size_t p = 0; p < 2; p++) codes[p][k] = kit_read((const char *)in[k] + (2 * i + p) * size, size);
    uint64_t re = codes[0][0], im = codes[1][0];
    if (op != MST_PRODUCT) {
        re = floats(part, op, codes[0], n, *scale);
        im = floats(part, op, codes[1], n, *scale);
    }
    for (int k = 1; k < n && op == MST_PRODUCT; k++) {
        double a = kit_value(part, re), b = kit_value(part, im), c = kit_value(part, codes[0][k]),
               d = kit_value(part, codes[1][k]), x = a * c - b * d, y = a * d + b * c;
        float u = (float)a * (float)c - (float)b * (float)d, v = (float)a * (float)d + (float)b * (float)c;
        memcpy(&re, part == MST_F64 ? (void *)&x : (void *)&u, size);
        memcpy(&im, part == MST_F64 ? (void *)&y : (void *)&v, size);
    }
    memcpy(wanted, &re, size);
    memcpy((char *)wanted + size, &im, size);
}

static void every_pair_equals_the_reference(void **state) {
    (void)state;
    enum { COUNT = 2000, N = 4 };
    static char input[N][COUNT * 16], got[COUNT * 16], wanted[COUNT * 16];

    const void *in[N] = {input[0], input[1], input[2], input[3]};
    for (int d = 1; d < MST_DTYPE_COUNT; d++)
        for (int o = 0; o < MST_OP_COUNT; o++)
            for (int n = 1; n <= N; n++) {
                mst_dtype dtype = (mst_dtype)d;
                mst_op op = (mst_op)o;
                /* A power of two, and more than i8 has numbers. */
                const struct msi_reduce_scale scale = {.factor = -0.7, .ranks = n % 2 ? 300 : 4};
                const struct msi_reducer *r = msi_reducer_variant("scalar", dtype, op);
                size_t size = mst_dtype_size(dtype);
                if (!r) continue;
                for (int k = 0; k < n; k++) kit_fill(dtype, input[k], COUNT);
                bool complex = kit_part(dtype) != dtype;
                for (size_t i = 0; i < COUNT && complex; i++)
                    complexes(dtype, op, in, n, i, &scale, wanted + i * size);
                for (size_t i = 0; i < COUNT && !complex; i++) {
                    uint64_t codes[N] = {0};
                    for (int k = 0; k < n; k++) codes[k] = kit_read(input[k] + i * size, size);
                    uint64_t code = kit_format(dtype)   ? floats(dtype, op, codes, n, scale)
                                    : dtype == MST_BOOL ? bools(op, codes, n)
                                                        : integers(dtype, op, codes, n, scale.ranks);
                    memcpy(wanted + i * size, &code, size);
                }
                r->reduce_local(got, NULL, in, n, COUNT, &scale);
                kit_assert_same(mst_op_name(op), dtype, got, wanted, COUNT);
            }
}

static void special_values(void **state) {
    (void)state;
    const float a[] = {NAN, 1, INFINITY, -0.0f, 0, FLT_MAX}, b[] = {1, NAN, -INFINITY, -0.0f, -0.0f, FLT_MAX};
    const void *in[] = {a, b};
    float r[6];
    msi_reducer_get(MST_F32, MST_MIN)->reduce_local(r, NULL, in, 2, 6, NULL);
    assert_true(isnan(r[0]) && isnan(r[1]) && r[2] == -INFINITY);
    msi_reducer_get(MST_F32, MST_MAX)->reduce_local(r, NULL, in, 2, 6, NULL);
    assert_true(isnan(r[0]) && isnan(r[1]) && r[2] == INFINITY);
    msi_reducer_get(MST_F32, MST_SUM)->reduce_local(r, NULL, in, 2, 6, NULL);
    assert_true(isnan(r[2]) && signbit(r[3]) && r[3] == 0 && !signbit(r[4]) && r[5] == INFINITY);

    /* 448 and its neighbours: 464 is halfway to what would be 480, above that there is NaN. */
    const float edge[] = {448, 464, 465, 1e9f, INFINITY, -465},
                large[] = {57344, 61439, 61440, -61440, INFINITY, 1e9f};
    uint8_t code[6];
    msi_reducer_get(MST_F8E4M3, MST_SUM)->end(code, edge, 6, NULL);
    assert_memory_equal(code, ((uint8_t[]){0x7e, 0x7e, 0x7f, 0x7f, 0x7f, 0xff}), 6);
    msi_reducer_get(MST_F8E5M2, MST_SUM)->end(code, large, 6, NULL);
    assert_memory_equal(code, ((uint8_t[]){0x7b, 0x7b, 0x7c, 0xfc, 0x7c, 0x7c}), 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(narrowing_takes_any_float),
        cmocka_unit_test(every_pair_equals_the_reference),
        cmocka_unit_test(special_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
