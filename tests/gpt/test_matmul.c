/*
 * test_matmul.c - products of every form, of sizes around those of the tiles, and the promise of matmul.h
 * about their bits.
 */
#include "kit.h"
#include "nn/matmul.h"

static const size_t sizes[][3] = {{1, 1, 1},    {1, 300, 40}, {2, 17, 33},  {3, 5, 7},      {6, 16, 8},
                                  {7, 17, 257}, {97, 49, 13}, {40, 800, 5}, {100, 33, 520}, {13, 1, 300}};

static double wanted(const struct gpt_matrix *a, const struct gpt_matrix *b, size_t i, size_t j, size_t k) {
    double sum = 0;
    for (size_t p = 0; p < k; p++)
        sum += (double)(a->transposed ? a->data[p * a->stride + i] : a->data[i * a->stride + p]) *
               (double)(b->transposed ? b->data[j * b->stride + p] : b->data[p * b->stride + j]);
    return sum;
}

static void check(const size_t size[3], bool transpose_a, bool transpose_b, bool add) {
    size_t m = size[0], n = size[1], k = size[2], stride = n + 3;
    struct gpt_matrix a = {kit_new((m + 2) * (k + 2), "a", 1), transpose_a ? m + 2 : k + 2, transpose_a};
    struct gpt_matrix b = {kit_new((n + 1) * (k + 1), "b", 1), transpose_b ? k + 1 : n + 1, transpose_b};
    float *c = kit_new(m * stride, "c", 1), *before = kit_new(m * stride, "c", 1);
    gpt_matmul(m, n, k, a, b, c, stride, add);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < stride; j++) {
            double start = (double)before[i * stride + j];
            double value = j < n ? wanted(&a, &b, i, j, k) + (add ? start : 0)
                                 : start; /* the rest of the row must not change */
            if (fabs(value - (double)c[i * stride + j]) > 1e-5 * (double)(k + 1))
                fail_msg("%zu x %zu x %zu: element %zu,%zu is %g instead of %g", m, n, k, i, j,
                         (double)c[i * stride + j], value);
        }
    free((void *)(size_t)a.data);
    free((void *)(size_t)b.data);
    free(c);
    free(before);
}

static void test_all_forms(void **state) {
    (void)state;
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int form = 0; form < 8; form++) check(sizes[s], form & 1, form & 2, form & 4);
}

static void test_empty_sum(void **state) {
    (void)state;
    float c[6] = {1, 2, 3, 4, 5, 6};
    gpt_matmul(2, 3, 0, (struct gpt_matrix){c, 1, false}, (struct gpt_matrix){c, 3, false}, c, 3, true);
    assert_true(c[5] == 6);
    gpt_matmul(2, 3, 0, (struct gpt_matrix){c, 1, false}, (struct gpt_matrix){c, 3, false}, c, 3, false);
    for (int i = 0; i < 6; i++) assert_true(c[i] == 0);
}

/* A block of rows and columns has the same bits as in the whole product. */
static void test_blocks_have_the_bits_of_the_whole(void **state) {
    (void)state;
    enum { M = 50, N = 70, K = 300 };
    if (strcmp(gpt_matmul_kind(), "blas") == 0) skip();
    float *a = kit_new(M * K, "a", 1), *b = kit_new(K * N, "b", 1), *c = kit_new(M * N, "c", 1);
    gpt_matmul(M, N, K, (struct gpt_matrix){a, K, false}, (struct gpt_matrix){b, N, false}, c, N, false);
    static const size_t parts[][4] = {
        {0, 1, 0, N}, {3, 9, 10, 45}, {40, M, 64, N}, {17, 18, 5, 6}, {0, 2, 1, 66}};
    for (size_t p = 0; p < COUNT_OF(parts); p++) {
        size_t m = parts[p][1] - parts[p][0], n = parts[p][3] - parts[p][2];
        float *part = kit_new(m * n, "part", 1);
        gpt_matmul(m, n, K, (struct gpt_matrix){a + parts[p][0] * K, K, false},
                   (struct gpt_matrix){b + parts[p][2], N, false}, part, n, false);
        for (size_t i = 0; i < m; i++)
            assert_memory_equal(part + i * n, c + (parts[p][0] + i) * N + parts[p][2], n * sizeof *part);
        free(part);
    }
    free(a);
    free(b);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_forms),
        cmocka_unit_test(test_empty_sum),
        cmocka_unit_test(test_blocks_have_the_bits_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
