/*
 * faults.c - one rank of a world in which something fails, for test_faults.py. The environment describes the
 * world.
 *
 *   faults differ WHAT [work]    rank 1 makes a call that differs from that of the other ranks
 *   faults loop OPERATION [MS]   repeats an operation until it fails; MS: timeout of each call
 *   faults absent OPERATION MS   ranks from 2 on do not call; the others wait so long
 *   faults late MS               rank 0 times out in two barriers; the others come when they get a line
 *   faults give_up OPERATION MS  rank 0 of two times out after so long, before rank 1 calls
 *   faults no_descriptors MS     rank 1 has no descriptor for the message of rank 0, and rank 0 waits so long
 *   faults give_up_first MS      as give_up, for the first message between the ranks; then a barrier
 *   faults idle_rank0 OPERATION  rank 0 makes no call; the others wait for its first message
 *   faults leave group           rank 2 destroys a group that the others are in, and stays in the world
 *   faults disconnect OPERATION  the connections of rank 1 with other ranks break, but all ranks stay alive
 *
 * Each step writes one line, as tests/multi/world.c does: name, status, milliseconds, culprit and message,
 * separated by tabs. A loop writes "loop\tBEGIN" after some iterations. Absent ranks wait for the end of
 * standard input.
 */
#include "os/wait.h"
#include "step_report.h"

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS_MAX = 8, SMALL = 8, LARGE = 300000, TIMEOUT_MS = 120000, ROUNDS = 20 };

static int me, size;
static float *in, *out; /* RANKS_MAX blocks of LARGE */

/* Two ranks: rank 0 sends, then rank 1 answers. */
static mst_status echo(size_t count, int timeout_ms) {
    mst_status st = MST_OK;
    for (int i = 0; i < 2 && st == MST_OK; i++)
        st = i == me ? mst_send(in, count, MST_F32, 1 - me, .timeout_ms = timeout_ms)
                     : mst_recv(out, count, MST_F32, 1 - me, .timeout_ms = timeout_ms);
    return st;
}

static mst_status ring(size_t count, int timeout_ms) {
    mst_work *work;
    mst_status st = mst_isend(in, count, MST_F32, (me + 1) % size, .work = &work, .timeout_ms = timeout_ms);
    if (st != MST_OK) return st;
    st = mst_recv(out, count, MST_F32, (me + size - 1) % size, .timeout_ms = timeout_ms);
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

/* All splits are zero: the ranks exchange only headers. */
static mst_status empty_splits(int timeout_ms) {
    size_t none[RANKS_MAX] = {0};
    return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = none, .out_splits = none,
                                 .timeout_ms = timeout_ms);
}

/* New memory in each call, which the other ranks must map first. */
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

/* One call of an operation in which each rank waits for the others. */
static mst_status perform(const char *what, size_t count, int ms) {
    if (!strcmp(what, "barrier")) return mst_barrier(.timeout_ms = ms);
    if (!strcmp(what, "monitored_barrier")) return mst_monitored_barrier(.timeout_ms = ms);
    if (!strcmp(what, "monitored_barrier_all"))
        return mst_monitored_barrier(.timeout_ms = ms, .wait_all_ranks = true);
    if (!strcmp(what, "all_reduce")) return mst_all_reduce(out, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "inference_all_reduce"))
        return mst_inference_all_reduce(out, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "broadcast")) return mst_broadcast(out, count, MST_F32, .root = 0, .timeout_ms = ms);
    if (!strcmp(what, "broadcast_from_absent"))
        return mst_broadcast(out, count, MST_F32, .root = 2, .timeout_ms = ms);
    if (!strcmp(what, "reduce")) return mst_reduce(out, count, MST_F32, .root = 0, .timeout_ms = ms);
    if (!strcmp(what, "all_gather_into_tensor"))
        return mst_all_gather_into_tensor(out, in, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "reduce_scatter_tensor"))
        return mst_reduce_scatter_tensor(out, in, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "gather")) return mst_gather(out, in, count, MST_F32, .root = 0, .timeout_ms = ms);
    if (!strcmp(what, "scatter")) return mst_scatter(out, in, count, MST_F32, .root = 0, .timeout_ms = ms);
    if (!strcmp(what, "all_to_all_single"))
        return mst_all_to_all_single(out, in, count, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "ring")) return ring(count, ms);
    if (!strcmp(what, "echo")) return echo(count, ms);
    if (!strcmp(what, "recv")) return mst_recv(out, count, MST_F32, 2, .timeout_ms = ms);
    if (!strcmp(what, "waited")) return waited(count, ms);
    if (!strcmp(what, "polled")) return polled(count, ms);
    if (!strcmp(what, "coalesced")) return coalesced(count, ms);
    if (!strcmp(what, "alloc")) return in_fresh_memory(count, ms);
    if (!strcmp(what, "empty_splits")) return empty_splits(ms);
    if (!strcmp(what, "bytes")) return gathered_bytes(count, ms);
    fprintf(stderr, "faults: no operation '%s'\n", what);
    exit(2);
}

/* Rank 1 makes another call than the others. work is NULL for a blocking call. */
static mst_status call_differently(const char *what, mst_work **work) {
    bool odd = me == 1;
    const size_t mine[RANKS_MAX] = {2, 2, 2, 2}, others[RANKS_MAX] = {3, 2, 2, 2};
    if (!strcmp(what, "operation") && odd)
        return mst_broadcast(out, SMALL, MST_F32, .work = work, .timeout_ms = TIMEOUT_MS);
    if (!strcmp(what, "barrier") && odd) return mst_barrier(.timeout_ms = TIMEOUT_MS);
    if (!strcmp(what, "root"))
        return mst_broadcast(out, SMALL, MST_F32, .root = odd, .work = work, .timeout_ms = TIMEOUT_MS);
    if (!strcmp(what, "splits"))
        return mst_all_to_all_single(out, in, 0, MST_F32, .in_splits = mine,
                                     .out_splits = odd ? others : mine, .work = work,
                                     .timeout_ms = TIMEOUT_MS);
    if (!strcmp(what, "counts")) {
        void *outs[RANKS_MAX];
        for (int r = 0; r < RANKS_MAX; r++) outs[r] = out + 4 * r;
        return mst_all_gather(outs, in, 0, MST_F32, .counts = odd ? others : mine, .work = work,
                              .timeout_ms = TIMEOUT_MS);
    }
    mst_dtype dtype = !strcmp(what, "dtype") && odd ? MST_I32 : MST_F32;
    mst_op op = !strcmp(what, "op") && odd ? MST_MAX : MST_SUM;
    size_t count = !strncmp(what, "large", 5) ? LARGE : SMALL;
    if ((!strcmp(what, "count") || !strcmp(what, "large_count")) && odd) count++;
    return mst_all_reduce(out, count, dtype, .op = op, .work = work, .timeout_ms = TIMEOUT_MS);
}

/* Two operations; rank 1 calls them in reverse order. */
static mst_status call_in_another_order(void) {
    for (int i = 0; i < 2; i++) {
        mst_status st = (i == 0) == (me != 1)
                            ? mst_all_reduce(out, SMALL, MST_F32, .timeout_ms = TIMEOUT_MS)
                            : mst_all_gather_into_tensor(out, in, SMALL, MST_F32, .timeout_ms = TIMEOUT_MS);
        if (st != MST_OK) return st;
    }
    return MST_OK;
}

/* Rank 1 sends more than rank 0 receives; the others do nothing. */
static mst_status send_too_much(void) {
    if (me == 1) return mst_send(in, SMALL + 1, MST_F32, 0, .timeout_ms = TIMEOUT_MS);
    return me ? MST_OK : mst_recv(out, SMALL, MST_F32, 1, .timeout_ms = TIMEOUT_MS);
}

static void differ(const char *what, bool with_work) {
    mst_work *work = NULL;
    int64_t begin = msi_now();
    mst_status st = !strcmp(what, "order")     ? call_in_another_order()
                    : !strcmp(what, "message") ? send_too_much()
                                               : call_differently(what, with_work ? &work : NULL);
    if (st == MST_OK && work) st = mst_wait(work, .timeout_ms = TIMEOUT_MS);
    /* A rank that did not wait for others fails in its next operation. */
    if (st == MST_OK && strcmp(what, "message")) st = mst_barrier(.timeout_ms = TIMEOUT_MS);
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

/* Three barriers and a sum. Rank 0 times out in the first two, which still count. */
static void late(int ms) {
    char c;
    mst_status st = MST_OK;
    int64_t begin = msi_now();
    for (int i = 0; i < 2 && me == 0; i++) report("stall", barrier_with_work(ms), begin);
    if (me != 0 && read(STDIN_FILENO, &c, 1) != 1) return;
    for (int i = me ? 0 : 2; i < 3 && st == MST_OK; i++)
        st = (i + me) % 2 ? barrier_with_work(TIMEOUT_MS) : mst_barrier(.timeout_ms = TIMEOUT_MS);
    out[0] = 1;
    if (st == MST_OK) st = mst_all_reduce(out, 1, MST_F32, .timeout_ms = TIMEOUT_MS);
    report(out[0] == (float)size ? "late" : "wrong", st, begin);
}

static mst_status use_lent(const char *what, float *memory, int ms) {
    if (!strcmp(what, "all_reduce")) return mst_all_reduce(memory, LARGE, MST_F32, .timeout_ms = ms);
    if (!strcmp(what, "broadcast")) return mst_broadcast(memory, LARGE, MST_F32, .root = 0, .timeout_ms = ms);
    return me ? mst_recv(memory, LARGE, MST_F32, 0, .timeout_ms = ms)
              : mst_send(memory, LARGE, MST_F32, 1, .timeout_ms = ms);
}

/* Rank 0 times out and reuses its tensor. Rank 1 calls afterwards and must not receive the new content. */
static void give_up(const char *what, int ms) {
    const char *cma = getenv("MUSTER_CMA");
    void *memory = in; /* which the other rank reads by CMA; else memory that it maps */
    mst_status st = cma ? MST_OK : mst_alloc(LARGE * sizeof(float), &memory);
    for (int i = 0; i < 7 && st == MST_OK; i++) st = use_lent(what, memory, TIMEOUT_MS);
    if (st == MST_OK && me) msi_wait_pause(&(struct msi_wait){INT64_MAX, NULL}, 3 * ms, "");
    int64_t begin = msi_now();
    if (st == MST_OK) st = use_lent(what, memory, me ? TIMEOUT_MS : ms);
    if (me == 0) memset(memory, 0xEE, LARGE * sizeof(float));
    report("give_up", st, begin);
    if (me == 0) msi_wait_pause(&(struct msi_wait){INT64_MAX, NULL}, 4 * ms, "");
    if (memory != in) mst_free(memory);
}

static int lowest_free(void) {
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

/* The message is not lost. */
static void no_descriptors(int ms) {
    struct rlimit usual, none;
    int64_t begin = msi_now();
    if (me == 0) {
        report("no_descriptors", mst_send(in, SMALL, MST_F32, 1, .timeout_ms = ms), begin);
        return;
    }
    getrlimit(RLIMIT_NOFILE, &usual);
    none = (struct rlimit){(rlim_t)lowest_free(), usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    report("no_descriptors", mst_recv(out, SMALL, MST_F32, 0, .timeout_ms = ms), begin);
    setrlimit(RLIMIT_NOFILE, &usual);
    report("again", mst_recv(out, SMALL, MST_F32, 0, .timeout_ms = ms), begin);
}

/*
 * The ranks have no link for messages yet. The memory that rank 0 offers for it is freed when rank 1 comes.
 */
static void give_up_first(int ms) {
    int64_t begin = msi_now();
    mst_status st = MST_OK;
    if (me)
        msi_wait_pause(&(struct msi_wait){INT64_MAX, NULL}, 3 * ms, "");
    else
        st = mst_send(in, (size_t)RANKS_MAX * LARGE, MST_F32, 1, .timeout_ms = ms);
    if (me) st = mst_recv(out, (size_t)RANKS_MAX * LARGE, MST_F32, 0, .timeout_ms = TIMEOUT_MS);
    report("give_up", st, begin);
    report("after", mst_barrier(.timeout_ms = TIMEOUT_MS), begin);
}

/*
 * No rank has a link for messages with rank 0 yet: only the store, or the end of the store, shows its death.
 */
static void idle_rank0(void) {
    char c;
    int64_t begin = msi_now();
    if (me)
        report("idle_rank0", mst_recv(out, SMALL, MST_F32, 0, .timeout_ms = TIMEOUT_MS), begin);
    else
        while (read(STDIN_FILENO, &c, 1) > 0) continue;
}

static void leave(void) {
    int ranks[] = {0, 1, 2};
    mst_group *group;
    mst_status st = mst_new_group(ranks, 3, &group, .name = "left");
    if (st == MST_OK) st = mst_barrier(.group = group, .timeout_ms = TIMEOUT_MS);
    int64_t begin = msi_now();
    if (me == 2)
        mst_destroy_process_group(group);
    else if (st == MST_OK)
        st = mst_all_reduce(out, SMALL, MST_F32, .group = group, .timeout_ms = TIMEOUT_MS);
    report("leave", st, begin);
    report("after", mst_barrier(.timeout_ms = TIMEOUT_MS), begin);
}

/* Shuts down the TCP connections that were opened after the world. */
static void disconnect(int first) {
    for (int fd = first; fd < first + 100; fd++) {
        int domain = 0;
        socklen_t n = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain != AF_UNIX)
            shutdown(fd, SHUT_RDWR); /* no effect on listeners, which must stay open */
    }
}

static void cut(const char *what, int first) {
    char c;
    int64_t begin = msi_now();
    mst_status st = perform(what, SMALL, TIMEOUT_MS); /* opens all connections */
    if (st == MST_OK) st = mst_barrier(.timeout_ms = TIMEOUT_MS);
    if (me == 1) disconnect(first);
    for (int round = 0; round < ROUNDS && st == MST_OK; round++) st = perform(what, SMALL, TIMEOUT_MS);
    report("disconnect", st, begin);
    while (read(STDIN_FILENO, &c, 1) > 0) continue;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    in = calloc((size_t)RANKS_MAX * LARGE, sizeof *in);
    out = calloc((size_t)RANKS_MAX * LARGE, sizeof *out);
    int64_t begin = msi_now();
    mst_status st = in && out ? mst_init(.timeout_ms = TIMEOUT_MS) : MST_ERR_MEMORY;
    int first = lowest_free(); /* later descriptors have higher numbers */
    if (st == MST_OK) {
        me = mst_get_rank(NULL);
        size = mst_get_world_size(NULL);
        st = mst_all_reduce(out, SMALL, MST_F32, .timeout_ms = TIMEOUT_MS);
    }
    report("init", st, begin);
    if (st == MST_OK && !strcmp(argv[1], "differ")) differ(argv[2], argc > 3);
    if (st == MST_OK && !strcmp(argv[1], "loop")) loop(argv[2], argc > 3 ? atoi(argv[3]) : TIMEOUT_MS);
    if (st == MST_OK && !strcmp(argv[1], "absent")) absent(argv[2], argc > 3 ? atoi(argv[3]) : 500);
    if (st == MST_OK && !strcmp(argv[1], "late")) late(atoi(argv[2]));
    if (st == MST_OK && !strcmp(argv[1], "give_up")) give_up(argv[2], atoi(argv[3]));
    if (st == MST_OK && !strcmp(argv[1], "no_descriptors")) no_descriptors(atoi(argv[2]));
    if (st == MST_OK && !strcmp(argv[1], "give_up_first")) give_up_first(atoi(argv[2]));
    if (st == MST_OK && !strcmp(argv[1], "idle_rank0")) idle_rank0();
    if (st == MST_OK && !strcmp(argv[1], "leave")) leave();
    if (st == MST_OK && !strcmp(argv[1], "disconnect")) cut(argv[2], first);
    if (mst_is_initialized()) mst_destroy_process_group(NULL);
    free(in);
    free(out);
    return st != MST_OK;
}
