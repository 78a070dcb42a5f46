/* combined.c - works of several works. */
#include "works.h"

static void count_ok(mst_status status, void *arg) {
    CHECK(status == MST_OK);
    atomic_fetch_add(&((struct counter *)arg)->n, 1);
}

static void count_failed(mst_status status, void *arg) {
    CHECK(status == MST_ERR_STALLED && strstr(mst_error(), "tag 7"));
    atomic_fetch_add(&((struct counter *)arg)->n, 1);
}

/* One work for operations of two groups and messages. */
void test_combine(void) {
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

/* Freed handles stay invalid when their memory is used again, and a work is there once. */
void test_misuse_combine(void) {
    mst_work *works[2], *work, *stale, *none[2];
    OK(mst_barrier(.work = &work));
    works[0] = works[1] = work;
    FAILS(mst_work_combine(works, 2, &stale), MST_ERR_INVALID, "works[1] is also works[0]");
    CHECK(works[0] == work && works[1] == work);
    OK(mst_work_combine(works, 1, &work));
    works[0] = works[1] = work;
    FAILS(mst_work_combine(works, 2, &stale), MST_ERR_INVALID, "works[1]");
    OK(mst_wait(work));
    OK(mst_work_combine(NULL, 0, &none[0]));
    none[1] = none[0];
    FAILS(mst_work_combine(none, 2, &work), MST_ERR_INVALID, "works[1]");
    mst_work_free(none[0]);
    for (int round = 0; round < ROUNDS / 2; round++) {
        OK(mst_work_combine(NULL, 0, &stale));
        mst_work_free(stale);
        OK(mst_work_combine(NULL, 0, &work));
        FAILS(mst_wait(stale), MST_ERR_STATE, "before");
        mst_work_free(stale); /* without effect */
        OK(mst_wait(work));
    }
    /* A part whose group has ended is not an operation of a later group that uses its memory. */
    for (int round = 0; round < ROUNDS / 2; round++) {
        mst_group *group;
        OK(mst_new_group(everybody, size, &group));
        OK(mst_barrier(.group = group, .work = &works[0]));
        OK(mst_work_combine(works, 1, &work));
        OK(mst_wait(work, .keep = true));
        OK(mst_destroy_process_group(group));
        OK(mst_new_group(everybody, size, &group));
        OK(mst_barrier(.group = group, .work = &works[0]));
        mst_work_free(work);
        OK(mst_wait(works[0]));
        OK(mst_destroy_process_group(group));
    }
}
