/* test_pool.c - each job gets a thread at once, threads are used again, and the pool waits for its jobs. */
#include "harness.h"

#include "os/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { JOBS = 20 };

static _Atomic int begun, ended;
static _Atomic bool go_on;
static pthread_t thread;

static void wait_to_go_on(struct msi_job *job) {
    (void)job;
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&go_on)) sched_yield();
    atomic_fetch_add(&ended, 1);
}

static void let_go_on(struct msi_job *job) {
    (void)job;
    while (atomic_load(&begun) < JOBS) sched_yield();
    atomic_store(&go_on, true);
}

/* All jobs run at the same time: the last one ends the others. */
static void jobs_do_not_wait_for_each_other(void **state) {
    (void)state;
    struct msi_job jobs[JOBS], last = {.run = let_go_on};
    struct msi_pool *pool = msi_pool_new();
    assert_non_null(pool);
    assert_false(msi_pool_drain(pool));
    for (int i = 0; i < JOBS; i++) {
        jobs[i].run = wait_to_go_on;
        msi_pool_run(pool, &jobs[i]);
    }
    msi_pool_run(pool, &last);
    assert_true(msi_pool_drain(pool));
    assert_int_equal(atomic_load(&ended), JOBS);
    msi_pool_free(pool);
    assert_false(msi_pool_drain(NULL));
    msi_pool_free(NULL);
}

static void note_thread(struct msi_job *job) {
    (void)job;
    thread = pthread_self();
}

static void an_idle_thread_is_used_again(void **state) {
    (void)state;
    struct msi_job job = {.run = note_thread};
    struct msi_pool *pool = msi_pool_new();
    assert_non_null(pool);
    msi_pool_run(pool, &job);
    msi_pool_drain(pool);
    pthread_t first = thread;
    for (int i = 0; i < JOBS; i++) {
        msi_pool_run(pool, &job);
        msi_pool_drain(pool);
        assert_true(pthread_equal(first, thread));
    }
    msi_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_do_not_wait_for_each_other),
        cmocka_unit_test(an_idle_thread_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
