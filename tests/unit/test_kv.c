/* test_kv.c - the map's operations, their replies byte for byte, and what they cost. */
#include "kv_kit.h"

static struct msi_kv *kv;

static int make_map(void **state) {
    (void)state;
    kv = msi_kv_new(1 << 20, SIZE_MAX);
    return kv ? 0 : -1;
}

static int free_map(void **state) {
    (void)state;
    msi_kv_free(kv);
    return 0;
}

#define TRUE64  "\1\0\0\0\0\0\0\0"
#define FALSE64 "\0\0\0\0\0\0\0\0"

static void set_and_get(void **state) {
    (void)state;
    expect(kv, REQ(GET, "k"), MST_ERR_NOT_FOUND, "");
    expect(kv, REQ(SET, "k", VALUE("v1")), MST_OK, "");
    expect(kv, REQ(GET, "k"), MST_OK, "\2\0\0\0\0\0\0\0v1");
    expect(kv, REQ(SET, "k", VALUE("")), MST_OK, "");
    expect(kv, REQ(GET, "k"), MST_OK, FALSE64);
    expect(kv, REQ(SET, "k", VALUE("a\0b")), MST_OK, "");
    expect(kv, REQ(GET, "k"), MST_OK, "\3\0\0\0\0\0\0\0a\0b");
    expect(kv, REQ(SET, "", VALUE("the empty key")), MST_OK, "");
    assert_value(kv, "", "the empty key");
}

static void add_keeps_decimal_text(void **state) {
    (void)state;
    expect(kv, REQ(ADD, "n", .number = 5), MST_OK, "\5\0\0\0\0\0\0\0");
    expect(kv, REQ(ADD, "n", .number = -7), MST_OK, "\xfe\xff\xff\xff\xff\xff\xff\xff");
    assert_value(kv, "n", "-2");
    expect(kv, REQ(SET, "n", VALUE("0041")), MST_OK, "");
    assert_int_equal(number(kv, REQ(ADD, "n", .number = 1)), 42);
    assert_value(kv, "n", "42");
    expect(kv, REQ(SET, "n", VALUE("-9223372036854775808")), MST_OK, "");
    assert_int_equal(number(kv, REQ(ADD, "n", .number = 0)), INT64_MIN);
}

static void add_refuses_what_is_no_number_and_changes_nothing(void **state) {
    (void)state;
    static const struct msi_str texts[] = {S(""),
                                           S("-"),
                                           S("x"),
                                           S("1x"),
                                           S(" 1"),
                                           S("+1"),
                                           S("1\0"),
                                           S("--1"),
                                           S("1-"),
                                           S("0x1"),
                                           S("9223372036854775808"),
                                           S("-9223372036854775809"),
                                           S("99999999999999999999999")};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        expect(kv, REQ(SET, "n", .value = texts[i]), MST_OK, "");
        expect(kv, REQ(ADD, "n", .number = 1), MST_ERR_STATE, "");
        struct msi_str value;
        assert_true(msi_kv_get(kv, msi_cstr("n"), &value));
        assert_true(msi_str_equal(value, texts[i]));
    }
    expect(kv, REQ(SET, "n", VALUE("9223372036854775807")), MST_OK, "");
    expect(kv, REQ(ADD, "n", .number = 1), MST_ERR_STATE, "");
    expect(kv, REQ(SET, "n", VALUE("-9223372036854775808")), MST_OK, "");
    expect(kv, REQ(ADD, "n", .number = -1), MST_ERR_STATE, "");
    assert_value(kv, "n", "-9223372036854775808");
}

static void compare_set_has_four_cases(void **state) {
    (void)state;
    expect(kv, REQ(COMPARE_SET, "k", VALUE("x"), .desired = S("y")), MST_OK, "\1\0\0\0\0\0\0\0x");
    assert_missing(kv, "k");
    expect(kv, REQ(COMPARE_SET, "k", VALUE(""), .desired = S("y")), MST_OK, "\1\0\0\0\0\0\0\0y");
    assert_value(kv, "k", "y");
    expect(kv, REQ(COMPARE_SET, "k", VALUE("n"), .desired = S("z")), MST_OK, "\1\0\0\0\0\0\0\0y");
    assert_value(kv, "k", "y");
    expect(kv, REQ(COMPARE_SET, "k", VALUE("y"), .desired = S("zz")), MST_OK, "\2\0\0\0\0\0\0\0zz");
    assert_value(kv, "k", "zz");
    expect(kv, REQ(COMPARE_SET, "k", VALUE(""), .desired = S("z")), MST_OK, "\2\0\0\0\0\0\0\0zz");
    assert_value(kv, "k", "zz");
}

static void append_makes_and_lengthens(void **state) {
    (void)state;
    expect(kv, REQ(APPEND, "a", VALUE("xy")), MST_OK, "");
    expect(kv, REQ(APPEND, "a", VALUE("")), MST_OK, "");
    expect(kv, REQ(APPEND, "a", VALUE("z")), MST_OK, "");
    assert_value(kv, "a", "xyz");
    for (int i = 0; i < 1000; i++) expect(kv, REQ(APPEND, "long", VALUE("0123456789")), MST_OK, "");
    struct msi_str value;
    assert_true(msi_kv_get(kv, msi_cstr("long"), &value));
    assert_int_equal(value.n, 10000);
    for (size_t i = 0; i < value.n; i++) assert_int_equal(value.p[i], '0' + (int)(i % 10));
}

static void lists_of_keys(void **state) {
    (void)state;
    struct msi_str values[] = {S("1"), S("22")};
    expect(kv, REQ(MULTI_SET, "", LIST(S("m1"), S("m2")), .values = values), MST_OK, "");
    expect(kv, REQ(CHECK, "", LIST(S("m1"), S("m2"))), MST_OK, "\0");
    expect(kv, REQ(CHECK, "", LIST(S("m1"), S("zz"))), MST_OK, "\1");
    expect(kv, REQ(CHECK, ""), MST_OK, "\0");
    expect(kv, REQ(MULTI_GET, "", LIST(S("m2"), S("m1"), S("m2"))), MST_OK,
           "\2\0\0\0\0\0\0\00022"
           "\1\0\0\0\0\0\0\0001"
           "\2\0\0\0\0\0\0\00022");
    expect(kv, REQ(WAIT_GET, "", LIST(S("m1"))), MST_OK, "\1\0\0\0\0\0\0\0001");
    expect(kv, REQ(MULTI_GET, "", LIST(S("m1"), S("zz"))), MST_ERR_NOT_FOUND, "");
    expect(kv, REQ(MULTI_GET, ""), MST_OK, "");
}

static void keys_are_counted_listed_and_deleted(void **state) {
    (void)state;
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, FALSE64);
    expect(kv, REQ(LIST_KEYS, ""), MST_OK, FALSE64);
    expect(kv, REQ(SET, "k", VALUE("v")), MST_OK, "");
    expect(kv, REQ(SET, "k", VALUE("w")), MST_OK, "");
    expect(kv, REQ(LIST_KEYS, ""), MST_OK, TRUE64 TRUE64 "k");
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, TRUE64);
    expect(kv, REQ(DELETE_KEY, "k"), MST_OK, TRUE64);
    expect(kv, REQ(DELETE_KEY, "k"), MST_OK, FALSE64);
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, FALSE64);
}

static void a_queue_is_first_in_first_out(void **state) {
    (void)state;
    expect(kv, REQ(QUEUE_LEN, "q"), MST_OK, FALSE64);
    expect(kv, REQ(QUEUE_POP, "q"), MST_OK, FALSE64);
    expect(kv, REQ(QUEUE_PUSH, "q", VALUE("ab")), MST_OK, "");
    expect(kv, REQ(QUEUE_PUSH, "q", VALUE("")), MST_OK, "");
    expect(kv, REQ(QUEUE_LEN, "q"), MST_OK, "\2\0\0\0\0\0\0\0");
    expect(kv, REQ(CHECK, "", LIST(S("q"))), MST_OK, "\0");
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, TRUE64);
    expect(kv, REQ(GET, "q"), MST_ERR_NOT_FOUND, "");
    expect(kv, REQ(QUEUE_POP, "q"), MST_OK,
           "\2\0\0\0\0\0\0\0"
           "\2\0\0\0\0\0\0\0ab");
    expect(kv, REQ(QUEUE_POP, "q"), MST_OK, TRUE64 FALSE64);
    expect(kv, REQ(CHECK, "", LIST(S("q"))), MST_OK, "\1");
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, FALSE64);
    expect(kv, REQ(QUEUE_PUSH, "q", VALUE("x")), MST_OK, "");
    expect(kv, REQ(DELETE_KEY, "q"), MST_OK, TRUE64);
    expect(kv, REQ(QUEUE_LEN, "q"), MST_OK, FALSE64);
    assert_int_equal(msi_kv_bytes(kv), 0);
}

static void a_key_can_hold_a_value_and_a_queue(void **state) {
    (void)state;
    expect(kv, REQ(SET, "k", VALUE("v")), MST_OK, "");
    expect(kv, REQ(QUEUE_PUSH, "k", VALUE("q")), MST_OK, "");
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, TRUE64);
    number(kv, REQ(QUEUE_POP, "k"));
    assert_value(kv, "k", "v");
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, TRUE64);
    expect(kv, REQ(DELETE_KEY, "k"), MST_OK, TRUE64);
    expect(kv, REQ(NUM_KEYS, ""), MST_OK, FALSE64);
    assert_int_equal(msi_kv_bytes(kv), 0);
}

static void what_is_no_request_for_a_map_is_refused(void **state) {
    (void)state;
    expect(kv, REQ(VALIDATE, ""), MST_ERR_UNSUPPORTED, "");
    expect(kv, REQ(ON_DISCONNECT, "k", VALUE("v")), MST_ERR_UNSUPPORTED, "");
}

static void ten_thousand_keys(void **state) {
    (void)state;
    char name[32], value[32];
    msi_kv_free(kv);
    kv = msi_kv_new(16 << 20, SIZE_MAX);
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "key/%d", i);
        int n = snprintf(value, sizeof value, "%d", i * 3);
        expect(kv, REQ(SET, name, .value = {value, (size_t)n}), MST_OK, "");
    }
    assert_int_equal(number(kv, REQ(NUM_KEYS, "")), 10000);
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof name, "key/%d", i);
        snprintf(value, sizeof value, "%d", i * 3);
        assert_value(kv, name, value);
        assert_int_equal(number(kv, REQ(DELETE_KEY, name)), 1);
    }
    assert_int_equal(msi_kv_bytes(kv), 0);
}

struct change {
    enum msi_kv_event event;
    char key[8], before[8], after[8];
};
static struct change changes[16];
static int n_changes;

static void copy_view(char out[8], struct msi_str s) {
    snprintf(out, 8, "%.*s", (int)s.n, s.n ? s.p : "");
}

static void note_change(void *context, enum msi_kv_event event, struct msi_str key, struct msi_str before,
                        struct msi_str after) {
    assert_ptr_equal(context, &n_changes);
    struct change *change = &changes[n_changes++];
    change->event = event;
    copy_view(change->key, key);
    copy_view(change->before, before);
    copy_view(change->after, after);
}

static void changes_are_told_to_whoever_watches(void **state) {
    (void)state;
    static const struct change wanted[] = {{MSI_KV_CREATED, "k", "", "1"},
                                           {MSI_KV_UPDATED, "k", "1", "2"},
                                           {MSI_KV_UPDATED, "k", "2", "2x"},
                                           {MSI_KV_UPDATED, "k", "2x", "y"},
                                           {MSI_KV_DELETED, "k", "y", ""}};
    n_changes = 0;
    msi_kv_set_watch(kv, note_change, &n_changes);
    expect(kv, REQ(SET, "k", VALUE("1")), MST_OK, "");
    number(kv, REQ(ADD, "k", .number = 1));
    expect(kv, REQ(APPEND, "k", VALUE("x")), MST_OK, "");
    number(kv, REQ(COMPARE_SET, "k", VALUE("2x"), .desired = S("y")));
    number(kv, REQ(COMPARE_SET, "k", VALUE("no"), .desired = S("z")));
    number(kv, REQ(DELETE_KEY, "k"));
    number(kv, REQ(DELETE_KEY, "k"));
    assert_int_equal(n_changes, COUNT_OF(wanted));
    for (int i = 0; i < n_changes; i++) assert_memory_equal(&changes[i], &wanted[i], sizeof wanted[i]);
    msi_kv_set_watch(kv, NULL, NULL);
    expect(kv, REQ(SET, "k", VALUE("1")), MST_OK, "");
    assert_int_equal(n_changes, COUNT_OF(wanted));
}

int main(void) {
#define with_map(test) cmocka_unit_test_setup_teardown(test, make_map, free_map)
    const struct CMUnitTest tests[] = {
        with_map(set_and_get),
        with_map(add_keeps_decimal_text),
        with_map(add_refuses_what_is_no_number_and_changes_nothing),
        with_map(compare_set_has_four_cases),
        with_map(append_makes_and_lengthens),
        with_map(lists_of_keys),
        with_map(keys_are_counted_listed_and_deleted),
        with_map(a_queue_is_first_in_first_out),
        with_map(a_key_can_hold_a_value_and_a_queue),
        with_map(what_is_no_request_for_a_map_is_refused),
        with_map(ten_thousand_keys),
        with_map(changes_are_told_to_whoever_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
