// consumer.cpp - the same in C++20, whose calls have the syntax of C, and messages and byte strings.
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

// A world of one rank: collectives, messages to this rank, byte strings, memory of any type.
static void communicate() {
    const int ranks[] = {0};
    int value = 7, got = 0, sender = -1;
    double *numbers = nullptr;
    mst_group *group = nullptr;
    mst_work *work = nullptr;
    mst_bytes bytes{};

    require(mst_new_group(ranks, 1, &group, .timeout_ms = 10000, .name = "one") == MST_OK, "new group");
    require(mst_all_reduce(&value, 1, MST_I32, .op = MST_MAX, .group = group) == MST_OK && value == 7, "max");
    require(mst_broadcast(&got, 1, MST_I32, .root = 0, .in = &value) == MST_OK && got == 7, "broadcast");
    require(mst_broadcast(&got, 1, MST_I32, .root = 1) == MST_ERR_INVALID, "a root that is not in the group");
    require(mst_barrier(.tag = 1) == MST_ERR_INVALID && std::strstr(mst_error(), ".tag"), "an unused option");

    got = 0;
    require(mst_isend(&value, 1, MST_I32, 0, .tag = 3, .group = group, .work = &work) == MST_OK, "isend");
    require(mst_recv(&got, 1, MST_I32, MST_ANY_SOURCE, .tag = 3, .sender = &sender, .group = group) == MST_OK,
            "recv");
    require(got == 7 && sender == 0, "message");
    require(mst_wait(work, .timeout_ms = 1000) == MST_OK, "wait");

    require(mst_broadcast_bytes(&bytes, "text", 4) == MST_OK && bytes.len == 4, "broadcast bytes");
    mst_bytes_free(&bytes);
    require(mst_send_bytes("text", 4, 0) == MST_OK && mst_recv_bytes(&bytes, 0) == MST_OK, "send bytes");
    require(bytes.len == 4 && std::memcmp(bytes.data, "text", 4) == 0, "bytes");
    mst_bytes_free(&bytes);

    require(mst_alloc(4 * sizeof *numbers, &numbers) == MST_OK && numbers[3] == 0, "alloc");
    mst_free(numbers);
    require(mst_destroy_process_group(group) == MST_OK, "destroy the group");
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
    communicate();

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
