/* test_store_threads.c - many threads on few handles: nothing is lost, doubled or mixed up. */
#include "store_kit.h"

#include <stdatomic.h>

enum { THREADS = 8, ADDS = 1000, ENTRIES = 200 };

struct worker {
    struct stores *stores;
    int id;
    mst_status status;
    _Atomic int *seen;
};

static mst_store *store_of(const struct worker *w) {
    return w->id % 2 ? w->stores->a : w->stores->b;
}

static void run_workers(struct stores *s, void *(*body)(void *), _Atomic int *seen) {
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.stores = s, .id = i, .seen = seen};
        threads[i] = start_thread(body, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
    for (int i = 0; i < THREADS; i++) assert_status(workers[i].status, MST_OK);
}

static void *add_often(void *context) {
    struct worker *w = context;
    int64_t last = 0, now = 0;
    for (int i = 0; i < ADDS && w->status == MST_OK; i++) {
        w->status = mst_store_add(store_of(w), "n", 1, &now, .timeout_ms = CALL_LIMIT_MS);
        if (w->status == MST_OK && now <= last) w->status = MST_ERR_INTERNAL;
        last = now;
    }
    return NULL;
}

static void eight_threads_add_a_thousand_times_each(void **state) {
    struct stores *s = *state;
    int64_t n = 0;
    run_workers(s, add_often, NULL);
    assert_ok(mst_store_add(s->a, "n", 0, &n));
    assert_int_equal(n, THREADS * ADDS);
}

/* A counter by compare_set alone: each thread counts up 25 times. */
static void *swap_often(void *context) {
    struct worker *w = context;
    int done = 0;
    long now = 0;
    for (char before[64] = ""; done < 25 && w->status == MST_OK;) {
        char after[64];
        mst_bytes value = {NULL, 0};
        snprintf(after, sizeof after, "%ld:%d:%d", now + 1, w->id, done);
        w->status = mst_store_compare_set(store_of(w), "n", before, strlen(before), after, strlen(after),
                                          &value, .timeout_ms = CALL_LIMIT_MS);
        if (w->status != MST_OK) break;
        if (!strcmp(value.data, after)) done++;
        snprintf(before, sizeof before, "%s", value.data);
        now = strtol(value.data, NULL, 10);
        mst_bytes_free(&value);
    }
    return NULL;
}

static void a_counter_by_compare_set_loses_nothing(void **state) {
    struct stores *s = *state;
    mst_bytes value;
    run_workers(s, swap_often, NULL);
    assert_ok(mst_store_get(s->a, "n", &value));
    assert_int_equal(strtol(value.data, NULL, 10), THREADS * 25);
    mst_bytes_free(&value);
}

static void *append_often(void *context) {
    struct worker *w = context;
    char piece[4] = {(char)('A' + w->id), (char)('a' + w->id), ';', 0};
    for (int i = 0; i < 50 && w->status == MST_OK; i++)
        w->status = mst_store_append(store_of(w), "log", piece, 3, .timeout_ms = CALL_LIMIT_MS);
    return NULL;
}

static void appended_pieces_stay_whole(void **state) {
    struct stores *s = *state;
    mst_bytes value;
    int count[THREADS] = {0};
    run_workers(s, append_often, NULL);
    assert_ok(mst_store_get(s->b, "log", &value));
    assert_int_equal(value.len, THREADS * 50 * 3);
    for (size_t i = 0; i < value.len; i += 3) {
        int id = value.data[i] - 'A';
        assert_in_range(id, 0, THREADS - 1);
        assert_int_equal(value.data[i + 1], 'a' + id);
        count[id]++;
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(count[i], 50);
    mst_bytes_free(&value);
}

/* Takes entries until it takes one that says "end". */
static void *pop_all(void *context) {
    struct worker *w = context;
    while (w->status == MST_OK) {
        mst_bytes value = {NULL, 0};
        w->status = mst_store_queue_pop(store_of(w), "q", &value, .timeout_ms = CALL_LIMIT_MS);
        bool end = w->status == MST_OK && !strcmp(value.data, "end");
        if (w->status == MST_OK && !end) w->seen[atoi(value.data)]++;
        mst_bytes_free(&value);
        if (end) break;
    }
    return NULL;
}

static void *push_all(void *context) {
    mst_store *store = context;
    for (int i = 0; i < ENTRIES; i++) {
        char text[16];
        int n = snprintf(text, sizeof text, "%d", i);
        if (mst_store_queue_push(store, "q", text, (size_t)n) != MST_OK) return NULL;
    }
    for (int i = 0; i < THREADS; i++)
        if (mst_store_queue_push(store, "q", "end", 3) != MST_OK) return NULL;
    return context;
}

static void competing_pops_take_each_entry_once(void **state) {
    struct stores *s = *state;
    static _Atomic int seen[ENTRIES];
    int64_t left = -1;
    if (has_basic_only(s)) return;
    for (int i = 0; i < ENTRIES; i++) seen[i] = 0;
    pthread_t pusher = start_thread(push_all, s->a);
    run_workers(s, pop_all, seen);
    assert_ptr_equal(join_thread(pusher), s->a);
    for (int i = 0; i < ENTRIES; i++) assert_int_equal(seen[i], 1);
    assert_ok(mst_store_queue_len(s->b, "q", &left));
    assert_int_equal(left, 0);
}

/* Each thread writes, reads back and deletes keys of its own among waits that time out. */
static void *mind_own_business(void *context) {
    struct worker *w = context;
    for (int i = 0; i < 60 && w->status == MST_OK; i++) {
        char key[32], text[32];
        const char *never = "never";
        mst_bytes value = {NULL, 0};
        snprintf(key, sizeof key, "own/%d/%d", w->id, i);
        snprintf(text, sizeof text, "%d-%d", i, w->id);
        mst_store *store = store_of(w);
        w->status = mst_store_set(store, key, text, strlen(text));
        if (w->status == MST_OK) w->status = mst_store_get(store, key, &value);
        if (w->status == MST_OK && strcmp(value.data, text) != 0) w->status = MST_ERR_INTERNAL;
        mst_bytes_free(&value);
        if (i % 20 == 0 && mst_store_wait(store, &never, 1, .timeout_ms = 5) != MST_ERR_TIMEOUT)
            w->status = MST_ERR_INTERNAL;
        if (w->status == MST_OK) w->status = mst_store_delete_key(store, key, NULL);
    }
    return NULL;
}

static void threads_do_not_read_each_others_replies(void **state) {
    struct stores *s = *state;
    size_t n = 99;
    char **keys;
    run_workers(s, mind_own_business, NULL);
    if (has_basic_only(s)) return;
    assert_ok(mst_store_list_keys(s->a, &keys, &n));
    assert_int_equal(n, 0);
    mst_store_free_keys(keys);
}

enum { READERS = 16, LARGE = 1 << 20 };

static void *get_large(void *context) {
    struct worker *w = context;
    mst_bytes value = {NULL, 0};
    w->status = mst_store_get(store_of(w), "large", &value, .timeout_ms = CALL_LIMIT_MS);
    if (w->status == MST_OK && value.len != LARGE) w->status = MST_ERR_INTERNAL;
    mst_bytes_free(&value);
    return NULL;
}

/* The default limits, both divided by 64: a value of the longest kind, wanted by many at once. */
static void many_get_the_longest_value_at_once(void **state) {
    struct stores *s = *state;
    setenv("MUSTER_STORE_MAX_VALUE", "1M", 1);
    setenv("MUSTER_STORE_MAX_TOTAL", "16M", 1);
    void *inner = (void *)(uintptr_t)s->kind;
    assert_int_equal(open_stores(&inner), 0);
    unsetenv("MUSTER_STORE_MAX_VALUE");
    unsetenv("MUSTER_STORE_MAX_TOTAL");
    struct stores *small = inner;
    struct worker workers[READERS];
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        workers[i] = (struct worker){.stores = small, .id = i};
        threads[i] = start_thread(get_large, &workers[i]);
    }
    char *value = calloc(1, LARGE);
    assert_non_null(value);
    mst_status st = mst_store_set(small->a, "large", value, LARGE);
    free(value);
    for (int i = 0; i < READERS; i++) join_thread(threads[i]);
    assert_int_equal(close_stores(&inner), 0);
    assert_status(st, MST_OK);
    for (int i = 0; i < READERS; i++) assert_status(workers[i].status, MST_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_add_a_thousand_times_each),
        cmocka_unit_test(a_counter_by_compare_set_loses_nothing),
        cmocka_unit_test(appended_pieces_stay_whole),
        cmocka_unit_test(competing_pops_take_each_entry_once),
        cmocka_unit_test(threads_do_not_read_each_others_replies),
        cmocka_unit_test(many_get_the_longest_value_at_once),
    };
    return run_over_kinds(tests, COUNT_OF(tests));
}
