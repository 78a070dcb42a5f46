/* callbacks.c - callbacks of works: their order, those that may wait, and groups that are destroyed. */
#include "works.h"

#include <pthread.h>

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

static int indices[] = {0, 1, 2};

static void note_failure(mst_status status, void *arg) {
    CHECK(status == MST_ERR_STALLED && strstr(mst_error(), "tag 5") && strstr(mst_error(), "mst_irecv"));
    CHECK(mst_last_error()->status == MST_ERR_STALLED);
    atomic_fetch_add_explicit(&((struct counter *)arg)->n, 1, memory_order_relaxed);
}

/* Callbacks run in the order in which they were set, before a wait returns, and know the failure. */
void test_order(void) {
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

static _Atomic bool begun, third_is_set;

static void note_first(mst_status status, void *arg) {
    atomic_store(&begun, true);
    while (!atomic_load(&third_is_set)) usleep(100);
    note(status, arg);
}

static void *set_third(void *work) {
    while (!atomic_load(&begun)) usleep(100);
    OK(mst_work_on_done(work, note, &indices[2]));
    atomic_store(&third_is_set, true);
    return NULL;
}

/* A callback that is set while others run is called after them, and before a wait returns. */
void test_late(void) {
    for (int round = 0; round < ROUNDS; round++) {
        mst_work *work;
        int32_t value = 1;
        pthread_t thread;
        atomic_store(&called.n, 0);
        atomic_store(&called.waited, false);
        atomic_store(&begun, false);
        atomic_store(&third_is_set, false);
        OK(mst_irecv(&value, 1, MST_I32, (rank + size - 1) % size, .work = &work));
        OK(mst_work_on_done(work, note_first, &indices[0]));
        OK(mst_work_on_done(work, note, &indices[1]));
        pthread_create(&thread, NULL, set_third, work);
        OK(mst_barrier());
        OK(mst_send(&value, 1, MST_I32, (rank + 1) % size));
        OK(mst_wait(work, .keep = true));
        CHECK(atomic_load(&called.n) == 3);
        for (int i = 0; i < 3; i++) CHECK(called.order[i] == i);
        atomic_store(&called.waited, true);
        OK(mst_wait(work));
        pthread_join(thread, NULL);
    }
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
void test_wait(void) {
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

/* A callback of a group that was created later sets one of the world, which uses the world. */
static void pass_on(mst_status status, void *arg) {
    mst_work *work;
    CHECK(status == MST_OK);
    usleep(50000); /* mst_destroy_process_group begins meanwhile */
    OK(mst_barrier(.work = &work));
    OK(mst_work_on_done(work, use_the_group, arg, .may_wait = true));
    OK(mst_wait(work));
}

/* Destroying a group waits for callbacks, which may still use it. Works that are not done end. */
void test_destroy(void) {
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
    atomic_store(&chain.done, 0);
    OK(mst_new_group(everybody, size, &chain.group));
    OK(mst_barrier(.group = chain.group, .work = &work));
    chain.group = NULL;
    OK(mst_work_on_done(work, pass_on, &chain, .may_wait = true));
    OK(mst_wait(work));
    OK(mst_destroy_process_group(NULL));
    CHECK(atomic_load(&chain.done) == 1);
}
