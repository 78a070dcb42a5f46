/* handles.c - groups, works, meshes, stores, pipelines, reducers: NULL, freed, or freed twice. */
#include "misuse.h"

#include <stdio.h>
#include <string.h>

static const char STATE[] = "MST_ERR_STATE", INVALID[] = "MST_ERR_INVALID", OK[] = "MST_OK";

/* A call that returns -1 or NULL on failure. */
static mst_status failed(bool is) {
    return is ? mst_last_error()->status : MST_OK;
}

static void ignore(mst_status status, void *arg) {
    (void)status, (void)arg;
}

static void use_work(mst_work *handle, const char *wanted) {
    bool done;
    check("mst_wait", wanted, "work", mst_wait(handle));
    check("mst_test", wanted, "work", mst_test(handle, &done));
    check("mst_work_result", wanted, "work", mst_work_result(handle));
    check("mst_work_on_done", wanted, "work", mst_work_on_done(handle, ignore, NULL));
    mst_work_free(handle);
}

static void null_work(void) {
    use_work(NULL, INVALID);
}

static void freed_work(void) {
    mst_work *handle = NULL;
    check("begin", OK, "", mst_all_reduce(out, 1, MST_F32, .work = &handle));
    mst_work_free(handle);
    use_work(handle, STATE);
}

static void waited_work(void) {
    mst_work *handle = NULL;
    check("begin", OK, "", mst_all_reduce(out, 1, MST_F32, .work = &handle));
    check("first mst_wait", OK, "", mst_wait(handle));
    use_work(handle, STATE);
    check("another begin", OK, "", mst_all_reduce(out, 1, MST_F32, .work = &handle));
    check("another wait", OK, "", mst_wait(handle));
}

static void work_of_freed_group(void) {
    mst_work *handle = NULL;
    check("group", OK, "", mst_new_group(&me, 1, &group));
    check("begin", OK, "", mst_irecv(out, 1, MST_F32, 0, .group = group, .work = &handle));
    check("destroy", OK, "", mst_destroy_process_group(group));
    use_work(handle, STATE);
}

static void no_work(void) {
    bool done;
    use_work((mst_work *)(void *)out, STATE);
    check("mst_isend without .work", INVALID, "work", mst_isend(out, 1, MST_F32, 0));
    check("mst_irecv without .work", INVALID, "work", mst_irecv(out, 1, MST_F32, 0));
    check("begin", OK, "", mst_irecv(out, 1, MST_F32, 0, .work = work = &(mst_work *){NULL}));
    check("negative timeout", INVALID, "timeout_ms", mst_wait(*work, .timeout_ms = -1));
    check("result too early", STATE, "", mst_work_result(*work));
    check("no callback", INVALID, "callback", mst_work_on_done(*work, NULL, NULL));
    check("mst_test without done", INVALID, "done", mst_test(*work, NULL));
    check("mst_test", OK, "", mst_test(*work, &done));
    mst_work_free(*work);
}

static void freed_group(void) {
    mst_group *handle, *made;
    int rank;
    check("group", OK, "", mst_new_group(&me, 1, &handle));
    check("destroy", OK, "", mst_destroy_process_group(handle));
    check("destroy again", STATE, "group", mst_destroy_process_group(handle));
    check("mst_get_rank", STATE, "group", failed(mst_get_rank(handle) == -1));
    check("mst_get_world_size", STATE, "group", failed(mst_get_world_size(handle) == -1));
    check("mst_get_group_rank", STATE, "group", failed(mst_get_group_rank(handle, 0) == -1));
    check("mst_get_global_rank", STATE, "group", failed(mst_get_global_rank(handle, 0) == -1));
    check("mst_get_process_group_ranks", STATE, "group",
          failed(mst_get_process_group_ranks(handle, &rank, 1) == -1));
    check("mst_new_group in it", STATE, "group|world", mst_new_group(&me, 1, &made, .world = handle));
}

static void new_group_arguments(void) {
    mst_group *made = NULL;
    check("ranks NULL", INVALID, "ranks", mst_new_group(NULL, 1, &made));
    check("group NULL", INVALID, "group", mst_new_group(&me, 1, (mst_group **)NULL));
    check("no ranks", INVALID, "", mst_new_group(&me, 0, &made));
    check("n negative", INVALID, "", mst_new_group(&me, -1, &made));
    check("rank twice", INVALID, "0", mst_new_group((int[]){0, 0}, 2, &made));
    check("rank of no one", INVALID, "7", mst_new_group((int[]){0, 7}, 2, &made));
    check("rank negative", INVALID, "-1", mst_new_group((int[]){-1}, 1, &made));
    check("negative timeout", INVALID, "timeout_ms", mst_new_group(&me, 1, &made, .timeout_ms = -1));
    check("no such backend", "MST_ERR_INVALID|MST_ERR_NOT_FOUND|MST_ERR_UNSUPPORTED", "abc",
          mst_new_group(&me, 1, &made, .backend = "abc"));
    check("global rank of rank 5", INVALID, "5", failed(mst_get_global_rank(NULL, 5) == -1));
    check("group rank of rank 5", INVALID, "5", failed(mst_get_group_rank(NULL, 5) == -1));
    check("too many positional", INVALID, "positional",
          mst_new_group_with(
              &me, 1, &made,
              &(mst_group_options){.size = sizeof(mst_group_options), .positional = (const void *)in}));
}

static void use_mesh(mst_mesh *mesh, const char *wanted) {
    mst_group *along[2];
    mst_mesh *other;
    int numbers[2] = {0};
    check("mst_mesh_get_group", wanted, "mesh", mst_mesh_get_group(mesh, "dp", along));
    check("mst_mesh_get_all_groups", wanted, "mesh", mst_mesh_get_all_groups(mesh, along, 2));
    check("mst_mesh_slice", wanted, "mesh", mst_mesh_slice(mesh, "dp", &other));
    check("mst_mesh_flatten", wanted, "mesh", mst_mesh_flatten(mesh, NULL, &other));
    check("mst_mesh_ndim", wanted, "mesh", failed(mst_mesh_ndim(mesh) == -1));
    check("mst_mesh_size", wanted, "mesh", failed(mst_mesh_size(mesh, NULL) == -1));
    check("mst_mesh_shape", wanted, "mesh", failed(mst_mesh_shape(mesh, numbers, 2) == -1));
    check("mst_mesh_dim_name", wanted, "mesh", failed(!mst_mesh_dim_name(mesh, 0)));
    check("mst_mesh_ranks", wanted, "mesh", failed(mst_mesh_ranks(mesh, numbers, 2) == -1));
    check("mst_mesh_rank_at", wanted, "mesh", failed(mst_mesh_rank_at(mesh, numbers) == -1));
    check("mst_mesh_get_coordinate", wanted, "mesh", failed(mst_mesh_get_coordinate(mesh, numbers, 2) == -1));
    check("mst_mesh_get_local_rank", wanted, "mesh", failed(mst_mesh_get_local_rank(mesh, "dp") == -1));
}

static void null_mesh(void) {
    use_mesh(NULL, INVALID);
}

static void freed_mesh(void) {
    mst_mesh *mesh;
    mst_group *dp;
    check("mesh", OK, "", mst_init_device_mesh_from("dp=1,tp=1", &mesh));
    check("group", OK, "", mst_mesh_get_group(mesh, "dp", &dp));
    check("free", OK, "", mst_mesh_free(mesh));
    check("group of a freed mesh", STATE, "group", mst_barrier(.group = dp));
    check("free again", STATE, "mesh", mst_mesh_free(mesh));
    use_mesh(mesh, STATE);
}

static void slice_of_freed_mesh(void) {
    mst_mesh *mesh, *slice;
    check("mesh", OK, "", mst_init_device_mesh_from("dp=1,tp=1", &mesh));
    check("slice", OK, "", mst_mesh_slice(mesh, "dp", &slice));
    check("free", OK, "", mst_mesh_free(mesh));
    use_mesh(slice, STATE);
}

static void mesh_arguments(void) {
    mst_mesh *mesh = NULL;
    mst_group *along;
    check("shape NULL", INVALID, "shape", mst_init_device_mesh(NULL, 1, NULL, &mesh));
    check("mesh NULL", INVALID, "mesh", mst_init_device_mesh((int[]){1}, 1, NULL, (mst_mesh **)NULL));
    check("no dimensions", INVALID, "", mst_init_device_mesh((int[]){1}, 0, NULL, &mesh));
    check("size 0", INVALID, "0", mst_init_device_mesh((int[]){0}, 1, NULL, &mesh));
    check("too large", INVALID, "2", mst_init_device_mesh((int[]){2}, 1, NULL, &mesh));
    check("overflow", INVALID, "", mst_init_device_mesh((int[]){1 << 30, 1 << 30, 16}, 3, NULL, &mesh));
    check("equal names", INVALID, "dp",
          mst_init_device_mesh((int[]){1, 1}, 2, ((const char *[]){"dp", "dp"}), &mesh));
    check("text NULL", INVALID, "", mst_init_device_mesh_from(NULL, &mesh));
    check("text malformed", INVALID, "dp=x", mst_init_device_mesh_from("dp=x", &mesh));
    check("text empty", INVALID, "", mst_init_device_mesh_from("", &mesh));
    check("mesh", OK, "", mst_init_device_mesh_from("dp=1,tp=1", &mesh));
    check("no such dimension", "MST_ERR_INVALID|MST_ERR_NOT_FOUND", "pp",
          mst_mesh_get_group(mesh, "pp", &along));
    check("dims NULL of two dimensions", INVALID, "", mst_mesh_get_group(mesh, NULL, &along));
    check("group NULL", INVALID, "group", mst_mesh_get_group(mesh, "dp", NULL));
    check("free", OK, "", mst_mesh_free(mesh));
    check("free NULL", OK, "", mst_mesh_free(NULL));
}

static void use_store(mst_store *store, const char *wanted) {
    mst_bytes value = {0};
    const char *keys[] = {"k"};
    int64_t number;
    bool yes;
    char **list;
    size_t n;
    check("mst_store_set", wanted, "store", mst_store_set(store, "k", "v", 1));
    check("mst_store_get", wanted, "store", mst_store_get(store, "k", &value));
    check("mst_store_add", wanted, "store", mst_store_add(store, "k", 1, &number));
    check("mst_store_compare_set", wanted, "store", mst_store_compare_set(store, "k", "", 0, "v", 1, &value));
    check("mst_store_wait", wanted, "store", mst_store_wait(store, keys, 1, .timeout_ms = 3000));
    check("mst_store_check", wanted, "store", mst_store_check(store, keys, 1, &yes));
    check("mst_store_delete_key", wanted, "store", mst_store_delete_key(store, "k", &yes));
    check("mst_store_num_keys", wanted, "store", mst_store_num_keys(store, &number));
    check("mst_store_append", wanted, "store", mst_store_append(store, "k", "v", 1));
    check("mst_store_multi_get", wanted, "store", mst_store_multi_get(store, keys, 1, &value));
    check("mst_store_multi_set", wanted, "store", mst_store_multi_set(store, keys, &value, 1));
    check("mst_store_queue_push", wanted, "store", mst_store_queue_push(store, "k", "v", 1));
    check("mst_store_queue_pop", wanted, "store", mst_store_queue_pop(store, "k", &value));
    check("mst_store_queue_len", wanted, "store", mst_store_queue_len(store, "k", &number));
    check("mst_store_list_keys", wanted, "store", mst_store_list_keys(store, &list, &n));
    check("mst_store_barrier", wanted, "store", mst_store_barrier(store, "k", 1));
}

static void null_store(void) {
    use_store(NULL, INVALID);
    mst_store_free(NULL);
}

static void freed_store(void) {
    mst_store *store;
    check("open", OK, "", mst_store_open("hash://", &store));
    mst_store_free(store);
    use_store(store, STATE);
    mst_store_free(store);
}

static void store_arguments(void) {
    mst_store *store = NULL;
    mst_bytes value;
    bool yes;
    check("url NULL", INVALID, "url", mst_store_open(NULL, &store));
    check("store NULL", INVALID, "store", mst_store_open("hash://", (mst_store **)NULL));
    check("no such kind", "MST_ERR_INVALID|MST_ERR_ADDRESS", "abc", mst_store_open("abc://x", &store));
    check("port too large", "MST_ERR_INVALID|MST_ERR_ADDRESS", "99999",
          mst_store_open("tcp://127.0.0.1:99999", &store));
    check("negative timeout", INVALID, "timeout_ms", mst_store_open("hash://", &store, .timeout_ms = -1));
    check("open", OK, "", mst_store_open("hash://", &store));
    check("key NULL", INVALID, "key", mst_store_set(store, NULL, "v", 1));
    check("value NULL", INVALID, "value", mst_store_set(store, "k", NULL, 1));
    check("get key NULL", INVALID, "key", mst_store_get(store, NULL, &value));
    check("get value NULL", INVALID, "value", mst_store_get(store, "k", (mst_bytes *)NULL));
    check("wait keys NULL", INVALID, "keys", mst_store_wait(store, NULL, 1));
    check("check key NULL", INVALID, "key", mst_store_check(store, ((const char *[]){NULL}), 1, &yes));
    check("call with negative timeout", INVALID, "timeout_ms",
          mst_store_set(store, "k", "v", 1, .timeout_ms = -1));
    check("prefix of NULL", INVALID, "base", mst_store_open_prefix(NULL, "p", &store));
    mst_store_free(store);
}

static void reducer_handle(void) {
    mst_bucket_reducer *reducer = NULL;
    mst_tensor tensor = {out, 1, MST_F32, "a"};
    check("ready NULL", INVALID, "reducer", mst_bucket_ready(NULL, 0));
    check("wait NULL", INVALID, "reducer", mst_bucket_wait(NULL));
    check("free NULL", OK, "", mst_bucket_free(NULL));
    check("no tensors", INVALID, "tensors", mst_bucket_create(NULL, 1, &reducer));
    check("create", OK, "", mst_bucket_create(&tensor, 1, &reducer));
    check("ready", OK, "", mst_bucket_ready(reducer, 0));
    check("free while it reduces", OK, "", mst_bucket_free(reducer));
    check("ready after free", STATE, "reducer", mst_bucket_ready(reducer, 0));
    check("wait after free", STATE, "reducer", mst_bucket_wait(reducer));
    check("free twice", STATE, "reducer", mst_bucket_free(reducer));
    check("no reducer", STATE, "reducer", mst_bucket_ready((mst_bucket_reducer *)(void *)out, 0));
}

static void pipeline_handle(void) {
    mst_pipeline *pipeline = NULL;
    check("pipeline NULL", INVALID, "", mst_pipeline_run(NULL));
    check("no forward", INVALID, "forward", mst_pipeline_new(&pipeline, .micros = 1));
    check("free NULL", OK, "", mst_pipeline_free(NULL));
}

static void memory(void) {
    float *tensor = NULL;
    mst_bytes none = {0};
    check("mst_alloc", OK, "", mst_alloc(64, &tensor));
    check("all_reduce", OK, "", mst_all_reduce(tensor, 16, MST_F32));
    mst_free(tensor);
    mst_free(NULL);
    mst_bytes_free(&none);
    mst_bytes_free(&none);
    mst_bytes_free(NULL);
    check("mst_alloc of too much", "MST_ERR_INVALID|MST_ERR_MEMORY|MST_ERR_LIMIT", "",
          mst_alloc(SIZE_MAX / 2, &tensor));
    check("mst_broadcast_bytes", OK, "", mst_broadcast_bytes(&none, "abc", 3));
    mst_bytes_free(&none);
}

static void double_init(void) {
    check("mst_init again", OK, "", mst_init());
    check("mst_init with other sizes", "MST_OK|MST_ERR_STATE|MST_ERR_INVALID", "",
          mst_init(.rank = 0, .world_size = 2));
    check("destroy", OK, "", mst_destroy_process_group(NULL));
    check("destroy again", STATE, "mst_init|world", mst_destroy_process_group(NULL));
    check("negative timeout", INVALID, "timeout_ms", mst_init(.timeout_ms = -1));
    check("rank too large", "MST_ERR_INVALID|MST_ERR_CONFIG", "rank", mst_init(.rank = 2, .world_size = 2));
    check("rank negative", "MST_ERR_INVALID|MST_ERR_CONFIG", "rank", mst_init(.rank = -1, .world_size = 2));
    check("no such method", "MST_ERR_INVALID|MST_ERR_ADDRESS|MST_ERR_CONFIG", "abc",
          mst_init(.init_method = "abc://x"));
    check("no such backend", "MST_ERR_INVALID|MST_ERR_NOT_FOUND|MST_ERR_UNSUPPORTED|MST_ERR_CONFIG", "abc",
          mst_init(.backend = "abc"));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"null_work", null_work},
    {"freed_work", freed_work},
    {"waited_work", waited_work},
    {"work_of_freed_group", work_of_freed_group},
    {"no_work", no_work},
    {"freed_group", freed_group},
    {"new_group_arguments", new_group_arguments},
    {"null_mesh", null_mesh},
    {"freed_mesh", freed_mesh},
    {"slice_of_freed_mesh", slice_of_freed_mesh},
    {"mesh_arguments", mesh_arguments},
    {"null_store", null_store},
    {"freed_store", freed_store},
    {"store_arguments", store_arguments},
    {"pipeline_handle", pipeline_handle},
    {"reducer_handle", reducer_handle},
    {"memory", memory},
    {"double_init", double_init},
};

void list_handles(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) printf("%s\n", cases[i].name);
}

int misuse_handle(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, name) != 0) continue;
        check("mst_init", OK, "", mst_init());
        cases[i].run();
        mst_destroy_process_group(NULL);
        return 0;
    }
    return 2;
}
