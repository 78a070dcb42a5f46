/*
 * bench_coll_worker.c - what muster's own ranks run in "muster bench coll": the loop that all sides share, with
 * muster's calls. The words are alloc or plain (whose memory the buffers are), host or tcp, and those of coll_loop.h.
 */
#include "bench_coll.h"
#include "coll_loop.h"
#include "commands.h"

#include <muster/muster.h>

static int exchange(const struct loop_call *c) {
    int peer = c->rank ^ 1;
    mst_status status;

    if (peer >= c->size) return MST_OK;
    if ((c->rank & 1) == 0) {
        status = mst_send(c->in, c->count, MST_F32, .dst = peer);
        return status == MST_OK ? mst_recv(c->out, c->count, MST_F32, .src = peer) : status;
    }
    status = mst_recv(c->out, c->count, MST_F32, .src = peer);
    return status == MST_OK ? mst_send(c->in, c->count, MST_F32, .dst = peer) : status;
}

static int call(const struct loop_call *c) {
    switch (c->op) {
    case LOOP_ALL_REDUCE:
        return mst_all_reduce(c->out, c->count, MST_F32, .in = c->in);
    case LOOP_ALL_GATHER:
        return mst_all_gather_into_tensor(c->out, c->in, c->block, MST_F32);
    case LOOP_REDUCE_SCATTER:
        return mst_reduce_scatter_tensor(c->out, c->in, c->block, MST_F32);
    case LOOP_BROADCAST:
        return mst_broadcast(c->out, c->count, MST_F32, .src = c->root);
    case LOOP_ALL_TO_ALL:
        return mst_all_to_all_single(c->out, c->in, c->block, MST_F32);
    case LOOP_SEND_RECV:
        return exchange(c);
    default:
        return mst_barrier();
    }
}

static int barrier(void) {
    return mst_barrier();
}

static int longest(double *seconds) {
    return mst_all_reduce(seconds, 1, MST_F64, .op = MST_MAX);
}

static void *alloc_shared(size_t bytes) {
    void *memory;
    return mst_alloc(bytes, &memory) == MST_OK ? memory : NULL;
}

static void *alloc_plain(size_t bytes) {
    void *memory;
    return posix_memalign(&memory, 4096, bytes) == 0 ? memory : NULL;
}

static void tell(const struct loop_plan *plan, int status) {
    char line[BENCH_WHY_MAX];

    if (status < 0) return; /* the loop has told */
    snprintf(line, sizeof line, "%s %s", status == MST_ERR_UNSUPPORTED ? "unsupported" : "failed",
             mst_error());
    loop_say(plan, line);
}

/* Ranks with different values of this setting count as ranks of different hosts. */
static void part_ranks(void) {
    const char *rank = getenv("RANK");
    setenv("MUSTER_FORCE_HOST", rank != NULL ? rank : "0", 1);
}

int coll_worker(int argc, char **argv) {
    struct loop_side side = {.call = call, .barrier = barrier, .longest = longest};
    struct loop_plan plan;

    if (argc != 10 || loop_read_plan(argv + 4, &plan) != 0) return EXIT_USAGE;
    bool shared = strcmp(argv[2], "alloc") == 0;
    side.alloc = shared ? alloc_shared : alloc_plain;
    side.release = shared ? mst_free : free;
    if (strcmp(argv[3], "tcp") == 0) part_ranks();
    int status = mst_init();
    if (status == MST_OK) {
        side.rank = mst_get_rank(NULL);
        side.size = mst_get_world_size(NULL);
        status = loop_run(&side, &plan);
    }
    if (status != MST_OK) tell(&plan, status);
    mst_destroy_process_group(NULL);
    return status == MST_OK ? EXIT_DONE : EXIT_FAILED;
}
