/* test_kv_wait.c - those who wait on the map: what ends a wait, once, and what it leaves behind. */
#include "kv_kit.h"

static struct msi_kv *kv;

static int make_map(void **state) {
    (void)state;
    kv = msi_kv_new(1 << 20, SIZE_MAX);
    return kv ? 0 : -1;
}

/* Every test empties the map; then nothing may be left in its books. */
static int free_map(void **state) {
    (void)state;
    size_t left = msi_kv_bytes(kv);
    msi_kv_free(kv);
    return left == 0 ? 0 : -1;
}

static void set(const char *key) {
    expect(kv, REQ(SET, key, VALUE("v")), MST_OK, "");
}

static void drop(const char *key) {
    number(kv, REQ(DELETE_KEY, key));
}

static void what_exists_is_not_waited_for(void **state) {
    (void)state;
    struct noted noted;
    set("a");
    assert_false(begins(kv, REQ(WAIT, "", LIST(S("a"), S("a"))), NULL, &noted));
    assert_false(begins(kv, REQ(WAIT, ""), NULL, &noted));
    assert_int_equal(noted.status, MST_OK);
    drop("a");
}

static void wake_by(const struct msi_store_req *req) {
    struct noted noted;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"))), NULL, &noted));
    number(kv, REQ(NUM_KEYS, ""));
    assert_int_equal(noted.woken, 0);
    struct msi_buf reply = {0};
    assert_int_equal(msi_kv_apply(kv, req, &reply), MST_OK);
    msi_buf_free(&reply);
    assert_int_equal(noted.woken, 1);
    assert_int_equal(noted.status, MST_OK);
    drop("k");
    set("k"); /* it hangs there no more */
    assert_int_equal(noted.woken, 1);
    drop("k");
}

static void whatever_makes_a_key_wakes_its_waiters(void **state) {
    (void)state;
    struct msi_str value = S("v");
    wake_by(REQ(SET, "k", VALUE("v")));
    wake_by(REQ(SET, "k", VALUE("")));
    wake_by(REQ(ADD, "k", .number = 1));
    wake_by(REQ(APPEND, "k", VALUE("")));
    wake_by(REQ(COMPARE_SET, "k", .desired = S("v")));
    wake_by(REQ(QUEUE_PUSH, "k", VALUE("v")));
    wake_by(REQ(MULTI_SET, "", LIST(S("k")), .values = &value));
}

static void all_keys_are_waited_for_in_any_order(void **state) {
    (void)state;
    struct noted noted;
    set("b");
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("a"), S("b"), S("c"))), NULL, &noted));
    set("c");
    set("c");
    assert_int_equal(noted.woken, 0);
    set("a");
    assert_int_equal(noted.woken, 1);
    drop("a"), drop("b"), drop("c");
}

static void a_key_named_twice_counts_once_it_is_there(void **state) {
    (void)state;
    struct noted noted, other;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("a"), S("b"), S("a"), S("a"))), NULL, &noted));
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("a"), S("a"))), NULL, &other));
    set("a");
    assert_int_equal(noted.woken, 0);
    assert_int_equal(other.woken, 1);
    set("b");
    assert_int_equal(noted.woken, 1);
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("c"), S("c"))), NULL, &noted));
    msi_kv_wait_end(kv, &noted.waiter);
    drop("a"), drop("b");
}

/* As PyTorch's servers: a key that has come is counted, even if it goes again before the others come. */
static void a_key_that_came_and_went_stays_counted(void **state) {
    (void)state;
    struct noted noted;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("a"), S("b"))), NULL, &noted));
    set("a");
    drop("a");
    assert_int_equal(noted.woken, 0);
    set("b");
    assert_int_equal(noted.woken, 1);
    assert_int_equal(noted.status, MST_OK);
    expect(kv, REQ(WAIT_GET, "", LIST(S("a"), S("b"))), MST_ERR_NOT_FOUND, "");
    drop("b");
}

static void deleting_what_is_waited_for_is_harmless(void **state) {
    (void)state;
    struct noted noted;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("a"))), NULL, &noted));
    drop("a");
    assert_int_equal(number(kv, REQ(NUM_KEYS, "")), 0);
    assert_int_equal(number(kv, REQ(LIST_KEYS, "")), 0);
    assert_int_equal(noted.woken, 0);
    set("a");
    assert_int_equal(noted.woken, 1);
    drop("a");
}

static void a_wait_taken_back_is_never_woken(void **state) {
    (void)state;
    struct noted a, b;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"), S("l"))), NULL, &a));
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"))), NULL, &b));
    msi_kv_wait_end(kv, &a.waiter);
    set("k"), set("l");
    assert_int_equal(a.woken, 0);
    assert_int_equal(b.woken, 1);
    drop("k"), drop("l");
}

static void a_thousand_waiters_are_all_woken_once(void **state) {
    (void)state;
    enum { N = 1000 };
    static struct noted noted[N];
    for (int i = 0; i < N; i++) {
        if (i % 2)
            assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"))), NULL, &noted[i]));
        else
            assert_true(begins(kv, REQ(WAIT, "", LIST(S("other"), S("k"))), NULL, &noted[i]));
    }
    set("k");
    for (int i = 0; i < N; i++) assert_int_equal(noted[i].woken, i % 2);
    set("other");
    for (int i = 0; i < N; i++) assert_int_equal(noted[i].woken, 1);
    drop("k"), drop("other");
}

#define GUARD(name, n) (&(struct msi_store_req){.key = msi_cstr(name), .number = n})

static void a_guard_ends_a_wait_once_its_value_is_long_enough(void **state) {
    (void)state;
    struct noted noted;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"))), GUARD("dead", 2), &noted));
    expect(kv, REQ(APPEND, "dead", VALUE("12")), MST_OK, "");
    assert_int_equal(noted.woken, 0);
    expect(kv, REQ(APPEND, "dead", VALUE("3")), MST_OK, "");
    assert_int_equal(noted.woken, 1);
    assert_int_equal(noted.status, MST_ERR_PEER_LOST);
    set("k");
    assert_int_equal(noted.woken, 1);
    drop("k"), drop("dead");
}

static void a_guard_that_has_tripped_already_ends_it_at_once(void **state) {
    (void)state;
    struct noted noted;
    expect(kv, REQ(SET, "dead", VALUE("123")), MST_OK, "");
    assert_false(begins(kv, REQ(WAIT, "", LIST(S("k"))), GUARD("dead", 2), &noted));
    assert_int_equal(noted.status, MST_ERR_PEER_LOST);
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"))), GUARD("dead", 3), &noted));
    msi_kv_wait_end(kv, &noted.waiter);
    set("k"); /* what need not wait is not guarded */
    assert_false(begins(kv, REQ(WAIT, "", LIST(S("k"))), GUARD("dead", 0), &noted));
    assert_int_equal(noted.status, MST_OK);
    drop("k"), drop("dead");
}

static void a_guard_on_an_awaited_key(void **state) {
    (void)state;
    struct noted noted;
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"))), GUARD("k", 0), &noted));
    set("k");
    assert_int_equal(noted.woken, 1);
    assert_int_equal(noted.status, MST_OK);
    drop("k");
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("k"), S("l"))), GUARD("k", 0), &noted));
    set("k");
    assert_int_equal(noted.woken, 1);
    assert_int_equal(noted.status, MST_ERR_PEER_LOST);
    drop("k");
}

static void a_barrier_opens_when_enough_have_come(void **state) {
    (void)state;
    struct noted a, b, c;
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 3), NULL, &a));
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 3), NULL, &b));
    assert_int_equal(a.woken + b.woken, 0);
    assert_false(begins(kv, REQ(BARRIER, "b", .number = 3), NULL, &c));
    assert_int_equal(a.woken, 1);
    assert_int_equal(b.woken, 1);
    assert_false(begins(kv, REQ(BARRIER, "b", .number = 4), NULL, &c)); /* the count is not reset */
    assert_int_equal(number(kv, REQ(NUM_KEYS, "")), 0);
    drop("b");
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 2), NULL, &a)); /* unless the key is deleted */
    msi_kv_wait_end(kv, &a.waiter);
    drop("b");
}

static void a_barrier_with_different_targets(void **state) {
    (void)state;
    struct noted five, three, four, rest;
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 5), NULL, &five));
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 4), NULL, &four));
    assert_false(begins(kv, REQ(BARRIER, "b", .number = 3), NULL, &three));
    assert_int_equal(four.woken + five.woken, 0);
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 100), NULL, &rest));
    assert_int_equal(four.woken, 1);
    assert_int_equal(five.woken, 0);
    assert_false(begins(kv, REQ(BARRIER, "b", .number = 1), NULL, &three));
    assert_int_equal(five.woken, 1);
    msi_kv_wait_end(kv, &rest.waiter);
    drop("b");
}

static void a_barrier_can_be_left_and_its_next_target_still_wakes(void **state) {
    (void)state;
    struct noted first, second, third;
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 2), NULL, &first));
    msi_kv_wait_end(kv, &first.waiter);
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 3), NULL, &second)); /* the one that left counts */
    assert_false(begins(kv, REQ(BARRIER, "b", .number = 3), NULL, &third));
    assert_int_equal(second.woken, 1);
    assert_int_equal(first.woken, 0);
    drop("b");
}

static void a_barrier_is_guarded(void **state) {
    (void)state;
    struct noted noted;
    assert_true(begins(kv, REQ(BARRIER, "b", .number = 2), GUARD("dead", 0), &noted));
    set("dead");
    assert_int_equal(noted.status, MST_ERR_PEER_LOST);
    drop("b"), drop("dead");
}

/* Numbers that no client of ours sends, but a stranger may. */
static void a_barrier_of_a_senseless_size_harms_nobody(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, -1, INT64_MIN, INT64_MIN + 1, INT64_MAX};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct noted noted, good;
        if (begins(kv, REQ(BARRIER, "b", .number = sizes[i]), NULL, &noted))
            msi_kv_wait_end(kv, &noted.waiter);
        drop("b");
        assert_true(begins(kv, REQ(BARRIER, "b", .number = 2), NULL, &good));
        assert_false(begins(kv, REQ(BARRIER, "b", .number = 2), NULL, &noted));
        assert_int_equal(good.woken, 1);
        drop("b");
    }
}

static void a_value_and_a_barrier_under_one_key(void **state) {
    (void)state;
    struct noted noted;
    set("k");
    assert_true(begins(kv, REQ(BARRIER, "k", .number = 2), NULL, &noted));
    set("k");
    assert_int_equal(noted.woken, 0);
    assert_value(kv, "k", "v");
    msi_kv_wait_end(kv, &noted.waiter);
    drop("k");
}

int main(void) {
#define with_map(test) cmocka_unit_test_setup_teardown(test, make_map, free_map)
    const struct CMUnitTest tests[] = {
        with_map(what_exists_is_not_waited_for),
        with_map(whatever_makes_a_key_wakes_its_waiters),
        with_map(all_keys_are_waited_for_in_any_order),
        with_map(a_key_named_twice_counts_once_it_is_there),
        with_map(a_key_that_came_and_went_stays_counted),
        with_map(deleting_what_is_waited_for_is_harmless),
        with_map(a_wait_taken_back_is_never_woken),
        with_map(a_thousand_waiters_are_all_woken_once),
        with_map(a_guard_ends_a_wait_once_its_value_is_long_enough),
        with_map(a_guard_that_has_tripped_already_ends_it_at_once),
        with_map(a_guard_on_an_awaited_key),
        with_map(a_barrier_opens_when_enough_have_come),
        with_map(a_barrier_with_different_targets),
        with_map(a_barrier_can_be_left_and_its_next_target_still_wakes),
        with_map(a_barrier_is_guarded),
        with_map(a_barrier_of_a_senseless_size_harms_nobody),
        with_map(a_value_and_a_barrier_under_one_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
