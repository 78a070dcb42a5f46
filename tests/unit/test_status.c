/* test_status.c - statuses are frozen numbers with names and scopes; a failure is told per thread. */
#include "harness.h"

#include "base/error.h"

#include <muster/muster.h>

struct row {
    int number;
    const char *name;
    mst_scope scope;
};

/* Written out, not taken from the table: these numbers cross the ABI and the wire. */
static const struct row rows[] = {
    {0, "MST_OK", MST_SCOPE_NONE},
    {1, "MST_ERR_INVALID", MST_SCOPE_CALL},
    {2, "MST_ERR_STATE", MST_SCOPE_CALL},
    {3, "MST_ERR_UNSUPPORTED", MST_SCOPE_CALL},
    {4, "MST_ERR_NOT_FOUND", MST_SCOPE_CALL},
    {5, "MST_ERR_TIMEOUT", MST_SCOPE_CALL},
    {6, "MST_ERR_CANCELLED", MST_SCOPE_CALL},
    {7, "MST_ERR_MEMORY", MST_SCOPE_CALL},
    {8, "MST_ERR_LIMIT", MST_SCOPE_CALL},
    {9, "MST_ERR_SYSTEM", MST_SCOPE_CALL},
    {10, "MST_ERR_CONFIG", MST_SCOPE_PROCESS},
    {11, "MST_ERR_ADDRESS", MST_SCOPE_CALL},
    {12, "MST_ERR_PORT_TAKEN", MST_SCOPE_CALL},
    {13, "MST_ERR_UNREACHABLE", MST_SCOPE_CALL},
    {14, "MST_ERR_STORE_LOST", MST_SCOPE_PROCESS},
    {15, "MST_ERR_PROTOCOL", MST_SCOPE_CALL},
    {16, "MST_ERR_NOT_MEMBER", MST_SCOPE_CALL},
    {17, "MST_ERR_MISSING_RANK", MST_SCOPE_PROCESS},
    {18, "MST_ERR_DUPLICATE_RANK", MST_SCOPE_PROCESS},
    {19, "MST_ERR_WORLD_SIZE", MST_SCOPE_PROCESS},
    {20, "MST_ERR_VERSION", MST_SCOPE_PROCESS},
    {21, "MST_ERR_STALE", MST_SCOPE_PROCESS},
    {22, "MST_ERR_PEER_LOST", MST_SCOPE_GROUP},
    {23, "MST_ERR_STALLED", MST_SCOPE_GROUP},
    {24, "MST_ERR_INTERNAL", MST_SCOPE_PROCESS},
    {25, "MST_ERR_STORE_ENDED", MST_SCOPE_PROCESS},
    {26, "MST_ERR_MISMATCH", MST_SCOPE_GROUP},
    {27, "MST_ERR_CALLBACK", MST_SCOPE_GROUP},
};

static void every_row_has_its_number_name_and_scope(void **state) {
    (void)state;
    assert_int_equal(COUNT_OF(rows), MST_STATUS_COUNT);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        mst_status status = (mst_status)i;
        assert_int_equal(rows[i].number, (int)i);
        assert_string_equal(mst_status_name(status), rows[i].name);
        assert_int_equal(mst_status_scope(status), rows[i].scope);
    }
}

static void every_text_is_its_own(void **state) {
    (void)state;
    for (int i = 0; i < MST_STATUS_COUNT; i++) {
        assert_true(strlen(mst_status_text((mst_status)i)) > 3);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(mst_status_text((mst_status)i), mst_status_text((mst_status)j));
    }
}

static void a_number_that_is_none_is_unknown(void **state) {
    (void)state;
    static const int numbers[] = {-1, MST_STATUS_COUNT, MST_STATUS_COUNT + 1, 255, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        assert_string_equal(mst_status_name((mst_status)numbers[i]), "MST_UNKNOWN");
        assert_non_null(mst_status_text((mst_status)numbers[i]));
        assert_int_equal(mst_status_scope((mst_status)numbers[i]), MST_SCOPE_PROCESS);
    }
}

static void *look_at_fresh_thread(void *context) {
    (void)context;
    const mst_error_info *info = mst_last_error();
    bool fresh = !strcmp(mst_error(), "") && info->status == MST_OK && info->rank == -1 &&
                 info->culprit == -1 && !strcmp(info->message, "") && !strcmp(info->remedy, "") &&
                 !strcmp(info->operation, "");
    msi_fail(MST_ERR_LIMIT, NULL, "the other thread's");
    return fresh ? context : NULL;
}

static void a_failure_belongs_to_its_thread(void **state) {
    (void)state;
    int yes;
    msi_call_begin("mst_here", NULL, -1);
    msi_fail(MST_ERR_STATE, NULL, "this thread's");
    assert_ptr_equal(join_thread(start_thread(look_at_fresh_thread, &yes)), &yes);
    assert_string_equal(mst_error(), "mst_here: this thread's");
    assert_int_equal(mst_last_error()->status, MST_ERR_STATE);
}

static void a_line_tells_rank_operation_site_message_and_remedy(void **state) {
    (void)state;
    mst_site site = {"/home/me/src/train.c", "step", 41};
    msi_call_begin("mst_barrier", &site, 2);
    msi_call_sequence(5);
    assert_int_equal(msi_fail(MST_ERR_STALLED, "look at rank 3", "rank %d is late", 3), MST_ERR_STALLED);
    assert_int_equal(msi_blame(MST_ERR_STALLED, 3), MST_ERR_STALLED);
    assert_string_equal(mst_error(),
                        "rank 2: mst_barrier #5 (train.c:41, step): rank 3 is late; look at rank 3");
    const mst_error_info *info = mst_last_error();
    assert_int_equal(info->rank, 2);
    assert_int_equal(info->culprit, 3);
    assert_int_equal(info->sequence, 5);
    assert_string_equal(info->operation, "mst_barrier");
    assert_string_equal(info->message, "rank 3 is late");
    assert_string_equal(info->remedy, "look at rank 3");
    assert_string_equal(info->site.file, "/home/me/src/train.c");
    assert_string_equal(info->site.function, "step");
    assert_int_equal(info->site.line, 41);
}

static void a_new_call_forgets_sequence_and_culprit(void **state) {
    (void)state;
    msi_call_begin("mst_first", NULL, 1);
    msi_call_sequence(9);
    msi_blame(msi_fail(MST_ERR_PEER_LOST, "remedy", "first"), 4);
    msi_call_begin("mst_second", NULL, -1);
    msi_fail(MST_ERR_INVALID, NULL, "second");
    assert_string_equal(mst_error(), "mst_second: second");
    assert_int_equal(mst_last_error()->culprit, -1);
    assert_int_equal(mst_last_error()->sequence, 0);
    assert_null(mst_last_error()->site.file);
}

static void a_rank_can_become_known_within_a_call(void **state) {
    (void)state;
    msi_call_begin("mst_init", NULL, -1);
    assert_int_equal(msi_call_get_rank(), -1);
    msi_call_rank(7);
    assert_int_equal(msi_call_get_rank(), 7);
    msi_fail(MST_ERR_TIMEOUT, NULL, "late");
    assert_string_equal(mst_error(), "rank 7: mst_init: late");
}

static void an_errno_is_said_in_words(void **state) {
    (void)state;
    msi_call_begin("mst_x", NULL, -1);
    assert_int_equal(msi_fail_errno(EACCES, "cannot open %s", "/a"), MST_ERR_SYSTEM);
    assert_string_equal(mst_last_error()->message, "cannot open /a: Permission denied");
    assert_int_equal(msi_fail_errno(ENOMEM, "cannot map"), MST_ERR_MEMORY);
    assert_int_equal(msi_fail_memory(), MST_ERR_MEMORY);
}

static void long_messages_are_cut_not_overrun(void **state) {
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    msi_call_begin(text, &(mst_site){text, text, 1}, 3);
    msi_fail(MST_ERR_LIMIT, text, "%s", text);
    assert_true(strlen(mst_error()) > 1000 && strlen(mst_error()) < 2048);
    assert_true(strlen(mst_last_error()->message) < sizeof text);
    msi_fail_errno(EIO, "%s", text);
    assert_true(strlen(mst_last_error()->message) < sizeof text);
}

static void calls_record_their_site(void **state) {
    (void)state;
    int line = __LINE__ + 1;
    assert_status(mst_store_set(NULL, "k", "v", 1), MST_ERR_INVALID);
    const mst_error_info *info = mst_last_error();
    assert_string_equal(info->operation, "mst_store_set");
    assert_int_equal(info->site.line, line);
    assert_string_equal(info->site.function, __func__);
    assert_contains(info->site.file, "test_status.c");
    assert_status(mst_store_set_with(NULL, "k", "v", 1, NULL), MST_ERR_INVALID);
    assert_null(mst_last_error()->site.file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_its_number_name_and_scope),
        cmocka_unit_test(every_text_is_its_own),
        cmocka_unit_test(a_number_that_is_none_is_unknown),
        cmocka_unit_test(a_failure_belongs_to_its_thread),
        cmocka_unit_test(a_line_tells_rank_operation_site_message_and_remedy),
        cmocka_unit_test(a_new_call_forgets_sequence_and_culprit),
        cmocka_unit_test(a_rank_can_become_known_within_a_call),
        cmocka_unit_test(an_errno_is_said_in_words),
        cmocka_unit_test(long_messages_are_cut_not_overrun),
        cmocka_unit_test(calls_record_their_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
