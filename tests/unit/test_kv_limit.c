/* test_kv_limit.c - what the map keeps is bounded and counted to the byte; at the limit nothing changes. */
#include "kv_kit.h"

enum { TOTAL = 64 << 10 };
static char block[TOTAL];

static void values_beyond_the_total_are_refused(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    expect(kv, REQ(SET, "k", .value = {block, TOTAL}), MST_ERR_LIMIT, "");
    expect(kv, REQ(APPEND, "k", .value = {block, TOTAL}), MST_ERR_LIMIT, "");
    expect(kv, REQ(QUEUE_PUSH, "k", .value = {block, TOTAL}), MST_ERR_LIMIT, "");
    expect(kv, REQ(COMPARE_SET, "k", .desired = {block, TOTAL}), MST_ERR_LIMIT, "");
    assert_int_equal(msi_kv_bytes(kv), 0);
    assert_int_equal(number(kv, REQ(NUM_KEYS, "")), 0);
    expect(kv, REQ(SET, "k", .value = {block, TOTAL - 1024}), MST_OK, "");
    expect(kv, REQ(SET, "l", .value = {block, 1024}), MST_ERR_LIMIT, "");
    assert_missing(kv, "l");
    number(kv, REQ(DELETE_KEY, "k"));
    expect(kv, REQ(SET, "l", .value = {block, 1024}), MST_OK, "");
    msi_kv_free(kv);
}

static void a_refused_change_leaves_the_old_value(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    struct noted noted;
    expect(kv, REQ(SET, "k", VALUE("old")), MST_OK, "");
    size_t before = msi_kv_bytes(kv);
    expect(kv, REQ(SET, "k", .value = {block, TOTAL}), MST_ERR_LIMIT, "");
    expect(kv, REQ(APPEND, "k", .value = {block, TOTAL}), MST_ERR_LIMIT, "");
    assert_value(kv, "k", "old");
    assert_int_equal(msi_kv_bytes(kv), before);
    assert_true(begins(kv, REQ(WAIT, "", LIST(S("w"))), NULL, &noted));
    expect(kv, REQ(SET, "w", .value = {block, TOTAL}), MST_ERR_LIMIT, "");
    assert_int_equal(noted.woken, 0);
    expect(kv, REQ(SET, "w", VALUE("v")), MST_OK, "");
    assert_int_equal(noted.woken, 1);
    msi_kv_free(kv);
}

static void a_multi_set_that_does_not_fit_sets_nothing(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    struct msi_str values[] = {S("1"), {block, TOTAL}};
    expect(kv, REQ(MULTI_SET, "", LIST(S("a"), S("b")), .values = values), MST_ERR_LIMIT, "");
    assert_missing(kv, "b");
    assert_missing(kv, "a");
    assert_int_equal(msi_kv_bytes(kv), 0);
    msi_kv_free(kv);
}

static void waits_are_bounded_too(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    struct noted noted[1000];
    char name[1000][32];
    int n = 0;
    mst_status st = MST_OK;
    for (; n < 1000 && st == MST_OK; n++) {
        struct msi_str key = {name[n], 0};
        key.n = (size_t)snprintf(name[n], sizeof name[n], "missing/%d", n);
        struct msi_store_req req = {.op = MSI_OP_WAIT, .keys = &key, .n = 1};
        bool waiting;
        noted[n] = (struct noted){.waiter.wake = note_wake};
        st = msi_kv_wait_begin(kv, &req, NULL, &noted[n].waiter, &waiting);
        assert_true(msi_kv_bytes(kv) <= TOTAL + 256);
    }
    assert_int_equal(st, MST_ERR_LIMIT);
    assert_in_range(n, 50, 999);
    for (int i = 0; i < n - 1; i++) msi_kv_wait_end(kv, &noted[i].waiter);
    assert_int_equal(msi_kv_bytes(kv), 0);
    msi_kv_free(kv);
}

static void a_wait_for_too_many_keys_leaves_nothing_behind(void **state) {
    (void)state;
    enum { N = 2000 };
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    static struct msi_str keys[N];
    static char name[N][16];
    for (int i = 0; i < N; i++)
        keys[i] = msi_str(name[i], (size_t)snprintf(name[i], sizeof name[i], "k%d", i));
    struct noted noted = {.waiter.wake = note_wake};
    struct msi_store_req req = {.op = MSI_OP_WAIT, .keys = keys, .n = N};
    bool waiting = true;
    for (req.n = 100; req.n <= N; req.n += 100) {
        if (msi_kv_wait_begin(kv, &req, NULL, &noted.waiter, &waiting) != MST_OK) break;
        msi_kv_wait_end(kv, &noted.waiter);
    }
    assert_true(req.n <= N);
    assert_false(waiting);
    assert_int_equal(msi_kv_bytes(kv), 0);
    msi_kv_free(kv);
}

static void barriers_are_bounded_too(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    mst_status st = MST_OK;
    int n = 0;
    for (; n < 5000 && st == MST_OK; n++) {
        char name[32];
        snprintf(name, sizeof name, "barrier/%d", n);
        struct noted noted = {.waiter.wake = note_wake};
        bool waiting;
        st = msi_kv_wait_begin(kv, REQ(BARRIER, name, .number = 1), NULL, &noted.waiter, &waiting);
        assert_false(waiting);
    }
    assert_int_equal(st, MST_ERR_LIMIT);
    assert_true(msi_kv_bytes(kv) <= TOTAL);
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "barrier/%d", i);
        number(kv, REQ(DELETE_KEY, name));
    }
    assert_int_equal(msi_kv_bytes(kv), 0);
    msi_kv_free(kv);
}

/* A small random generator of our own, so that a failure can be had again. */
static uint32_t random_state;
static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % n;
}

static void random_request(struct msi_kv *kv) {
    static const enum msi_store_op ops[] = {MSI_OP_SET,         MSI_OP_APPEND,     MSI_OP_ADD,
                                            MSI_OP_COMPARE_SET, MSI_OP_DELETE_KEY, MSI_OP_QUEUE_PUSH,
                                            MSI_OP_QUEUE_POP};
    char name[16];
    struct msi_store_req req = {.op = ops[random_below(COUNT_OF(ops))],
                                .value = {block, random_below(4000)},
                                .desired = {block, random_below(4000)},
                                .number = 1};
    req.key = msi_str(name, (size_t)snprintf(name, sizeof name, "%u", random_below(40)));
    struct msi_buf reply = {0};
    msi_kv_apply(kv, &req, &reply);
    msi_buf_free(&reply);
}

static void whatever_happens_the_total_holds_and_emptying_gives_all_back(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    random_state = 7;
    size_t most = 0;
    for (int i = 0; i < 50000; i++) {
        random_request(kv);
        assert_true(msi_kv_bytes(kv) <= TOTAL);
        if (msi_kv_bytes(kv) > most) most = msi_kv_bytes(kv);
    }
    assert_true(most > TOTAL * 3 / 4); /* the limit was reached */
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        number(kv, REQ(DELETE_KEY, name));
    }
    assert_int_equal(number(kv, REQ(NUM_KEYS, "")), 0);
    assert_int_equal(msi_kv_bytes(kv), 0);
    msi_kv_free(kv);
}

static void a_value_that_shrinks_gives_memory_back(void **state) {
    (void)state;
    struct msi_kv *kv = msi_kv_new(TOTAL, SIZE_MAX);
    expect(kv, REQ(SET, "k", .value = {block, 32768}), MST_OK, "");
    expect(kv, REQ(SET, "k", VALUE("small")), MST_OK, "");
    assert_true(msi_kv_bytes(kv) < 1024);
    assert_value(kv, "k", "small");
    msi_kv_free(kv);
    msi_kv_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_beyond_the_total_are_refused),
        cmocka_unit_test(a_refused_change_leaves_the_old_value),
        cmocka_unit_test(a_multi_set_that_does_not_fit_sets_nothing),
        cmocka_unit_test(waits_are_bounded_too),
        cmocka_unit_test(a_wait_for_too_many_keys_leaves_nothing_behind),
        cmocka_unit_test(barriers_are_bounded_too),
        cmocka_unit_test(whatever_happens_the_total_holds_and_emptying_gives_all_back),
        cmocka_unit_test(a_value_that_shrinks_gives_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
