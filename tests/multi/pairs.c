/*
 * pairs.c - one rank of a world in which only ranks 0 and 1 exchange messages, for test_pairs.py. The
 * environment describes the world.
 *
 *   pairs idle    the other ranks make no call before they get a line
 *   pairs first   the other ranks first send each other a message
 *   pairs leave   the other ranks leave the world when they get a line
 *
 * Ranks 0 and 1 begin when they get a line, and all ranks that are there sum when they get another. Each step
 * writes one line, as tests/multi/world.c does: name, status, milliseconds, culprit and message, separated by
 * tabs.
 */
#include "os/clock.h"

#include <muster/muster.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, TIMEOUT_MS = 20000 };

static int me, size;

static mst_status report(const char *step, mst_status status, int64_t begin) {
    bool failed = status != MST_OK;
    dprintf(STDOUT_FILENO, "%s\t%s\t%lld\t%d\t%s\n", step, mst_status_name(status),
            (long long)((msi_now() - begin) / 1000000), failed ? mst_last_error()->culprit : -1,
            failed ? mst_error() : "");
    return status;
}

static bool get_line(void) {
    char c;
    return read(STDIN_FILENO, &c, 1) == 1;
}

/* The lower rank sends, then the other one answers; the last answer is received from any source. */
static mst_status exchange(int peer) {
    int out[COUNT], in[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) out[i] = i + me;
    mst_status st = MST_OK;
    for (int turn = 0; turn < 4 && st == MST_OK; turn++)
        st = (turn + (me > peer)) % 2 == 0
                 ? mst_send(out, COUNT, MST_I32, peer, .timeout_ms = TIMEOUT_MS)
                 : mst_recv(in, COUNT, MST_I32, turn == 3 ? MST_ANY_SOURCE : peer, .timeout_ms = TIMEOUT_MS);
    for (int i = 0; i < COUNT && st == MST_OK; i++)
        if (in[i] != i + peer) st = MST_ERR_INTERNAL;
    return st;
}

static mst_status exchange_at_once(int peer) {
    int out[COUNT], in[COUNT] = {0};
    mst_work *works[2];
    for (int i = 0; i < COUNT; i++) out[i] = 2 * i + me;
    mst_status st = mst_irecv(in, COUNT, MST_I32, peer, .work = &works[0], .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK) st = mst_isend(out, COUNT, MST_I32, peer, .work = &works[1], .timeout_ms = TIMEOUT_MS);
    for (int i = 0; i < 2 && st == MST_OK; i++) st = mst_wait(works[i]);
    for (int i = 0; i < COUNT && st == MST_OK; i++)
        if (in[i] != 2 * i + peer) st = MST_ERR_INTERNAL;
    return st;
}

static mst_status sum(void) {
    int one = 1;
    mst_status st = mst_all_reduce(&one, 1, MST_I32, .timeout_ms = TIMEOUT_MS);
    return st == MST_OK && one != size ? MST_ERR_INTERNAL : st;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int64_t begin = msi_now();
    mst_status st = report("init", mst_init(.timeout_ms = TIMEOUT_MS), begin);
    if (st != MST_OK) return 1;
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (me > 1 && !strcmp(argv[1], "first")) st = report("first", exchange(5 - me), begin);
    bool goes_on = st == MST_OK && get_line();
    begin = msi_now();
    if (goes_on && me < 2) {
        st = report("blocking", exchange(1 - me), begin);
        if (st == MST_OK) st = report("at_once", exchange_at_once(1 - me), begin);
        goes_on = st == MST_OK && get_line();
    }
    begin = msi_now();
    if (goes_on && strcmp(argv[1], "leave") != 0) st = report("sum", sum(), begin);
    mst_destroy_process_group(NULL);
    return st != MST_OK;
}
