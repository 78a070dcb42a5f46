/*
 * nccl_world.c - a world whose device memory is NCCL's, when something is wrong; the suite shows what it does
 * when nothing is.
 *
 *   lost     the last rank dies: the others' all_reduce says so, and who
 *   late     the last rank comes too late: the others' all_reduce says so at its deadline
 *   host     an all_reduce of memory of the host says that NCCL cannot use it, or stages it (MUSTER_STAGE)
 *   stream   calls on a stream, and works on one
 *   leave    a group of two ends before what it has on a stream
 *   profile  calls on a stream, messages too, for the table at the end
 *   device   the program makes another device its current one between calls
 *   first    the first message of a pair starts after what was on the default stream when it was called
 *   buffer   the buffer of the first call is on another device than the local rank tells
 */
#include <muster/muster.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000 };

static int (*count_devices)(int *), (*get_device)(int *), (*set_device)(int);
static int (*device_malloc)(void **, size_t);
static int (*device_memcpy)(void *, const void *, size_t, int);
static int (*memcpy_on_stream)(void *, const void *, size_t, int, void *);
static int (*stream_create)(void **, unsigned);
static int (*stream_wait)(void *);
static int me, n, devices, own; /* own: this rank's device */

static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "nccl_world: FAILED on rank %d: not so: %s: %s\n", me, what, mst_error());
    exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

static void find(const char *name, void *at) {
    const char *given = getenv("MUSTER_CUDART_LIBRARY");
    void *library = dlopen(given ? given : "libcudart.so", RTLD_NOW);
    void *address = library ? dlsym(library, name) : NULL;
    REQUIRE(address);
    memcpy(at, &address, sizeof address);
}

static void *device_numbers(int value) {
    int32_t numbers[COUNT];
    void *memory = NULL;
    for (int i = 0; i < COUNT; i++) numbers[i] = value + i;
    REQUIRE(!device_malloc(&memory, sizeof numbers));
    REQUIRE(!device_memcpy(memory, numbers, sizeof numbers, 4));
    return memory;
}

static void check(const void *memory, int value) {
    int32_t numbers[COUNT];
    REQUIRE(!device_memcpy(numbers, memory, sizeof numbers, 4));
    for (int i = 0; i < COUNT; i++) REQUIRE(numbers[i] == value + i * n);
}

static int sum_of_ranks(void) {
    return n * (n - 1) / 2;
}

static void say_failure(mst_status st) {
    const mst_error_info *info = mst_last_error();
    printf("rank %d: %s, culprit %d: %s\n", me, mst_status_name(st), info->culprit, mst_error());
}

static int lost(void) {
    void *memory = device_numbers(me);
    REQUIRE(mst_all_reduce(memory, COUNT, MST_I32) == MST_OK);
    if (me == n - 1) raise(SIGKILL);
    mst_status st = mst_all_reduce(memory, COUNT, MST_I32, .timeout_ms = 30000);
    say_failure(st);
    return st == MST_ERR_PEER_LOST && mst_last_error()->culprit == n - 1 ? 0 : 1;
}

/* It comes only once the others have given up, which it learns through the store: a second world of all is
 * native's. */
static int late(void) {
    void *memory = device_numbers(me);
    REQUIRE(mst_all_reduce(memory, COUNT, MST_I32) == MST_OK);
    mst_status st = MST_ERR_STALLED;
    if (me != n - 1) {
        st = mst_all_reduce(memory, COUNT, MST_I32, .timeout_ms = 700);
        say_failure(st);
    }
    REQUIRE(mst_monitored_barrier(.timeout_ms = 30000) == MST_OK); /* of the host: the other engine is well */
    return st == MST_ERR_STALLED ? 0 : 1;
}

static int host(void) {
    int32_t numbers[4] = {1, 2, 3, 4};
    mst_status st = mst_all_reduce(numbers, 4, MST_I32);
    if (st != MST_OK) say_failure(st);
    if (st == MST_OK) printf("rank %d: staged: %d\n", me, numbers[3] == 4 * n);
    return 0;
}

/* What follows on the stream sees the result, also before a wait for the work. */
static void work_on_stream(void *on, mst_dtype dtype) {
    void *memory = device_numbers(0), *copy = device_numbers(-1);
    mst_work *work = NULL;
    size_t bytes = COUNT * sizeof(int32_t), count = bytes / mst_dtype_size(dtype);
    REQUIRE(mst_all_reduce(memory, count, dtype, .stream = on, .work = &work) == MST_OK);
    REQUIRE(!memcpy_on_stream(copy, memory, bytes, 4, on));
    REQUIRE(!stream_wait(on));
    check(copy, 0);
    REQUIRE(mst_wait(work) == MST_OK);
}

static int stream(void) {
    void *on = NULL, *memory[3];
    mst_work *work = NULL;
    REQUIRE(!stream_create(&on, 1));
    for (int i = 0; i < 3; i++) memory[i] = device_numbers(me + i);
    for (int i = 0; i < 2; i++) REQUIRE(mst_all_reduce(memory[i], COUNT, MST_I32, .stream = on) == MST_OK);
    REQUIRE(mst_all_reduce(memory[2], COUNT, MST_I32, .stream = on, .work = &work) == MST_OK);
    REQUIRE(mst_wait(work) == MST_OK);
    check(memory[2], sum_of_ranks() + 2 * n); /* the work is over when it was waited for, */
    REQUIRE(!stream_wait(on));
    for (int i = 0; i < 2; i++) check(memory[i], sum_of_ranks() + i * n); /* the others when the stream is */
    REQUIRE(mst_barrier() == MST_OK);
    work_on_stream(on, MST_I32);
    work_on_stream(on, MST_I16); /* composed */
    return 0;
}

/* A group ends before what it has on a stream, in which the other rank takes no part. */
static int leave(void) {
    int ranks[] = {0, 1};
    void *on = NULL, *memory = device_numbers(me);
    mst_group *both = NULL;
    REQUIRE(!stream_create(&on, 1));
    REQUIRE(mst_new_group(ranks, 2, &both) == MST_OK);
    REQUIRE(mst_all_reduce(memory, COUNT, MST_I32, .group = both) == MST_OK);
    if (me == 0)
        REQUIRE(mst_all_reduce(memory, COUNT, MST_I32, .group = both, .stream = on, .log_name = "left") ==
                MST_OK);
    if (me == 0) REQUIRE(mst_destroy_process_group(both) == MST_OK);
    REQUIRE(mst_barrier() == MST_OK);
    return 0;
}

static int profile(void) {
    void *on = NULL, *memory = device_numbers(me);
    REQUIRE(!stream_create(&on, 1));
    for (int i = 0; i < 3; i++) REQUIRE(mst_all_reduce(memory, COUNT, MST_I32, .stream = on) == MST_OK);
    if (!getenv("FAKE_CUDA_CAPTURES"))
        REQUIRE(mst_all_reduce(memory, COUNT, MST_I32, .log_name = "waited for") == MST_OK);
    if (me == 0) REQUIRE(mst_send(memory, COUNT, MST_I32, 1, .stream = on) == MST_OK);
    if (me == 1) REQUIRE(mst_recv(memory, COUNT, MST_I32, 0, .stream = on) == MST_OK);
    REQUIRE(!stream_wait(on));
    return 0;
}

/* All kinds of calls, each with the wrong device before; it is the group's afterwards. */
static int device(void) {
    void *memory = device_numbers(me), *on = NULL;
    mst_work *work = NULL;
    int other = (own + 1) % devices, now = -1;
    REQUIRE(!stream_create(&on, 1));
    REQUIRE(mst_all_reduce(memory, COUNT, MST_I32) == MST_OK);
    REQUIRE(!set_device(other) && mst_all_reduce(memory, COUNT, MST_I32) == MST_OK);
    REQUIRE(!get_device(&now) && now == own);
    REQUIRE(!set_device(other) && mst_all_reduce(memory, COUNT, MST_I32, .stream = on) == MST_OK);
    REQUIRE(!get_device(&now) && now == own);
    REQUIRE(!set_device(other) && mst_all_reduce(memory, COUNT, MST_I32, .work = &work) == MST_OK);
    REQUIRE(!set_device(other) && mst_wait(work) == MST_OK);
    REQUIRE(!set_device(other) && mst_all_reduce(memory, COUNT, MST_I16) == MST_OK); /* composed: copies */
    REQUIRE(!set_device(other) && mst_barrier() == MST_OK && !stream_wait(on));
    return 0;
}

static void hold(void *argument) {
    atomic_bool *free = argument;
    while (!atomic_load(free)) usleep(1000);
}

/* What rank 1 does first is on the default stream of rank 0 later, and waits for the message. */
static int first(void) {
    static atomic_bool free;
    void *memory = device_numbers(me);
    void (*enqueue)(void *, void (*)(void *), void *);
    mst_work *work = NULL;
    find("fake_enqueue", &enqueue);
    REQUIRE(mst_all_reduce(memory, COUNT, MST_I32) == MST_OK); /* opens the engine */
    if (me == 1) {
        REQUIRE(mst_barrier() == MST_OK);
        REQUIRE(mst_send(memory, COUNT, MST_I32, 0) == MST_OK);
        return 0;
    }
    REQUIRE(mst_irecv(memory, COUNT, MST_I32, 1, .work = &work) == MST_OK);
    enqueue(NULL, hold, &free);
    REQUIRE(mst_barrier() == MST_OK);
    REQUIRE(mst_wait(work, .timeout_ms = 10000) == MST_OK);
    atomic_store(&free, true);
    return 0;
}

static int buffer(void) {
    int other = (own + 1) % devices, now = -1;
    REQUIRE(!set_device(other));
    void *memory = device_numbers(me);
    REQUIRE(!set_device(own) && mst_all_reduce(memory, COUNT, MST_I32) == MST_OK);
    REQUIRE(!get_device(&now) && now == other);
    check(memory, sum_of_ranks());
    return 0;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*body)(void);
    } modes[] = {{"lost", lost},     {"late", late},     {"host", host},
                 {"stream", stream}, {"leave", leave},   {"profile", profile},
                 {"device", device}, {"buffer", buffer}, {"first", first}};
    find("cudaGetDeviceCount", &count_devices);
    find("cudaGetDevice", &get_device);
    find("cudaSetDevice", &set_device);
    find("cudaMalloc", &device_malloc);
    find("cudaMemcpy", &device_memcpy);
    find("cudaMemcpyAsync", &memcpy_on_stream);
    find("cudaStreamCreateWithFlags", &stream_create);
    find("cudaStreamSynchronize", &stream_wait);
    REQUIRE(mst_init(.timeout_ms = 30000) == MST_OK);
    me = mst_get_rank(NULL);
    n = mst_get_world_size(NULL);
    REQUIRE(!count_devices(&devices));
    own = mst_get_local_rank(NULL) % devices;
    REQUIRE(!set_device(own)); /* what the program makes shall be where the group's is */
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (argc != 2 || strcmp(argv[1], modes[i].name) != 0) continue;
        int code = modes[i].body();
        fflush(stdout);
        mst_destroy_process_group(NULL);
        return code;
    }
    return 2;
}
