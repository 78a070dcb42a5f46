/*
 * nccl_direct.c - what muster adds to NCCL: the same all_reduce by ncclAllReduce and by
 * mst_all_reduce(.stream =), in one process and on one stream, alternating.
 *
 *   MUSTER_BACKEND=cpu:native,cuda:nccl muster run -n 1 build/bin/bench/nccl_direct [ROUNDS [CALLS]]
 *
 * For each size and in each round, both enqueue CALLS calls (fewer if they are large) and wait for them.
 * "call" is the time until a call returns, "whole" the time until the GPU has finished all calls, divided by
 * their number. Both are medians of the rounds in microseconds. Ranks may share a GPU with
 * MUSTER_NCCL_SHARE_GPU=1.
 */
#include "backends/nccl/abi.h"

#include <muster/muster.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 1000, LEAST = 8, MOST = 64 << 20 };

#define FIELD(result, name, parameters) result(*name) parameters;
static struct { MNC_NCCL_CALLS(FIELD, mnc_id, mnc_config) } nccl;
static struct {
    MNC_CUDA_CALLS(FIELD)
    FIELD(mnc_error, StreamSynchronize, (mnc_stream))
    FIELD(mnc_error, Memset, (void *, int, size_t))
} cuda;

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "nccl_direct: failed: %s: %s\n", what, mst_error());
    exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

static void *open_library(const char *setting, const char *const *names) {
    const char *given = getenv(setting);
    void *library = given && *given ? dlopen(given, RTLD_NOW) : NULL;
    for (; !library && *names; names++) library = dlopen(*names, RTLD_NOW);
    if (!library) {
        printf("nccl_direct: skipped: %s\n", dlerror());
        exit(77);
    }
    return library;
}

static void find(void *library, const char *name, void *at) {
    void *address = dlsym(library, name);
    REQUIRE(address);
    memcpy(at, &address, sizeof address);
}

static void load(void) {
    static const char *const nccls[] = {"libnccl.so.2", NULL};
    static const char *const cudas[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so", NULL};
    void *library = open_library("MUSTER_NCCL_LIBRARY", nccls);
#define FIND(result, name, parameters) find(library, "nccl" #name, &nccl.name);
    MNC_NCCL_CALLS(FIND, mnc_id, mnc_config)
#undef FIND
    library = open_library("MUSTER_CUDART_LIBRARY", cudas);
#define FIND(result, name, parameters) find(library, "cuda" #name, &cuda.name);
    MNC_CUDA_CALLS(FIND)
    FIND(mnc_error, StreamSynchronize, (mnc_stream))
    FIND(mnc_error, Memset, (void *, int, size_t))
#undef FIND
}

static mnc_comm direct;
static mnc_stream stream;
static void *in, *out;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void call_direct(size_t count) {
    REQUIRE(nccl.AllReduce(in, out, count, MNC_FLOAT32, MNC_SUM, direct, stream) == MNC_SUCCESS);
}

static void call_muster(size_t count) {
    REQUIRE(mst_all_reduce(out, count, MST_F32, .in = in, .stream = stream) == MST_OK);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

struct times {
    double call[ROUNDS_MAX], whole[ROUNDS_MAX];
};

/* Few calls, because a full queue of the GPU would block them. */
static void one_round(struct times *times, int round, int calls, size_t count, void (*call)(size_t)) {
    double begin = now();
    for (int i = 0; i < calls; i++) call(count);
    double returned = now();
    REQUIRE(cuda.StreamSynchronize(stream) == MNC_CUDA_OK);
    times->call[round] = (returned - begin) / calls;
    times->whole[round] = (now() - begin) / calls;
}

static void one_size(size_t bytes, int rounds, int calls) {
    static struct times times[2];
    void (*const variants[])(size_t) = {call_direct, call_muster};
    size_t count = bytes / 4;
    if (bytes >= 1 << 20 && calls > 10) calls = 10;
    for (int i = 0; i < 6; i++) variants[i % 2](count);
    REQUIRE(cuda.StreamSynchronize(stream) == MNC_CUDA_OK);
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < 2; k++) {
            int which = (k + round) % 2; /* the first one alternates */
            REQUIRE(mst_barrier() == MST_OK);
            one_round(&times[which], round, calls, count, variants[which]);
        }
    double call[2], whole[2];
    for (int k = 0; k < 2; k++) {
        call[k] = median(times[k].call, rounds);
        whole[k] = median(times[k].whole, rounds);
    }
    mst_printf("%10zu  %9.2f %9.2f %+8.2f   %10.2f %10.2f %+8.2f %+7.1f %%\n", bytes, call[0], call[1],
               call[1] - call[0], whole[0], whole[1], whole[1] - whole[0],
               100 * (whole[1] - whole[0]) / whole[0]);
}

/* Creates a blocking communicator, as most programs do. */
static void open_direct(void) {
    mnc_config config = {.size = sizeof config,
                         .magic = MNC_CONFIG_MAGIC,
                         .version = MNC_CONFIG_VERSION,
                         .blocking = 1,
                         .cga_cluster_size = MNC_UNDEFINED,
                         .min_ctas = MNC_UNDEFINED,
                         .max_ctas = MNC_UNDEFINED,
                         .split_share = MNC_UNDEFINED};
    mnc_id id;
    int rank = mst_get_rank(NULL), n = mst_get_world_size(NULL);
    if (rank == 0) REQUIRE(nccl.GetUniqueId(&id) == MNC_SUCCESS);
    REQUIRE(mst_broadcast(&id, sizeof id, MST_U8) == MST_OK);
    REQUIRE(nccl.CommInitRankConfig(&direct, n, id, rank, &config) == MNC_SUCCESS);
}

static void check_equal(void) {
    float a[4] = {0}, b[4] = {0};
    call_direct(4);
    REQUIRE(cuda.MemcpyAsync(a, out, sizeof a, MNC_COPY_DEFAULT, stream) == MNC_CUDA_OK);
    call_muster(4);
    REQUIRE(cuda.MemcpyAsync(b, out, sizeof b, MNC_COPY_DEFAULT, stream) == MNC_CUDA_OK);
    REQUIRE(cuda.StreamSynchronize(stream) == MNC_CUDA_OK);
    REQUIRE(!memcmp(a, b, sizeof a));
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 100, calls = argc > 2 ? atoi(argv[2]) : 50, devices = 0;
    if (rounds < 1 || rounds > ROUNDS_MAX || calls < 1) return 2;
    load();
    REQUIRE(mst_init() == MST_OK);
    REQUIRE(cuda.GetDeviceCount(&devices) == MNC_CUDA_OK && devices > 0);
    REQUIRE(cuda.SetDevice(mst_get_local_rank(NULL) % devices) == MNC_CUDA_OK);
    REQUIRE(cuda.StreamCreateWithFlags(&stream, MNC_STREAM_NON_BLOCKING) == MNC_CUDA_OK);
    REQUIRE(cuda.Malloc(&in, MOST) == MNC_CUDA_OK && cuda.Malloc(&out, MOST) == MNC_CUDA_OK);
    REQUIRE(cuda.Memset(in, 0, MOST) == MNC_CUDA_OK);
    call_muster(1); /* first, because the module configures NCCL for ranks that share a GPU */
    REQUIRE(cuda.StreamSynchronize(stream) == MNC_CUDA_OK);
    open_direct();
    check_equal();
    mst_printf("nccl_direct: %d ranks, backend %s, %d rounds of %d calls (10 from 1 MiB on), us\n",
               mst_get_world_size(NULL), mst_get_backend(NULL), rounds, calls);
    mst_printf("%10s  %9s %9s %8s   %10s %10s %8s %9s\n", "bytes", "call:nccl", "muster", "more",
               "whole:nccl", "muster", "more", "");
    for (size_t bytes = LEAST; bytes <= MOST; bytes *= 2) one_size(bytes, rounds, calls);
    nccl.CommDestroy(direct);
    REQUIRE(mst_destroy_process_group(NULL) == MST_OK);
    return 0;
}
