/* test_store.c - what every store answers to every call, over every kind of store. */
#include "store_kit.h"

static void set_and_get(void **state) {
    struct stores *s = *state;
    put(s->a, "k", "v1");
    assert_get(s->b, "k", "v1");
    put(s->b, "k", "a longer value than before");
    assert_get(s->a, "k", "a longer value than before");
}

static void empty_and_binary_values(void **state) {
    struct stores *s = *state;
    mst_bytes value;
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    assert_ok(mst_store_set(s->a, "empty", NULL, 0));
    assert_get(s->b, "empty", "");
    assert_ok(mst_store_set(s->a, "binary", all, sizeof all));
    assert_ok(mst_store_get(s->b, "binary", &value));
    assert_bytes(&value, all, sizeof all);
    put(s->a, "", "the empty key");
    assert_get(s->b, "", "the empty key");
    put(s->a, "b/\xc3\xa4 \x01", "odd key");
    assert_get(s->b, "b/\xc3\xa4 \x01", "odd key");
}

static void a_mebibyte(void **state) {
    struct stores *s = *state;
    enum { N = 1 << 20 };
    mst_bytes value;
    char *big = malloc(N);
    assert_non_null(big);
    for (int i = 0; i < N; i++) big[i] = (char)(i * 31 + i / 255);
    assert_ok(mst_store_set(s->a, "big", big, N));
    assert_ok(mst_store_get(s->b, "big", &value));
    assert_bytes(&value, big, N);
    free(big);
}

static void add(void **state) {
    struct stores *s = *state;
    int64_t n = 0;
    assert_ok(mst_store_add(s->a, "n", 5, &n));
    assert_int_equal(n, 5);
    assert_ok(mst_store_add(s->b, "n", -7, &n));
    assert_int_equal(n, -2);
    assert_get(s->a, "n", "-2");
    put(s->a, "n", "41");
    assert_ok(mst_store_add(s->b, "n", 1, NULL));
    assert_get(s->a, "n", "42");
    put(s->a, "word", "twelve");
    assert_status(mst_store_add(s->a, "word", 1, &n), MST_ERR_STATE);
    assert_contains(mst_error(), "word");
    assert_get(s->b, "word", "twelve");
    put(s->a, "n", "9223372036854775807");
    assert_status(mst_store_add(s->a, "n", 1, &n), MST_ERR_STATE);
}

static void compare_and_expect(mst_store *store, const char *expected, const char *desired,
                               const char *wanted) {
    mst_bytes value = {NULL, 0};
    assert_ok(
        mst_store_compare_set(store, "k", expected, strlen(expected), desired, strlen(desired), &value));
    assert_bytes(&value, wanted, strlen(wanted));
}

static void compare_set(void **state) {
    struct stores *s = *state;
    compare_and_expect(s->a, "x", "y", "x"); /* missing, something expected: left alone */
    assert_false(has_key(s->b, "k"));
    compare_and_expect(s->a, "", "y", "y"); /* missing, nothing expected: set */
    assert_get(s->b, "k", "y");
    compare_and_expect(s->b, "n", "z", "y"); /* another value: left alone */
    assert_get(s->a, "k", "y");
    compare_and_expect(s->b, "y", "zz", "zz"); /* the value: set */
    assert_get(s->a, "k", "zz");
    compare_and_expect(s->b, "", "w", "zz"); /* nothing expected, but something there */
    assert_ok(mst_store_compare_set(s->a, "k", "zz", 2, "", 0, NULL));
    assert_get(s->b, "k", "");
    compare_and_expect(s->b, "", "v", "v"); /* the empty value is a value */
}

static void check_wait_and_delete(void **state) {
    struct stores *s = *state;
    static const char *const keys[] = {"a", "b"};
    bool ready = true, deleted = false;
    assert_ok(mst_store_check(s->a, keys, 2, &ready));
    assert_false(ready);
    put(s->a, "a", "1");
    assert_ok(mst_store_check(s->b, keys, 2, &ready));
    assert_false(ready);
    put(s->b, "b", "");
    assert_ok(mst_store_check(s->a, keys, 2, &ready));
    assert_true(ready);
    assert_ok(mst_store_wait(s->a, keys, 2));
    assert_ok(mst_store_delete_key(s->b, "a", &deleted));
    assert_true(deleted);
    assert_ok(mst_store_delete_key(s->a, "a", &deleted));
    assert_false(deleted);
    assert_ok(mst_store_delete_key(s->a, "b", NULL));
    assert_false(has_key(s->b, "b"));
}

static void no_keys_at_all(void **state) {
    struct stores *s = *state;
    bool ready = false;
    assert_ok(mst_store_check(s->a, NULL, 0, &ready));
    assert_true(ready);
    assert_ok(mst_store_wait(s->a, NULL, 0));
    assert_ok(mst_store_multi_get(s->a, NULL, 0, NULL));
    assert_ok(mst_store_multi_set(s->a, NULL, NULL, 0));
}

static void num_keys(void **state) {
    struct stores *s = *state;
    int64_t before, n;
    if (has_basic_only(s)) return;
    assert_ok(mst_store_num_keys(s->a, &before));
    put(s->a, "one", "1");
    put(s->a, "one", "1 again");
    put(s->b, "two", "2");
    assert_ok(mst_store_num_keys(s->b, &n));
    assert_int_equal(n, before + 2);
    assert_ok(mst_store_delete_key(s->a, "one", NULL));
    assert_ok(mst_store_num_keys(s->b, &n));
    assert_int_equal(n, before + 1);
}

static void append(void **state) {
    struct stores *s = *state;
    assert_ok(mst_store_append(s->a, "log", "ab", 2));
    assert_ok(mst_store_append(s->b, "log", "", 0));
    assert_ok(mst_store_append(s->b, "log", "c\0d", 3));
    mst_bytes value;
    assert_ok(mst_store_get(s->a, "log", &value));
    assert_bytes(&value, "abc\0d", 5);
    put(s->a, "log", "new");
    assert_ok(mst_store_append(s->b, "log", "er", 2));
    assert_get(s->a, "log", "newer");
}

static void many_at_once(void **state) {
    struct stores *s = *state;
    static const char *const keys[] = {"m1", "m2", "m3"}, *const back[] = {"m3", "m1", "m3", "m2"};
    char one[] = "1", three[] = "t\0t";
    const mst_bytes given[] = {{one, 1}, {NULL, 0}, {three, 3}};
    mst_bytes got[4];
    assert_ok(mst_store_multi_set(s->a, keys, given, 3));
    assert_ok(mst_store_multi_get(s->b, back, 4, got));
    assert_bytes(&got[0], three, 3);
    assert_bytes(&got[1], one, 1);
    assert_bytes(&got[2], three, 3);
    assert_bytes(&got[3], "", 0);
}

static void queues(void **state) {
    struct stores *s = *state;
    mst_bytes value;
    int64_t n = -1;
    if (has_basic_only(s)) return;
    assert_ok(mst_store_queue_len(s->a, "q", &n));
    assert_int_equal(n, 0);
    assert_ok(mst_store_queue_push(s->a, "q", "first", 5));
    assert_ok(mst_store_queue_push(s->b, "q", NULL, 0));
    assert_ok(mst_store_queue_push(s->a, "q", "th\0rd", 5));
    assert_ok(mst_store_queue_len(s->b, "q", &n));
    assert_int_equal(n, 3);
    assert_true(has_key(s->b, "q"));
    assert_ok(mst_store_queue_pop(s->b, "q", &value));
    assert_bytes(&value, "first", 5);
    assert_ok(mst_store_queue_pop(s->a, "q", &value));
    assert_bytes(&value, "", 0);
    assert_ok(mst_store_queue_pop(s->b, "q", &value));
    assert_bytes(&value, "th\0rd", 5);
    assert_ok(mst_store_queue_len(s->a, "q", &n));
    assert_int_equal(n, 0);
    assert_false(has_key(s->a, "q"));
    assert_status(mst_store_queue_pop(s->a, "q", &value, .timeout_ms = 30), MST_ERR_TIMEOUT);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_keys(void **state) {
    struct stores *s = *state;
    char **keys = NULL;
    size_t n = 99;
    if (has_basic_only(s)) return;
    if (s->base_a) put(s->base_a, "outside", "not under the prefix");
    assert_ok(mst_store_list_keys(s->a, &keys, &n));
    assert_int_equal(n, 0);
    mst_store_free_keys(keys);
    put(s->a, "b", "");
    put(s->a, "a/b/c", "x");
    put(s->a, "gone", "x");
    assert_ok(mst_store_queue_push(s->a, "queue", "x", 1));
    assert_ok(mst_store_delete_key(s->a, "gone", NULL));
    assert_ok(mst_store_list_keys(s->b, &keys, &n));
    assert_int_equal(n, 3);
    assert_null(keys[3]);
    qsort(keys, n, sizeof *keys, compare_names);
    assert_string_equal(keys[0], "a/b/c");
    assert_string_equal(keys[1], "b");
    assert_string_equal(keys[2], "queue");
    mst_store_free_keys(keys);
}

static void what_a_custom_store_lacks(void **state) {
    struct stores *s = *state;
    mst_bytes value;
    char **keys;
    size_t n;
    int64_t number;
    if (!has_basic_only(s)) return;
    assert_status(mst_store_num_keys(s->a, &number), MST_ERR_UNSUPPORTED);
    assert_status(mst_store_list_keys(s->a, &keys, &n), MST_ERR_UNSUPPORTED);
    assert_status(mst_store_queue_push(s->a, "q", "x", 1), MST_ERR_UNSUPPORTED);
    assert_status(mst_store_queue_pop(s->a, "q", &value), MST_ERR_UNSUPPORTED);
    assert_status(mst_store_queue_len(s->a, "q", &number), MST_ERR_UNSUPPORTED);
    assert_contains(mst_error(), "mst_store_open_custom does not support QUEUE_LEN");
}

static mst_status fail_to_set(const mst_store_op_call *call, const char *key, const void *value, size_t len) {
    if (!strcmp(key, "lost")) return MST_ERR_STORE_LOST;
    if (!strcmp(key, "peer")) return MST_ERR_PEER_LOST;
    snprintf(call->why, call->why_size, "no %s of %zu bytes today", key, len);
    return value ? MST_ERR_INVALID : MST_ERR_STATE;
}

static mst_status get_nothing(const mst_store_op_call *call, const char *key, mst_bytes *value) {
    (void)call, (void)key;
    *value = (mst_bytes){NULL, 5};
    return MST_OK;
}

static mst_status wait_briefly(const mst_store_op_call *call, const char *const *keys, size_t n) {
    int *calls = call->context;
    (void)keys, (void)n;
    assert_in_range(call->timeout_ms, 0, 201);
    return ++*calls < 5 ? MST_ERR_TIMEOUT : MST_OK; /* long before its time */
}

static void count_free(void *context) {
    ++*(int *)context;
}

/* Errors of the program's operations; an operation that gives up early; incomplete operations. */
static void operations_of_a_custom_store(void **state) {
    mst_store_ops ops = {.size = sizeof ops,
                         .set = fail_to_set,
                         .get = get_nothing,
                         .add = custom_add,
                         .compare_set = custom_compare_set,
                         .wait = wait_briefly,
                         .check = custom_check,
                         .delete_key = custom_delete_key,
                         .free = count_free};
    struct stores *s = *state;
    mst_store *store, *copy;
    mst_bytes value;
    const char *key = "k";
    int calls = 0;
    if (strcmp(s->kind->name, "custom") != 0) return;
    assert_ok(mst_store_open_custom(&ops, &calls, &store));
    assert_status(mst_store_set(store, "k", "v", 1), MST_ERR_CALLBACK);
    assert_contains(mst_error(), "SET of 'k' failed in the program's store: no k of 1 bytes today");
    assert_status(mst_store_set(store, "k", NULL, 0), MST_ERR_STATE);
    assert_status(mst_store_set(store, "lost", "v", 1), MST_ERR_STORE_LOST);
    assert_status(mst_store_set(store, "peer", "v", 1), MST_ERR_CALLBACK);
    assert_ok(mst_store_wait(store, &key, 1));
    assert_int_equal(calls, 5);
    assert_status(mst_store_get(store, "k", &value), MST_ERR_CALLBACK);
    calls = 0;
    assert_ok(mst_store_clone(store, &copy));
    mst_store_free(store);
    assert_int_equal(calls, 0);
    mst_store_free(copy);
    assert_int_equal(calls, 1);
    ops.add = NULL;
    assert_status(mst_store_open_custom(&ops, NULL, &store), MST_ERR_INVALID);
    assert_contains(mst_error(), "ops->add is NULL");
    ops.size = 0;
    assert_status(mst_store_open_custom(&ops, NULL, &store), MST_ERR_INVALID);
    assert_contains(mst_error(), "sizeof(mst_store_ops)");
    assert_status(mst_store_open_custom(NULL, NULL, &store), MST_ERR_INVALID);
}

static void a_prefix_is_a_name_space(void **state) {
    struct stores *s = *state;
    mst_store *outer;
    if (!s->base_a) return;
    put(s->a, "k", "inner");
    put(s->base_a, "k", "base");
    assert_get(s->base_b, "pfx/k", "inner");
    assert_get(s->b, "k", "inner");
    assert_ok(mst_store_open_prefix(s->a, "outer", &outer));
    put(outer, "k", "both");
    assert_get(s->base_b, "pfx/outer/k", "both"); /* as PyTorch nests them */
    assert_int_equal(mst_store_port(outer), mst_store_port(s->base_a));
    mst_store_free(outer);
}

/* Another handle of the store, or of a new one if it can have but one, with the prefix of the kind. */
static mst_store *open_alone(const struct stores *s, mst_store **base) {
    mst_store *store = NULL;
    *base = open_more(s);
    if (!*base) assert_ok(mst_store_open("hash://", base));
    if (!*s->kind->prefix) return *base;
    assert_ok(mst_store_open_prefix(*base, s->kind->prefix, &store));
    return store;
}

/* A clone sees the same keys, and stays usable when the original is freed, or a clone of it. */
static void clones(void **state) {
    struct stores *s = *state;
    mst_store *first, *second, *base, *alone = open_alone(s, &base);
    put(alone, "before", "1");
    assert_ok(mst_store_clone(alone, &first));
    assert_int_equal(mst_store_port(first), mst_store_port(alone));
    assert_get(first, "before", "1");
    put(first, "after", "2");
    assert_get(alone, "after", "2");
    if (alone != base) mst_store_free(alone);
    mst_store_free(base);
    assert_ok(mst_store_clone(first, &second, .timeout_ms = CALL_LIMIT_MS));
    mst_store_free(first);
    assert_get(second, "before", "1");
    assert_get(second, "after", "2");
    if (!is_kind(s, "hash")) assert_get(s->b, "after", "2");
    mst_store_free(second);
    assert_ok(mst_store_clone(s->a, &second)); /* of a master, for tcp */
    put(second, "third", "3");
    assert_get(s->b, "third", "3");
    mst_store_free(second);
}

struct getter {
    mst_store *store;
    mst_status status;
};

static void *get_missing(void *arg) {
    struct getter *getter = arg;
    mst_bytes value;
    getter->status = mst_store_get(getter->store, "late", &value);
    if (getter->status == MST_OK) mst_bytes_free(&value);
    return NULL;
}

/* The timeout belongs to the handle, a clone begins with it, and calls under way keep theirs. */
static void timeouts(void **state) {
    struct stores *s = *state;
    struct getter getter = {.status = MST_ERR_STATE};
    mst_store *copy;
    mst_bytes value;
    assert_ok(mst_store_set_timeout(s->a, 40));
    assert_status(mst_store_get(s->a, "missing", &value), MST_ERR_TIMEOUT);
    assert_status(mst_store_get(s->a, "missing", &value, .timeout_ms = 20), MST_ERR_TIMEOUT);
    assert_ok(mst_store_clone(s->a, &copy, .timeout_ms = CALL_LIMIT_MS));
    assert_status(mst_store_get(copy, "missing", &value), MST_ERR_TIMEOUT);
    assert_ok(mst_store_set_timeout(copy, CALL_LIMIT_MS));
    assert_status(mst_store_get(s->a, "missing", &value), MST_ERR_TIMEOUT);
    getter.store = copy;
    pthread_t thread = start_thread(get_missing, &getter);
    assert_status(mst_store_get(s->a, "missing", &value, .timeout_ms = 100), MST_ERR_TIMEOUT);
    assert_ok(mst_store_set(s->a, "late", "x", 1, .timeout_ms = CALL_LIMIT_MS));
    join_thread(thread);
    assert_ok(getter.status);
    mst_store_free(copy);
    assert_ok(mst_store_set_timeout(s->a, 0)); /* the default */
    put(s->a, "k", "v");
    assert_status(mst_store_set_timeout(s->a, -1), MST_ERR_INVALID);
    assert_status(mst_store_set_timeout(NULL, 5), MST_ERR_INVALID);
    assert_status(mst_store_clone(s->a, NULL), MST_ERR_INVALID);
    assert_status(mst_store_clone(NULL, &copy), MST_ERR_INVALID);
}

static void wrong_arguments_are_refused(void **state) {
    struct stores *s = *state;
    static const char *const holes[] = {"a", NULL};
    const mst_bytes bad = {NULL, 5};
    mst_bytes value;
    assert_status(mst_store_set(s->a, NULL, "v", 1), MST_ERR_INVALID);
    assert_status(mst_store_set(s->a, "k", NULL, 1), MST_ERR_INVALID);
    assert_status(mst_store_set(NULL, "k", "v", 1), MST_ERR_INVALID);
    assert_status(mst_store_get(s->a, "k", NULL), MST_ERR_INVALID);
    assert_status(mst_store_wait(s->a, holes, 2), MST_ERR_INVALID);
    assert_status(mst_store_wait(s->a, NULL, 2), MST_ERR_INVALID);
    assert_status(mst_store_multi_get(s->a, holes, 1, NULL), MST_ERR_INVALID);
    assert_status(mst_store_multi_set(s->a, holes, &bad, 1), MST_ERR_INVALID);
    assert_status(mst_store_queue_pop(s->a, "q", NULL), MST_ERR_INVALID);
    assert_status(mst_store_list_keys(s->a, NULL, NULL), MST_ERR_INVALID);
    assert_status(mst_store_barrier(s->a, "b", 0), MST_ERR_INVALID);
    assert_status(mst_store_barrier(s->a, "b", -3), MST_ERR_INVALID);
    assert_status(mst_store_get(s->a, NULL, &value), MST_ERR_INVALID);
    assert_string_equal(mst_last_error()->operation, "mst_store_get");
    mst_store_free(NULL);
    mst_store_free_keys(NULL);
    mst_bytes_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_and_get),
        cmocka_unit_test(empty_and_binary_values),
        cmocka_unit_test(a_mebibyte),
        cmocka_unit_test(add),
        cmocka_unit_test(compare_set),
        cmocka_unit_test(check_wait_and_delete),
        cmocka_unit_test(no_keys_at_all),
        cmocka_unit_test(num_keys),
        cmocka_unit_test(append),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(queues),
        cmocka_unit_test(list_keys),
        cmocka_unit_test(what_a_custom_store_lacks),
        cmocka_unit_test(operations_of_a_custom_store),
        cmocka_unit_test(a_prefix_is_a_name_space),
        cmocka_unit_test(clones),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return run_over_kinds(tests, COUNT_OF(tests));
}
