/* test_pmix_abi.c - what pmix_abi.h says of libpmix.so.2, against the system's header of PMIx, where there
 * is one. */
#include "bootstrap/pmix_abi.h"
#include "harness.h"

#if defined __has_include && __has_include(<pmix.h>)
#include <pmix.h>

#define SAME_TYPE(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))

static void test_constants(void **state) {
    (void)state;
    assert_int_equal(MSI_PMIX_SUCCESS, PMIX_SUCCESS);
    assert_int_equal(MSI_PMIX_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND);
    assert_int_equal(MSI_PMIX_BOOL, PMIX_BOOL);
    assert_int_equal(MSI_PMIX_STRING, PMIX_STRING);
    assert_int_equal(MSI_PMIX_UINT32, PMIX_UINT32);
    assert_int_equal(MSI_PMIX_GLOBAL, PMIX_GLOBAL);
    assert_int_equal(MSI_PMIX_RANK_WILDCARD, PMIX_RANK_WILDCARD);
    assert_string_equal(MSI_PMIX_COLLECT_DATA, PMIX_COLLECT_DATA);
    assert_string_equal(MSI_PMIX_JOB_SIZE, PMIX_JOB_SIZE);
}

static void test_layouts(void **state) {
    (void)state;
    assert_int_equal(sizeof(struct msi_pmix_proc), sizeof(pmix_proc_t));
    assert_int_equal(offsetof(struct msi_pmix_proc, rank), offsetof(pmix_proc_t, rank));
    assert_int_equal(sizeof(struct msi_pmix_value), sizeof(pmix_value_t));
    assert_int_equal(offsetof(struct msi_pmix_value, data), offsetof(pmix_value_t, data));
    assert_int_equal(sizeof(struct msi_pmix_info), sizeof(pmix_info_t));
    assert_int_equal(offsetof(struct msi_pmix_info, flags), offsetof(pmix_info_t, flags));
    assert_int_equal(offsetof(struct msi_pmix_info, value), offsetof(pmix_info_t, value));
}

static void test_types(void **state) {
    (void)state;
    assert_true(SAME_TYPE(((struct msi_pmix_proc *)0)->space, ((pmix_proc_t *)0)->nspace));
    assert_true(SAME_TYPE(((struct msi_pmix_proc *)0)->rank, ((pmix_proc_t *)0)->rank));
    assert_true(SAME_TYPE(((struct msi_pmix_value *)0)->type, ((pmix_value_t *)0)->type));
    assert_true(SAME_TYPE(((struct msi_pmix_value *)0)->data.flag, ((pmix_value_t *)0)->data.flag));
    assert_true(SAME_TYPE(((struct msi_pmix_value *)0)->data.string, ((pmix_value_t *)0)->data.string));
    assert_true(SAME_TYPE(((struct msi_pmix_value *)0)->data.uint32, ((pmix_value_t *)0)->data.uint32));
    assert_true(SAME_TYPE(((struct msi_pmix_info *)0)->key, ((pmix_info_t *)0)->key));
}

/* The functions with our types in the place of theirs. */
static void test_calls(void **state) {
    (void)state;
    assert_true(SAME_TYPE(PMIx_Init, int(pmix_proc_t *, pmix_info_t *, size_t)));
    assert_true(SAME_TYPE(PMIx_Finalize, int(const pmix_info_t *, size_t)));
    assert_true(SAME_TYPE(PMIx_Put, int(uint8_t, const char *, pmix_value_t *)));
    assert_true(SAME_TYPE(PMIx_Commit, int(void)));
    assert_true(SAME_TYPE(PMIx_Fence, int(const pmix_proc_t *, size_t, const pmix_info_t *, size_t)));
    assert_true(SAME_TYPE(
        PMIx_Get, int(const pmix_proc_t *, const char *, const pmix_info_t *, size_t, pmix_value_t **)));
    assert_true(SAME_TYPE(PMIx_Error_string, const char *(int)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 77; /* skipped */
}
#endif
