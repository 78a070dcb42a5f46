/* test_join_report.c - what a rank says if the others have not arrived in time. */
#include "bootstrap/report.h"
#include "harness.h"

static const struct msi_join_spec spec = {.rank = 0, .world_size = 4, .url.scheme = MSI_SCHEME_HASH};

/* A store in which these ranks, from 0 on, have arrived. */
static mst_store *store_with(uint32_t ranks) {
    mst_store *store;
    struct msi_buf entries = {0};
    assert_int_equal(mst_store_open("hash://", &store), MST_OK);
    for (uint32_t r = 0; r < ranks; r++)
        msi_members_write(&entries, &(struct msi_member_entry){.rank = r, .location = 1});
    struct msi_wait wait = {msi_deadline(1000), NULL};
    struct msi_store_rpc x = {
        .req = {.op = MSI_OP_APPEND, .key = msi_cstr("world/members"), .value = msi_buf_str(&entries)}};
    assert_int_equal(msi_store_exec(store, &wait, &x, 1), MST_OK);
    msi_store_rpc_free(&x, 1);
    msi_buf_free(&entries);
    return store;
}

static void names_the_missing_ranks(void **state) {
    (void)state;
    mst_store *store = store_with(2);
    assert_int_equal(msi_join_explain_missing(store, "world/", &spec), MST_ERR_MISSING_RANK);
    assert_non_null(strstr(mst_error(), "2 of 4 ranks arrived in time; missing: ranks 2, 3;"));
    assert_int_equal(mst_last_error()->culprit, 2);
    mst_store_free(store);
}

/* The last rank arrives between the timeout and the question which ranks are missing. */
static void all_arrived_too_late(void **state) {
    (void)state;
    mst_store *store = store_with(4);
    assert_int_equal(msi_join_explain_missing(store, "world/", &spec), MST_ERR_TIMEOUT);
    assert_non_null(strstr(mst_error(), "all 4 ranks arrived, but the last ones after the timeout"));
    assert_int_equal(mst_last_error()->culprit, -1);
    mst_store_free(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_the_missing_ranks),
                                       cmocka_unit_test(all_arrived_too_late)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
