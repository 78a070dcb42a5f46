/* test_store_limit.c - keys, values and lists at the limits and beyond: refused by the call, harming no one.
 */
#include "store_kit.h"

static char *key_of(size_t len) {
    char *key = malloc(len + 1);
    assert_non_null(key);
    memset(key, 'k', len);
    key[len] = 0;
    return key;
}

/* Both handles, and one that reads everything anew, still work. */
static void assert_usable(struct stores *s) {
    mst_store *fresh = open_more(s);
    put(s->a, "usable", "yes");
    assert_get(s->b, "usable", "yes");
    if (!fresh) return;
    assert_get(fresh, *s->kind->prefix ? "pfx/usable" : "usable", "yes");
    mst_store_free(fresh);
}

static void the_longest_key_works_and_one_more_byte_is_refused(void **state) {
    struct stores *s = *state;
    size_t most = 8191;
    if (*s->kind->prefix) most -= strlen("pfx/");
    char *longest = key_of(most), *longer = key_of(most + 1), *huge = key_of(100000);
    put(s->a, longest, "v");
    assert_get(s->b, longest, "v");
    assert_status(mst_store_set(s->a, longer, "v", 1), MST_ERR_LIMIT);
    assert_status(mst_store_set(s->a, huge, "v", 1), MST_ERR_LIMIT);
    assert_contains(mst_error(), "100000");
    const char *list[] = {longest, longer};
    assert_status(mst_store_wait(s->a, list, 2, .timeout_ms = 1000), MST_ERR_LIMIT);
    assert_usable(s);
    free(longest);
    free(longer);
    free(huge);
}

static void a_prefix_that_leaves_no_room_for_keys_is_refused(void **state) {
    struct stores *s = *state;
    mst_store *view = NULL;
    char *prefix = key_of(9000);
    mst_status st = mst_store_open_prefix(s->a, prefix, &view);
    if (st == MST_OK) st = mst_store_set(view, "k", "v", 1);
    assert_status(st, MST_ERR_LIMIT);
    mst_store_free(view);
    free(prefix);
    assert_usable(s);
}

static void values_beyond_the_limit_are_refused(void **state) {
    struct stores *s = *state;
    size_t most = s->a->max_value;
    char *big = calloc(1, most + 1);
    assert_non_null(big);
    assert_status(mst_store_set(s->a, "big", big, most + 1), MST_ERR_LIMIT);
    assert_contains(mst_error(), "MUSTER_STORE_MAX_VALUE");
    assert_status(mst_store_append(s->a, "big", big, most + 1), MST_ERR_LIMIT);
    assert_status(mst_store_queue_push(s->a, "big", big, most + 1), MST_ERR_LIMIT);
    assert_status(mst_store_compare_set(s->a, "big", "", 0, big, most + 1, NULL), MST_ERR_LIMIT);
    assert_false(has_key(s->b, "big"));
    free(big);
    assert_usable(s);
}

static void sixty_four_mebibytes(void **state) {
    struct stores *s = *state;
    enum { N = 64 << 20 };
    mst_bytes value;
    if (strcmp(s->kind->name, "tcp") != 0) return;
    char *big = malloc(N);
    assert_non_null(big);
    for (size_t i = 0; i < N; i += 4096) memset(big + i, (int)(i >> 12), 4096);
    assert_ok(mst_store_set(s->a, "big", big, N));
    assert_ok(mst_store_get(s->b, "big", &value));
    assert_bytes(&value, big, N);
    free(big);
}

/* Each value is within the limit; all of them together may be too much, but then the call says so. */
static void large_lists_of_values_work_or_are_refused(void **state) {
    struct stores *s = *state;
    enum { N = 3, EACH = 32 << 20 };
    static const char *const keys[N] = {"l1", "l2", "l3"};
    mst_bytes values[N];
    char *big = calloc(1, EACH);
    assert_non_null(big);
    for (int i = 0; i < N; i++) values[i] = (mst_bytes){big, EACH};
    mst_status st = mst_store_multi_set(s->a, keys, values, N);
    if (st != MST_OK) assert_status(st, MST_ERR_LIMIT);
    free(big);
    assert_usable(s);
}

static void very_many_keys_work_or_are_refused(void **state) {
    struct stores *s = *state;
    enum { N = 140000 }; /* more than PyTorch's servers take in one message */
    const char **keys = malloc(N * sizeof *keys);
    bool ready = true;
    assert_non_null(keys);
    for (int i = 0; i < N; i++) keys[i] = "missing";
    mst_status st = mst_store_check(s->a, keys, N, &ready);
    if (st != MST_OK) assert_status(st, MST_ERR_LIMIT);
    if (st == MST_OK) assert_false(ready);
    free(keys);
    assert_usable(s);
}

/* What can be stored can be read: appending must not make a value that nobody may fetch. */
static void appending_beyond_the_limit_is_refused(void **state) {
    struct stores *s = *state;
    enum { PIECE = 1 << 20 };
    setenv("MUSTER_STORE_MAX_VALUE", "2M", 1);
    void *inner = (void *)(uintptr_t)s->kind;
    assert_int_equal(open_stores(&inner), 0);
    unsetenv("MUSTER_STORE_MAX_VALUE");
    struct stores *small = inner;
    char *piece = calloc(1, PIECE);
    mst_bytes value;
    assert_non_null(piece);
    assert_ok(mst_store_append(small->a, "log", piece, PIECE));
    assert_ok(mst_store_append(small->b, "log", piece, PIECE));
    mst_status st = mst_store_append(small->a, "log", piece, PIECE);
    free(piece);
    mst_status got = mst_store_get(small->b, "log", &value);
    size_t len = got == MST_OK ? value.len : 0;
    if (got == MST_OK) mst_bytes_free(&value);
    assert_int_equal(close_stores(&inner), 0);
    assert_status(st, MST_ERR_LIMIT);
    assert_status(got, MST_OK);
    assert_int_equal(len, 2 * PIECE);
}

static void a_full_store_says_so_and_goes_on_when_emptied(void **state) {
    struct stores *s = *state;
    setenv("MUSTER_STORE_MAX_TOTAL", "256K", 1);
    void *inner = (void *)(uintptr_t)s->kind;
    assert_int_equal(open_stores(&inner), 0);
    unsetenv("MUSTER_STORE_MAX_TOTAL");
    struct stores *small = inner;
    static char block[16 << 10];
    char key[16];
    mst_status st = MST_OK;
    int n = 0;
    for (; n < 100 && st == MST_OK; n++) {
        snprintf(key, sizeof key, "k%d", n);
        st = mst_store_set(small->a, key, block, sizeof block);
    }
    assert_status(st, MST_ERR_LIMIT);
    assert_contains(mst_error(), "MUSTER_STORE_MAX_TOTAL");
    assert_in_range(n, 4, 17);
    char **keys = NULL;
    size_t listed = 0;
    if (!has_basic_only(s)) {
        assert_ok(mst_store_list_keys(small->b, &keys, &listed)); /* few keys, however large their values */
        mst_store_free_keys(keys);
        assert_int_equal(listed, n - 1);
    }
    assert_ok(mst_store_delete_key(small->b, "k0", NULL));
    put(small->a, "k0", "small");
    assert_get(small->b, "k0", "small");
    assert_int_equal(close_stores(&inner), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_key_works_and_one_more_byte_is_refused),
        cmocka_unit_test(a_prefix_that_leaves_no_room_for_keys_is_refused),
        cmocka_unit_test(values_beyond_the_limit_are_refused),
        cmocka_unit_test(sixty_four_mebibytes),
        cmocka_unit_test(large_lists_of_values_work_or_are_refused),
        cmocka_unit_test(very_many_keys_work_or_are_refused),
        cmocka_unit_test(appending_beyond_the_limit_is_refused),
        cmocka_unit_test(a_full_store_says_so_and_goes_on_when_emptied),
    };
    return run_over_kinds(tests, COUNT_OF(tests));
}
