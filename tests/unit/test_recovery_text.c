/* test_recovery_text.c - ranks of the next world that are out of range. tests/fuzz has the other texts. */
#include "harness.h"

#include "wire/recovery.h"

static bool read_ranks(const char *text, int host, int standby) {
    int ranks[2];
    bool valid = msi_store_ranks_read(msi_cstr(text), 3, ranks);
    assert_int_equal(ranks[0], host);
    assert_int_equal(ranks[1], standby);
    return valid;
}

static void ranks_of_the_store_are_in_the_world(void **state) {
    (void)state;
    assert_true(read_ranks("0 2", 0, 2));
    assert_true(read_ranks("2 0", 2, 0));
    assert_true(read_ranks("1 -1", 1, -1));
    static const char *const wrong[] = {"", "1", "x 1", "1 x", "-1 1", "3 1", "1 -2", "1 3", "99999999999 1"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) assert_false(read_ranks(wrong[i], -1, -1));
}

static void ranks_of_the_store_are_read_as_written(void **state) {
    (void)state;
    char text[MSI_STORE_RANKS_MAX];
    msi_store_ranks_write(text, (const int[]){2, -1});
    assert_true(read_ranks(text, 2, -1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_the_store_are_in_the_world),
        cmocka_unit_test(ranks_of_the_store_are_read_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
