/* test_rank_list.c - the ranks that a message names. */
#include "harness.h"

#include "base/rank_list.h"

static void some_are_named_and_all_counted(void **state) {
    (void)state;
    static const char *const texts[] = {"", "a", "a, b", "a, b and 1 more", "a, b and 2 more"};
    struct msi_rank_list list;
    msi_rank_list_init(&list, 2);
    assert_int_equal(list.first, -1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(list.n, i);
        assert_string_equal(list.text, texts[i]);
        msi_rank_list_add(&list, 7 + i, (const char *[]){"a", "b", "c", "d"}[i]);
        assert_int_equal(list.first, 7);
    }
    assert_string_equal(list.text, texts[4]);
    assert_int_equal(list.ranks.n, 4);
    assert_int_equal(list.ranks.ranks[3], 10);
    for (int i = 4; i < MSI_RANKS_MOST + 5; i++) msi_rank_list_add(&list, 7 + i, "e");
    assert_int_equal(list.n, MSI_RANKS_MOST + 5);
    assert_int_equal(list.ranks.n, MSI_RANKS_MOST);
}

/* The memory behind the text stays as it was. */
static void a_long_text_is_cut(void **state) {
    (void)state;
    struct {
        struct msi_rank_list list;
        char behind[2000];
    } at;
    char who[300];
    memset(who, 'x', sizeof who - 1);
    who[sizeof who - 1] = 0;
    memset(at.behind, '#', sizeof at.behind);
    msi_rank_list_init(&at.list, 5);
    for (int i = 0; i < 9; i++) {
        msi_rank_list_add(&at.list, i, who);
        assert_true(strlen(at.list.text) < sizeof at.list.text);
    }
    assert_int_equal(at.list.n, 9);
    assert_int_equal(strlen(at.list.text), sizeof at.list.text - 1);
    for (size_t i = 0; i < sizeof at.behind; i++) assert_int_equal(at.behind[i], '#');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_are_named_and_all_counted),
        cmocka_unit_test(a_long_text_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
