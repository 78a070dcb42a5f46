/* test_lock.c - the lock excludes, wakes the threads that wait for it, and shows its holder that they do. */
#include "harness.h"

#include "os/lock.h"

enum { THREADS = 4, TURNS = 20000, ROUNDS = 3000, COMES = 200 };

static struct msi_lock lock;
static struct msi_condition changed;
static int count; /* under the lock */

static void *count_up(void *context) {
    (void)context;
    for (int i = 0; i < TURNS; i++) {
        msi_lock_enter(&lock);
        count++;
        if (i % 1000 == 0) usleep(10); /* the others sleep */
        msi_lock_leave(&lock);
    }
    return NULL;
}

static void one_thread_at_a_time(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    count = 0;
    for (int i = 0; i < THREADS; i++) threads[i] = start_thread(count_up, NULL);
    for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
    assert_int_equal(count, THREADS * TURNS);
    assert_false(msi_lock_is_awaited(&lock));
}

/* A lock that one thread uses, until another one comes. */
struct young {
    struct msi_lock lock;
    int count, before; /* before: of the first thread, when the other one comes */
    _Atomic bool came;
};

static void *come(void *context) {
    struct young *y = context;
    for (int i = 0; i < y->before; i++) atomic_signal_fence(memory_order_seq_cst); /* at any time */
    atomic_store_explicit(&y->came, true, memory_order_relaxed);
    for (int i = 0; i < COMES; i++) {
        msi_lock_enter(&y->lock);
        y->count++;
        msi_lock_leave(&y->lock);
    }
    return NULL;
}

static void a_second_thread_comes(void **state) {
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct young y = {.before = round * 7 % 1000};
        int own = 0;
        pthread_t thread = start_thread(come, &y);
        for (int after = 0; after < COMES; own++) {
            msi_lock_enter(&y.lock);
            y.count++;
            msi_lock_leave(&y.lock);
            if (atomic_load_explicit(&y.came, memory_order_relaxed)) after++;
        }
        join_thread(thread);
        assert_int_equal(y.count, own + COMES);
    }
}

static void *enter_once(void *context) {
    msi_lock_enter(&lock);
    *(bool *)context = true;
    msi_lock_leave(&lock);
    return NULL;
}

static void the_holder_sees_who_waits(void **state) {
    (void)state;
    bool entered = false;
    msi_lock_enter(&lock);
    assert_false(msi_lock_is_awaited(&lock));
    pthread_t thread = start_thread(enter_once, &entered);
    for (int64_t begin = msi_now(); !msi_lock_is_awaited(&lock);) assert_true(ms_since(begin) < 60000);
    assert_false(entered);
    assert_false(msi_lock_try(&lock));
    msi_lock_leave(&lock);
    join_thread(thread);
    assert_true(entered);
}

/* Waits until it is its turn, which the other thread tells. */
static void *take_turns(void *context) {
    int me = *(int *)context;
    msi_lock_enter(&lock);
    for (int i = 0; i < TURNS / 10; i++) {
        while (count % 2 != me) msi_condition_wait(&changed, &lock, INT64_MAX);
        count++;
        msi_condition_tell(&changed);
    }
    msi_lock_leave(&lock);
    return NULL;
}

static void a_condition_wakes(void **state) {
    (void)state;
    int numbers[2] = {0, 1};
    count = 0;
    pthread_t threads[2] = {start_thread(take_turns, &numbers[0]), start_thread(take_turns, &numbers[1])};
    for (int i = 0; i < 2; i++) join_thread(threads[i]);
    assert_int_equal(count, 2 * (TURNS / 10));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_at_a_time),
        cmocka_unit_test(a_second_thread_comes),
        cmocka_unit_test(the_holder_sees_who_waits),
        cmocka_unit_test(a_condition_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
