/*
 * open.c - joins the ranks of a group. Nothing waits for other ranks without a deadline: the first communicator is a non-blocking one,
 * and the blocking one is split off from it, which NCCL does on a thread of its own as long as the first is not blocking.
 */
#include "engine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOST_EVERY_MS = 500 };

int64_t mnc_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MNC_MS + now.tv_nsec;
}

void mnc_nap(unsigned round) {
    struct timespec pause = {0, round < 20000 ? 50 * 1000 : 1000 * 1000};
    if (round < 1000)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

/* Asked for each time: the program may have set another since. */
void mnc_use_device(const mst_backend_engine *engine) {
    int current = -1;
    if (mnc_cuda.GetDevice(&current) != MNC_CUDA_OK || current != engine->device)
        mnc_cuda.SetDevice(engine->device);
}

mnc_config mnc_make_config(bool blocking) {
    return (mnc_config){.size = sizeof(mnc_config),
                        .magic = MNC_CONFIG_MAGIC,
                        .version = MNC_CONFIG_VERSION,
                        .blocking = blocking,
                        .cga_cluster_size = MNC_UNDEFINED,
                        .min_ctas = MNC_UNDEFINED,
                        .max_ctas = MNC_UNDEFINED,
                        .split_share = MNC_UNDEFINED};
}

static mst_status choose_device(mst_backend_engine *engine) {
    const mst_backend_host *host = engine->host;
    const char *given = getenv("MUSTER_CUDA_DEVICE");
    char *end = NULL;
    long number = given && *given ? strtol(given, &end, 10) : host->local_rank % mnc_found.devices;
    if ((end && *end) || number < 0 || number >= mnc_found.devices) {
        char text[160];
        snprintf(text, sizeof text, "MUSTER_CUDA_DEVICE is \"%.40s\", and there are %d GPUs", given,
                 mnc_found.devices);
        return host->fail(host, MST_ERR_CONFIG, -1, "give a number from 0 on, or leave it out", text);
    }
    engine->device = (int)number;
    mnc_error error = mnc_cuda.SetDevice(engine->device);
    if (error != MNC_CUDA_OK) return mnc_fail_cuda(engine, error, "cudaSetDevice");
    mnc_use_device(engine);
    return MST_OK;
}

/*
 * What the program has set stays. NCCL and CUDA read these when they make their first communicator and context.
 *  - Without the first, NCCL would connect ranks inside the first call of each algorithm, where a rank that has died makes others hang.
 *  - The second is as many kernels as can wait on the device at a time: a receive must not keep a send of another stream from running.
 *  - The third lets ranks share a GPU, which NCCL refuses to ranks of one host.
 */
static void set_environment(const mst_backend_host *host) {
    const char *share = getenv("MUSTER_NCCL_SHARE_GPU");
    char name[64];
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (!share || strcmp(share, "1") != 0) return;
    snprintf(name, sizeof name, "muster-%d-%ld", host->world_rank, (long)getpid());
    setenv("NCCL_HOSTID", name, 0);
}

static mst_status share_id(mst_backend_engine *engine, mnc_id *id) {
    const mst_backend_host *host = engine->host;
    mst_bytes value = {0};
    if (host->rank == 0) {
        mnc_result result = mnc_nccl.GetUniqueId(id);
        if (result != MNC_SUCCESS) return mnc_fail_nccl(engine, NULL, result, "ncclGetUniqueId");
        return host->set(host, "id", id, sizeof *id);
    }
    mst_status st = host->get(host, "id", host->deadline, &value);
    if (st != MST_OK) return st;
    bool fits = value.len == sizeof *id;
    if (fits) memcpy(id, value.data, sizeof *id);
    free(value.data);
    return fits ? MST_OK
                : host->fail(host, MST_ERR_PROTOCOL, 0, NULL, "the id of the communicator is malformed");
}

/* A key that nobody sets: asking for it ends early if a rank of the group is lost. */
static mst_status look_for_lost(const mst_backend_host *host) {
    mst_bytes value = {0};
    mst_status st = host->get(host, "nobody sets this", mnc_now() + MNC_MS, &value);
    free(value.data);
    return st == MST_ERR_TIMEOUT || st == MST_ERR_NOT_FOUND ? MST_OK : st;
}

/* Until NCCL is through with the communicator, or the deadline, or a rank is lost. */
static mst_status await(mst_backend_engine *engine, mnc_comm comm, const char *what) {
    const mst_backend_host *host = engine->host;
    int64_t looked = mnc_now();
    bool busy = true;
    mst_status st = mnc_look(engine, comm, what, &busy);
    for (unsigned round = 0; st == MST_OK && busy; round++) {
        int64_t now = mnc_now();
        if (now > host->deadline)
            return host->fail(host, MST_ERR_TIMEOUT, -1,
                              "do all ranks have a GPU of their own, and does NCCL_SOCKET_IFNAME name an "
                              "interface that reaches the others? NCCL_DEBUG=INFO makes NCCL tell",
                              "NCCL did not connect the ranks in time");
        mnc_nap(round + 1000);
        st = mnc_look(engine, comm, what, &busy);
        if (now - looked > LOST_EVERY_MS * MNC_MS && st == MST_OK && busy) {
            st = look_for_lost(host);
            looked = mnc_now();
        }
    }
    return st;
}

static mst_status join_ranks(mst_backend_engine *engine) {
    const mst_backend_host *host = engine->host;
    mnc_config patient = mnc_make_config(false), direct = mnc_make_config(true);
    const char *what = "connecting the ranks";
    mnc_id id;
    mst_status st = share_id(engine, &id);
    if (st != MST_OK) return st;
    mnc_result result = mnc_nccl.CommInitRankConfig(&engine->patient, host->ranks, id, host->rank, &patient);
    if (result != MNC_SUCCESS && result != MNC_IN_PROGRESS)
        return mnc_fail_nccl(engine, engine->patient, result, what);
    st = await(engine, engine->patient, what);
    if (st != MST_OK) return st;
    result = mnc_nccl.CommSplit(engine->patient, 0, host->rank, &engine->direct, &direct);
    if (result != MNC_SUCCESS && result != MNC_IN_PROGRESS)
        return mnc_fail_nccl(engine, engine->patient, result, what);
    st = await(engine, engine->patient, what);
    if (st == MST_OK && !engine->direct)
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "NCCL made no second communicator");
    return st;
}

static mst_status make_device_things(mst_backend_engine *engine) {
    void *small = NULL;
    mnc_error error = mnc_cuda.StreamCreateWithFlags(&engine->main.stream, MNC_STREAM_NON_BLOCKING);
    if (error == MNC_CUDA_OK) error = mnc_cuda.EventCreateWithFlags(&engine->order, MNC_EVENT_DISABLE_TIMING);
    if (error == MNC_CUDA_OK) error = mnc_cuda.Malloc(&small, MNC_SMALL_BYTES);
    engine->small = small;
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "preparing the GPU");
}

mst_status mnc_open(const mst_backend_host *host, mst_backend_engine **made, mst_backend_traits *traits) {
    mst_backend_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "no memory for an engine");
    engine->host = host;
    engine->main = (struct mnc_lane){.engine = engine, .state = MNC_LANE_READY, .peer = -1};
    set_environment(host);
    mst_status st = choose_device(engine);
    if (st == MST_OK) st = make_device_things(engine);
    if (st == MST_OK) st = join_ranks(engine);
    if (st != MST_OK) {
        engine->failed = true;
        mnc_close(engine);
        return st;
    }
    traits->ordered = true;
    *made = engine;
    return MST_OK;
}
