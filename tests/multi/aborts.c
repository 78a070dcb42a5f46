/*
 * aborts.c - the last rank aborts a group while calls on it are blocked.
 *
 *   aborts own|others CALL [cold]   its own thread, or the other ranks, are in the call; cold: the ranks of
 *                                   the group are not connected yet
 *   aborts race                     all ranks are in large reductions
 *   aborts world                    the group is the default world
 *
 * ABORTS_BACKEND in the environment is the backend of the group.
 * Prints "ms N", the longest time of a call on this rank, on the last rank since the abort, and "done".
 */
#include "os/clock.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 8 << 20, TIMEOUT_MS = 60000, BLOCKED_US = 150000 };

static int rank, size, aborter;
static mst_group *group;
static float *data;
static int64_t slowest;

static void fail(int line, const char *what) {
    fprintf(stderr, "aborts: rank %d, line %d: %s: %s\n", rank, line, what, mst_error());
    _exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define OK(call)         CHECK((call) == MST_OK)

static mst_status barrier(void) {
    return mst_barrier(.group = group);
}
static mst_status monitored_barrier(void) {
    return mst_monitored_barrier(.group = group);
}
static mst_status all_reduce(void) {
    return mst_all_reduce(data, LARGE, MST_F32, .group = group);
}
static mst_status recv_next(void) {
    return mst_recv(data, 4, MST_F32, (rank + 1) % size, .group = group);
}
/* From a rank that does not abort, if there is one. */
static mst_status recv_before(void) {
    return mst_recv(data, 4, MST_F32, (rank + size - 1) % size, .group = group);
}
static mst_status recv_any(void) {
    return mst_recv(data, 4, MST_F32, MST_ANY_SOURCE, .group = group);
}
static mst_status send_large(void) {
    return mst_send(data, LARGE, MST_F32, rank == aborter ? 0 : aborter, .group = group);
}
static mst_status work(void) {
    mst_work *works[2];
    mst_status st = mst_irecv(data, 4, MST_F32, (rank + 1) % size, .group = group, .work = &works[0]);
    if (st == MST_OK) st = mst_all_reduce(data + 100, 10, MST_F32, .group = group, .work = &works[1]);
    return st == MST_OK ? mst_wait_all(works, 2) : st;
}
static const struct {
    const char *name;
    mst_status (*call)(void);
} calls[] = {{"barrier", barrier},         {"monitored_barrier", monitored_barrier},
             {"all_reduce", all_reduce},   {"recv_next", recv_next},
             {"recv_before", recv_before}, {"recv_any", recv_any},
             {"send_large", send_large},   {"work", work}};

static mst_status (*find(const char *name))(void) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, name)) return calls[i].call;
    exit(2);
}

/* The error names the rank, the call and the reason. */
static void check(mst_status st, int64_t since) {
    char who[40];
    int64_t ms = (msi_now() - since) / 1000000;
    if (ms > slowest) slowest = ms;
    snprintf(who, sizeof who, "rank %d (", aborter);
    if (rank == aborter) snprintf(who, sizeof who, "this rank aborted");
    CHECK(st == (rank == aborter ? MST_ERR_CANCELLED : MST_ERR_PEER_LOST));
    CHECK(strstr(mst_error(), who) && strstr(mst_error(), "at aborts.c:") &&
          strstr(mst_error(), ": out of data") && mst_last_error()->culprit == aborter);
}

static _Atomic int64_t aborted_at;

static void *blocked(void *call) {
    mst_status st = (*(mst_status(**)(void))call)();
    check(st, aborted_at);
    return NULL;
}

static void abort_group(void) {
    usleep(BLOCKED_US); /* most likely the other thread is blocked by then */
    aborted_at = msi_now();
    OK(mst_abort(group, "out of data"));
}

/* The thread is blocked in the call when the group is aborted. */
static void abort_during(mst_status (*call)(void)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, blocked, &call) == 0);
    abort_group();
    pthread_join(thread, NULL);
}

static void open_group(bool cold, const char *backend) {
    int ranks[64];
    float x = 1;
    for (int i = 0; i < size; i++) ranks[i] = i;
    OK(mst_new_group(ranks, size, &group, .name = "work", .timeout_ms = TIMEOUT_MS, .backend = backend));
    if (!cold) OK(mst_all_reduce(&x, 1, MST_F32, .group = group));
    OK(mst_barrier());
}

/*
 * Later calls fail in the same way, and other groups stay usable. A barrier that the last rank had reached
 * before it aborted may succeed on the others.
 */
static void check_after(void) {
    float x = 1;
    int64_t now = msi_now();
    mst_status st = barrier();
    if (st == MST_OK && rank != aborter) st = barrier();
    check(st, now);
    check(all_reduce(), now);
    if (rank == aborter) OK(mst_abort(group, "again"));
    check(barrier(), now);
    OK(mst_all_reduce(&x, 1, MST_F32));
    CHECK(x == (float)size);
    OK(mst_destroy_process_group(group));
    open_group(false, NULL);
    OK(mst_destroy_process_group(group));
}

static void own(mst_status (*call)(void), bool cold) {
    open_group(cold, getenv("ABORTS_BACKEND"));
    if (rank == aborter) abort_during(call);
    OK(mst_barrier());
    check_after();
}

static void others(mst_status (*call)(void), bool cold) {
    open_group(cold, getenv("ABORTS_BACKEND"));
    if (rank == aborter) {
        abort_group();
    } else {
        int64_t begin = msi_now();
        mst_status st = call();
        check(st, begin);
    }
    OK(mst_barrier());
    check_after();
}

static mst_status reduce_until_failure(void) {
    mst_status st = MST_OK;
    for (int i = 0; i < 2000 && st == MST_OK; i++) st = all_reduce();
    return st;
}

static void race(void) {
    open_group(false, getenv("ABORTS_BACKEND"));
    if (rank == aborter)
        abort_during(reduce_until_failure);
    else
        check(reduce_until_failure(), msi_now());
    check_after();
}

static void world(void) {
    open_group(false, getenv("ABORTS_BACKEND"));
    mst_group *other = group;
    float x = 1;
    group = NULL;
    if (rank == aborter)
        abort_during(recv_next);
    else
        check(barrier(), msi_now());
    check(barrier(), msi_now());
    OK(mst_all_reduce(&x, 1, MST_F32, .group = other));
    CHECK(x == (float)size);
}

static void misuse(void) {
    mst_group *alone;
    OK(mst_new_group((int[]){0}, 1, &alone));
    if (rank) CHECK(mst_abort(alone, NULL) == MST_ERR_NOT_MEMBER);
    if (rank == 0) {
        OK(mst_abort(alone, NULL));
        CHECK(mst_barrier(.group = alone) == MST_ERR_CANCELLED && strstr(mst_error(), "aborted a group"));
    }
    OK(mst_destroy_process_group(alone));
    CHECK(mst_abort(alone, "x") == MST_ERR_STATE);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    OK(mst_init(.timeout_ms = TIMEOUT_MS));
    rank = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    aborter = size - 1;
    CHECK((data = calloc(LARGE, sizeof *data)));
    bool cold = argc > 3;
    if (!strcmp(argv[1], "race"))
        race();
    else if (!strcmp(argv[1], "world"))
        world();
    else if (!strcmp(argv[1], "misuse"))
        misuse();
    else if (!strcmp(argv[1], "own"))
        own(find(argv[2]), cold);
    else
        others(find(argv[2]), cold);
    printf("ms %d\ndone\n", (int)slowest);
    fflush(stdout);
    /* When a rank ends without MPI_Finalize, mpirun ends the others. */
    if (strcmp(argv[1], "world") != 0) OK(mst_barrier());
    int64_t begin = msi_now();
    OK(mst_destroy_process_group(NULL));
    CHECK(msi_now() - begin < (int64_t)20000 * 1000000);
    free(data);
    return 0;
}
