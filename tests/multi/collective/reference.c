/*
 * reference.c - the inputs of every rank, and the expected results.
 *
 * Operations that move data get any bytes. For reductions the floats are such that every order of reduction
 * gives the same number: for sums, integers of a few bits times a power of two that depends on the index,
 * from the smallest numbers of the type up to sums that overflow; for products, powers of two and one factor
 * 1.5. So the result is known to the bit, and the test detects whether f16, bf16 and f8 are rounded more than
 * once.
 */
#include "float_kit.h"
#include "suite.h"

#include <float.h>
#include <math.h>

static bool is_sum(mst_op op) {
    return op == MST_SUM || op == MST_AVG || op == MST_PREMUL_SUM;
}

/* Inputs of sums are integers up to limit, times 2^low to 2^high. */
static const struct range {
    int limit, low, high;
} ranges[] = {
    [MST_F64] = {1 << 20, -100, 100}, [MST_F32] = {1 << 12, -20, 20}, [MST_F16] = {255, -24, 8},
    [MST_BF16] = {255, -20, 20},      [MST_F8E4M3] = {15, -9, 4},     [MST_F8E5M2] = {7, -16, 13},
};

static double float_input(const struct run *run, uint64_t hash, int rank, size_t i) {
    const struct shape *shape = &run->shape;
    const struct range *range = &ranges[kit_part(shape->dtype)];
    uint64_t shared = mix(suite.seed ^ shape->id, i);
    if (shape->rough) return ldexp((double)(int64_t)hash, -61);
    if (shape->op == MST_PRODUCT) {
        double power = ldexp(hash & 4 ? -1 : 1, (int)(hash % 3) - 1);
        return rank == (int)(shared % (unsigned)run->n) ? power * 1.5 : power;
    }
    uint64_t scale = is_sum(shape->op) ? shared : hash >> 20;
    int number = (int)((hash >> 33) % (2 * (unsigned)range->limit + 1)) - range->limit;
    if (!is_sum(shape->op) && hash % 64 == 1) return NAN;
    if (!is_sum(shape->op) && hash % 64 == 2 && shape->dtype != MST_F8E4M3)
        return hash & 128 ? INFINITY : -INFINITY;
    return number == 0 ? 0
                       : ldexp(number, range->low + (int)(scale % (unsigned)(range->high - range->low + 1)));
}

static uint64_t integer_input(const struct run *run, uint64_t hash) {
    mst_dtype dtype = run->shape.dtype;
    mst_op op = run->shape.op;
    if (dtype == MST_BOOL) {
        static const uint8_t truths[] = {1, 2, 255, 1};
        bool conjunction = op == MST_PRODUCT || op == MST_MIN || op == MST_BAND;
        return hash % 8 < (conjunction ? 7 : 2) ? truths[hash >> 8 & 3] : 0;
    }
    if (op != MST_AVG) return hash;
    size_t bits = 8 * mst_dtype_size(dtype) - (is_signed(dtype) ? 1 : 0);
    uint64_t limit = (~(uint64_t)0 >> (64 - bits)) / (unsigned)run->n; /* sums of averages do not overflow */
    uint64_t number = hash % limit;
    return is_signed(dtype) && hash >> 63 ? (uint64_t)0 - number : number;
}

/* Two floats; in products one of them is 0, so that no order of multiplication rounds. */
static void complex_input(const struct run *run, int rank, size_t i, void *element) {
    mst_dtype part = kit_part(run->shape.dtype);
    bool product = run->shape.op == MST_PRODUCT;
    uint64_t which = mix(suite.seed + run->shape.id, (uint64_t)rank + i) % 2;
    for (size_t p = 0; p < 2; p++) {
        uint64_t hash = mix(mix(suite.seed + run->shape.id, (uint64_t)rank), 2 * i + p);
        double value = product && p != which ? 0 : float_input(run, hash, rank, product ? i : 2 * i + p);
        from_double(part, value, (char *)element + p * mst_dtype_size(part));
    }
}

void input_at(const struct run *run, int rank, size_t i, void *element) {
    const struct shape *shape = &run->shape;
    uint64_t hash = mix(mix(suite.seed + shape->id, (uint64_t)rank), i);
    if (!(shape->operation->traits & REDUCES)) {
        const uint64_t words[2] = {shape->dtype == MST_BOOL ? hash & 1 : hash, mix(hash, 1)};
        memcpy(element, words, run->element);
    } else if (is_complex(shape->dtype)) {
        complex_input(run, rank, i, element);
    } else if (is_float(shape->dtype)) {
        from_double(shape->dtype, float_input(run, hash, rank, i), element);
    } else {
        hash = integer_input(run, hash);
        memcpy(element, &hash, run->element);
    }
}

static double fold_float(mst_op op, double a, double b) {
    if (is_sum(op)) return a + b;
    if (op == MST_PRODUCT) return a * b;
    if (isnan(a) || isnan(b)) return NAN;
    return (op == MST_MIN) == (a < b) ? a : b;
}

static double float_identity(mst_dtype dtype, mst_op op) {
    double most = dtype == MST_F8E4M3 ? 448 : INFINITY;
    return op == MST_PRODUCT ? 1 : op == MST_MIN ? most : op == MST_MAX ? -most : 0;
}

static void reduced_float(const struct run *run, size_t i, void *element) {
    mst_dtype dtype = run->shape.dtype;
    mst_op op = run->shape.op;
    double factor = op == MST_PREMUL_SUM && run->shape.factor != 0 ? run->shape.factor : 1;
    double result = float_identity(dtype, op);
    for (int r = 0; r < run->sources; r++) {
        input_at(run, r, i, element);
        double value = to_double(dtype, element) * factor;
        result = r ? fold_float(op, result, value) : value;
    }
    if (op == MST_AVG && dtype == MST_F64)
        result /= run->n;
    else if (op == MST_AVG)
        result = (double)((float)result / (float)run->n);
    from_double(dtype, result, element);
}

static uint64_t fold_integer(mst_op op, bool sign, uint64_t a, uint64_t b) {
    bool less = sign ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case MST_PRODUCT:
        return a * b;
    case MST_MIN:
        return less ? a : b;
    case MST_MAX:
        return less ? b : a;
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

static uint64_t integer_identity(mst_dtype dtype, mst_op op) {
    uint64_t all = dtype == MST_BOOL ? 1 : ~(uint64_t)0;
    uint64_t half = (uint64_t)1 << (8 * mst_dtype_size(dtype) - 1); /* the smallest signed number */
    if (op == MST_MIN) return is_signed(dtype) ? half - 1 : all;
    if (op == MST_MAX) return is_signed(dtype) ? half : 0;
    return op == MST_BAND ? all : op == MST_PRODUCT;
}

static void reduced_integer(const struct run *run, size_t i, void *element) {
    mst_dtype dtype = run->shape.dtype;
    mst_op op = dtype == MST_BOOL && run->shape.op == MST_SUM ? MST_MAX : run->shape.op;
    bool sign = is_signed(dtype);
    uint64_t result = integer_identity(dtype, op);
    for (int r = 0; r < run->sources; r++) {
        input_at(run, r, i, element);
        uint64_t value = (uint64_t)to_integer(dtype, element);
        if (dtype == MST_BOOL) value = value != 0;
        result = r ? fold_integer(op, sign, result, value) : value;
    }
    if (op == MST_AVG && sign)
        result = (uint64_t)((int64_t)result / run->n);
    else if (op == MST_AVG)
        result /= (unsigned)run->n;
    memcpy(element, &result, run->element);
}

static void reduced_complex(const struct run *run, size_t i, void *element) {
    mst_dtype part = kit_part(run->shape.dtype);
    mst_op op = run->shape.op;
    size_t size = mst_dtype_size(part);
    double factor = op == MST_PREMUL_SUM && run->shape.factor != 0 ? run->shape.factor : 1;
    double x = op == MST_PRODUCT, y = 0;
    for (int r = 0; r < run->sources; r++) {
        input_at(run, r, i, element);
        double a = to_double(part, element) * factor, b = to_double(part, (char *)element + size) * factor;
        double re = op == MST_PRODUCT ? x * a - y * b : x + a, im = op == MST_PRODUCT ? x * b + y * a : y + b;
        x = re;
        y = im;
    }
    double sums[2] = {x, y};
    for (int p = 0; p < 2; p++) {
        if (op == MST_AVG && part == MST_F64) sums[p] /= run->n;
        if (op == MST_AVG && part == MST_F32) sums[p] = (double)((float)sums[p] / (float)run->n);
        from_double(part, sums[p], (char *)element + (size_t)p * size);
    }
}

void reduced_at(const struct run *run, size_t i, void *element) {
    if (run->shape.operation->traits & USER)
        reduced_by_user(run, i, element);
    else if (is_complex(run->shape.dtype))
        reduced_complex(run, i, element);
    else if (is_float(run->shape.dtype))
        reduced_float(run, i, element);
    else
        reduced_integer(run, i, element);
}

/* Within the error of one rounding to the type, and one in the accumulation type for each rank. */
static bool is_near(const struct run *run, double got, double wanted) {
    static const double steps[] = {[MST_F64] = DBL_EPSILON, [MST_F32] = FLT_EPSILON, [MST_F16] = 0x1p-10,
                                   [MST_BF16] = 0x1p-7,     [MST_F8E4M3] = 0x1p-3,   [MST_F8E5M2] = 0x1p-2};
    double inside = run->shape.dtype == MST_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    double max = 4.0 * run->n; /* rough inputs are below 4 */
    return fabs(got - wanted) <=
           steps[run->shape.dtype] * fabs(wanted) + inside * run->n * max + 0x1p-9 * (run->element == 1);
}

/* Sum of the magnitudes of an element's inputs: a bound for all partial results. */
static double magnitude(const struct run *run, size_t i) {
    const struct shape *shape = &run->shape;
    double factor = shape->op == MST_PREMUL_SUM && shape->factor != 0 ? fabs(shape->factor) : 1, all = 0;
    for (int r = 0; r < run->sources; r++) {
        char element[ELEMENT_MAX];
        input_at(run, r, i, element);
        double value = fabs(to_double(shape->dtype, element)) * factor;
        all = !r ? value : shape->op == MST_PRODUCT ? all * value : all + value;
    }
    return all;
}

/*
 * GPU engines round f16, bf16 and f8 in each step, and may multiply by 1/n for AVG: accepts as many rounding
 * errors, and an overflow of a partial sum.
 */
static bool is_near_by_steps(const struct run *run, size_t i, double got, double wanted) {
    static const struct {
        double step, least, most;
    } formats[] = {
        [MST_F64] = {DBL_EPSILON, 0x1p-1074, DBL_MAX},
        [MST_F32] = {(double)FLT_EPSILON, 0x1p-149, (double)FLT_MAX},
        [MST_F16] = {0x1p-10, 0x1p-24, 65504},
        [MST_BF16] = {0x1p-7, 0x1p-133, 0x1.fep127},
        [MST_F8E4M3] = {0x1p-3, 0x1p-9, 448},
        [MST_F8E5M2] = {0x1p-2, 0x1p-16, 57344},
    };
    double all = magnitude(run, i), step = formats[run->shape.dtype].step;
    if (all * (1 + step) > formats[run->shape.dtype].most) return true;
    return fabs(got - wanted) <= 2 * run->n * (step * all + formats[run->shape.dtype].least);
}

/* Unless strict, NCCL's MIN and MAX drop a NaN that only some ranks have, and saturate at the largest f8. */
static bool matches_nccl(const struct run *run, double wanted) {
    const char *strict = getenv("MUSTER_NCCL_STRICT");
    bool compares = run->shape.op == MST_MIN || run->shape.op == MST_MAX;
    if (!suite.device || !compares || (strict && !strcmp(strict, "1"))) return false;
    return isnan(wanted) || (run->element == 1 && isinf(wanted));
}

/* -0 is right where 0 is. */
static bool is_right_complex(const struct run *run, const void *got, const void *wanted) {
    mst_dtype part = kit_part(run->shape.dtype);
    for (size_t p = 0, size = mst_dtype_size(part); p < 2; p++)
        if (to_double(part, (const char *)got + p * size) != to_double(part, (const char *)wanted + p * size))
            return false;
    return true;
}

bool is_right(const struct run *run, const struct piece *piece, size_t i, const void *got,
              const void *wanted) {
    if (!memcmp(got, wanted, run->element)) return true;
    if (run->shape.operation->traits & USER) return false;
    if (piece->content == REDUCED && is_complex(run->shape.dtype)) return is_right_complex(run, got, wanted);
    if (piece->content != REDUCED || !is_float(run->shape.dtype)) return false;
    double a = to_double(run->shape.dtype, got), b = to_double(run->shape.dtype, wanted);
    bool folds = run->shape.op != MST_MIN && run->shape.op != MST_MAX;
    if (suite.device && folds && is_near_by_steps(run, piece->from + i, a, b)) return true;
    if (matches_nccl(run, b)) return true;
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == 0 && b == 0) return true; /* accept -0 */
    return run->shape.rough && is_near(run, a, b);
}
