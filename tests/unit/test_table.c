/* test_table.c - the hash table: numbers, copies of keys, growth, removal, and searches while another
 * thread adds. */
#include "harness.h"

#include "base/table.h"

#include <pthread.h>

static void keys_are_numbered_in_order(void **state) {
    (void)state;
    enum { KEYS = 5000 };
    struct msi_table table = {0};
    assert_int_equal(msi_table_find(&table, "", 0), MSI_TABLE_NONE);
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < KEYS; i++) assert_int_equal(msi_table_add(&table, &i, sizeof i), i);
    assert_int_equal(table.n, KEYS);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(msi_table_find(&table, &i, sizeof i), i);
        assert_memory_equal(msi_table_key(&table, i), &i, sizeof i);
        assert_null(table.entries[i].value);
    }
    uint32_t other = KEYS;
    assert_int_equal(msi_table_find(&table, &other, sizeof other), MSI_TABLE_NONE);
    msi_table_free(&table);
    msi_table_free(&table);
}

static void keys_are_any_bytes(void **state) {
    (void)state;
    static const char zeros[8];
    struct msi_table table = {0};
    for (uint32_t n = 0; n < sizeof zeros; n++) assert_int_equal(msi_table_add(&table, zeros, n), n);
    for (uint32_t n = 0; n < sizeof zeros; n++) assert_int_equal(msi_table_find(&table, zeros, n), n);
    msi_table_free(&table);
}

static void copies_stay_where_they_are(void **state) {
    (void)state;
    struct msi_table table = {0};
    char text[16] = "first";
    const char *first = msi_table_key(&table, msi_table_add(&table, text, 5));
    for (int i = 0; i < 1000; i++) {
        int n = snprintf(text, sizeof text, "key %d", i);
        msi_table_add(&table, text, (size_t)n);
    }
    assert_ptr_equal(msi_table_key(&table, 0), first);
    assert_string_equal(first, "first");
    msi_table_free(&table);
}

/* Against a plain list, with a seed that is always the same. */
static void keys_come_and_go(void **state) {
    (void)state;
    enum { KEYS = 300, ROUNDS = 50000 };
    struct msi_table table = {0};
    bool there[KEYS] = {false};
    uint32_t count = 0, random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525u + 1013904223u;
        uint32_t key = (random >> 8) % KEYS;
        if (random >> 31) {
            uint32_t number = msi_table_add(&table, &key, sizeof key);
            table.entries[number].value = &there[key];
        } else {
            msi_table_remove(&table, &key, sizeof key);
        }
        count += (random >> 31) - (uint32_t)there[key];
        there[key] = random >> 31;
        assert_int_equal(table.n, count);
        if (round % 100) continue;
        for (uint32_t k = 0; k < KEYS; k++) {
            uint32_t number = msi_table_find(&table, &k, sizeof k);
            assert_int_equal(number != MSI_TABLE_NONE, there[k]);
            if (there[k]) assert_ptr_equal(table.entries[number].value, &there[k]);
        }
    }
    msi_table_free(&table);
}

static void a_cleared_table_is_empty(void **state) {
    (void)state;
    struct msi_table table = {0};
    msi_table_clear(&table);
    for (uint32_t keys = 10; keys < 10000; keys *= 100) {
        for (uint32_t i = 0; i < keys; i++) assert_int_equal(msi_table_add(&table, &i, sizeof i), i);
        msi_table_clear(&table);
        uint32_t zero = 0;
        assert_int_equal(table.n, 0);
        assert_int_equal(msi_table_find(&table, &zero, sizeof zero), MSI_TABLE_NONE);
    }
    assert_int_equal(msi_table_add(&table, "again", 5), 0);
    msi_table_free(&table);
}

enum { SHARED_KEYS = 4096 };

static void *find_all(void *context) {
    const struct msi_table *table = context;
    for (uint32_t i = 0; i < SHARED_KEYS; i++)
        while (msi_table_find(table, &i, sizeof i) != i) continue;
    return NULL;
}

static void keys_are_found_while_others_are_added(void **state) {
    (void)state;
    struct msi_table table = {0};
    pthread_t thread;
    assert_true(msi_table_reserve(&table, SHARED_KEYS));
    const struct msi_table_entry *entries = table.entries;
    assert_int_equal(pthread_create(&thread, NULL, find_all, &table), 0);
    for (uint32_t i = 0; i < SHARED_KEYS; i++) assert_int_equal(msi_table_add(&table, &i, sizeof i), i);
    pthread_join(thread, NULL);
    assert_ptr_equal(table.entries, entries);
    msi_table_free(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_numbered_in_order), cmocka_unit_test(keys_are_any_bytes),
        cmocka_unit_test(copies_stay_where_they_are), cmocka_unit_test(keys_come_and_go),
        cmocka_unit_test(a_cleared_table_is_empty),   cmocka_unit_test(keys_are_found_while_others_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
