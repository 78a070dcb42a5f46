/* test_handles.c - which handles are alive, asked while others come and go. */
#include "harness.h"

#include "base/handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static void a_handle_lives_between_add_and_remove(void **state) {
    (void)state;
    void *memory = msi_handle_alloc(100);
    assert_non_null(memory);
    for (unsigned turn = 0; turn < 3 * MSI_HANDLE_GENERATIONS; turn++) {
        void *handle = msi_handle_make(memory, turn), *next = msi_handle_make(memory, turn + 1);
        assert_ptr_equal(msi_handle_memory(handle), memory);
        assert_int_equal(msi_handle_generation(handle), turn % MSI_HANDLE_GENERATIONS);
        assert_false(msi_handle_alive(handle));
        assert_true(msi_handle_add(handle));
        assert_true(msi_handle_alive(handle));
        assert_false(msi_handle_alive(next));
        msi_handle_remove(next); /* one that is not there */
        msi_handle_remove(handle);
        assert_false(msi_handle_alive(handle));
    }
    assert_false(msi_handle_alive(NULL));
    free(memory);
}

static void many_live_at_a_time(void **state) {
    (void)state;
    enum { MANY = 5000 };
    static char *handles[MANY];
    for (int i = 0; i < MANY; i++) {
        handles[i] = msi_handle_alloc(1);
        assert_true(msi_handle_add(handles[i]));
    }
    for (int i = 0; i < MANY; i += 2) msi_handle_remove(handles[i]);
    for (int i = 0; i < MANY; i++) assert_int_equal(msi_handle_alive(handles[i]), i % 2);
    for (int i = 0; i < MANY; i++) {
        msi_handle_remove(handles[i]);
        free(handles[i]);
    }
}

enum { ROUNDS = 20000 };
static _Atomic bool over;

static void *come_and_go(void *arg) {
    char *memory = msi_handle_alloc(1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        msi_handle_add(msi_handle_make(memory, i));
        if (!msi_handle_alive(msi_handle_make(memory, i))) *(int *)arg = 1;
        msi_handle_remove(msi_handle_make(memory, i));
    }
    free(memory);
    return NULL;
}

static void *ask(void *arg) {
    while (!atomic_load(&over))
        if (!msi_handle_alive(arg)) return arg;
    return NULL;
}

static void threads_may_ask_meanwhile(void **state) {
    (void)state;
    pthread_t writers[2], reader;
    int wrong[2] = {0};
    void *kept = msi_handle_alloc(1), *lost;
    assert_true(msi_handle_add(kept));
    assert_int_equal(pthread_create(&reader, NULL, ask, kept), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, come_and_go, &wrong[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(writers[i], NULL);
    atomic_store(&over, true);
    pthread_join(reader, &lost);
    assert_null(lost);
    assert_int_equal(wrong[0] + wrong[1], 0);
    msi_handle_remove(kept);
    free(kept);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_lives_between_add_and_remove),
        cmocka_unit_test(many_live_at_a_time),
        cmocka_unit_test(threads_may_ask_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
