/*
 * chaos.c - one rank of a random program with verified results, for test_chaos.py and scripts/reliability.py.
 * The environment describes the world.
 *
 *   chaos SEED STEPS MODE
 *
 * The seed determines the calls of all ranks: kind, size, group, blocking or not. MODE says what a rank does
 * after MST_ERR_PEER_LOST:
 *   stop     it writes the error and ends with 3
 *   shrink   it goes on with mst_shrink_world, from the first step that not all survivors have done
 *   group    the same with mst_shrink_group
 *
 * Lines of output: "ready", "lost MS CULPRIT MESSAGE" for a failed step and "again MS SIZE" for the next
 * success, both with the time on the clock of the host, "failed WHY", and "done STEPS". Exit status: 0 all
 * steps are done, 3 as above, 4 a result is wrong, 5 any other error.
 */
#include "os/clock.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 20, HALVES = 2 }; /* most elements of a call */

static uint64_t seed;
static bool stops; /* MODE is stop */
static int32_t *in, *out;

/* The groups that steps use. rank and size are those in the group. */
struct team {
    mst_group *group;
    int rank, size;
};
static mst_group *base;       /* NULL: the default world */
static struct team all, half; /* all ranks, and every other one */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A number that all ranks have in common. */
static uint64_t draw(uint64_t step, uint64_t what) {
    return mix(seed ^ mix(step * 31 + what + 1));
}

_Noreturn static void wrong(const char *call, uint64_t step, size_t i, int32_t got, int32_t wanted) {
    printf("failed step %llu: %s: element %zu is %d, not %d\n", (unsigned long long)step, call, i, got,
           wanted);
    _Exit(4);
}

/* The contribution of a rank to element i of a step. */
static int32_t value(uint64_t step, int rank, size_t i) {
    return (int32_t)((step * 7 + (uint64_t)rank * 13 + i) % 1000);
}

static void fill(uint64_t step, int rank, size_t n) {
    for (size_t i = 0; i < n; i++) in[i] = value(step, rank, i);
}

static int32_t sum_of(uint64_t step, int size, size_t i) {
    int32_t sum = 0;
    for (int r = 0; r < size; r++) sum += value(step, r, i);
    return sum;
}

/* Waits for the work of a call, if it has one. */
static mst_status end(mst_status st, mst_work *work) {
    return st == MST_OK && work ? mst_wait(work) : st;
}

static mst_status all_reduce(const struct team *t, uint64_t step, size_t n, bool async) {
    mst_work *work = NULL;
    fill(step, t->rank, n);
    mst_status st = mst_all_reduce(in, n, MST_I32, .group = t->group, .work = async ? &work : NULL);
    st = end(st, work);
    for (size_t i = 0; i < n && st == MST_OK; i++)
        if (in[i] != sum_of(step, t->size, i)) wrong("all_reduce", step, i, in[i], sum_of(step, t->size, i));
    return st;
}

static mst_status broadcast(const struct team *t, uint64_t step, size_t n, bool async) {
    mst_work *work = NULL;
    int root = (int)(draw(step, 10) % (uint64_t)t->size);
    fill(step, t->rank, n);
    mst_status st =
        mst_broadcast(in, n, MST_I32, .root = root, .group = t->group, .work = async ? &work : NULL);
    st = end(st, work);
    for (size_t i = 0; i < n && st == MST_OK; i++)
        if (in[i] != value(step, root, i)) wrong("broadcast", step, i, in[i], value(step, root, i));
    return st;
}

static mst_status all_gather(const struct team *t, uint64_t step, size_t n, bool async) {
    mst_work *work = NULL;
    n = n / (size_t)t->size + 1;
    fill(step, t->rank, n);
    mst_status st =
        mst_all_gather_into_tensor(out, in, n, MST_I32, .group = t->group, .work = async ? &work : NULL);
    st = end(st, work);
    for (int r = 0; r < t->size && st == MST_OK; r++)
        for (size_t i = 0; i < n; i++)
            if (out[(size_t)r * n + i] != value(step, r, i))
                wrong("all_gather", step, i, out[(size_t)r * n + i], value(step, r, i));
    return st;
}

static mst_status reduce_scatter(const struct team *t, uint64_t step, size_t n, bool async) {
    mst_work *work = NULL;
    n = n / (size_t)t->size + 1;
    fill(step, t->rank, n * (size_t)t->size);
    mst_status st =
        mst_reduce_scatter_tensor(out, in, n, MST_I32, .group = t->group, .work = async ? &work : NULL);
    st = end(st, work);
    for (size_t i = 0; i < n && st == MST_OK; i++) {
        int32_t wanted = sum_of(step, t->size, (size_t)t->rank * n + i);
        if (out[i] != wanted) wrong("reduce_scatter", step, i, out[i], wanted);
    }
    return st;
}

static mst_status all_to_all(const struct team *t, uint64_t step, size_t n, bool async) {
    mst_work *work = NULL;
    n = n / (size_t)t->size + 1;
    fill(step, t->rank, n * (size_t)t->size);
    mst_status st =
        mst_all_to_all_single(out, in, n, MST_I32, .group = t->group, .work = async ? &work : NULL);
    st = end(st, work);
    for (int r = 0; r < t->size && st == MST_OK; r++)
        for (size_t i = 0; i < n; i++) {
            int32_t wanted = value(step, r, (size_t)t->rank * n + i);
            if (out[(size_t)r * n + i] != wanted)
                wrong("all_to_all", step, i, out[(size_t)r * n + i], wanted);
        }
    return st;
}

/* A message to the next rank and one from the last. */
static mst_status ring(const struct team *t, uint64_t step, size_t n, bool async) {
    int next = (t->rank + 1) % t->size, last = (t->rank + t->size - 1) % t->size;
    mst_work *works[2] = {NULL, NULL};
    fill(step, t->rank, n);
    mst_status st = mst_irecv(out, n, MST_I32, last, .group = t->group, .work = &works[0]);
    if (st != MST_OK) return st;
    st = async ? mst_isend(in, n, MST_I32, next, .group = t->group, .work = &works[1])
               : mst_send(in, n, MST_I32, next, .group = t->group);
    mst_status received = mst_wait(works[0]);
    st = end(st, works[1]);
    if (st == MST_OK) st = received;
    for (size_t i = 0; i < n && st == MST_OK; i++)
        if (out[i] != value(step, last, i)) wrong("ring", step, i, out[i], value(step, last, i));
    return st;
}

static mst_status reduce(const struct team *t, uint64_t step, size_t n, bool async) {
    mst_work *work = NULL;
    int root = (int)(draw(step, 10) % (uint64_t)t->size);
    fill(step, t->rank, n);
    mst_status st = mst_reduce(in, n, MST_I32, .root = root, .group = t->group, .work = async ? &work : NULL);
    st = end(st, work);
    for (size_t i = 0; i < n && st == MST_OK && t->rank == root; i++)
        if (in[i] != sum_of(step, t->size, i)) wrong("reduce", step, i, in[i], sum_of(step, t->size, i));
    return st;
}

static mst_status barrier(const struct team *t, uint64_t step, size_t n, bool async) {
    (void)step, (void)n, (void)async;
    return mst_barrier(.group = t->group);
}

typedef mst_status call(const struct team *t, uint64_t step, size_t n, bool async);
static call *const calls[] = {all_reduce, broadcast, all_gather, reduce_scatter,
                              all_to_all, ring,      reduce,     barrier};
enum { CALLS = sizeof calls / sizeof *calls };

/* Small sizes are frequent: each power of two is as likely as any other. */
static mst_status take(uint64_t step) {
    /* A group without the victim may only see that another rank ends because of the death. */
    const struct team *t = stops || draw(step, 0) % 3 ? &all : &half;
    size_t most = (size_t)1 << draw(step, 1) % 21, n = draw(step, 2) % most + 1;
    if (n > MOST / 2) n = MOST / 2;
    return calls[draw(step, 3) % CALLS](t, step, n, draw(step, 4) % 2);
}

static struct team team_of(mst_group *group) {
    return (struct team){group, mst_get_rank(group), mst_get_world_size(group)};
}

/* Makes the groups of the steps. */
static mst_status make_teams(void) {
    mst_group *made;
    all = team_of(base);
    mst_status st = mst_split_group(all.rank % HALVES, 0, &made, .group = base);
    if (st == MST_OK) half = team_of(made);
    return st;
}

/* The survivors go on at the first step that one of them has not done. */
static mst_status find_step(uint64_t *step) {
    int64_t first = (int64_t)*step;
    mst_status st = mst_all_reduce(&first, 1, MST_I64, .op = MST_MIN, .group = base);
    *step = (uint64_t)first;
    return st;
}

static mst_status recover(const char *mode, uint64_t *step) {
    mst_status st;
    do {
        mst_group *old = base, *part = half.group;
        st = strcmp(mode, "group") != 0 ? mst_shrink_world() : mst_shrink_group(base, &base);
        if (st == MST_OK && old && old != base) mst_destroy_process_group(old);
        if (part) mst_destroy_process_group(part); /* after all ranks have left its calls */
        half.group = NULL;
        uint64_t at = *step;
        if (st == MST_OK) st = make_teams();
        if (st == MST_OK) st = find_step(&at);
        if (st == MST_OK) *step = at;
    } while (st == MST_ERR_PEER_LOST);
    return st;
}

static double ms(void) {
    return (double)msi_now() / 1e6;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    seed = strtoull(argv[1], NULL, 10);
    uint64_t steps = strtoull(argv[2], NULL, 10);
    const char *mode = argv[3];
    stops = !strcmp(mode, "stop");
    setvbuf(stdout, NULL, _IOLBF, 0);
    mst_status st = mst_init();
    if (st == MST_OK) st = mst_alloc(MOST * sizeof *in, &in);
    if (st == MST_OK) st = mst_alloc(MOST * sizeof *out, &out);
    if (st == MST_OK) st = make_teams();
    if (st == MST_OK) printf("ready\n");
    bool lost = false;
    for (uint64_t step = 0; step < steps && st == MST_OK;) {
        st = take(step);
        if (st == MST_OK && lost) printf("again %.3f %d\n", ms(), all.size);
        if (st == MST_OK) {
            lost = false;
            step++;
        }
        if (st != MST_ERR_PEER_LOST && st != MST_ERR_STORE_LOST) continue;
        printf("lost %.3f %d %s\n", ms(), mst_last_error()->culprit, mst_error());
        if (stops) exit(3);
        lost = true;
        if (st == MST_ERR_PEER_LOST) st = recover(mode, &step);
    }
    if (st != MST_OK) {
        printf("failed %s\n", mst_error());
        return 5;
    }
    printf("done %llu\n", (unsigned long long)steps);
    mst_destroy_process_group(NULL);
    return 0;
}
