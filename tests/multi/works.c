/*
 * works.c - works that several threads wait for, callbacks and their order, combined works, waits without
 * time.
 *
 *   works keep|order|late|wait|combine|now|misuse|destroy|missing|absent|cpu|rest|threads
 *
 * Prints "done" at the end.
 */
#include "works/works.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

int rank, size, everybody[] = {0, 1, 2};

void fail(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: rank %d: %s: %s\n", file, line, rank, what, mst_error());
    _exit(1);
}

static void *wait_for_it(void *arg) {
    for (int i = 0; i < 3; i++) OK(mst_wait(arg, .keep = true));
    return NULL;
}

/* Several threads wait for one work, several times. */
static void test_keep(void) {
    static float data[LARGE];
    for (int round = 0; round < ROUNDS; round++) {
        mst_work *work;
        pthread_t threads[THREADS];
        for (int i = 0; i < LARGE; i++) data[i] = (float)rank;
        OK(mst_all_reduce(data, LARGE, MST_F32, .work = &work));
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, wait_for_it, work);
        wait_for_it(work);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < LARGE; i++) CHECK(data[i] == (float)(size * (size - 1)) / 2);
        bool done = false;
        OK(mst_test(work, &done));
        CHECK(done);
        mst_work *works[] = {NULL, work};
        int index;
        OK(mst_wait_all(works, 2, .keep = true));
        OK(mst_wait_any(works, 2, &index, .keep = true));
        CHECK(works[1] == work && index == 1);
        if (round % 2)
            OK(mst_wait(work));
        else
            mst_work_free(work);
        FAILS(mst_wait(work, .keep = true), MST_ERR_STATE, ".keep");
    }
}

static void wait_now(mst_status status, void *work) {
    CHECK(status == MST_OK);
    FAILS(mst_wait(work, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "not done");
    FAILS(mst_wait_all(&(mst_work *){work}, 1, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "not done");
    FAILS(mst_wait(work, .timeout_ms = 1), MST_ERR_STATE, "callback");
}

/* MST_NOW does not wait. */
static void test_now(void) {
    int32_t value = rank, got = -1;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    mst_work *work;
    mst_store *store;
    OK(mst_irecv(&got, 1, MST_I32, before, .work = &work));
    FAILS(mst_wait(work, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "not done");
    FAILS(mst_wait_all(&work, 1, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "not done");
    mst_work *over; /* also in a callback, which must not wait */
    OK(mst_barrier(.work = &over));
    OK(mst_work_on_done(over, wait_now, work));
    OK(mst_wait(over));
    OK(mst_barrier());
    OK(mst_send(&value, 1, MST_I32, next));
    mst_status st = MST_ERR_TIMEOUT;
    while (st == MST_ERR_TIMEOUT) st = mst_wait(work, .timeout_ms = MST_NOW);
    CHECK(st == MST_OK && got == before);
    FAILS(mst_barrier(.timeout_ms = MST_NOW), MST_ERR_INVALID, "MST_NOW");
    OK(mst_store_open("hash://", &store));
    mst_bytes bytes;
    const char *keys[] = {"a", "b"};
    FAILS(mst_store_get(store, "a", &bytes, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "'a'");
    OK(mst_store_set(store, "a", "1", 1, .timeout_ms = MST_NOW));
    OK(mst_store_get(store, "a", &bytes, .timeout_ms = MST_NOW));
    CHECK(bytes.len == 1 && bytes.data[0] == '1');
    mst_bytes_free(&bytes);
    FAILS(mst_store_wait(store, keys, 2, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "exist");
    OK(mst_store_wait(store, keys, 1, .timeout_ms = MST_NOW));
    FAILS(mst_store_queue_pop(store, "q", &bytes, .timeout_ms = MST_NOW), MST_ERR_TIMEOUT, "empty");
    mst_store_free(store);
}

static void must_not_run(mst_status status, void *arg) {
    (void)status, (void)arg;
    CHECK(false);
}

static void *wait_until_freed(void *arg) {
    CHECK(mst_wait(arg, .keep = true) == MST_ERR_STATE);
    return NULL;
}

static void test_misuse(void) {
    int32_t value = 0;
    mst_work *work, *combined, *works[2];
    test_misuse_combine();
    FAILS(mst_work_combine(NULL, 1, &work), MST_ERR_INVALID, "works");
    FAILS(mst_work_combine(&(mst_work *){NULL}, 1, NULL), MST_ERR_INVALID, "work");
    OK(mst_irecv(&value, 1, MST_I32, (rank + 1) % size, .tag = 3, .work = &work));
    FAILS(mst_work_on_done(work, NULL, NULL, .may_wait = true), MST_ERR_INVALID, "callback");
    FAILS(mst_wait(work, .timeout_ms = -1, .keep = true), MST_ERR_INVALID, "timeout_ms");
    /* A work that another thread frees ends the waits for it. */
    pthread_t thread;
    OK(mst_work_combine(&work, 1, &combined));
    pthread_create(&thread, NULL, wait_until_freed, combined);
    usleep(20000);
    mst_work_free(combined);
    pthread_join(thread, NULL);
    FAILS(mst_work_combine(&combined, 1, &work), MST_ERR_STATE, "before");
    CHECK(combined);
    /* After an error the works are as before. */
    OK(mst_barrier(.work = &works[0]));
    works[1] = combined;
    FAILS(mst_work_combine(works, 2, &work), MST_ERR_STATE, "before");
    OK(mst_wait(works[0]));
    FAILS(mst_work_on_done(combined, must_not_run, NULL), MST_ERR_STATE, "before");
}

static void check_missing(void) {
    const mst_error_info *error = mst_last_error();
    CHECK(error->n_missing == size - 1);
    for (int r = 1; r < size; r++) CHECK(error->missing[r - 1] == r);
}

/* The error lists the ranks that a call waits for. */
static void test_missing(void) {
    int32_t value = 1, go = 0;
    mst_work *work;
    if (rank > 0) {
        OK(mst_recv(&go, 1, MST_I32, 0));
        OK(mst_all_reduce(&value, 1, MST_I32));
        OK(mst_recv(&go, 1, MST_I32, 0, .tag = 1));
        return;
    }
    OK(mst_all_reduce(&value, 1, MST_I32, .work = &work));
    usleep(50000); /* it begins */
    FAILS(mst_wait(work, .timeout_ms = 50), MST_ERR_TIMEOUT, "not done");
    /* Otherwise not all are known. */
    if (mst_get_host_count(NULL) == 1 && !getenv("MUSTER_BACKEND")) check_missing();
    FAILS(mst_wait(work, .timeout_ms = -1), MST_ERR_INVALID, "timeout_ms");
    CHECK(mst_last_error()->n_missing == 0);
    for (int r = 1; r < size; r++) OK(mst_send(&go, 1, MST_I32, r));
    OK(mst_wait(work));
    FAILS(mst_monitored_barrier(.timeout_ms = 300, .wait_all_ranks = true), MST_ERR_STALLED, "missing");
    check_missing();
    for (int r = 1; r < size; r++) OK(mst_send(&go, 1, MST_I32, r, .tag = 1));
}

/* The first of many ranks: the others do not come. */
static int test_absent(void) {
    FAILS(mst_init(.timeout_ms = 300), MST_ERR_MISSING_RANK, "and 183 more");
    const mst_error_info *error = mst_last_error();
    CHECK(error->n_missing == 64 && error->culprit == 1);
    for (int i = 0; i < 64; i++) CHECK(error->missing[i] == i + 1);
    puts("done");
    return 0;
}

/* Prints how much processor time the threads of a wait of 400 ms have used. */
static void print_cpu(clockid_t clock, mst_status (*wait)(void)) {
    struct timespec before, after;
    OK(mst_barrier());
    if (rank > 0) usleep(400000);
    clock_gettime(clock, &before);
    OK(wait());
    clock_gettime(clock, &after);
    if (rank == 0)
        printf("used %ld ms\n",
               (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

static mst_status wait_blocking(void) {
    return mst_barrier();
}

static mst_status wait_for_work(void) {
    mst_work *work;
    OK(mst_barrier(.work = &work));
    return mst_wait(work);
}

static mst_status wait_for_works(void) {
    mst_work *works[2];
    OK(mst_barrier(.work = &works[0]));
    OK(mst_barrier(.work = &works[1]));
    return mst_wait_all(works, 2);
}

static mst_status yield_for_long(void) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < 400);
    return MST_OK;
}

/* Of all threads, and of the thread that waits, while the thread of the group waits too. */
static void test_cpu(void) {
    print_cpu(CLOCK_THREAD_CPUTIME_ID, yield_for_long); /* what a wait that polls may use at most */
    print_cpu(CLOCK_PROCESS_CPUTIME_ID, wait_blocking);
    print_cpu(CLOCK_THREAD_CPUTIME_ID, wait_for_work);
    print_cpu(CLOCK_THREAD_CPUTIME_ID, wait_for_works);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"keep", test_keep},     {"order", test_order},     {"late", test_late},
                 {"wait", test_wait},     {"combine", test_combine}, {"now", test_now},
                 {"misuse", test_misuse}, {"destroy", test_destroy}, {"missing", test_missing},
                 {"cpu", test_cpu},       {"rest", test_rest},       {"threads", test_rest_threads}};
    if (argc > 1 && !strcmp(argv[1], "absent")) return test_absent();
    OK(mst_init(.timeout_ms = 180000));
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    bool known = false;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc < 2 || strcmp(argv[1], tests[i].name)) continue;
        known = true;
        tests[i].run();
    }
    CHECK(known);
    if (mst_is_initialized()) OK(mst_destroy_process_group(NULL));
    puts("done");
    return 0;
}
