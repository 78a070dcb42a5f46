/* test_reduce.c - every kernel variant gives the same bits as the scalar one, for arrays of any shape. */
#include "reduce_kit.h"

#include <sys/mman.h>
#include <unistd.h>

enum { INPUTS = 5, MOST = 1500, ROOM = MOST * 16 + 64 };

static char input[INPUTS][ROOM], wanted[ROOM], out[ROOM], copied[ROOM], acc[ROOM], acc2[ROOM],
    scalar_acc[ROOM];
static struct msi_reduce_scale scale = {.factor = 0.3, .ranks = 3};

/* A dtype and op in one variant, and the scalar variant. */
struct pair {
    mst_dtype dtype;
    mst_op op;
    const char *variant;
    const struct msi_reducer *scalar, *reducer;
    size_t size;
};

static void each_pair(void (*check)(const struct pair *)) {
    for (int d = 1; d < MST_DTYPE_COUNT; d++)
        for (int o = 0; o < MST_OP_COUNT; o++)
            for (const char *const *v = msi_reduce_variants(); *v; v++) {
                struct pair pair = {(mst_dtype)d, (mst_op)o, *v, NULL, NULL, mst_dtype_size((mst_dtype)d)};
                pair.scalar = msi_reducer_variant("scalar", pair.dtype, pair.op);
                pair.reducer = msi_reducer_variant(*v, pair.dtype, pair.op);
                assert_int_equal(!pair.scalar, !pair.reducer);
                if (pair.scalar) check(&pair);
            }
}

static void fill(const struct pair *pair, size_t count, size_t offset) {
    for (int k = 0; k < INPUTS; k++) kit_fill(pair->dtype, input[k] + offset, count);
}

static void compare(const struct pair *pair, const char *way, const void *got, size_t count) {
    char what[128];
    snprintf(what, sizeof what, "%s %s, %s", pair->variant, mst_op_name(pair->op), way);
    kit_assert_same(what, pair->dtype, got, wanted, count);
}

/* All ways to reduce n arrays of count elements that are misaligned by offset bytes. */
static void check_shape(const struct pair *pair, int n, size_t count, size_t offset) {
    const void *in[INPUTS];
    size_t bytes = count * pair->size;
    for (int k = 0; k < n; k++) in[k] = input[k] + offset;
    pair->scalar->reduce_local(wanted, NULL, in, n, count, &scale);

    memset(out, 0x5a, sizeof out);
    memset(copied, 0x5a, sizeof copied);
    pair->reducer->reduce_local(out + offset, NULL, in, n, count, &scale);
    compare(pair, "reduce_local", out + offset, count);
    pair->reducer->reduce_local(out + offset, copied + 1, in, n, count, &scale);
    compare(pair, "reduce_local with copy", out + offset, count);
    compare(pair, "copy of reduce_local", copied + 1, count);
    for (size_t i = 0; i < 8; i++) assert_int_equal(out[offset + bytes + i], 0x5a);
    for (size_t i = 0; i < 8; i++) assert_int_equal(copied[1 + bytes + i], 0x5a);
    for (size_t i = 0; i < offset; i++) assert_int_equal(out[i], 0x5a);
}

static void check_in_place(const struct pair *pair, int n, size_t count) {
    const void *in[INPUTS];
    for (int target = 0; target < n; target++) {
        for (int k = 0; k < n; k++) in[k] = k == target ? out : input[k];
        memcpy(out, input[target], count * pair->size);
        pair->scalar->reduce_local(wanted, NULL, in, n, count, &scale);
        pair->reducer->reduce_local(out, NULL, in, n, count, &scale);
        compare(pair, "in place", out, count);
    }
}

/* begin, add and end give the result of reduce_local; merge agrees with the scalar merge. */
static void check_pieces(const struct pair *pair, int n, size_t count, size_t offset) {
    const struct msi_reducer *r = pair->reducer, *s = pair->scalar;
    const void *in[INPUTS];
    for (int k = 0; k < n; k++) in[k] = input[k] + offset;
    s->reduce_local(wanted, NULL, in, n, count, &scale);
    memset(acc, 0x5a, sizeof acc);
    memset(out, 0x5a, sizeof out);
    r->begin(acc + offset, in[0], count, &scale);
    for (int k = 1; k < n; k++) r->add(acc + offset, in[k], count, &scale);
    assert_int_equal(acc[offset + count * r->acc_size], 0x5a);
    r->end(out + offset, acc + offset, count, &scale);
    compare(pair, "in pieces", out + offset, count);
    assert_int_equal(out[offset + count * pair->size], 0x5a);

    s->begin(scalar_acc, in[n - 1], count, &scale);
    r->begin(acc2 + offset, in[n - 1], count, &scale);
    s->merge(scalar_acc, acc + offset, count);
    r->merge(acc2 + offset, acc + offset, count);
    s->end(wanted, scalar_acc, count, &scale);
    r->end(acc2 + offset, acc2 + offset, count, &scale); /* in place */
    compare(pair, "merged", acc2 + offset, count);
}

static void small_counts(const struct pair *pair) {
    fill(pair, 67, 0);
    for (size_t count = 0; count <= 67; count++)
        for (int n = 1; n <= INPUTS; n++) {
            check_shape(pair, n, count, 0);
            check_pieces(pair, n, count, 0);
        }
    check_in_place(pair, 3, 67);
    check_in_place(pair, 2, 67);
}

static void large_counts(const struct pair *pair) {
    static const size_t counts[] = {MOST, 256, 1023, 333};
    static const int ranks[] = {4, 128, 256, 3}; /* values that i8 can and cannot hold */
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        size_t offset = i * 3; /* not even elements are aligned */
        scale.ranks = ranks[i];
        fill(pair, counts[i], offset);
        for (int n = 1; n <= INPUTS; n++) {
            check_shape(pair, n, counts[i], offset);
            check_pieces(pair, n, counts[i], offset);
        }
    }
    fill(pair, MOST, 0);
    for (int n = 1; n <= INPUTS; n++) check_in_place(pair, n, MOST);
}

/* Memory that ends where access ends, for arrays that end there. */
static char *map_end(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (67 * 16 + page) / page * page;
    char *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + room, page, PROT_NONE), 0);
    return map + room;
}

/* An access beyond an array ends the test: most variants have vectors, and an array may end within one. */
static void arrays_at_the_end_of_memory(const struct pair *pair) {
    static char *end[5];
    for (size_t i = 0; i < COUNT_OF(end); i++)
        if (!end[i]) end[i] = map_end();
    const struct msi_reducer *r = pair->reducer;
    for (size_t count = 0; count <= 67; count++) {
        size_t bytes = count * pair->size;
        void *a = end[0] - bytes, *b = end[1] - bytes, *to = end[2] - bytes;
        char *sum = end[3] - count * r->acc_size, *other = end[4] - count * r->acc_size;
        const void *in[2] = {a, b};
        kit_fill(pair->dtype, a, count);
        kit_fill(pair->dtype, b, count);
        r->reduce_local(to, b, in, 2, count, &scale);
        r->begin(sum, a, count, &scale);
        r->add(sum, b, count, &scale);
        r->begin(other, to, count, &scale);
        r->merge(sum, other, count);
        r->end(to, sum, count, &scale);
    }
}

static void variants_stay_in_their_arrays(void **state) {
    (void)state;
    each_pair(arrays_at_the_end_of_memory);
}

static void variants_agree_on_small_counts(void **state) {
    (void)state;
    each_pair(small_counts);
}

static void variants_agree_on_large_and_unaligned_arrays(void **state) {
    (void)state;
    each_pair(large_counts);
}

/* Two halves that a vector of ARM's or F16C adds: all pairs of some, among them all exponents. */
static void pairs_of_halves(void **state) {
    (void)state;
    static uint16_t a[65536], b[65536], sum[65536], expected[65536];
    const void *in[2] = {a, b};
    for (uint32_t other = 0; other < 65536; other += 97) {
        for (uint32_t i = 0; i < 65536; i++) a[i] = (uint16_t)i, b[i] = (uint16_t)(other + (i & 3));
        msi_reducer_variant("scalar", MST_F16, MST_SUM)->reduce_local(expected, NULL, in, 2, 65536, NULL);
        msi_reducer_get(MST_F16, MST_SUM)->reduce_local(sum, NULL, in, 2, 65536, NULL);
        kit_assert_same("pairs", MST_F16, sum, expected, 65536);
    }
}

static void meaningless_pairs_have_no_reducer(void **state) {
    (void)state;
    for (int d = -1; d <= MST_DTYPE_COUNT; d++)
        for (int o = -1; o <= MST_OP_COUNT; o++) {
            bool valid = d > 0 && d < MST_DTYPE_COUNT && o >= 0 && o < MST_OP_COUNT;
            bool is_float = valid && kit_format((mst_dtype)d), bitwise = o >= MST_BAND && o <= MST_BXOR;
            if (d >= MST_BITS8 && d <= MST_BITS128) {
                assert_null(msi_reducer_get((mst_dtype)d, (mst_op)o));
                continue;
            }
            if (valid && kit_part((mst_dtype)d) != (mst_dtype)d) {
                bool defined = o == MST_SUM || o == MST_AVG || o == MST_PRODUCT || o == MST_PREMUL_SUM;
                assert_int_equal(msi_reducer_get((mst_dtype)d, (mst_op)o) != NULL, defined);
                continue;
            }
            bool wanted_one = valid && !(is_float && bitwise) && !(d == MST_BOOL && o == MST_AVG) &&
                              !(!is_float && o == MST_PREMUL_SUM);
            assert_int_equal(msi_reducer_get((mst_dtype)d, (mst_op)o) != NULL, wanted_one);
        }
    assert_null(msi_reducer_variant("abacus", MST_F32, MST_SUM));
}

static void names_and_sizes(void **state) {
    (void)state;
    assert_int_equal(mst_dtype_size(MST_F64), 8);
    assert_int_equal(mst_dtype_size(MST_BOOL), 1);
    assert_int_equal(mst_dtype_size((mst_dtype)0), 0);
    assert_int_equal(mst_dtype_size(MST_DTYPE_COUNT), 0);
    assert_string_equal(mst_dtype_name(MST_BF16), "bf16");
    assert_string_equal(mst_dtype_name((mst_dtype)0), "?");
    assert_string_equal(mst_dtype_name((mst_dtype)-1), "?");
    assert_string_equal(mst_op_name(MST_PREMUL_SUM), "PREMUL_SUM");
    assert_string_equal(mst_op_name(MST_OP_COUNT), "?");
    for (const char *const *v = msi_reduce_variants(); *v; v++)
        if (!v[1]) assert_string_equal(*v, "scalar");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_agree_on_small_counts),
        cmocka_unit_test(variants_agree_on_large_and_unaligned_arrays),
        cmocka_unit_test(variants_stay_in_their_arrays),
        cmocka_unit_test(pairs_of_halves),
        cmocka_unit_test(meaningless_pairs_have_no_reducer),
        cmocka_unit_test(names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
