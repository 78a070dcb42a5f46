/*
 * faults.c - one rank of a world in which something goes wrong: the puppet of test_faults.py. It finds
 * its world in the environment.
 *
 *   faults differ WHAT [work]    ranks call different things; rank 1 is the one that differs
 *   faults loop OPERATION [MS]   the same operation again and again, until it fails, for which each has so long
 *   faults absent OPERATION MS   rank 2 and above do not come; the others wait so long
 *   faults late MS               rank 0 gives up a barrier twice; the others come when they get a line
 *   faults give_up OPERATION MS  rank 0 of two gives up after so long, before rank 1 comes
 *   faults scarce MS             rank 1 has no descriptor for what rank 0 sends; rank 0 waits so long for it to have one
 *   faults give_up_first MS      the same for the first message, of which rank 1 knows nothing, and then a barrier
 *   faults orphan OPERATION      rank 0 does nothing but live; the others wait for its first message
 *   faults leave group           rank 2 destroys a group that the others are in, and stays in the world
 *   faults cut OPERATION         the connections that rank 1 has with other ranks break, but everybody lives on
 *
 * Each step writes one line, as tests/multi/world.c does: its name, status, milliseconds, culprit and message, with tabs
 * between. A loop writes "loop\tBEGIN" once it is well under way. Ranks that do not come wait for their input to end.
 */
#include "os/clock.h"
#include "os/wait.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS_MAX = 8, SMALL = 8, LARGE = 300000, PATIENCE_MS = 120000, ROUNDS = 20 };

static int me, size;
static float *in, *out; /* RANKS_MAX shares of LARGE */

static void report(const char *step, mst_status status, int64_t begin) {
    bool failed = status != MST_OK;
    dprintf(STDOUT_FILENO, "%s\t%s\t%lld\t%d\t%s\n", step, mst_status_name(status),
            (long long)((msi_now() - begin) / 1000000), failed ? mst_last_error()->culprit : -1,
            failed ? mst_error() : "");
}

/* Of two ranks: there and back. */
static mst_status echo(size_t count, int timeout_ms) {
    mst_status st = MST_OK;
    for (int turn = 0; turn < 2 && st == MST_OK; turn++)
        st = turn == me ? mst_send(in, count, MST_F32, .dst = 1 - me, .timeout_ms = timeout_ms)
                        : mst_recv(out, count, MST_F32, .src = 1 - me, .timeout_ms = timeout_ms);
    return st;
}

static mst_status ring(size_t count, int timeout_ms) {
    mst_work *work;
    mst_status st =
        mst_isend(in, count, MST_F32, .dst = (me + 1) % size, .work = &work, .timeout_ms = timeout_ms);
    if (st != MST_OK) return st;
    st = mst_recv(out, count, MST_F32, .src = (me + size - 1) % size, .timeout_ms = timeout_ms);
    if (st == MST_OK) return mst_wait(work);
    mst_work_free(work);
    return st;
}

static mst_status waited(size_t count, int timeout_ms) {
    mst_work *work;
    mst_status st = mst_all_reduce(out, count, MST_F32, .work = &work, .timeout_ms = timeout_ms);
    return st == MST_OK ? mst_wait(work) : st;
}

static mst_status polled(size_t count, int timeout_ms) {
    mst_work *work;
    bool done = false;
    mst_status st = mst_all_reduce(out, count, MST_F32, .work = &work, .timeout_ms = timeout_ms);
    while (st == MST_OK && !done) st = mst_test(work, &done);
    return st == MST_OK ? mst_wait(work) : st;
}

static mst_status coalesced(size_t count, int timeout_ms) {
    void *bufs[] = {out, out + count};
    size_t counts[] = {count, count};
    return mst_all_reduce_coalesced(bufs, counts, 2, MST_F32, .timeout_ms = timeout_ms);
}

static mst_status gathered_bytes(size_t count, int timeout_ms) {
    mst_bytes bytes[RANKS_MAX] = {{0}};
    mst_status st = mst_all_gather_bytes(bytes, in, count, .timeout_ms = timeout_ms);
    for (int r = 0; r < size && st == MST_OK; r++) mst_bytes_free(&bytes[r]);
    return st;
}

/* Memory that the others have to map first, each time anew. */
static mst_status in_fresh_memory(size_t count, int timeout_ms) {
    void *sums, *all;
    mst_status st = mst_alloc(count * sizeof(float), &sums);
    if (st != MST_OK) return st;
    st = mst_all_reduce(sums, count, MST_F32, .timeout_ms = timeout_ms);
    if (st == MST_OK) st = mst_alloc((size_t)size * count * sizeof(float), &all);
    if (st == MST_OK) {
        st = mst_all_gather_into_tensor(all, sums, count, MST_F32, .timeout_ms = timeout_ms);
        mst_free(all);
    }
    mst_free(sums);
    return st;
}

/* One call; every operation that makes each rank wait for the others sooner or later. */
static mst_status perform(const char *what, size_t count, int ms) {
    if (!strcmp(what, "barrier")) return mst_barrier(.timeout_ms = ms);
    if (!strcmp(what, "monitored_barrier")) return mst_monitored_barrier(.timeout_ms = ms);
    if (!strcmp(what, "monitored_barrier_all"))
        return mst_monitored_barrier(.timeout_ms = ms, .wait_all_ranks = true);
    if (!strcmp(what, "all_reduce")) return mst_all_reduce(out, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "inference_all_reduce"))
        return mst_inference_all_reduce(out, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "broadcast")) return mst_broadcast(out, count, MST_F32, .src = 0, .timeout_ms = ms);
    if (!strcmp(what, "broadcast_from_absent"))
        return mst_broadcast(out, count, MST_F32, .src = 2, .timeout_ms = ms);
    if (!strcmp(what, "reduce")) return mst_reduce(out, count, MST_F32, .dst = 0, .timeout_ms = ms);
    if (!strcmp(what, "all_gather_into_tensor"))
        return mst_all_gather_into_tensor(out, in, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "reduce_scatter_tensor"))
        return mst_reduce_scatter_tensor(out, in, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "gather")) return mst_gather(out, in, count, MST_F32, .dst = 0, .timeout_ms = ms);
    if (!strcmp(what, "scatter")) return mst_scatter(out, in, count, MST_F32, .src = 0, .timeout_ms = ms);
    if (!strcmp(what, "all_to_all_single"))
        return mst_all_to_all_single(out, in, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "ring")) return ring(count, ms);
    if (!strcmp(what, "echo")) return echo(count, ms);
    if (!strcmp(what, "recv")) return mst_recv(out, count, MST_F32, .src = 2, .timeout_ms = ms);
    if (!strcmp(what, "waited")) return waited(count, ms);
    if (!strcmp(what, "polled")) return polled(count, ms);
    if (!strcmp(what, "coalesced")) return coalesced(count, ms);
    if (!strcmp(what, "alloc")) return in_fresh_memory(count, ms);
    if (!strcmp(what, "bytes")) return gathered_bytes(count, ms);
    fprintf(stderr, "faults: no operation '%s'\n", what);
    exit(2);
}

/* Each rank its own call; odd is rank 1. work is NULL for a blocking call. */
static mst_status call_differently(const char *what, mst_work **work) {
    bool odd = me == 1;
    const size_t mine[RANKS_MAX] = {2, 2, 2, 2}, others[RANKS_MAX] = {3, 2, 2, 2};
    if (!strcmp(what, "operation") && odd)
        return mst_broadcast(out, SMALL, MST_F32, .work = work, .timeout_ms = PATIENCE_MS);
    if (!strcmp(what, "barrier") && odd) return mst_barrier(.timeout_ms = PATIENCE_MS);
    if (!strcmp(what, "root"))
        return mst_broadcast(out, SMALL, MST_F32, .src = odd, .work = work, .timeout_ms = PATIENCE_MS);
    if (!strcmp(what, "splits"))
        return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = mine,
                                     .out_splits = odd ? others : mine, .work = work,
                                     .timeout_ms = PATIENCE_MS);
    if (!strcmp(what, "counts")) {
        void *outs[RANKS_MAX];
        for (int r = 0; r < RANKS_MAX; r++) outs[r] = out + 4 * r;
        return mst_all_gather(outs, in, 0, MST_F32, .counts = odd ? others : mine, .work = work,
                              .timeout_ms = PATIENCE_MS);
    }
    mst_dtype dtype = !strcmp(what, "dtype") && odd ? MST_I32 : MST_F32;
    mst_op op = !strcmp(what, "op") && odd ? MST_MAX : MST_SUM;
    size_t count = !strncmp(what, "large", 5) ? LARGE : SMALL;
    if ((!strcmp(what, "count") || !strcmp(what, "large_count")) && odd) count++;
    return mst_all_reduce(out, count, dtype, .op = op, .work = work, .timeout_ms = PATIENCE_MS);
}

/* Two operations, which rank 1 calls the other way round. */
static mst_status call_in_another_order(void) {
    for (int i = 0; i < 2; i++) {
        mst_status st = (i == 0) == (me != 1)
                            ? mst_all_reduce(out, SMALL, MST_F32, .timeout_ms = PATIENCE_MS)
                            : mst_all_gather_into_tensor(out, in, SMALL, MST_F32, .timeout_ms = PATIENCE_MS);
        if (st != MST_OK) return st;
    }
    return MST_OK;
}

/* Rank 1 sends more than rank 0 receives; the others only watch. */
static mst_status send_too_much(void) {
    if (me == 1) return mst_send(in, SMALL + 1, MST_F32, .dst = 0, .timeout_ms = PATIENCE_MS);
    return me ? MST_OK : mst_recv(out, SMALL, MST_F32, .src = 1, .timeout_ms = PATIENCE_MS);
}

static void differ(const char *what, bool with_work) {
    mst_work *work = NULL;
    int64_t begin = msi_now();
    mst_status st = !strcmp(what, "order")     ? call_in_another_order()
                    : !strcmp(what, "message") ? send_too_much()
                                               : call_differently(what, with_work ? &work : NULL);
    if (st == MST_OK && work) st = mst_wait(work, .timeout_ms = PATIENCE_MS);
    /* A rank that had nothing to wait for learns of it in its next operation. */
    if (st == MST_OK && strcmp(what, "message")) st = mst_barrier(.timeout_ms = PATIENCE_MS);
    report("differ", st, begin);
}

static void loop(const char *what, int ms) {
    mst_status st = MST_OK;
    for (long round = 0; st == MST_OK; round++) {
        if (round == ROUNDS) dprintf(STDOUT_FILENO, "loop\tBEGIN\n");
        st = perform(what, round % 2 ? SMALL : LARGE, ms);
    }
    report("loop", st, msi_now());
}

static void absent(const char *what, int ms) {
    char c;
    if (me < 2) {
        int64_t begin = msi_now();
        report("absent", perform(what, SMALL, ms), begin);
    }
    while (read(STDIN_FILENO, &c, 1) > 0) continue;
}

static mst_status barrier_with_work(int ms) {
    mst_work *work;
    mst_status st = mst_barrier(.work = &work, .timeout_ms = ms);
    return st == MST_OK ? mst_wait(work) : st;
}

/* Three barriers and a sum. Rank 0 gives up the first two, which count all the same. */
static void late(int ms) {
    char c;
    mst_status st = MST_OK;
    int64_t begin = msi_now();
    for (int i = 0; i < 2 && me == 0; i++) report("stall", barrier_with_work(ms), begin);
    if (me != 0 && read(STDIN_FILENO, &c, 1) != 1) return;
    for (int i = me ? 0 : 2; i < 3 && st == MST_OK; i++)
        st = (i + me) % 2 ? barrier_with_work(PATIENCE_MS) : mst_barrier(.timeout_ms = PATIENCE_MS);
    out[0] = 1;
    if (st == MST_OK) st = mst_all_reduce(out, 1, MST_F32, .timeout_ms = PATIENCE_MS);
    report(out[0] == (float)size ? "late" : "wrong", st, begin);
}

static mst_status use_lent(const char *what, float *memory, int ms) {
    if (!strcmp(what, "all_reduce")) return mst_all_reduce(memory, LARGE, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "broadcast")) return mst_broadcast(memory, LARGE, MST_F32, .src = 0, .timeout_ms = ms);
    return me ? mst_recv(memory, LARGE, MST_F32, .src = 0, .timeout_ms = ms)
              : mst_send(memory, LARGE, MST_F32, .dst = 1, .timeout_ms = ms);
}

/* Rank 0 gives up and uses its tensor for something else; rank 1 comes when that is done and must not get it. */
static void give_up(const char *what, int ms) {
    void *memory;
    mst_status st = mst_alloc(LARGE * sizeof(float), &memory);
    for (int i = 0; i < 7 && st == MST_OK; i++) st = use_lent(what, memory, PATIENCE_MS);
    if (st == MST_OK && me) msi_wait_pause(&(struct msi_wait){INT64_MAX, NULL}, 3 * ms, "");
    int64_t begin = msi_now();
    if (st == MST_OK) st = use_lent(what, memory, me ? PATIENCE_MS : ms);
    if (me == 0) memset(memory, 0xEE, LARGE * sizeof(float));
    report("give_up", st, begin);
    if (me == 0) msi_wait_pause(&(struct msi_wait){INT64_MAX, NULL}, 4 * ms, "");
    mst_free(memory);
}

static int lowest_free(void) {
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

/* Nothing of the message is lost meanwhile. */
static void scarce(int ms) {
    struct rlimit usual, none;
    int64_t begin = msi_now();
    if (me == 0) {
        report("scarce", mst_send(in, SMALL, MST_F32, .dst = 1, .timeout_ms = ms), begin);
        return;
    }
    getrlimit(RLIMIT_NOFILE, &usual);
    none = (struct rlimit){(rlim_t)lowest_free(), usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    report("scarce", mst_recv(out, SMALL, MST_F32, .src = 0, .timeout_ms = ms), begin);
    setrlimit(RLIMIT_NOFILE, &usual);
    report("again", mst_recv(out, SMALL, MST_F32, .src = 0, .timeout_ms = ms), begin);
}

/* The two ranks have no link for messages yet; the memory that rank 0 offers for one is gone when rank 1 comes. */
static void give_up_first(int ms) {
    int64_t begin = msi_now();
    mst_status st = MST_OK;
    if (me)
        msi_wait_pause(&(struct msi_wait){INT64_MAX, NULL}, 3 * ms, "");
    else
        st = mst_send(in, (size_t)RANKS_MAX * LARGE, MST_F32, .dst = 1, .timeout_ms = ms);
    if (me) st = mst_recv(out, (size_t)RANKS_MAX * LARGE, MST_F32, .src = 0, .timeout_ms = PATIENCE_MS);
    report("give_up", st, begin);
    report("after", mst_barrier(.timeout_ms = PATIENCE_MS), begin);
}

/* Nobody has a connection for messages with rank 0 yet: only the store can tell that it died, or its own end. */
static void orphan(void) {
    char c;
    int64_t begin = msi_now();
    if (me)
        report("orphan", mst_recv(out, SMALL, MST_F32, .src = 0, .timeout_ms = PATIENCE_MS), begin);
    else
        while (read(STDIN_FILENO, &c, 1) > 0) continue;
}

static void leave(void) {
    int ranks[] = {0, 1, 2};
    mst_group *group;
    mst_status st = mst_new_group(ranks, 3, &group, .name = "left");
    if (st == MST_OK) st = mst_barrier(.group = group, .timeout_ms = PATIENCE_MS);
    int64_t begin = msi_now();
    if (me == 2)
        mst_destroy_process_group(group);
    else if (st == MST_OK)
        st = mst_all_reduce(out, SMALL, MST_F32, .group = group, .timeout_ms = PATIENCE_MS);
    report("leave", st, begin);
    report("after", mst_barrier(.timeout_ms = PATIENCE_MS), begin);
}

/* Ends the connections over tcp that were not there yet when the world was opened. */
static void cut_connections(int first) {
    for (int fd = first; fd < first + 100; fd++) {
        int domain = 0;
        socklen_t n = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain != AF_UNIX)
            shutdown(fd, SHUT_RDWR); /* no effect on what listens, which must live on */
    }
}

static void cut(const char *what, int first) {
    char c;
    int64_t begin = msi_now();
    mst_status st = perform(what, SMALL, PATIENCE_MS); /* so that all connections are there */
    if (st == MST_OK) st = mst_barrier(.timeout_ms = PATIENCE_MS);
    if (me == 1) cut_connections(first);
    for (int round = 0; round < ROUNDS && st == MST_OK; round++) st = perform(what, SMALL, PATIENCE_MS);
    report("cut", st, begin);
    while (read(STDIN_FILENO, &c, 1) > 0) continue;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    in = calloc((size_t)RANKS_MAX * LARGE, sizeof *in);
    out = calloc((size_t)RANKS_MAX * LARGE, sizeof *out);
    int64_t begin = msi_now();
    mst_status st = in && out ? mst_init(.timeout_ms = PATIENCE_MS) : MST_ERR_MEMORY;
    int first = lowest_free(); /* descriptors from here on come later */
    if (st == MST_OK) {
        me = mst_get_rank(NULL);
        size = mst_get_world_size(NULL);
        st = mst_all_reduce(out, SMALL, MST_F32, .timeout_ms = PATIENCE_MS);
    }
    report("init", st, begin);
    if (st == MST_OK && !strcmp(argv[1], "differ")) differ(argv[2], argc > 3);
    if (st == MST_OK && !strcmp(argv[1], "loop")) loop(argv[2], argc > 3 ? atoi(argv[3]) : PATIENCE_MS);
    if (st == MST_OK && !strcmp(argv[1], "absent")) absent(argv[2], argc > 3 ? atoi(argv[3]) : 500);
    if (st == MST_OK && !strcmp(argv[1], "late")) late(atoi(argv[2]));
    if (st == MST_OK && !strcmp(argv[1], "give_up")) give_up(argv[2], atoi(argv[3]));
    if (st == MST_OK && !strcmp(argv[1], "scarce")) scarce(atoi(argv[2]));
    if (st == MST_OK && !strcmp(argv[1], "give_up_first")) give_up_first(atoi(argv[2]));
    if (st == MST_OK && !strcmp(argv[1], "orphan")) orphan();
    if (st == MST_OK && !strcmp(argv[1], "leave")) leave();
    if (st == MST_OK && !strcmp(argv[1], "cut")) cut(argv[2], first);
    if (mst_is_initialized()) mst_destroy_process_group(NULL);
    free(in);
    free(out);
    return st != MST_OK;
}
