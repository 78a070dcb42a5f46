/*
 * pending.c - one rank of a correct program in which rank 0 is ahead of the others: all ranks reject the same
 * calls, and rank 0 leaves barriers. For test_pending.py. The environment describes the world.
 *
 *   pending CASE    runs one case, in a group of its own
 *
 * Exits with 0 if all results are right.
 */
#include "os/clock.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE_US = 700000, SHORT_MS = 200, AHEAD = 7, MANY = 20 };

static int me, size;
static mst_group *group;

static void check_at(int line, const char *what, mst_status got, mst_status wanted) {
    if (got == wanted) return;
    fprintf(stderr, "rank %d, line %d: %s: %s, expected %s: %s\n", me, line, what, mst_status_name(got),
            mst_status_name(wanted), got == MST_OK ? "" : mst_error());
    exit(1);
}
#define CHECK(call, wanted) check_at(__LINE__, #call, call, wanted)

/* The other ranks begin when rank 0 says so. */
static void be_late(void) {
    mst_store *store = mst_get_group_store(group);
    if (me != 0) CHECK(mst_store_wait(store, (const char *[]){"begin"}, 1), MST_OK);
}
static void begin_others(void) {
    mst_store *store = mst_get_group_store(group);
    if (me == 0) CHECK(mst_store_set(store, "begin", "", 0), MST_OK);
}
static void reject(void) {
    float x = 0;
    CHECK(mst_all_reduce(&x, 1, (mst_dtype)99, .group = group), MST_ERR_INVALID);
}
static void sum(void) {
    float x = (float)me;
    CHECK(mst_all_reduce(&x, 1, MST_F32, .group = group), MST_OK);
    if (x != (float)(size * (size - 1) / 2)) check_at(__LINE__, "the sum", MST_ERR_INTERNAL, MST_OK);
}
static void broadcast(mst_work **work) {
    static float x = 5;
    CHECK(mst_broadcast(&x, 1, MST_F32, .group = group, .work = work), MST_OK);
}
/* A barrier that rank 0 leaves, because the others are late. */
static void leave_barrier(bool monitored) {
    mst_work *work;
    int timeout_ms = me == 0 ? SHORT_MS : 0;
    if (monitored)
        CHECK(mst_monitored_barrier(.group = group, .timeout_ms = timeout_ms, .work = &work), MST_OK);
    else
        CHECK(mst_barrier(.group = group, .timeout_ms = timeout_ms, .work = &work), MST_OK);
    CHECK(mst_wait(work), me == 0 ? MST_ERR_STALLED : MST_OK);
}

static void first_calls(void) {
    be_late();
    for (int i = 0; i < MANY; i++) reject();
    begin_others();
    sum();
    for (int i = 0; i < MANY; i++) {
        reject();
        broadcast(NULL);
    }
    sum();
}
static void behind_works(void) {
    mst_work *works[AHEAD];
    broadcast(NULL);
    sum();
    be_late();
    for (int i = 0; i < AHEAD; i++) broadcast(&works[i]);
    for (int i = 0; i < 3; i++) reject();
    begin_others();
    for (int i = 0; i < AHEAD; i++) CHECK(mst_wait(works[i]), MST_OK);
    sum();
}
/* The deadline of a call ends it also if a rejected call comes before it. */
static void deadlines(void) {
    sum();
    broadcast(NULL);
    be_late();
    for (int i = 0; i < AHEAD; i++) broadcast(NULL);
    leave_barrier(false);
    reject();
    int64_t begin = msi_now();
    leave_barrier(false);
    if (me == 0 && (msi_now() - begin) / 1000000 > 25 * SHORT_MS)
        check_at(__LINE__, "the deadline", MST_ERR_TIMEOUT, MST_OK);
    begin_others();
    sum();
}
static void left_barriers(void) {
    sum();
    be_late();
    leave_barrier(false);
    leave_barrier(true);
    reject();
    leave_barrier(false);
    begin_others();
    sum();
}
/* Rank 0 leaves it before the ranks have connected. */
static void first_barrier(void) {
    mst_cancel *cancel = NULL;
    be_late();
    if (me == 0) {
        CHECK(mst_cancel_new(&cancel), MST_OK);
        mst_cancel_fire(cancel);
    }
    CHECK(mst_barrier(.group = group, .cancel = cancel), me == 0 ? MST_ERR_CANCELLED : MST_OK);
    begin_others();
    sum();
    mst_cancel_free(cancel);
}
static void monitored_barriers(void) {
    mst_work *works[2];
    float x = 1, y = 2;
    sum();
    for (int i = 0; i < 2; i++) {
        if (me == size - 1) usleep(LATE_US);
        CHECK(mst_reduce(&x, 1, MST_F32, .group = group, .work = &works[0]), MST_OK);
        CHECK(mst_broadcast(&y, 1, MST_F32, .group = group, .work = &works[1]), MST_OK);
        if (me == 1) CHECK(mst_wait_all(works, 2), MST_OK);
        CHECK(mst_monitored_barrier(.group = group), MST_OK);
        if (me != 1) CHECK(mst_wait_all(works, 2), MST_OK);
    }
    sum();
}
/* More signatures than ranks compare. */
static void many_signatures(void) {
    static float x[600];
    for (int n = 1; n < 600; n++)
        CHECK(mst_broadcast(x, (size_t)n, MST_F32, .root = n % size, .group = group), MST_OK);
    sum();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"first_calls", first_calls},      {"behind_works", behind_works},
                 {"deadlines", deadlines},          {"left_barriers", left_barriers},
                 {"monitored", monitored_barriers}, {"many_signatures", many_signatures},
                 {"first_barrier", first_barrier}};
    int all[16];
    CHECK(mst_init(), MST_OK);
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    for (int r = 0; r < size; r++) all[r] = r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc != 2 || strcmp(argv[1], cases[i].name) != 0) continue;
        CHECK(mst_new_group(all, size, &group), MST_OK);
        cases[i].run();
        CHECK(mst_barrier(), MST_OK);
        mst_destroy_process_group(NULL);
        return 0;
    }
    fprintf(stderr, "pending: see the beginning of pending.c\n");
    return 2;
}
