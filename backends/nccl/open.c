/*
 * open.c - connects the ranks of a group. Every wait for other ranks has a deadline: the first communicator
 * is nonblocking, and the blocking one is split from it, which NCCL does on its own thread because the parent
 * is nonblocking.
 */
#include "engine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHECK_LOST_MS = 500 };

int64_t mnc_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MNC_MS + now.tv_nsec;
}

void mnc_backoff(unsigned round) {
    struct timespec pause = {0, round < 20000 ? 50 * 1000 : 1000 * 1000};
    if (round < 1000)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

/* Checked on every call: the program may have changed the device. */
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
    bool told = host->size > offsetof(mst_backend_host, buffer) && host->buffer;
    long number = told ? mnc_device_of(host->buffer) : -1;
    if (number < 0) number = host->local_rank % mnc_found.devices;
    if (given && *given) number = strtol(given, &end, 10);
    if ((end && *end) || number < 0 || number >= mnc_found.devices) {
        char text[160];
        snprintf(text, sizeof text, "MUSTER_CUDA_DEVICE is \"%.40s\", and there are %d GPUs", given,
                 mnc_found.devices);
        return host->fail(host, MST_ERR_CONFIG, -1, "set it to the number of a GPU, from 0 on, or unset it",
                          text);
    }
    engine->device = (int)number;
    mnc_error error = mnc_cuda.SetDevice(engine->device);
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "cudaSetDevice");
}

/*
 * Sets variables that the program has not set. NCCL and CUDA read them with the first communicator and
 * context.
 *  - NCCL_RUNTIME_CONNECT=0: otherwise NCCL connects ranks in the first call of each algorithm, which hangs
 *    if a rank has died.
 *  - CUDA_DEVICE_MAX_CONNECTIONS=32: a waiting receive must not block a send on another stream.
 *  - NCCL_HOSTID: lets ranks of one host share a GPU, which NCCL otherwise rejects.
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

mst_status mnc_publish_id(mst_backend_engine *engine, const char *key, mnc_id *id) {
    mnc_result result = mnc_nccl.GetUniqueId(id);
    if (result != MNC_SUCCESS) return mnc_fail_nccl(engine, NULL, result, "ncclGetUniqueId");
    return engine->host->set(engine->host, key, id, sizeof *id);
}

mst_status mnc_fetch_id(const mst_backend_host *host, int from, const char *key, int64_t deadline,
                        mnc_id *id) {
    mst_bytes value = {0};
    mst_status st = host->get(host, key, deadline, &value);
    if (st != MST_OK) return st;
    bool fits = value.len == sizeof *id;
    if (fits) memcpy(id, value.data, sizeof *id);
    free(value.data);
    return fits ? MST_OK : host->fail(host, MST_ERR_PROTOCOL, from, NULL, "an NCCL id is malformed");
}

/* Waits for a key that is never set: the wait fails if a rank of the group is lost. */
static mst_status check_lost(const mst_backend_host *host) {
    mst_bytes value = {0};
    mst_status st = host->get(host, "never set", mnc_now() + MNC_MS, &value);
    free(value.data);
    return st == MST_ERR_TIMEOUT || st == MST_ERR_NOT_FOUND ? MST_OK : st;
}

/* Waits until NCCL has finished with the communicator, the deadline, or the loss of a rank. */
static mst_status await(mst_backend_engine *engine, mnc_comm comm, const char *what) {
    const mst_backend_host *host = engine->host;
    int64_t checked = mnc_now();
    bool busy = true;
    mst_status st = mnc_check_comm(engine, comm, what, &busy);
    for (unsigned round = 0; st == MST_OK && busy; round++) {
        int64_t now = mnc_now();
        if (now > host->deadline)
            return host->fail(
                host, MST_ERR_TIMEOUT, -1,
                "give each rank its own GPU, set NCCL_SOCKET_IFNAME to an interface that reaches the "
                "other hosts, or set NCCL_DEBUG=INFO for details",
                "NCCL did not connect the ranks before the deadline");
        mnc_backoff(round + 1000);
        st = mnc_check_comm(engine, comm, what, &busy);
        if (now - checked > CHECK_LOST_MS * MNC_MS && st == MST_OK && busy) {
            st = check_lost(host);
            checked = mnc_now();
        }
    }
    return st;
}

static mst_status join_ranks(mst_backend_engine *engine) {
    const mst_backend_host *host = engine->host;
    mnc_config nonblocking = mnc_make_config(false), blocking = mnc_make_config(true);
    const char *what = "connecting the ranks";
    mnc_id id;
    mst_status st = host->rank == 0 ? mnc_publish_id(engine, "id", &id)
                                    : mnc_fetch_id(host, 0, "id", host->deadline, &id);
    if (st != MST_OK) return st;
    mnc_result result =
        mnc_nccl.CommInitRankConfig(&engine->nonblocking, host->ranks, id, host->rank, &nonblocking);
    if (!mnc_begun(result)) return mnc_fail_nccl(engine, engine->nonblocking, result, what);
    st = await(engine, engine->nonblocking, what);
    if (st != MST_OK) return st;
    result = mnc_nccl.CommSplit(engine->nonblocking, 0, host->rank, &engine->blocking, &blocking);
    if (!mnc_begun(result)) return mnc_fail_nccl(engine, engine->nonblocking, result, what);
    st = await(engine, engine->nonblocking, what);
    if (st == MST_OK && !engine->blocking)
        return host->fail(host, MST_ERR_SYSTEM, -1, NULL, "ncclCommSplit returned no communicator");
    return st;
}

static mst_status create_device_resources(mst_backend_engine *engine) {
    void *small = NULL;
    mnc_error error = mnc_cuda.StreamCreateWithFlags(&engine->main.stream, MNC_STREAM_NON_BLOCKING);
    if (error == MNC_CUDA_OK) error = mnc_cuda.EventCreateWithFlags(&engine->order, MNC_EVENT_DISABLE_TIMING);
    if (error == MNC_CUDA_OK) error = mnc_cuda.Malloc(&small, MNC_SMALL_BYTES);
    engine->small = small;
    return error == MNC_CUDA_OK ? MST_OK : mnc_fail_cuda(engine, error, "preparing the GPU");
}

mst_status mnc_open(const mst_backend_host *host, mst_backend_engine **made, mst_backend_traits *traits) {
    mst_backend_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return host->fail(host, MST_ERR_MEMORY, -1, NULL, "out of memory for an engine");
    engine->host = host;
    engine->main = (struct mnc_channel){.engine = engine, .state = MNC_CHANNEL_READY, .peer = -1};
    set_environment(host);
    mst_status st = choose_device(engine);
    if (st == MST_OK) st = create_device_resources(engine);
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
