/*
 * worker.c - the program of muster's own ranks in "muster bench": the loop of all backends with muster's
 * calls. Its arguments are the backend, the memory of the buffers (plain, shared or device), the number of
 * simulated hosts, and those of loop.h.
 */
#include "bench/device.h"
#include "bench/ops/ops.h"
#include "commands.h"
#include "loop.h"

#include <muster/muster.h>

enum { OWN_ARGS = 5 };

static mst_dtype dtype;
static loop_copy *corrupts; /* not NULL in tests of the benchmark: this rank corrupts its results */

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
        status = mst_send(c->in, c->count, dtype, peer);
        return status == MST_OK ? mst_recv(c->out, c->count, dtype, peer) : status;
    }
    status = mst_recv(c->out, c->count, dtype, peer);
    return status == MST_OK ? mst_send(c->in, c->count, dtype, peer) : status;
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
        return mst_broadcast(c->out, c->count, dtype, .root = c->root, .in = c->in_place ? NULL : c->in);
    case LOOP_REDUCE:
        return mst_reduce(c->out, c->count, dtype, .in = c->in, .root = c->root);
    case LOOP_GATHER:
        return mst_gather(c->out, c->in, c->block, dtype, .root = c->root);
    case LOOP_SCATTER:
        return mst_scatter(c->out, c->in, c->block, dtype, .root = c->root);
    case LOOP_ALL_TO_ALL:
        return mst_all_to_all_single(c->out, c->in, c->block, dtype);
    case LOOP_SEND_RECV:
        return exchange(c);
    default:
        return mst_barrier();
    }
}

static int call_and_corrupt(const struct loop_call *c) {
    int status = call(c);
    unsigned char byte;
    if (!corrupts || c->op == LOOP_BARRIER) return status;
    corrupts(&byte, c->out, 1);
    byte ^= 1;
    corrupts(c->out, &byte, 1);
    return status;
}

static int barrier(void) {
    return mst_barrier();
}

static int max_over_ranks(double *seconds) {
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

/* Appends the error to the results. An operation may be unsupported; a missing backend is a failure. */
static void append_error(const struct loop_plan *plan, int status, bool in_world) {
    char line[BENCH_WHY_MAX];
    if (status < 0) return; /* the loop has appended its error */
    const mst_error_info *error = mst_last_error();
    snprintf(line, sizeof line, "%s %s%s%s",
             in_world && status == MST_ERR_UNSUPPORTED ? "unsupported" : "failed", error->message,
             error->remedy[0] ? "; " : "", error->remedy);
    loop_append(plan, line);
}

/* Ranks with different values of this setting count as on different hosts. Neighbours share a host. */
static void simulate_hosts(int hosts) {
    mst_discovery found;
    char host[32];
    if (hosts < 2 || mst_discover(&found) != MST_OK) return;
    snprintf(host, sizeof host, "bench-%d", found.rank * hosts / found.world_size);
    setenv("MUSTER_FORCE_HOST", host, 1);
}

static mst_status choose_memory(struct loop_backend *backend, const char *kind) {
    bool shared = strcmp(kind, "shared") == 0;
    backend->alloc = shared ? alloc_shared : alloc_plain;
    backend->release = shared ? mst_free : free;
    backend->copy = memcpy;
    if (strcmp(kind, "device") != 0) return MST_OK;
    backend->alloc = device_alloc;
    backend->release = device_free;
    backend->copy = device_copy;
    return device_open(mst_get_local_rank(NULL));
}

static int measure(struct loop_backend *backend, const struct loop_plan *plan, const char *memory) {
    const char *corrupting_rank = getenv("BENCH_TEST_CORRUPT"); /* set by tests */
    backend->rank = mst_get_rank(NULL);
    backend->size = mst_get_world_size(NULL);
    if (choose_memory(backend, memory) != MST_OK) {
        append_error(plan, MST_ERR_SYSTEM, true);
        return LOOP_MISTAKE;
    }
    if (plan->op == LOOP_BARRIER && backend->copy == device_copy) {
        loop_append(plan, "unsupported a barrier has no buffers; native runs it");
        return LOOP_UNSUPPORTED;
    }
    corrupts = corrupting_rank && atoi(corrupting_rank) == backend->rank ? backend->copy : NULL;
    dtype = dtype_of(plan->dtype->name);
    return loop_run(backend, plan);
}

int ops_worker(int argc, char **argv) {
    struct loop_backend backend = {
        .call = call_and_corrupt, .barrier = barrier, .max_over_ranks = max_over_ranks};
    struct loop_plan plan;
    if (argc != OWN_ARGS + LOOP_ARGS || loop_read_plan(argv + OWN_ARGS, &plan) != 0) return EXIT_USAGE;
    simulate_hosts(atoi(argv[4]));
    int status = mst_init(.backend = argv[2]);
    bool in_world = status == MST_OK;
    if (in_world) status = measure(&backend, &plan, argv[3]);
    if (status != MST_OK) append_error(&plan, status, in_world);
    mst_destroy_process_group(NULL);
    return status == MST_OK || status == LOOP_UNSUPPORTED ? EXIT_DONE : EXIT_FAILED;
}
