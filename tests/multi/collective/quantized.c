/*
 * quantized.c - mst_all_reduce with .quantize: the error bound of comm.h, and the same bits on all ranks.
 * Every rank computes the inputs of all ranks, and the exact sums in double.
 */
#include "suite.h"

#include <math.h>

enum { BLOCK = 32, MOST = 100003 };

enum content_kind {
    UNIFORM,
    NORMAL,
    OUTLIERS,
    RANGES,
    TINY,
    HUGE_VALUES,
    ZEROS,
    INFINITE,
    NOT_A_NUMBER,
    KINDS
};
static const char *const kind_names[KINDS] = {"uniform", "normal", "outliers", "ranges",      "tiny",
                                              "huge",    "zeros",  "infinite", "not a number"};

/* One call, and its group. */
struct trial {
    const struct layout *layout;
    enum content_kind kind;
    mst_dtype dtype;
    size_t count, element;
    bool average, in_place, work, exact;
};

static void fail(const struct trial *t, size_t i, const char *what, double got, double wanted) {
    fprintf(
        stderr,
        "collective: FAILED on rank %d: quantised all_reduce of %zu %s, %s, %s, group of %d: %s at %zu: %g, "
        "exact is %g\ncollective: seed %llu\n",
        suite.me, t->count, mst_dtype_name(t->dtype), kind_names[t->kind], t->average ? "AVG" : "SUM",
        t->layout->n, what, i, got, wanted, (unsigned long long)suite.seed);
    exit(1);
}

static double unit(uint64_t *state) {
    return (double)draw(state, 1 << 24) / (1 << 23) - 1;
}

/* Value i of a rank's input, before it is rounded to the dtype. */
static double value_of(const struct trial *t, int rank, size_t i) {
    uint64_t state = mix(suite.seed + (uint64_t)t->kind, mix((uint64_t)rank + 1, i));
    double x = unit(&state), sum = x;
    bool wide = t->dtype != MST_F16;
    switch (t->kind) {
    case NORMAL:
        for (int k = 0; k < 11; k++) sum += unit(&state);
        return sum / 2;
    case OUTLIERS:
        return i % BLOCK == i / BLOCK % BLOCK ? 1000 * x : x;
    case RANGES: /* each block has a magnitude of its own */
        return ldexp(x, (int)(mix(3, i / BLOCK) % 200) / (wide ? 1 : 15) - (wide ? 100 : 7));
    case TINY:
        return ldexp(x, wide ? -130 - (int)(i / BLOCK % 20) : -20);
    case HUGE_VALUES:
        return ldexp(x, wide ? 122 : 11);
    case ZEROS:
        return i / BLOCK % 2 ? x : 0;
    case INFINITE:
        return rank == t->layout->n - 1 && i == t->count / 2 ? (x < 0 ? -INFINITY : INFINITY) : x;
    case NOT_A_NUMBER:
        return rank == 0 && i == t->count / 2 ? NAN : x;
    default:
        return x;
    }
}

static double input_of(const struct trial *t, int rank, size_t i) {
    char element[ELEMENT_MAX];
    from_double(t->dtype, value_of(t, rank, i), element);
    return to_double(t->dtype, element);
}

/* By how much rounding a result to the dtype may change it. */
static double rounding(mst_dtype dtype, double x) {
    if (dtype == MST_F16) return ldexp(fabs(x), -11) + ldexp(1, -25);
    return dtype == MST_BF16 ? ldexp(fabs(x), -9) : ldexp(fabs(x), -23);
}

static void check_block(const struct trial *t, const char *out, size_t first) {
    size_t n = t->count - first < BLOCK ? t->count - first : BLOCK;
    double sums[BLOCK] = {0}, magnitudes = 0, most = 0, divisor = t->average ? t->layout->n : 1;
    bool finite = true, zero;
    for (int r = 0; r < t->layout->n; r++) {
        double largest = 0;
        for (size_t i = 0; i < n; i++) {
            double x = input_of(t, r, first + i);
            finite &= isfinite(x) != 0;
            sums[i] += x;
            if (fabs(x) > largest) largest = fabs(x);
        }
        magnitudes += largest;
    }
    zero = magnitudes == 0;
    for (size_t i = 0; i < n; i++)
        if (fabs(sums[i]) > most) most = fabs(sums[i]);
    double bound = (magnitudes + most) / 252 + ldexp(t->layout->n + 1, -127);
    for (size_t i = 0; i < n; i++) {
        double got = to_double(t->dtype, out + (first + i) * t->element), wanted = sums[i] / divisor;
        double allowed =
            zero ? 0 : (bound / divisor) * 1.0001 + rounding(t->dtype, fabs(wanted) + bound / divisor);
        if (!finite && !isnan(got)) fail(t, first + i, "is not NaN", got, wanted);
        if (finite && !(fabs(got - wanted) <= allowed)) fail(t, first + i, "is too far away", got, wanted);
    }
}

static void check_same_bits(const struct trial *t, const char *out) {
    uint64_t hash = 1, all[RANKS_MAX];
    for (size_t i = 0; i < t->count * t->element; i++) hash = (hash ^ (unsigned char)out[i]) * 0x100000001B3u;
    EXPECT_OK(mst_all_gather_into_tensor(all, &hash, 1, MST_U64, .group = t->layout->group,
                                         .timeout_ms = TIMEOUT_MS));
    for (int r = 0; r < t->layout->n; r++)
        if (all[r] != hash) fail(t, 0, "another rank has other bits", 0, r);
}

static void run_trial(const struct trial *t) {
    mst_group *group = t->layout->group;
    size_t bytes = t->count * t->element;
    char *in = malloc(bytes + 1), *out = malloc(bytes + 1), *plain = malloc(bytes + 1);
    mst_op op = t->average ? MST_AVG : MST_SUM;
    mst_work *work = NULL;
    if (!in || !out || !plain) abort();
    for (size_t i = 0; i < t->count; i++)
        from_double(t->dtype, value_of(t, t->layout->me, i), in + i * t->element);
    memcpy(out, in, bytes);
    out[bytes] = 77;
    EXPECT_OK(mst_all_reduce(out, t->count, t->dtype, .op = op, .in = t->in_place ? NULL : in, .group = group,
                             .timeout_ms = TIMEOUT_MS, .work = t->work ? &work : NULL, .quantize = MST_Q8));
    if (t->work) EXPECT_OK(mst_wait(work));
    if (out[bytes] != 77) fail(t, t->count, "has been written", 0, 0);
    EXPECT_OK(mst_all_reduce(plain, t->count, t->dtype, .op = op, .in = in, .group = group,
                             .timeout_ms = TIMEOUT_MS));
    bool same = memcmp(out, plain, bytes) == 0;
    if (t->exact && !same) fail(t, 0, "a group of one host is not exact", 0, 0);
    bool coarse = t->kind != ZEROS && t->kind != TINY && t->dtype == MST_F32 && t->count >= BLOCK;
    if (!t->exact && coarse && same) fail(t, 0, "is not quantised", 0, 0);
    for (size_t i = 0; i < t->count && !t->exact; i += BLOCK) check_block(t, out, i);
    check_same_bits(t, out);
    free(in);
    free(out);
    free(plain);
    suite.calls++;
}

static bool is_on_one_host(const struct layout *layout) {
    mst_rank_info first, other;
    bool one = true;
    for (int r = 0; r < layout->n; r++) {
        EXPECT_OK(mst_get_rank_info(NULL, layout->ranks[0], &first));
        EXPECT_OK(mst_get_rank_info(NULL, layout->ranks[r], &other));
        one &= first.host == other.host;
    }
    return one;
}

/* Do the engines of this run quantise? A backend that does not says so; its group is broken then. */
static bool is_supported(void) {
    float one = 1;
    mst_group *group;
    if (!strcmp(mst_get_backend(NULL), "native") && !getenv("MUSTER_FORCE_FALLBACK")) return true;
    EXPECT_OK(mst_new_group(layouts[0].ranks, suite.size, &group));
    mst_status st =
        mst_all_reduce(&one, 1, MST_F32, .quantize = MST_Q8, .group = group, .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) expect_status(st, MST_ERR_UNSUPPORTED, "a quantised mst_all_reduce");
    EXPECT_OK(mst_destroy_process_group(group));
    return st == MST_OK;
}

/* A reducer and a coalesced call get the same bits as the call with one tensor. */
static void other_calls(void) {
    enum { COUNT = 1000 };
    static float one[COUNT], bucket[COUNT], coalesced[COUNT];
    const struct trial t = {.layout = &layouts[0], .dtype = MST_F32};
    void *const bufs[] = {coalesced};
    mst_tensor tensor = {bucket, COUNT, MST_F32, "gradient"};
    mst_bucket_reducer *reducer;
    for (size_t i = 0; i < COUNT; i++) one[i] = bucket[i] = coalesced[i] = (float)value_of(&t, suite.me, i);
    EXPECT_OK(
        mst_all_reduce(one, COUNT, MST_F32, .op = MST_AVG, .quantize = MST_Q8, .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_all_reduce_coalesced(bufs, &(size_t){COUNT}, 1, MST_F32, .op = MST_AVG, .quantize = MST_Q8,
                                       .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_bucket_create(&tensor, 1, &reducer, .quantize = MST_Q8, .timeout_ms = TIMEOUT_MS));
    EXPECT_OK(mst_bucket_ready(reducer, 0));
    EXPECT_OK(mst_bucket_wait(reducer));
    EXPECT_OK(mst_bucket_free(reducer));
    if (memcmp(bucket, one, sizeof one)) fail(&t, 0, "the reducer has other bits", 0, 0);
    if (memcmp(coalesced, one, sizeof one)) fail(&t, 0, "the coalesced call has other bits", 0, 0);
    tensor.dtype = MST_I32;
    expect_status(mst_bucket_create(&tensor, 1, &reducer, .quantize = MST_Q8), MST_ERR_INVALID,
                  "a quantised reducer of i32");
}

void quantized(void) {
    static const size_t counts[] = {0, 1, 31, 32, 33, 1000, 4099, MOST};
    static const mst_dtype dtypes[] = {MST_F32, MST_F32, MST_F16, MST_BF16};
    if (suite.device || !is_supported()) return;
    other_calls();
    uint64_t state = mix(suite.seed, 99);
    for (int l = 0; l < n_layouts; l++)
        for (int kind = 0; kind < KINDS; kind++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                struct trial t = {.layout = &layouts[l], .kind = (enum content_kind)kind, .count = counts[c]};
                t.dtype = dtypes[draw(&state, 4)];
                t.average = draw(&state, 2);
                t.in_place = draw(&state, 2);
                t.work = draw(&state, 2);
                if (l > 0 && draw(&state, 8)) continue;
                if (layouts[l].me < 0 || counts[c] > suite.max_count) continue;
                t.element = mst_dtype_size(t.dtype);
                t.exact = is_on_one_host(t.layout);
                run_trial(&t);
            }
}
