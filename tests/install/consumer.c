/* consumer.c - a C11 program that uses only the installed headers: init, barrier, mesh, pipeline, store. */
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

#define REQUIRE(condition)                                                                                   \
    ((condition) ? (void)0 : (void)(failures++, fprintf(stderr, "%s: %s\n", #condition, mst_error())))

static mst_status count_step(const mst_pipeline_step *step, void *steps) {
    ++*(int *)steps;
    return step->first && step->last && !step->in && !step->out ? MST_OK : MST_ERR_CALLBACK;
}

int main(void) {
    int failures = 0, steps = 0, starts[3] = {0};
    mst_pipeline *pipeline = NULL;
    mst_store *store = NULL;
    mst_bytes value = {0};
    mst_mesh *mesh = NULL;
    mst_group *tp = NULL;

    REQUIRE(strcmp(mst_version(), MST_VERSION_STRING) == 0);
    REQUIRE(mst_init() == MST_OK);
    REQUIRE(mst_get_rank(NULL) == 0 && mst_get_world_size(NULL) == 1);
    REQUIRE(mst_barrier() == MST_OK);
    REQUIRE(mst_barrier(.timeout_ms = 1000) == MST_OK);

    REQUIRE(mst_init_device_mesh_from("dp=1,tp=1", &mesh, .timeout_ms = 1000) == MST_OK);
    REQUIRE(mst_mesh_get_group(mesh, "tp", &tp) == MST_OK && mst_get_world_size(tp) == 1);
    REQUIRE(mst_mesh_free(mesh) == MST_OK);

    REQUIRE(mst_partition_layers(5, 2, starts) == MST_OK && starts[1] == 3 && starts[2] == 5);
    REQUIRE(mst_partition_layers(5, 2, starts, .last = 3) == MST_OK && starts[1] == 4);
    REQUIRE(mst_pipeline_new(&pipeline, .micros = 3, .out = {MST_F32, 1, {4}}, .forward = count_step,
                             .backward = count_step, .arg = &steps) == MST_OK);
    REQUIRE(mst_pipeline_stage(pipeline) == 0 && mst_pipeline_stages(pipeline) == 1);
    REQUIRE(mst_pipeline_run(pipeline) == MST_OK && steps == 6);
    REQUIRE(mst_pipeline_run(pipeline, .cancel = NULL) == MST_OK && steps == 12);
    REQUIRE(mst_pipeline_free(pipeline) == MST_OK);

    REQUIRE(mst_store_open("hash://", &store) == MST_OK);
    REQUIRE(mst_store_set(store, "key", "value", 5, .timeout_ms = 1000) == MST_OK);
    REQUIRE(mst_store_get(store, "key", &value) == MST_OK);
    REQUIRE(value.len == 5 && memcmp(value.data, "value", 5) == 0);
    mst_bytes_free(&value);

    REQUIRE(mst_store_get(store, "absent", &value, .timeout_ms = 10) == MST_ERR_TIMEOUT);
    REQUIRE(mst_last_error()->site.file && strstr(mst_last_error()->site.file, "consumer.c"));
    mst_store_free(store);
    REQUIRE(mst_destroy_process_group(NULL) == MST_OK);
    return failures;
}
