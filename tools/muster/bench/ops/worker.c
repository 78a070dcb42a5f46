/*
 * worker.c - what muster's own ranks run in "muster bench": the loop that all sides share, with muster's calls. The
 * words are the backend, plain, shared or device (whose memory the buffers are), on how many hosts they shall think that they are,
 * and those of loop.h.
 */
#include "bench/device.h"
#include "bench/ops/ops.h"
#include "commands.h"
#include "loop.h"

#include <muster/muster.h>

enum { OWN_WORDS = 5 };

static mst_dtype dtype;
static loop_copy *spoils; /* not NULL, for tests of the benchmark: this rank damages what it gets */

static mst_dtype dtype_of(const char *name) {
    int d = 1;
    while (d < MST_DTYPE_COUNT && strcmp(mst_dtype_name((mst_dtype)d), name) != 0) d++;
    return (mst_dtype)d;
}

static int exchange(const struct loop_call *c) {
    int peer = c->rank ^ 1;
    mst_status status;

    if (peer >= c->size) return MST_OK;
    if ((c->rank & 1) == 0) {
        status = mst_send(c->in, c->count, dtype, .dst = peer);
        return status == MST_OK ? mst_recv(c->out, c->count, dtype, .src = peer) : status;
    }
    status = mst_recv(c->out, c->count, dtype, .src = peer);
    return status == MST_OK ? mst_send(c->in, c->count, dtype, .dst = peer) : status;
}

static int call(const struct loop_call *c) {
    switch (c->op) {
    case LOOP_ALL_REDUCE:
        return mst_all_reduce(c->out, c->count, dtype, .in = c->in);
    case LOOP_ALL_GATHER:
        return mst_all_gather_into_tensor(c->out, c->in, c->block, dtype);
    case LOOP_REDUCE_SCATTER:
        return mst_reduce_scatter_tensor(c->out, c->in, c->block, dtype);
    case LOOP_BROADCAST:
        return mst_broadcast(c->out, c->count, dtype, .src = c->root);
    case LOOP_REDUCE:
        return mst_reduce(c->out, c->count, dtype, .in = c->in, .dst = c->root);
    case LOOP_GATHER:
        return mst_gather(c->out, c->in, c->block, dtype, .dst = c->root);
    case LOOP_SCATTER:
        return mst_scatter(c->out, c->in, c->block, dtype, .src = c->root);
    case LOOP_ALL_TO_ALL:
        return mst_all_to_all_single(c->out, c->in, c->block, dtype);
    case LOOP_SEND_RECV:
        return exchange(c);
    default:
        return mst_barrier();
    }
}

static int call_and_spoil(const struct loop_call *c) {
    int status = call(c);
    unsigned char byte;

    if (spoils == NULL || c->op == LOOP_BARRIER) return status;
    spoils(&byte, c->out, 1);
    byte ^= 1;
    spoils(c->out, &byte, 1);
    return status;
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

/* An operation may not be supported; a backend that is not there has failed. */
static void tell(const struct loop_plan *plan, int status, bool in_world) {
    const char *place = strstr(mst_error(), "): "), *what = place != NULL ? place + 3 : mst_error();
    char line[BENCH_WHY_MAX];

    if (status < 0) return; /* the loop has told */
    snprintf(line, sizeof line, "%s %s", in_world && status == MST_ERR_UNSUPPORTED ? "unsupported" : "failed",
             what);
    loop_say(plan, line);
}

/* Ranks with different values of this setting count as ranks of different hosts; neighbours share one. */
static void part_ranks(int hosts) {
    mst_discovery found;
    char host[32];

    if (hosts < 2 || mst_discover(&found) != MST_OK) return;
    snprintf(host, sizeof host, "bench-%d", found.rank * hosts / found.world_size);
    setenv("MUSTER_FORCE_HOST", host, 1);
}

/* Whose memory the buffers are; false if there is none of that kind, which is said. */
static bool choose_memory(struct loop_side *side, const struct loop_plan *plan, const char *kind) {
    char line[BENCH_WHY_MAX] = "failed ";
    size_t len = strlen(line);

    side->alloc = strcmp(kind, "shared") == 0 ? alloc_shared : alloc_plain;
    side->release = strcmp(kind, "shared") == 0 ? mst_free : free;
    side->copy = memcpy;
    if (strcmp(kind, "device") != 0) return true;
    side->alloc = device_alloc;
    side->release = device_free;
    side->copy = device_copy;
    if (device_open(mst_get_local_rank(NULL), line + len, sizeof line - len)) return true;
    loop_say(plan, line);
    return false;
}

static int measure(struct loop_side *side, const struct loop_plan *plan, const char *memory) {
    const char *spoiler = getenv("BENCH_TEST_SPOILS"); /* the rank that does, in tests */

    side->rank = mst_get_rank(NULL);
    side->size = mst_get_world_size(NULL);
    if (!choose_memory(side, plan, memory)) return LOOP_MISTAKE;
    if (plan->op == LOOP_BARRIER && side->copy == device_copy) {
        loop_say(plan, "unsupported a barrier has no buffers, and is native's");
        return LOOP_UNSUPPORTED;
    }
    spoils = spoiler != NULL && atoi(spoiler) == side->rank ? side->copy : NULL;
    dtype = dtype_of(plan->dtype->name);
    return loop_run(side, plan);
}

int ops_worker(int argc, char **argv) {
    struct loop_side side = {.call = call_and_spoil, .barrier = barrier, .longest = longest};
    struct loop_plan plan;

    if (argc != OWN_WORDS + LOOP_WORDS || loop_read_plan(argv + OWN_WORDS, &plan) != 0) return EXIT_USAGE;
    part_ranks(atoi(argv[4]));
    int status = mst_init(.backend = argv[2]);
    bool in_world = status == MST_OK;
    if (in_world) status = measure(&side, &plan, argv[3]);
    if (status != MST_OK) tell(&plan, status, in_world);
    mst_destroy_process_group(NULL);
    return status == MST_OK || status == LOOP_UNSUPPORTED ? EXIT_DONE : EXIT_FAILED;
}
