/*
 * slow.c - one rank of a world in which rank 1 is late in each call, for test_slow.py. The environment
 * describes the world.
 *
 *   slow CALL…    see calls below
 *
 * Rank 1 begins each call when it gets a line; the others begin at once. Each step writes one line, as
 * tests/multi/world.c does.
 */
#include "step_report.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LATE = 1, COUNT = 17, LARGE = 1 << 22, TIMEOUT_MS = 50000 };

static int me;
static float *data;

static mst_status all_reduce(void) {
    return mst_all_reduce(data, COUNT, MST_F32, .timeout_ms = TIMEOUT_MS);
}

static mst_status barrier(void) {
    return mst_barrier(.timeout_ms = TIMEOUT_MS);
}

static mst_status monitored(void) {
    return mst_monitored_barrier(.timeout_ms = TIMEOUT_MS);
}

/* Waits several times: it is one wait. */
static mst_status work(void) {
    mst_work *w;
    mst_status st = mst_all_reduce(data, COUNT, MST_F32, .work = &w, .timeout_ms = TIMEOUT_MS);
    if (st != MST_OK) return st;
    do st = mst_wait(w, .timeout_ms = 300);
    while (st == MST_ERR_TIMEOUT);
    return st;
}

/* Waits for the second, which is behind the first. */
static mst_status queued(void) {
    mst_work *w[2];
    mst_status st = mst_all_reduce(data, COUNT, MST_F32, .work = &w[0], .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK) st = mst_barrier(.work = &w[1], .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK) st = mst_wait(w[1]);
    return st == MST_OK ? mst_wait(w[0]) : st;
}

/* Two works of two ranks: the wait is for the receive, which is the first. */
static mst_status wait_all(void) {
    mst_work *w[2];
    if (me > LATE) return MST_OK;
    mst_status st =
        me == LATE ? mst_isend(data, COUNT, MST_F32, 0, .tag = 7, .work = &w[0], .timeout_ms = TIMEOUT_MS)
                   : mst_irecv(data, COUNT, MST_F32, 1, .tag = 7, .work = &w[0], .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK) st = mst_isend(data, 1, MST_F32, me, .tag = 8, .work = &w[1], .timeout_ms = TIMEOUT_MS);
    if (st == MST_OK) st = mst_recv(data, 1, MST_F32, me, .tag = 8, .timeout_ms = TIMEOUT_MS);
    return st == MST_OK ? mst_wait_all(w, 2) : st;
}

/* A receive that the program does not wait for is no wait. */
static mst_status unawaited(void) {
    mst_work *w;
    if (me == LATE) return mst_send(data, COUNT, MST_F32, 0, .timeout_ms = TIMEOUT_MS);
    if (me != 0) return MST_OK;
    mst_status st = mst_irecv(data, COUNT, MST_F32, LATE, .work = &w, .timeout_ms = TIMEOUT_MS);
    char c;
    if (st == MST_OK && read(STDIN_FILENO, &c, 1) != 1) return MST_ERR_INTERNAL;
    return st == MST_OK ? mst_wait(w) : st;
}

static mst_status from(int src) {
    if (me > LATE) return MST_OK;
    return me == LATE ? mst_send(data, COUNT, MST_F32, 0, .tag = 5, .timeout_ms = TIMEOUT_MS)
                      : mst_recv(data, COUNT, MST_F32, src, .tag = 5, .timeout_ms = TIMEOUT_MS);
}

static mst_status receive(void) {
    return from(LATE);
}

static mst_status any(void) {
    return from(MST_ANY_SOURCE);
}

static mst_status transmit(void) {
    if (me > LATE) return MST_OK;
    return me == LATE ? mst_recv(data, LARGE, MST_F32, 0, .timeout_ms = TIMEOUT_MS)
                      : mst_send(data, LARGE, MST_F32, LATE, .timeout_ms = TIMEOUT_MS);
}

static mst_status set_backend(void) {
    return mst_set_backend(NULL, "native", .timeout_ms = TIMEOUT_MS);
}

static const struct {
    const char *name;
    mst_status (*run)(void);
} calls[] = {
    {"all_reduce", all_reduce}, {"barrier", barrier},         {"monitored", monitored}, {"work", work},
    {"queued", queued},         {"wait_all", wait_all},       {"receive", receive},     {"any", any},
    {"transmit", transmit},     {"set_backend", set_backend}, {"unawaited", unawaited},
};

static mst_status run(const char *name) {
    char c;
    if (me == LATE && read(STDIN_FILENO, &c, 1) != 1) return MST_ERR_INTERNAL;
    int64_t begin = msi_now();
    mst_status st = MST_ERR_INVALID;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, name)) st = calls[i].run();
    return report(name, st, begin);
}

int main(int argc, char **argv) {
    int64_t begin = msi_now();
    mst_status st = report("init", mst_init(.timeout_ms = TIMEOUT_MS), begin);
    data = calloc(LARGE, sizeof *data);
    if (st != MST_OK || !data) return 1;
    me = mst_get_rank(NULL);
    for (int i = 1; i < argc && st == MST_OK; i++) st = run(argv[i]);
    mst_destroy_process_group(NULL);
    free(data);
    return st != MST_OK;
}
