/* pipeline.c - the public calls on pipelines: check the arguments, hand on. */
#include "pipeline/pipeline.h"
#include "api/api.h"
#include "base/error.h"
#include "base/handles.h"
#include "base/options.h"
#include "pipeline/partition.h"

#include <muster/output.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FlexLLMGen's process-wide state. One thread begins and ends it, as it does the default world. */
static struct {
    mst_group *world; /* whose pairs these are; NULL: none yet */
    struct msi_pairs pairs;
    const char *device;
} ring;

static mst_status check_device(const char *device, const char **known) {
    static const char *const devices[] = {"cpu", "gpu"};
    for (int i = 0; device && i < 2; i++)
        if (!strcmp(device, devices[i])) {
            *known = devices[i];
            return MST_OK;
        }
    return msi_fail(MST_ERR_INVALID, "give \"cpu\" or \"gpu\"", "comm_device is '%s', which is none",
                    device ? device : "NULL");
}

/* The default world, if it is the one that is meant. */
static mst_status check_world(int world_size, int rank) {
    if (mst_get_world_size(NULL) == world_size && mst_get_rank(NULL) == rank) return MST_OK;
    return msi_fail(MST_ERR_STATE, "end it first, with mst_destroy_process_group(NULL)",
                    "there is a world already, of which this is rank %d of %d, not rank %d of %d",
                    mst_get_rank(NULL), mst_get_world_size(NULL), rank, world_size);
}

static mst_status join(const char *head_ip, int port, int world_size, int rank, int local_rank,
                       const char *device) {
    char method[320], number[16];
    bool v6 = strchr(head_ip, ':') && head_ip[0] != '[';
    snprintf(method, sizeof method, v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", head_ip, port);
    snprintf(number, sizeof number, "%d", local_rank);
    if (*device == 'g') setenv("MUSTER_CUDA_DEVICE", number, 0);
    mst_init_options options = {.size = sizeof options,
                                .init_method = method,
                                .world_size = world_size,
                                .rank = rank,
                                .comm_device = device};
    return mst_init_with(&options);
}

mst_status mst_initialize_distributed(const char *head_ip, int port, int world_size, int rank, int local_rank,
                                      const char *comm_device) {
    const char *device = NULL;
    msi_call_begin("mst_initialize_distributed", NULL, rank);
    mst_status st =
        head_ip ? check_device(comm_device, &device) : msi_fail(MST_ERR_INVALID, NULL, "head_ip is NULL");
    if (st == MST_OK && mst_is_initialized()) {
        st = check_world(world_size, rank);
        if (st == MST_OK && ring.world && msi_handle_alive(ring.world)) return MST_OK;
    } else if (st == MST_OK) {
        printf("joining the distributed world at %s:%d as rank %d of %d, local rank %d\n", head_ip, port,
               rank, world_size, local_rank);
        fflush(stdout);
        st = join(head_ip, port, world_size, rank, local_rank, device);
    }
    mst_group *world = st == MST_OK ? msi_api_group("mst_initialize_distributed", NULL, NULL) : NULL;
    if (st == MST_OK) st = world ? msi_pairs_open(world, &ring.pairs) : MST_ERR_STATE;
    if (st == MST_OK) st = mst_suppress_output(rank);
    if (st != MST_OK) return st;
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
    return ring.device;
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

mst_status mst_pipeline_new_with(mst_pipeline **pipeline, const mst_pipeline_options *given) {
    mst_pipeline_options o;
    mst_status st = msi_options_begin("mst_pipeline_new", &o, sizeof o, given);
    if (st == MST_OK) st = msi_check_timeout(o.timeout_ms);
    if (st == MST_OK && !pipeline) st = msi_fail(MST_ERR_INVALID, NULL, "pipeline is NULL");
    if (st != MST_OK) return st;
    mst_group *stages = msi_api_group("mst_pipeline_new", &o.site, o.group);
    if (!stages) return MST_ERR_STATE;
    if (stages->rank < 0)
        return msi_fail(MST_ERR_NOT_MEMBER, "only its ranks are stages", "rank %d is not in the group",
                        stages->world->rank);
    return msi_pipeline_new(stages, &o, pipeline);
}

void mst_pipeline_free(mst_pipeline *pipeline) {
    msi_pipeline_free(pipeline);
}

mst_status mst_pipeline_run(mst_pipeline *pipeline) {
    msi_call_begin("mst_pipeline_run", NULL, msi_call_get_rank());
    if (!pipeline) return msi_fail(MST_ERR_INVALID, NULL, "pipeline is NULL");
    if (pipeline->failed)
        return msi_fail(MST_ERR_STATE, "free it, and make another", "the pipeline has failed before");
    mst_status st = msi_pipeline_run(pipeline);
    pipeline->failed = st != MST_OK;
    if (st != MST_OK) msi_pairs_close(&pipeline->pairs); /* the neighbours hear of it */
    return st;
}

int mst_pipeline_stage(const mst_pipeline *pipeline) {
    return pipeline->stage;
}

int mst_pipeline_stages(const mst_pipeline *pipeline) {
    return pipeline->spec.stages;
}

int mst_pipeline_keeps(const mst_pipeline *pipeline) {
    return pipeline->list.keeps;
}

mst_shape mst_pipeline_in(const mst_pipeline *pipeline) {
    bool first = pipeline->stage == 0 && pipeline->spec.chunks == 1;
    return first ? (mst_shape){0} : pipeline->previous.out;
}

mst_pipeline_times mst_pipeline_last_times(const mst_pipeline *pipeline) {
    return pipeline->times;
}
