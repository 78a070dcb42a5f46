/* test_bucket_layout.c - which tensor is in which bucket of a reducer. */
#include "harness.h"

#include "bucket/bucket.h"

#include <stdlib.h>

enum { MOST = 200 };

static struct msi_bucket_tensor tensors[MOST];
static struct msi_bucket *buckets;
static size_t n_buckets;

static void divide(const size_t *bytes, const mst_dtype *dtypes, size_t n, struct msi_bucket_limits limits) {
    free(buckets);
    for (size_t i = 0; i < n; i++)
        tensors[i] =
            (struct msi_bucket_tensor){.user.dtype = dtypes ? dtypes[i] : MST_F32, .bytes = bytes[i]};
    assert_int_equal(msi_bucket_divide(tensors, n, &limits, &buckets, &n_buckets), MST_OK);
}

static void assert_buckets(size_t n, const size_t *expected) {
    for (size_t i = 0; i < n; i++) assert_int_equal(tensors[i].bucket, expected[i]);
}

static void from_the_last_tensor(void **state) {
    (void)state;
    divide((size_t[]){4, 4, 4, 4, 4}, NULL, 5, (struct msi_bucket_limits){8, 8, SIZE_MAX});
    assert_buckets(5, (size_t[]){2, 1, 1, 0, 0});
    assert_int_equal(buckets[0].first, 3);
    assert_int_equal(tensors[3].next, 4);
    assert_int_equal(tensors[4].next, MSI_NO_TENSOR);
    assert_int_equal(buckets[2].bytes, 4);
}

static void first_bucket_is_smaller(void **state) {
    (void)state;
    divide((size_t[]){4, 4, 4, 4, 4}, NULL, 5, (struct msi_bucket_limits){4, 12, SIZE_MAX});
    assert_buckets(5, (size_t[]){2, 1, 1, 1, 0});
}

/* Smaller tensors before and after a large one share a bucket, which is complete after the large one. */
static void large_tensor_is_alone(void **state) {
    (void)state;
    divide((size_t[]){4, 4, 100, 4}, NULL, 4, (struct msi_bucket_limits){12, 12, SIZE_MAX});
    assert_buckets(4, (size_t[]){1, 1, 0, 1});
    divide((size_t[]){4, 10, 4}, NULL, 3, (struct msi_bucket_limits){100, 100, 10});
    assert_buckets(3, (size_t[]){1, 0, 1});
}

static void one_dtype_each(void **state) {
    (void)state;
    divide((size_t[]){4, 2, 4, 2}, (mst_dtype[]){MST_F32, MST_BF16, MST_F32, MST_BF16}, 4,
           (struct msi_bucket_limits){100, 100, SIZE_MAX});
    assert_buckets(4, (size_t[]){1, 0, 1, 0});
}

/* For any sizes: one dtype, at most the limit unless alone, each tensor once, and ordered by completion. */
static void random_layouts(void **state) {
    (void)state;
    static const mst_dtype some[] = {MST_F32, MST_BF16, MST_F64};
    size_t bytes[MOST];
    mst_dtype dtypes[MOST];
    for (unsigned seed = 1; seed <= 300; seed++) {
        srand(seed);
        size_t n = 1 + (size_t)rand() % MOST, seen = 0;
        struct msi_bucket_limits limits = {(size_t)rand() % 50, 50 + (size_t)rand() % 200, 100};
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (size_t)rand() % 130;
            dtypes[i] = some[rand() % 3];
        }
        divide(bytes, dtypes, n, limits);
        for (size_t b = 0; b < n_buckets; b++) {
            size_t sum = 0, count = 0;
            assert_true(b == 0 || buckets[b].first < buckets[b - 1].first);
            for (size_t i = buckets[b].first; i != MSI_NO_TENSOR; i = tensors[i].next) {
                assert_true(tensors[i].next > i);
                assert_int_equal(tensors[i].bucket, b);
                assert_int_equal(dtypes[i], dtypes[buckets[b].first]);
                sum += bytes[i];
                count++;
            }
            assert_int_equal(sum, buckets[b].bytes);
            assert_int_equal(count, buckets[b].tensors);
            assert_true(count == 1 || sum <= limits.other);
            seen += count;
        }
        assert_int_equal(seen, n);
    }
}

static void memory_in_one_piece(void **state) {
    (void)state;
    char memory[32];
    divide((size_t[]){8, 0, 4, 4}, NULL, 4, (struct msi_bucket_limits){100, 100, SIZE_MAX});
    tensors[0].user.data = memory;
    tensors[2].user.data = memory + 8;
    tensors[3].user.data = memory + 12;
    assert_ptr_equal(msi_bucket_find_memory(tensors, &buckets[0]), memory);
    tensors[3].user.data = memory + 16;
    assert_null(msi_bucket_find_memory(tensors, &buckets[0]));
    tensors[3].user.data = memory + 8; /* all bytes, in another order */
    tensors[2].user.data = memory + 12;
    assert_null(msi_bucket_find_memory(tensors, &buckets[0]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_last_tensor),  cmocka_unit_test(first_bucket_is_smaller),
        cmocka_unit_test(large_tensor_is_alone), cmocka_unit_test(one_dtype_each),
        cmocka_unit_test(random_layouts),        cmocka_unit_test(memory_in_one_piece),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(buckets);
    return failed;
}
