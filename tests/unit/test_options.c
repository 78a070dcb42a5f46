/* test_options.c - options structs of older and newer callers. */
#include "harness.h"

#include "base/options.h"

#include <muster/muster.h>

/* What this library knows, what an older caller knew, and what a newer one does. */
struct options {
    const void *positional;
    size_t size;
    int timeout_ms;
    int rank;
};

struct older {
    const void *positional;
    size_t size;
    int timeout_ms;
};

struct newer {
    const void *positional;
    size_t size;
    int timeout_ms;
    int rank;
    char added[24];
};

static void none_given_is_all_defaults(void **state) {
    (void)state;
    struct options got;
    memset(&got, 0x5a, sizeof got);
    assert_ok(msi_options_copy(&got, sizeof got, NULL));
    assert_int_equal(got.size, 0);
    assert_int_equal(got.timeout_ms, 0);
    assert_int_equal(got.rank, 0);
}

static void the_same_is_copied(void **state) {
    (void)state;
    struct options got, given = {NULL, sizeof given, 5, 6};
    assert_ok(msi_options_copy(&got, sizeof got, &given));
    assert_int_equal(got.timeout_ms, 5);
    assert_int_equal(got.rank, 6);
}

static void an_older_callers_missing_fields_are_zero(void **state) {
    (void)state;
    struct options got;
    struct older *given = malloc(sizeof *given); /* its own block: a read past it is seen */
    assert_non_null(given);
    memset(&got, 0x5a, sizeof got);
    *given = (struct older){NULL, offsetof(struct options, rank), 5};
    assert_ok(msi_options_copy(&got, sizeof got, given));
    assert_int_equal(got.timeout_ms, 5);
    assert_int_equal(got.rank, 0);
    free(given);
}

static void a_newer_caller_may_leave_new_fields_zero(void **state) {
    (void)state;
    struct options got;
    struct newer given = {.size = sizeof given, .timeout_ms = 5, .rank = 6};
    assert_ok(msi_options_copy(&got, sizeof got, &given));
    assert_int_equal(got.rank, 6);
}

static void a_newer_callers_new_fields_are_refused_when_set(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(struct newer) - sizeof(struct options); i++) {
        struct options got;
        struct newer given = {.size = sizeof given};
        ((char *)&given)[sizeof(struct options) + i] = 1;
        assert_status(msi_options_copy(&got, sizeof got, &given), MST_ERR_INVALID);
        assert_contains(mst_error(), MST_VERSION_STRING);
    }
}

static void sizes_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 2 * sizeof(size_t) - 1, 4097, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct options got, given = {.size = sizes[i]};
        assert_status(msi_options_copy(&got, sizeof got, &given), MST_ERR_INVALID);
        assert_contains(mst_error(), ".size");
    }
}

static void store_calls_refuse_a_struct_without_size(void **state) {
    (void)state;
    mst_store *store;
    mst_store_call call = {.timeout_ms = 5};
    assert_ok(mst_store_open("hash://", &store));
    assert_status(mst_store_set_with(store, "k", "v", 1, &call), MST_ERR_INVALID);
    mst_store_free(store);
}

/* What lies behind a shorter struct is not the caller's site. */
static void nothing_behind_a_shorter_struct_is_read(void **state) {
    (void)state;
    mst_store *store;
    mst_store_call call = {.size = 2 * sizeof(size_t), .site = {"behind.c", "behind", 7}, .timeout_ms = -5};
    assert_ok(mst_store_open("hash://", &store));
    assert_status(mst_store_set_with(store, NULL, "v", 1, &call), MST_ERR_INVALID);
    assert_null(mst_last_error()->site.file);
    mst_store_options options = {.size = 2 * sizeof(size_t), .site = {"behind.c", "behind", 7}};
    mst_store *never = NULL;
    assert_status(mst_store_open_with("nonsense", &never, &options), MST_ERR_ADDRESS);
    assert_null(mst_last_error()->site.file);
    mst_store_free(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_given_is_all_defaults),
        cmocka_unit_test(the_same_is_copied),
        cmocka_unit_test(an_older_callers_missing_fields_are_zero),
        cmocka_unit_test(a_newer_caller_may_leave_new_fields_zero),
        cmocka_unit_test(a_newer_callers_new_fields_are_refused_when_set),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(store_calls_refuse_a_struct_without_size),
        cmocka_unit_test(nothing_behind_a_shorter_struct_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
