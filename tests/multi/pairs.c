/*
 * pairs.c - one rank of a world in which only ranks 0 and 1 exchange messages, for test_pairs.py. The
 * environment describes the world.
 *
 *   pairs idle    the other ranks make no call before they get a line
 *   pairs first   the other ranks first send each other a message
 *   pairs leave   the other ranks leave the world when they get a line
 *   pairs do ACTION…   this rank carries out the actions, and continues after one that fails. NAME:PEER is
 *                      one of those below; "hold" waits for a line
 *
 * Ranks 0 and 1 begin when they get a line, and all ranks that are there sum when they get another. Each step
 * writes one line, as tests/multi/world.c does: name, status, milliseconds, culprit and message, separated by
 * tabs.
 */
#include "step_report.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, TIMEOUT_MS = 20000 };

static int me, size;

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

static int big[1 << 20];

static mst_status send_big(int peer) {
    return mst_send(big, 1 << 20, MST_I32, peer, .timeout_ms = TIMEOUT_MS);
}

static mst_status receive(int peer) {
    int in[COUNT];
    return mst_recv(in, COUNT, MST_I32, peer, .timeout_ms = TIMEOUT_MS);
}

static mst_status receive_from_any(int peer) {
    int sender = -1, in[COUNT];
    mst_status st = mst_recv(in, COUNT, MST_I32, MST_ANY_SOURCE, .sender = &sender, .timeout_ms = TIMEOUT_MS);
    return st == MST_OK && sender != peer ? MST_ERR_INTERNAL : st;
}

/* Acknowledges the dead ranks, of which there must be that many. */
static mst_status acknowledge(int wanted) {
    int n, ranks[8];
    mst_status st = mst_ack_lost_ranks(NULL, ranks, 8, &n);
    return st == MST_OK && n != wanted ? MST_ERR_INTERNAL : st;
}

static mst_status send_small(int peer) {
    int out[COUNT] = {0};
    return mst_send(out, COUNT, MST_I32, peer, .timeout_ms = TIMEOUT_MS);
}

/* Posts a receive, which joins the group, and leaves it alone. */
static mst_status post(int peer) {
    static int in[COUNT];
    mst_work *work;
    return mst_irecv(in, COUNT, MST_I32, peer, .tag = 9, .work = &work, .timeout_ms = TIMEOUT_MS);
}

static mst_status sum_with(int peer) {
    (void)peer;
    return sum();
}

static mst_status reduce(int root) {
    int one = 1;
    return mst_reduce(&one, 1, MST_I32, .root = root, .timeout_ms = TIMEOUT_MS);
}

static mst_status gather(int root) {
    int one = 1, all[8];
    return mst_gather(all, &one, 1, MST_I32, .root = root, .timeout_ms = TIMEOUT_MS);
}

static mst_status monitored(int unused) {
    (void)unused;
    return mst_monitored_barrier(.timeout_ms = TIMEOUT_MS);
}

static const struct {
    const char *name;
    mst_status (*run)(int peer);
} actions[] = {{"exchange", exchange}, {"at_once", exchange_at_once},
               {"send_big", send_big}, {"receive", receive},
               {"send", send_small},   {"post", post},
               {"sum", sum_with},      {"any", receive_from_any},
               {"ack", acknowledge},   {"reduce", reduce},
               {"gather", gather},     {"monitored", monitored}};

static void act(const char *action) {
    const char *peer = strchr(action, ':');
    size_t n = peer ? (size_t)(peer - action) : strlen(action);
    int64_t begin = msi_now();
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strlen(actions[i].name) == n && !memcmp(actions[i].name, action, n))
            report(action, actions[i].run(peer ? atoi(peer + 1) : -1), begin);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int64_t begin = msi_now();
    mst_status st = report("init", mst_init(.timeout_ms = TIMEOUT_MS), begin);
    if (st != MST_OK) return 1;
    me = mst_get_rank(NULL);
    size = mst_get_world_size(NULL);
    if (!strcmp(argv[1], "do")) {
        for (int i = 2; i < argc; i++)
            if (strcmp(argv[i], "hold") != 0)
                act(argv[i]);
            else if (!get_line())
                return 1;
        mst_destroy_process_group(NULL);
        return 0;
    }
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
