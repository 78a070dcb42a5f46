// consumer.cpp - the same in C++20, where the calls are overloads that take the options in braces.
#include <cstdio>
#include <cstring>
#include <muster/muster.h>

static int failures;

static void require(bool condition, const char *what) {
    if (condition) return;
    failures++;
    std::fprintf(stderr, "%s: %s\n", what, mst_error());
}

static mst_status count_step(const mst_pipeline_step *step, void *steps) {
    ++*static_cast<int *>(steps);
    return step->first && step->last && !step->in && !step->out ? MST_OK : MST_ERR_CALLBACK;
}

int main() {
    int steps = 0, starts[3] = {};
    mst_pipeline *pipeline = nullptr;
    mst_store *store = nullptr;
    mst_bytes value{};
    mst_mesh *mesh = nullptr;
    mst_group *dp = nullptr;
    const int shape[] = {1, 1};
    const char *const names[] = {"dp", "tp"};

    require(std::strcmp(mst_version(), MST_VERSION_STRING) == 0, "version");
    require(mst_init(.timeout_ms = 10000) == MST_OK, "init");
    require(mst_get_rank(nullptr) == 0 && mst_get_world_size(nullptr) == 1, "world of one");
    require(mst_barrier() == MST_OK, "barrier");
    require(mst_barrier(.timeout_ms = 1000) == MST_OK, "barrier with a deadline");

    require(mst_initialize_mesh_device(shape, 2, names, &mesh) == MST_OK && mst_mesh_free(mesh) == MST_OK,
            "mesh");
    require(mst_init_device_mesh_from("dp=1,tp=1", &mesh, .timeout_ms = 1000) == MST_OK, "mesh from text");
    require(mst_mesh_get_group(mesh, "dp", &dp) == MST_OK && mst_get_rank(dp) == 0, "group");
    require(mst_mesh_free(mesh) == MST_OK, "free the mesh");

    require(mst_partition_layers(5, 2, starts) == MST_OK && starts[1] == 3 && starts[2] == 5, "layers");
    require(mst_partition_layers(5, 2, starts, .last = 3) == MST_OK && starts[1] == 4, "layers by cost");
    require(mst_pipeline_new(&pipeline, .micros = 3, .out = {MST_F32, 1, {4}}, .forward = count_step,
                             .backward = count_step, .arg = &steps) == MST_OK,
            "pipeline");
    require(mst_pipeline_stage(pipeline) == 0 && mst_pipeline_stages(pipeline) == 1, "one stage");
    require(mst_pipeline_run(pipeline) == MST_OK && steps == 6, "run");
    require(mst_pipeline_run(pipeline, .cancel = nullptr) == MST_OK && steps == 12, "run with options");
    require(mst_pipeline_free(pipeline) == MST_OK, "free the pipeline");

    require(mst_store_open("hash://", &store) == MST_OK, "open");
    require(mst_store_set(store, "key", "value", 5, .timeout_ms = 1000) == MST_OK, "set");
    require(mst_store_get(store, "key", &value) == MST_OK, "get");
    require(value.len == 5 && std::memcmp(value.data, "value", 5) == 0, "value");
    mst_bytes_free(&value);

    require(mst_store_get(store, "absent", &value, .timeout_ms = 10) == MST_ERR_TIMEOUT, "deadline");
    const char *file = mst_last_error()->site.file;
    require(file && std::strstr(file, "consumer.cpp"), "call site");
    mst_store_free(store);
    require(mst_destroy_process_group(nullptr) == MST_OK, "destroy");
    return failures;
}
