/*
 * blame.c - one rank of a world in which a rank dies, stops or does not call, for test_blame.py. The
 * environment describes the world.
 *
 *   blame ACTION…   carries out the actions, and goes on after one that fails. NAME:NUMBER is one of those
 *                   below, whose number is a rank or a time in ms
 *
 *   hold       waits for a line          timeout:MS   of the actions after it
 *   quit       ends without destroying   destroy      destroys the world
 *   groups:N   makes N groups of all ranks, with a barrier in each
 *   group:1DD  makes a group of the ranks with these digits, which later actions use
 *   world      later actions use the world again
 *
 * Each action but hold, quit, timeout and world writes one line, as tests/multi/world.c does: name, status,
 * milliseconds, culprit and message, separated by tabs.
 */
#include "step_report.h"

#include <muster/muster.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 8, RANKS_MAX = 8 };

static int size, timeout_ms = 20000;
static mst_group *group; /* of the actions; NULL: the world */
static int in[COUNT * RANKS_MAX], out[COUNT * RANKS_MAX];

static mst_status sum(int unused) {
    (void)unused;
    return mst_all_reduce(out, COUNT, MST_I32, .group = group, .timeout_ms = timeout_ms);
}

static mst_status barrier(int unused) {
    (void)unused;
    return mst_barrier(.group = group, .timeout_ms = timeout_ms);
}

static mst_status broadcast(int root) {
    return mst_broadcast(out, COUNT, MST_I32, .root = root, .group = group, .timeout_ms = timeout_ms);
}

static mst_status reduce(int root) {
    return mst_reduce(out, COUNT, MST_I32, .root = root, .group = group, .timeout_ms = timeout_ms);
}

static mst_status scatter(int root) {
    return mst_scatter(out, in, COUNT, MST_I32, .root = root, .group = group, .timeout_ms = timeout_ms);
}

static mst_status receive(int peer) {
    return mst_recv(out, COUNT, MST_I32, peer, .group = group, .timeout_ms = timeout_ms);
}

static mst_status send(int peer) {
    return mst_send(in, COUNT, MST_I32, peer, .group = group, .timeout_ms = timeout_ms);
}

/* Receives while it sends to rank 1. The result is that of the receive. */
static mst_status receive_and_send(int peer) {
    enum { LARGE = 1 << 20 };
    static int large[LARGE];
    mst_work *work;
    mst_status st =
        mst_isend(large, LARGE, MST_I32, 1, .work = &work, .group = group, .timeout_ms = timeout_ms);
    if (st == MST_OK) st = receive(peer);
    return st;
}

/* Receives together with a message of this rank to itself, which arrives. */
static mst_status receive_among_others(int peer) {
    static int to[COUNT];
    int me = mst_get_rank(group);
    mst_work *works[3];
    mst_status st = mst_isend(in, COUNT, MST_I32, me, .tag = 1, .work = &works[0], .timeout_ms = timeout_ms);
    if (st == MST_OK)
        st = mst_irecv(to, COUNT, MST_I32, me, .tag = 1, .work = &works[1], .timeout_ms = timeout_ms);
    if (st == MST_OK) st = mst_irecv(out, COUNT, MST_I32, peer, .work = &works[2], .timeout_ms = timeout_ms);
    return st == MST_OK ? mst_wait_all(works, 3) : st;
}

/* Waits for that time only, and leaves the work alone. */
static mst_status wait_for_sum(int ms) {
    mst_work *work;
    mst_status st =
        mst_all_reduce(out, COUNT, MST_I32, .work = &work, .group = group, .timeout_ms = timeout_ms);
    return st == MST_OK ? mst_wait(work, .timeout_ms = ms) : st;
}

static mst_status wait_for(int peer, int ms) {
    mst_work *work;
    mst_status st =
        mst_irecv(in, COUNT, MST_I32, peer, .work = &work, .group = group, .timeout_ms = timeout_ms);
    return st == MST_OK ? mst_wait_all(&work, 1, .timeout_ms = ms) : st;
}

static mst_status wait_for_message(int ms) {
    return wait_for(1, ms);
}

static mst_status wait_for_any(int ms) {
    return wait_for(MST_ANY_SOURCE, ms);
}

static void keep_status(mst_status status, void *kept) {
    atomic_store((_Atomic int *)kept, (int)status);
}

/* A receive whose end only a callback learns. The error of the thread is its own. */
static mst_status receive_with_callback(int peer) {
    static _Atomic int ended;
    mst_work *work;
    atomic_store(&ended, -1);
    mst_status st =
        mst_irecv(in, COUNT, MST_I32, peer, .work = &work, .group = group, .timeout_ms = timeout_ms);
    if (st == MST_OK) st = mst_work_on_done(work, keep_status, &ended);
    while (st == MST_OK && atomic_load(&ended) < 0) usleep(1000);
    return st == MST_OK ? (mst_status)atomic_load(&ended) : st;
}

/* The library refuses the call. */
static mst_status reject(int unused) {
    static float values[COUNT];
    (void)unused;
    return mst_all_reduce(values, COUNT, MST_F32, .op = MST_BAND, .group = group, .timeout_ms = timeout_ms);
}

static mst_status acknowledge(int unused) {
    (void)unused;
    return mst_ack_lost_ranks(group, NULL, 0, NULL);
}

static mst_status make_groups(int n) {
    int ranks[RANKS_MAX];
    mst_status st = MST_OK;
    for (int r = 0; r < size; r++) ranks[r] = r;
    for (int i = 0; i < n && st == MST_OK; i++) {
        mst_group *made;
        st = mst_new_group(ranks, size, &made);
        if (st == MST_OK) st = mst_monitored_barrier(.group = made, .timeout_ms = timeout_ms);
        if (st == MST_OK) st = mst_barrier(.group = made, .timeout_ms = timeout_ms);
    }
    return st;
}

/* digits: 1, so that a zero may follow, and the ranks. */
static mst_status enter_group(int digits) {
    int ranks[RANKS_MAX], n = 0;
    for (; digits > 9; digits /= 10) ranks[n++] = digits % 10;
    return mst_new_group(ranks, n, &group);
}

static mst_status shrink(int unused) {
    (void)unused;
    return mst_shrink_world(.timeout_ms = timeout_ms);
}

static mst_status agree(int unused) {
    uint64_t flags = 1;
    (void)unused;
    return mst_agree(&flags, .group = group, .timeout_ms = timeout_ms);
}

static mst_status check(int unused) {
    (void)unused;
    return mst_check_group(NULL);
}

static mst_status destroy(int unused) {
    (void)unused;
    return mst_destroy_process_group(NULL);
}

static const struct {
    const char *name;
    mst_status (*run)(int number);
} actions[] = {{"sum", sum},
               {"barrier", barrier},
               {"broadcast", broadcast},
               {"reduce", reduce},
               {"scatter", scatter},
               {"receive", receive},
               {"both", receive_and_send},
               {"among", receive_among_others},
               {"callback", receive_with_callback},
               {"reject", reject},
               {"send", send},
               {"wait", wait_for_sum},
               {"wait_message", wait_for_message},
               {"wait_any", wait_for_any},
               {"acknowledge", acknowledge},
               {"groups", make_groups},
               {"group", enter_group},
               {"shrink", shrink},
               {"agree", agree},
               {"check", check},
               {"destroy", destroy}};

static void act(const char *action) {
    const char *number = strchr(action, ':');
    size_t n = number ? (size_t)(number - action) : strlen(action);
    int64_t begin = msi_now();
    char c;
    if (!strcmp(action, "quit")) _exit(1);
    if (!strcmp(action, "hold") && read(STDIN_FILENO, &c, 1) != 1) _exit(1);
    if (!strncmp(action, "timeout:", 8)) timeout_ms = atoi(number + 1);
    if (!strcmp(action, "world")) group = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strlen(actions[i].name) == n && !memcmp(actions[i].name, action, n))
            report(action, actions[i].run(number ? atoi(number + 1) : -1), begin);
}

int main(int argc, char **argv) {
    int64_t begin = msi_now();
    if (report("init", mst_init(), begin) != MST_OK) return 1;
    size = mst_get_world_size(NULL);
    for (int i = 1; i < argc; i++) act(argv[i]);
    if (mst_is_initialized()) mst_destroy_process_group(NULL);
    return 0;
}
