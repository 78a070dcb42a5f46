/* test_store_wait.c - deadlines, cancellation and being woken, over every kind of store. */
#include "store_kit.h"

#include <stdatomic.h>

/* One call made on a thread of its own. */
struct waiter {
    mst_store *store;
    const char *key;
    int timeout_ms;
    mst_cancel *cancel;
    int64_t world_size; /* above 0: a barrier */
    mst_status status;
    int64_t took_ms;
};

static void *run_wait(void *context) {
    struct waiter *w = context;
    int64_t begin = msi_now();
    w->status = w->world_size
                    ? mst_store_barrier(w->store, w->key, w->world_size, .timeout_ms = w->timeout_ms,
                                        .cancel = w->cancel)
                    : mst_store_wait(w->store, &w->key, 1, .timeout_ms = w->timeout_ms, .cancel = w->cancel);
    w->took_ms = ms_since(begin);
    return NULL;
}

static void a_wait_ends_at_its_deadline_and_the_handle_lives_on(void **state) {
    struct stores *s = *state;
    static const char *const keys[] = {"never", "nowhere"};
    mst_bytes value;
    for (int i = 0; i < 3; i++) {
        int64_t begin = msi_now();
        assert_status(mst_store_wait(s->a, keys, 2, .timeout_ms = 150), MST_ERR_TIMEOUT);
        int64_t took = ms_since(begin);
        assert_in_range(took, 149, 3000);
        assert_contains(mst_error(), "never");
        put(s->a, "k", "v");
        assert_get(s->a, "k", "v");
    }
    assert_status(mst_store_get(s->b, "never", &value, .timeout_ms = 50), MST_ERR_TIMEOUT);
    assert_status(mst_store_multi_get(s->b, keys, 1, &value, .timeout_ms = 50), MST_ERR_TIMEOUT);
    put(s->b, "never", "after all"); /* nobody hangs there any more */
    assert_get(s->a, "never", "after all");
    assert_get(s->b, "k", "v");
}

static void a_barrier_ends_at_its_deadline_and_says_so(void **state) {
    struct stores *s = *state;
    int64_t begin = msi_now();
    assert_status(mst_store_barrier(s->a, "b", 2, .timeout_ms = 100), MST_ERR_TIMEOUT);
    assert_in_range(ms_since(begin), 99, 3000);
    assert_contains(mst_error(), "barrier");
    assert_ok(mst_store_barrier(s->b, "b", 2, .timeout_ms = CALL_LIMIT_MS)); /* the first counted */
    put(s->a, "k", "v");
}

static void the_handles_own_deadline_is_the_default(void **state) {
    struct stores *s = *state;
    static const char *const keys[] = {"never"};
    s->a->timeout_ms = 60;
    int64_t begin = msi_now();
    assert_status(mst_store_wait(s->a, keys, 1), MST_ERR_TIMEOUT);
    assert_in_range(ms_since(begin), 59, 3000);
}

static void another_handle_wakes_a_wait(void **state) {
    struct stores *s = *state;
    static const char *const keys[] = {"w0", "w1", "w2", "w3", "w4"};
    int64_t n;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct waiter w = {.store = s->a, .key = keys[i], .timeout_ms = CALL_LIMIT_MS};
        if (i == 3 && has_basic_only(s)) continue;
        pthread_t thread = start_thread(run_wait, &w);
        if (i == 0) put(s->b, keys[i], "v");
        if (i == 1) assert_ok(mst_store_add(s->b, keys[i], 1, &n));
        if (i == 2) assert_ok(mst_store_append(s->b, keys[i], "v", 1));
        if (i == 3) assert_ok(mst_store_queue_push(s->b, keys[i], "v", 1));
        if (i == 4) assert_ok(mst_store_compare_set(s->b, keys[i], "", 0, "v", 1, NULL));
        join_thread(thread);
        assert_status(w.status, MST_OK);
        assert_true(w.took_ms < CALL_LIMIT_MS / 2);
    }
}

static void a_wait_holds_up_no_other_call_on_its_handle(void **state) {
    struct stores *s = *state;
    struct waiter waits[6];
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) {
        waits[i] = (struct waiter){.store = s->a, .key = "late", .timeout_ms = CALL_LIMIT_MS};
        threads[i] = start_thread(run_wait, &waits[i]);
    }
    int64_t begin = msi_now();
    for (int i = 0; i < 20; i++) {
        put(s->a, "k", "v");
        assert_get(s->a, "k", "v");
    }
    assert_true(ms_since(begin) < 10000);
    put(s->a, "late", "v");
    for (int i = 0; i < 6; i++) {
        join_thread(threads[i]);
        assert_status(waits[i].status, MST_OK);
    }
}

static void a_token_fired_from_another_thread_ends_a_wait(void **state) {
    struct stores *s = *state;
    for (int i = 0; i < 10; i++) {
        struct waiter w = {.store = s->a,
                           .key = i % 2 ? "barrier" : "never", /* the count of a barrier may be a key */
                           .timeout_ms = CALL_LIMIT_MS,
                           .world_size = i % 2 ? 2 : 0};
        assert_ok(mst_cancel_new(&w.cancel));
        pthread_t thread = start_thread(run_wait, &w);
        for (int k = 0; k < i; k++) put(s->a, "k", "v"); /* so that it fires at various times of the wait */
        mst_cancel_fire(w.cancel);
        join_thread(thread);
        if (i % 2 == 0) assert_status(w.status, MST_ERR_CANCELLED); /* barriers fill up by and by */
        assert_true(w.took_ms < 10000);
        mst_cancel_free(w.cancel);
        put(s->a, "k", "v");
        assert_get(s->a, "k", "v");
    }
}

/* types.h: calls that were given a fired token return MST_ERR_CANCELLED, now and later. */
static void calls_with_a_fired_token_fail_at_once(void **state) {
    struct stores *s = *state;
    static const char *const there[] = {"k"};
    mst_cancel *cancel;
    mst_bytes value;
    int64_t n;
    put(s->a, "k", "v");
    assert_ok(mst_cancel_new(&cancel));
    mst_cancel_fire(cancel);
    int64_t begin = msi_now();
    assert_status(mst_store_wait(s->a, there, 1, .cancel = cancel), MST_ERR_CANCELLED);
    assert_status(mst_store_get(s->a, "k", &value, .cancel = cancel), MST_ERR_CANCELLED);
    assert_status(mst_store_set(s->a, "k", "w", 1, .cancel = cancel), MST_ERR_CANCELLED);
    assert_status(mst_store_add(s->a, "n", 1, &n, .cancel = cancel), MST_ERR_CANCELLED);
    assert_true(ms_since(begin) < 2000);
    mst_cancel_free(cancel);
}

/* The handle must be in step again after whatever came of such calls, also if they were its very first. */
static void a_handle_is_in_step_after_cancelled_calls(void **state) {
    struct stores *s = *state;
    mst_store *fresh = open_more(s);
    mst_cancel *cancel;
    mst_bytes value;
    int64_t n = 0;
    if (!fresh) return;
    assert_ok(mst_cancel_new(&cancel));
    mst_cancel_fire(cancel);
    for (int i = 0; i < 5; i++) {
        mst_status st = mst_store_get(fresh, "never", &value, .timeout_ms = 5000, .cancel = cancel);
        assert_status(st, MST_ERR_CANCELLED);
        assert_ok(mst_store_set(fresh, "k", "value", 5));
        assert_get(fresh, "k", "value");
        assert_ok(mst_store_add(fresh, "n", 1, &n));
        assert_int_equal(n, i + 1);
    }
    mst_store_free(fresh);
    mst_cancel_free(cancel);
}

/* A cancelled call that did not wait: what follows must not read its reply. */
static void a_handle_is_in_step_after_a_cancelled_first_call(void **state) {
    struct stores *s = *state;
    mst_cancel *cancel;
    int64_t n = 0;
    assert_ok(mst_cancel_new(&cancel));
    mst_cancel_fire(cancel);
    for (int i = 0; i < 20; i++) {
        mst_store *fresh = open_more(s);
        if (!fresh) break;
        mst_store_add(fresh, "other", 77, &n, .cancel = cancel);
        char key[16];
        snprintf(key, sizeof key, "n%d", i);
        assert_ok(mst_store_add(fresh, key, 1, &n));
        assert_int_equal(n, 1);
        assert_ok(mst_store_add(fresh, key, 1, &n));
        assert_int_equal(n, 2);
        mst_store_free(fresh);
    }
    mst_cancel_free(cancel);
}

static void a_barrier_of_sixteen_threads(void **state) {
    struct stores *s = *state;
    struct waiter w[16];
    pthread_t threads[16];
    for (int i = 0; i < 15; i++) {
        w[i] = (struct waiter){
            .store = i % 2 ? s->a : s->b, .key = "b", .timeout_ms = CALL_LIMIT_MS, .world_size = 16};
        threads[i] = start_thread(run_wait, &w[i]);
    }
    int64_t n;
    assert_ok(mst_store_add(s->a, "proof", 1, &n));
    assert_ok(mst_store_barrier(s->a, "b", 16, .timeout_ms = CALL_LIMIT_MS));
    for (int i = 0; i < 15; i++) {
        join_thread(threads[i]);
        assert_status(w[i].status, MST_OK);
    }
    assert_ok(mst_store_barrier(s->b, "b", 16, .timeout_ms = 1000)); /* the count stays */
}

static mst_status arrive(mst_store *store, int64_t number, int timeout_ms) {
    struct msi_wait wait = {msi_deadline(timeout_ms), NULL};
    struct msi_store_rpc x = {.req = {.op = MSI_OP_BARRIER, .key = msi_cstr("b"), .number = number}};
    mst_status st = msi_store_exec(store, &wait, &x, 1);
    msi_store_rpc_free(&x, 1);
    return st;
}

/* Groups wait again, after a guard has tripped for nothing, with the number negated. */
static void a_barrier_with_a_negative_number_counts_nobody(void **state) {
    struct stores *s = *state;
    assert_status(arrive(s->a, 3, 30), MST_ERR_TIMEOUT);
    for (int i = 0; i < 3; i++) assert_status(arrive(s->a, -3, 30), MST_ERR_TIMEOUT);
    assert_status(arrive(s->b, 3, 30), MST_ERR_TIMEOUT);
    assert_status(arrive(s->b, -3, 30), MST_ERR_TIMEOUT);
    assert_ok(arrive(s->b, 3, 1000));
    assert_ok(arrive(s->a, -3, 1000));
    assert_status(arrive(s->a, -4, 30), MST_ERR_TIMEOUT);
}

static void a_pop_waits_for_an_entry(void **state) {
    struct stores *s = *state;
    struct waiter w = {.store = s->a, .key = "q", .timeout_ms = CALL_LIMIT_MS};
    mst_bytes value;
    if (has_basic_only(s)) return;
    pthread_t thread = start_thread(run_wait, &w);
    assert_ok(mst_store_queue_push(s->b, "q", "x", 1));
    assert_ok(mst_store_queue_pop(s->a, "q", &value, .timeout_ms = CALL_LIMIT_MS));
    assert_bytes(&value, "x", 1);
    assert_ok(mst_store_queue_push(s->b, "q", "y", 1)); /* the wait may have missed the first */
    join_thread(thread);
    assert_status(w.status, MST_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_at_its_deadline_and_the_handle_lives_on),
        cmocka_unit_test(a_barrier_ends_at_its_deadline_and_says_so),
        cmocka_unit_test(the_handles_own_deadline_is_the_default),
        cmocka_unit_test(another_handle_wakes_a_wait),
        cmocka_unit_test(a_wait_holds_up_no_other_call_on_its_handle),
        cmocka_unit_test(a_token_fired_from_another_thread_ends_a_wait),
        cmocka_unit_test(calls_with_a_fired_token_fail_at_once),
        cmocka_unit_test(a_handle_is_in_step_after_cancelled_calls),
        cmocka_unit_test(a_handle_is_in_step_after_a_cancelled_first_call),
        cmocka_unit_test(a_barrier_of_sixteen_threads),
        cmocka_unit_test(a_barrier_with_a_negative_number_counts_nobody),
        cmocka_unit_test(a_pop_waits_for_an_entry),
    };
    return run_over_kinds(tests, COUNT_OF(tests));
}
