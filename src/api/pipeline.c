/* pipeline.c - the public calls on pipelines: check the arguments. */
#include "pipeline/pipeline.h"
#include "api/api.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/options.h"
#include "pipeline/schedule/partition.h"

#include <muster/output.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The process-wide state of FlexLLMGen's interface. One thread opens and ends it, like the default world. */
static struct {
    mst_group *world; /* of the pairs; NULL: none yet */
    struct msi_pairs pairs;
    const char *device;
} ring;

static bool ring_is_open(void) {
    return ring.world && msi_handle_alive(ring.world);
}

static mst_status check_device(const char *device, const char **known) {
    static const char *const devices[] = {"cpu", "gpu"};
    for (int i = 0; device && i < 2; i++)
        if (!strcmp(device, devices[i])) {
            *known = devices[i];
            return MST_OK;
        }
    return msi_fail(MST_ERR_INVALID, "give \"cpu\" or \"gpu\"", "comm_device is '%s'",
                    device ? device : "NULL");
}

/* Fails if the default world differs from the arguments. */
static mst_status check_world(const mst_group *world, int world_size, int rank, const char *device) {
    static const char remedy[] = "end it first, with mst_destroy_process_group(NULL)";
    if (world->size != world_size || world->rank != rank)
        return msi_fail(MST_ERR_STATE, remedy,
                        "a world is already open, in which this is rank %d of %d, not rank %d of %d",
                        world->rank, world->size, rank, world_size);
    if (*device == 'g' && !world->backends.of[MST_MEMORY_CUDA])
        return msi_fail(MST_ERR_STATE, remedy,
                        "a world is already open, without a backend for comm_device 'gpu'");
    if (ring_is_open() && ring.device != device)
        return msi_fail(MST_ERR_STATE, remedy, "the world was opened for comm_device '%s', not '%s'",
                        ring.device, device);
    return MST_OK;
}

/* Keeps the environment's choice, unless this function made it for an earlier world. */
static void choose_gpu(int local_rank) {
    static char chosen[16];
    const char *given = getenv("MUSTER_CUDA_DEVICE");
    if (given && strcmp(given, chosen) != 0) return;
    snprintf(chosen, sizeof chosen, "%d", local_rank);
    setenv("MUSTER_CUDA_DEVICE", chosen, 1);
}

/* mst_init treats a world size of 0 as not given. */
static mst_status check_rank(int world_size, int rank) {
    if (world_size > 0 && rank >= 0 && rank < world_size) return MST_OK;
    return msi_fail(MST_ERR_INVALID, "ranks go from 0 to the world size less 1",
                    "rank %d is not in a world of %d", rank, world_size);
}

static mst_status join(const char *head_ip, int port, int world_size, int rank, int local_rank,
                       const char *device) {
    char method[320];
    bool v6 = strchr(head_ip, ':') && head_ip[0] != '[';
    int n = snprintf(method, sizeof method, v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", head_ip, port);
    if (n < 0 || (size_t)n >= sizeof method)
        return msi_fail(MST_ERR_INVALID, "give an address or the name of a host",
                        "head_ip is too long: it has %zu characters", strlen(head_ip));
    if (*device == 'g') choose_gpu(local_rank);
    mst_init_options options = {.size = sizeof options,
                                .init_method = method,
                                .world_size = world_size,
                                .rank = rank,
                                .comm_device = device};
    return mst_init_with(&options);
}

/* Opens and joins both pairs of this rank, or none. */
static mst_status open_ring(const mst_group *world, const char *device, struct msi_pairs *made) {
    mst_memory memory = *device == 'g' ? MST_MEMORY_CUDA : MST_MEMORY_HOST;
    struct msi_wait wait = {msi_deadline(world->timeout_ms), NULL};
    struct msi_comm *pred, *succ;
    /* Programs do not join these groups again, so they do not follow the world's backends. */
    static const struct msi_pairs_kind kind = {.label = "ring"};
    mst_status st = msi_pairs_open(world, &kind, made);
    if (st != MST_OK || !made->pred) return st;
    st = msi_group_comm_of(msi_handle_memory(made->pred), memory, &pred);
    if (st == MST_OK) st = msi_group_comm_of(msi_handle_memory(made->succ), memory, &succ);
    if (st == MST_OK) st = msi_pairs_join(world->rank == 0, pred, succ, &wait);
    return st == MST_OK ? MST_OK : msi_pairs_undo(made, st);
}

mst_status mst_initialize_distributed(const char *head_ip, int port, int world_size, int rank, int local_rank,
                                      const char *comm_device) {
    static const char name[] = "mst_initialize_distributed";
    const char *device = NULL;
    msi_call_begin(name, NULL, rank);
    mst_status st =
        head_ip ? check_device(comm_device, &device) : msi_fail(MST_ERR_INVALID, NULL, "head_ip is NULL");
    mst_group *world = st == MST_OK && mst_is_initialized() ? msi_call_group(name, NULL, NULL) : NULL;
    if (st == MST_OK) st = check_rank(world_size, rank);
    if (world && st == MST_OK) {
        st = check_world(world, world_size, rank, device);
        if (st == MST_OK && ring_is_open()) return MST_OK;
    } else if (st == MST_OK) {
        printf("joining the distributed world at %s:%d as rank %d of %d, local rank %d\n", head_ip, port,
               rank, world_size, local_rank);
        fflush(stdout);
        st = join(head_ip, port, world_size, rank, local_rank, device);
        world = st == MST_OK ? msi_call_group(name, NULL, NULL) : NULL;
    }
    if (st == MST_OK) st = world ? open_ring(world, device, &ring.pairs) : MST_ERR_STATE;
    if (st != MST_OK) return st;
    if (rank == 0)
        st = mst_restore_output(); /* it may have been silent as another rank of an earlier world */
    if (st == MST_OK) st = mst_suppress_output(rank);
    if (st != MST_OK) return msi_pairs_undo(&ring.pairs, st);
    ring.world = world->handle;
    ring.device = device;
    printf("joined the distributed world\n");
    fflush(stdout);
    return MST_OK;
}

static mst_group *pair(mst_group *group) {
    return group && msi_handle_alive(group) ? group : NULL;
}

mst_group *mst_get_pipeline_parallel_pred_group(void) {
    return pair(ring.pairs.pred);
}

mst_group *mst_get_pipeline_parallel_succ_group(void) {
    return pair(ring.pairs.succ);
}

const char *mst_get_comm_device(void) {
    return ring_is_open() ? ring.device : NULL;
}

mst_status mst_partition_layers_with(int layers, int parts, int *starts, const mst_partition_options *given) {
    mst_partition_options o;
    mst_status st = msi_options_begin("mst_partition_layers", &o, sizeof o, given);
    if (st == MST_OK && !starts) st = msi_fail(MST_ERR_INVALID, NULL, "starts is NULL");
    if (st != MST_OK) return st;
    if (!o.costs && o.first == 0 && o.last == 0) return msi_partition_even(layers, parts, starts);
    struct msi_layer_costs costs = {o.costs, o.first, o.last};
    return msi_partition_weighted(&costs, layers, parts, starts);
}

/* The pipeline of a handle, or NULL with the failure recorded. Names the call. */
static mst_pipeline *known(const char *name, const mst_site *site, const mst_pipeline *handle) {
    mst_pipeline *p = handle && msi_handle_alive(handle) ? msi_handle_memory(handle) : NULL;
    msi_call_begin(name, site, p ? p->rank : msi_call_get_rank());
    if (!handle)
        msi_fail(MST_ERR_INVALID, "create one with mst_pipeline_new", "pipeline is NULL");
    else if (!p)
        msi_fail(MST_ERR_STATE, "use a pipeline after it was created and before it is freed",
                 "the pipeline was freed, or the handle is invalid");
    return p;
}

/* Fails in a callback of a work, which must not wait, and in a forked child. */
static mst_status check_use(const mst_pipeline *p) {
    if (msi_comm_in_callback()) return msi_comm_refuse_waiting();
    return msi_handle_alive(p->whole) ? msi_group_check_use(msi_handle_memory(p->whole)) : MST_OK;
}

mst_status mst_pipeline_new_with(mst_pipeline **pipeline, const mst_pipeline_options *given) {
    mst_pipeline_options o;
    mst_status st = msi_options_begin("mst_pipeline_new", &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_timeout(o.timeout_ms);
    if (st == MST_OK && !pipeline) st = msi_fail(MST_ERR_INVALID, NULL, "pipeline is NULL");
    if (st == MST_OK && msi_comm_in_callback()) st = msi_comm_refuse_waiting();
    if (st != MST_OK) return st;
    mst_group *stages = msi_call_group("mst_pipeline_new", &o.site, o.group);
    if (!stages) return MST_ERR_STATE;
    if (stages->rank < 0)
        return msi_fail(MST_ERR_NOT_MEMBER, "only ranks of the group can be stages",
                        "rank %d is not in the group", stages->world->rank);
    mst_pipeline *made;
    uint64_t entered = msi_call_enter(stages->size, 0, 0);
    st = msi_call_leave(entered, msi_pipeline_new(stages, &o, &made));
    if (st == MST_OK) *pipeline = made->handle;
    return st;
}

mst_status mst_pipeline_free(mst_pipeline *pipeline) {
    mst_pipeline *p = pipeline ? known("mst_pipeline_free", NULL, pipeline) : NULL;
    if (!p) return pipeline ? MST_ERR_STATE : MST_OK;
    mst_status st = check_use(p);
    if (st != MST_OK) return st;
    if (p->running)
        return msi_fail(MST_ERR_STATE, "free it after the run has returned", "the pipeline is running");
    msi_pipeline_free(p);
    return MST_OK;
}

mst_status mst_pipeline_run_with(mst_pipeline *pipeline, const mst_run_options *given) {
    static const char name[] = "mst_pipeline_run";
    mst_run_options options;
    mst_status st = msi_options_begin(name, &options, sizeof options, given);
    if (st != MST_OK) return st;
    mst_pipeline *p = known(name, &options.site, pipeline);
    if (!p) return mst_last_error()->status;
    st = check_use(p);
    if (st != MST_OK) return st;
    if (!msi_handle_alive(p->whole))
        return msi_fail(MST_ERR_STATE, "free it, and create another one in a new world",
                        "the world of the pipeline has ended");
    if (p->failed)
        return msi_fail(MST_ERR_STATE, "free it, and create another one", "the pipeline has failed before");
    if (p->running)
        return msi_fail(MST_ERR_STATE, "let one run end before the next", "the pipeline is already running");
    p->run = options;
    p->running = true;
    st = msi_pipeline_run(p);
    p->running = false;
    if (st == MST_OK) return MST_OK;
    struct msi_saved_error error;
    msi_error_save(&error, st);
    msi_call_begin(name, &options.site, p->rank);
    return msi_pipeline_end(p, msi_error_restore(&error));
}

int mst_pipeline_stage(const mst_pipeline *pipeline) {
    const mst_pipeline *p = known("mst_pipeline_stage", NULL, pipeline);
    return p ? p->stage : -1;
}

int mst_pipeline_stages(const mst_pipeline *pipeline) {
    const mst_pipeline *p = known("mst_pipeline_stages", NULL, pipeline);
    return p ? p->spec.stages : -1;
}

int mst_pipeline_keeps(const mst_pipeline *pipeline) {
    const mst_pipeline *p = known("mst_pipeline_keeps", NULL, pipeline);
    return p ? p->list.keeps : -1;
}

mst_shape mst_pipeline_in(const mst_pipeline *pipeline) {
    const mst_pipeline *p = known("mst_pipeline_in", NULL, pipeline);
    bool first = !p || (p->stage == 0 && p->spec.chunks == 1);
    return first ? (mst_shape){0} : p->previous.out;
}

mst_pipeline_times mst_pipeline_last_times(const mst_pipeline *pipeline) {
    const mst_pipeline *p = known("mst_pipeline_last_times", NULL, pipeline);
    return p ? p->times : (mst_pipeline_times){0};
}
