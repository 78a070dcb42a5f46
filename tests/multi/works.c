/*
 * works.c - works that several threads wait for, callbacks and their order, combined works, waits without
 * time.
 *
 *   works keep|order|wait|combine|now|misuse|destroy|missing|cpu
 *
 * Prints "done" at the end.
 */
#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50, LARGE = 100000 };

static int rank, size, everybody[] = {0, 1, 2};

static void fail(int line, const char *what) {
    fprintf(stderr, "works: rank %d, line %d: %s: %s\n", rank, line, what, mst_error());
    _exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define OK(call)         CHECK((call) == MST_OK)
#define FAILS(call, wanted, text)                                                                            \
    CHECK((call) == (wanted) && (strstr(mst_error(), text) || (fprintf(stderr, "no '%s' in ", text), 0)))

/* What callbacks count in. */
struct counter {
    _Atomic int n;
};

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

static struct {
    _Atomic int n; /* callbacks so far: each takes the next number */
    int order[3];
    _Atomic bool waited;
} called;

static void note(mst_status status, void *arg) {
    CHECK(status == MST_OK && !atomic_load_explicit(&called.waited, memory_order_relaxed));
    usleep(1000); /* a wait that returned too early would be seen */
    called.order[*(const int *)arg] = atomic_fetch_add_explicit(&called.n, 1, memory_order_relaxed);
}

static void note_failure(mst_status status, void *arg) {
    CHECK(status == MST_ERR_STALLED && strstr(mst_error(), "tag 5") && strstr(mst_error(), "mst_irecv"));
    CHECK(mst_last_error()->status == MST_ERR_STALLED);
    atomic_fetch_add_explicit(&((struct counter *)arg)->n, 1, memory_order_relaxed);
}

/* Callbacks run in the order in which they were set, before a wait returns, and know the failure. */
static void test_order(void) {
    static int indices[] = {0, 1, 2};
    for (int round = 0; round < ROUNDS; round++) {
        int32_t value = 1;
        mst_work *work;
        atomic_store(&called.n, 0);
        atomic_store(&called.waited, false);
        OK(mst_all_reduce(&value, 1, MST_I32, .work = &work));
        OK(mst_work_on_done(work, note, &indices[0]));
        OK(mst_work_on_done(work, note, &indices[1]));
        OK(mst_wait(work, .keep = true));
        CHECK(atomic_load(&called.n) == 2 && called.order[0] == 0 && called.order[1] == 1);
        OK(mst_work_on_done(work, note, &indices[2])); /* at once */
        CHECK(called.order[2] == 2);
        atomic_store(&called.waited, true);
        OK(mst_wait(work));
        CHECK(value == size);
    }
    int32_t value;
    struct counter failures = {0};
    mst_work *work;
    OK(mst_irecv(&value, 1, MST_I32, (rank + 1) % size, .tag = 5, .timeout_ms = 100, .work = &work));
    OK(mst_work_on_done(work, note_failure, &failures));
    OK(mst_work_on_done(work, note_failure, &failures, .may_wait = true));
    FAILS(mst_store_get(NULL, "", NULL), MST_ERR_INVALID, "store"); /* callbacks do not change this error */
    while (atomic_load(&failures.n) < 2) usleep(1000);
    CHECK(strstr(mst_error(), "mst_store_get"));
    FAILS(mst_wait(work), MST_ERR_STALLED, "tag 5");
    OK(mst_barrier());
}

struct chain {
    mst_group *group;
    mst_work *own;
    _Atomic int done;
};

/* Blocks in several ways; the others must do the same. */
static void blocking_callback(mst_status status, void *arg) {
    struct chain *chain = arg;
    int32_t value = 1;
    CHECK(status == MST_OK);
    OK(mst_wait(chain->own, .keep = true));
    OK(mst_all_reduce(&value, 1, MST_I32, .group = chain->group));
    CHECK(value == size);
    mst_work *work;
    OK(mst_barrier(.group = chain->group, .work = &work));
    OK(mst_wait(work));
    FAILS(mst_destroy_process_group(chain->group), MST_ERR_STATE, "callback");
    atomic_fetch_add(&chain->done, 1);
}

static void release(mst_status status, void *arg) {
    CHECK(status == MST_OK);
    atomic_fetch_add(&((struct counter *)arg)->n, 1);
}

static void block_until_released(mst_status status, void *arg) {
    CHECK(status == MST_OK);
    while (!atomic_load(&((struct counter *)arg)->n)) usleep(100);
}

/* Callbacks with .may_wait block without delaying other works, and the group waits for them in the end. */
static void test_wait(void) {
    struct chain chains[THREADS];
    int32_t values[THREADS];
    for (int i = 0; i < THREADS; i++) {
        OK(mst_new_group(everybody, size, &chains[i].group));
        atomic_init(&chains[i].done, 0);
        values[i] = 1;
    }
    for (int i = 0; i < THREADS; i++) {
        OK(mst_all_reduce(&values[i], 1, MST_I32, .work = &chains[i].own));
        OK(mst_work_on_done(chains[i].own, blocking_callback, &chains[i], .may_wait = true));
    }
    /* The first of two callbacks of a work waits for the second. */
    struct counter released = {0};
    mst_work *work;
    OK(mst_barrier(.work = &work));
    OK(mst_work_on_done(work, block_until_released, &released, .may_wait = true));
    OK(mst_work_on_done(work, release, &released, .may_wait = true));
    OK(mst_wait(work));
    for (int i = 0; i < THREADS; i++)
        while (!atomic_load(&chains[i].done)) usleep(100);
    for (int i = 0; i < THREADS; i++) {
        OK(mst_wait(chains[i].own));
        CHECK(values[i] == size);
        OK(mst_destroy_process_group(chains[i].group));
    }
}

static void count_ok(mst_status status, void *arg) {
    CHECK(status == MST_OK);
    atomic_fetch_add(&((struct counter *)arg)->n, 1);
}

static void count_failed(mst_status status, void *arg) {
    CHECK(status == MST_ERR_STALLED && strstr(mst_error(), "tag 7"));
    atomic_fetch_add(&((struct counter *)arg)->n, 1);
}

/* One work for operations of two groups and messages. */
static void test_combine(void) {
    mst_group *group;
    OK(mst_new_group(everybody, size, &group));
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        int32_t sums[3] = {1, 2, 3}, sent = rank, got = -1;
        mst_work *works[6] = {NULL}, *work, *pair[2];
        struct counter calls = {0};
        OK(mst_all_reduce(&sums[0], 1, MST_I32, .work = &works[0]));
        OK(mst_all_reduce(&sums[1], 1, MST_I32, .group = group, .work = &works[1]));
        OK(mst_isend(&sent, 1, MST_I32, next, .work = &pair[0]));
        OK(mst_irecv(&got, 1, MST_I32, before, .work = &pair[1]));
        OK(mst_work_combine(pair, 2, &works[3]));
        CHECK(!pair[0] && !pair[1]);
        OK(mst_all_reduce(&sums[2], 1, MST_I32, .group = group, .work = &works[4]));
        OK(mst_work_combine(works, 6, &work)); /* with NULL entries, and one that is combined */
        for (int i = 0; i < 6; i++) CHECK(!works[i]);
        OK(mst_work_on_done(work, count_ok, &calls));
        OK(mst_work_on_done(work, count_ok, &calls, .may_wait = true));
        bool done = false;
        if (round % 3 == 0)
            while (!done) OK(mst_test(work, &done));
        if (round % 3 == 1) {
            int index = -1;
            works[2] = work;
            OK(mst_wait_any(works, 6, &index, .keep = true));
            CHECK(index == 2);
        }
        OK(mst_wait(work, .keep = true));
        OK(mst_work_result(work));
        CHECK(sums[0] == size && sums[1] == 2 * size && sums[2] == 3 * size && got == before);
        CHECK(atomic_load(&calls.n) >= 1);
        while (atomic_load(&calls.n) < 2) usleep(100);
        if (round % 2)
            OK(mst_wait(work));
        else
            mst_work_free(work);
        FAILS(mst_wait(work), MST_ERR_STATE, "before");
        FAILS(mst_work_result(work), MST_ERR_STATE, "before");
    }
    /* The first failure of the array is the result, also if another part failed earlier. */
    int32_t got[2];
    mst_work *works[3], *work;
    struct counter calls = {0};
    OK(mst_barrier(.work = &works[0]));
    OK(mst_irecv(&got[0], 1, MST_I32, next, .tag = 7, .timeout_ms = 200, .work = &works[1]));
    OK(mst_irecv(&got[1], 1, MST_I32, next, .tag = 8, .timeout_ms = 50, .work = &works[2]));
    OK(mst_work_combine(works, 3, &work));
    OK(mst_work_on_done(work, count_failed, &calls));
    FAILS(mst_work_result(work), MST_ERR_STATE, "not done");
    FAILS(mst_wait(work, .timeout_ms = 1), MST_ERR_TIMEOUT, "not done");
    FAILS(mst_wait(work), MST_ERR_STALLED, "tag 7");
    CHECK(atomic_load(&calls.n) == 1);
    OK(mst_work_combine(NULL, 0, &work)); /* none: done at once */
    OK(mst_wait(work));
    OK(mst_barrier()); /* the others wait for messages of this rank */
    OK(mst_destroy_process_group(group));
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

static void note_end(mst_status status, void *arg) {
    CHECK(status == MST_ERR_STATE && strstr(mst_error(), "destroyed"));
    usleep(20000);
    atomic_fetch_add(&((struct counter *)arg)->n, 1);
}

static void use_the_group(mst_status status, void *arg) {
    struct chain *chain = arg;
    int32_t value = 1;
    CHECK(status == MST_OK);
    usleep(50000); /* mst_destroy_process_group begins meanwhile */
    OK(mst_all_reduce(&value, 1, MST_I32, .group = chain->group));
    CHECK(value == size);
    atomic_fetch_add(&chain->done, 1);
}

/* Destroying a group waits for callbacks, which may still use it. Works that are not done end. */
static void test_destroy(void) {
    struct chain chain = {.done = 0};
    struct counter ended = {0};
    int32_t value = 0;
    mst_work *work, *over;
    OK(mst_new_group(everybody, size, &chain.group));
    OK(mst_irecv(&value, 1, MST_I32, (rank + 1) % size, .tag = 3, .group = chain.group, .work = &work));
    OK(mst_work_on_done(work, note_end, &ended));
    OK(mst_work_on_done(work, note_end, &ended, .may_wait = true));
    OK(mst_work_combine(&work, 1, &over));
    OK(mst_work_on_done(over, note_end, &ended, .may_wait = true));
    OK(mst_barrier(.group = chain.group, .work = &work));
    OK(mst_work_on_done(work, use_the_group, &chain, .may_wait = true));
    OK(mst_wait(work));
    OK(mst_destroy_process_group(chain.group));
    CHECK(atomic_load(&chain.done) == 1 && atomic_load(&ended.n) == 3);
    FAILS(mst_wait(over), MST_ERR_STATE, "destroyed");
    OK(mst_barrier(.work = &work));
    atomic_store(&chain.done, 0);
    chain.group = NULL;
    OK(mst_work_on_done(work, use_the_group, &chain, .may_wait = true));
    OK(mst_wait(work));
    OK(mst_destroy_process_group(NULL));
    CHECK(atomic_load(&chain.done) == 1);
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

/* Prints how much processor time a wait of 400 ms has used. */
static void test_cpu(void) {
    struct timespec before, after;
    OK(mst_barrier());
    if (rank > 0) usleep(400000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    OK(mst_barrier());
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    if (rank == 0)
        printf("used %ld ms\n",
               (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"keep", test_keep},       {"order", test_order},     {"wait", test_wait},
                 {"combine", test_combine}, {"now", test_now},         {"misuse", test_misuse},
                 {"destroy", test_destroy}, {"missing", test_missing}, {"cpu", test_cpu}};
    OK(mst_init(.timeout_ms = 60000));
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
