/* mesh.c - opens the mesh: its dimensions, this process's coordinates, and the groups. */
#include "parallel/mesh.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[GPT_DIMS] = {"dp", "tp", "pp", "cp"};

double gpt_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool lost; /* see gpt_mesh_lost */

bool gpt_mesh_lost(void) {
    bool since = lost;
    lost = false;
    return since;
}

int gpt_check(mst_status status) {
    if (status == MST_OK) return 0;
    if (status == MST_ERR_PEER_LOST) gpt_exit_late();
    lost |= status == MST_ERR_PEER_LOST;
    return gpt_fail("%s: %s", mst_status_name(status), mst_error());
}

static int dim_of(const char *name) {
    for (int dim = 0; dim < GPT_DIMS; dim++)
        if (strcmp(name, names[dim]) == 0) return dim;
    return -1;
}

/* Sets sizes and coordinates. Writes the names of dp and cp, in the mesh's order, to replica_dims. */
static void read_mesh(struct gpt_mesh *mesh, char *replica_dims, size_t capacity) {
    int shape[GPT_DIMS + 1], at[GPT_DIMS + 1], n = mst_mesh_shape(mesh->device_mesh, shape, GPT_DIMS + 1);
    mst_mesh_get_coordinate(mesh->device_mesh, at, GPT_DIMS + 1);
    *replica_dims = 0;
    for (int i = 0; i < n; i++) {
        const char *name = mst_mesh_dim_name(mesh->device_mesh, i);
        int dim = dim_of(name); /* at least 0: check_names has passed */
        mesh->size[dim] = (size_t)shape[i];
        mesh->coordinate[dim] = (size_t)at[i];
        size_t used = strlen(replica_dims);
        if (dim == GPT_DP || dim == GPT_CP)
            snprintf(replica_dims + used, capacity - used, "%s%s", used ? "," : "", name);
    }
}

/* The group of the first and the last stage that have this process's other coordinates. */
static int open_embedding_group(struct gpt_mesh *mesh) {
    size_t last = mesh->size[GPT_PP] - 1;
    if (last == 0 || (mesh->coordinate[GPT_PP] != 0 && mesh->coordinate[GPT_PP] != last)) return 0;
    int ranks[2];
    ranks[0] = mst_get_global_rank(mesh->group[GPT_PP], 0);
    ranks[1] = mst_get_global_rank(mesh->group[GPT_PP], (int)last);
    return gpt_check(mst_new_group(ranks, 2, &mesh->embedding_group, .name = "embedding"));
}

static int open_groups(struct gpt_mesh *mesh, const char *replica_dims) {
    for (int dim = 0; dim < GPT_DIMS; dim++)
        if (mesh->size[dim] > 1 &&
            gpt_check(mst_mesh_get_group(mesh->device_mesh, names[dim], &mesh->group[dim])))
            return -1;
    if (mesh->size[GPT_DP] * mesh->size[GPT_CP] > 1 &&
        gpt_check(mst_mesh_get_group(mesh->device_mesh, replica_dims, &mesh->replicas)))
        return -1;
    return open_embedding_group(mesh);
}

void gpt_mute_unless_first(void) {
    mst_discovery found;
    if (mst_discover(&found) == MST_OK && found.rank > 0) gpt_mute();
}

int gpt_check_alone(bool has_mesh) {
    mst_discovery found;
    if (mst_discover(&found) != MST_OK || found.world_size <= 1) return 0;
    int n = found.world_size;
    gpt_mute_unless_first();
    return has_mesh ? gpt_fail("%d processes were started: give --mesh, such as dp=%d to train or pp=%d "
                               "to generate",
                               n, n, n)
                    : gpt_fail("%d processes were started: this command runs in one; start it without %s", n,
                               found.title);
}

/* Checks the names of the dimensions; the library checks the sizes. */
static int check_names(const char *shape) {
    for (const char *at = shape; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, "=,");
        char name[8] = "";
        if (length < sizeof name) memcpy(name, at, length);
        if (at[length] != '=' || dim_of(name) < 0)
            return gpt_fail(
                "--mesh %s: dimensions are dp, tp, pp and cp, each with its size, as in dp=2,tp=2", shape);
    }
    return 0;
}

/* Opens the mesh over the world. A world that others have joined or left is all dp. */
static int open_dims(struct gpt_mesh *mesh, const char *shape) {
    char replica_dims[16], all[16];
    mesh->rank = mst_get_rank(NULL);
    mesh->ranks = mst_get_world_size(NULL);
    snprintf(all, sizeof all, "dp=%d", mesh->ranks);
    int st = gpt_check(mst_init_device_mesh_from(shape ? shape : all, &mesh->device_mesh));
    if (gpt_mesh_agree(mesh, st)) return -1;
    read_mesh(mesh, replica_dims, sizeof replica_dims);
    return open_groups(mesh, replica_dims);
}

/* Does the launcher say that this process joins a world that runs already? */
static bool is_new(void) {
    const char *join = getenv("MUSTER_JOIN");
    return join && strcmp(join, "1") == 0;
}

static mst_status grow(const struct gpt_survival *s, int n) {
    return mst_grow_world(n, .timeout_ms = 1 + (int)(1000 * s->join_seconds));
}

/* More processes may have died meanwhile: waits for their replacements, too. */
static mst_status complete_world(const struct gpt_survival *s) {
    mst_status st = MST_OK;
    for (int n; st == MST_OK && s->join_seconds > 0 && (n = s->ranks - mst_get_world_size(NULL)) > 0;)
        st = grow(s, n);
    return st == MST_ERR_STALLED ? MST_OK : st;
}

int gpt_mesh_open(struct gpt_mesh *mesh, const char *shape, bool deterministic,
                  const struct gpt_survival *survival) {
    *mesh = (struct gpt_mesh){.size = {1, 1, 1, 1}, .ranks = 1, .deterministic = deterministic};
    if (!shape) return 0;
    if (check_names(shape)) {
        gpt_mute_unless_first();
        return -1;
    }
    if (gpt_check(mst_init())) return -1;
    gpt_memory_share();
    mesh->joins = survival && is_new();
    if (!mesh->joins) return open_dims(mesh, shape);
    return gpt_check(complete_world(survival)) ? -1 : open_dims(mesh, NULL);
}

/* If no new processes come in time, the world shrinks. */
static mst_status replace_world(const struct gpt_survival *s) {
    int n = 0;
    mst_status st = MST_ERR_STALLED;
    mst_ack_lost_ranks(NULL, NULL, 0, &n);
    if (s->join_seconds > 0) st = grow(s, n > 0 ? n : 1);
    if (st == MST_ERR_STALLED) return mst_shrink_world();
    return st == MST_OK ? complete_world(s) : st;
}

int gpt_mesh_recover(struct gpt_mesh *mesh, const struct gpt_survival *survival) {
    mst_mesh_free(mesh->device_mesh);
    *mesh = (struct gpt_mesh){
        .size = {1, 1, 1, 1}, .deterministic = mesh->deterministic, .comm_seconds = mesh->comm_seconds};
    if (gpt_check(replace_world(survival))) {
        lost = false; /* another attempt would fail in the same way */
        return -1;
    }
    return open_dims(mesh, NULL);
}

int gpt_mesh_set_backend(struct gpt_mesh *mesh, const char *backend) {
    return gpt_mesh_agree(mesh, gpt_check(mst_set_backend(NULL, backend)));
}

void gpt_mesh_close(struct gpt_mesh *mesh, bool failed) {
    free(mesh->ring.block);
    if (!mesh->device_mesh || failed) return;
    mst_mesh_free(mesh->device_mesh);
    mst_destroy_process_group(NULL);
}

bool gpt_mesh_saves(const struct gpt_mesh *mesh) {
    return mesh->coordinate[GPT_DP] == 0 && mesh->coordinate[GPT_CP] == 0;
}

/*
 * The first layer of each stage and chunk, balanced by cost: a layer has 12 width^2 weights, the head
 * vocabulary * width.
 */
static int partition(const struct gpt_config *c, size_t stages, size_t chunks, int *starts) {
    double head = (double)c->vocabulary / (12 * (double)c->width);
    size_t parts = stages * chunks;
    if (c->layers < parts)
        return gpt_fail("%zu layers cannot be split into %zu parts: choose pp=%zu or less%s", c->layers,
                        parts, c->layers / chunks ? c->layers / chunks : 1,
                        chunks > 1 ? ", or fewer --chunks" : "");
    return gpt_check(mst_partition_layers((int)c->layers, (int)parts, starts, .last = head));
}

int gpt_mesh_shard(const struct gpt_mesh *mesh, const struct gpt_config *config, size_t chunk, size_t chunks,
                   struct gpt_shard *shard) {
    size_t stages = mesh->size[GPT_PP], k = chunk * stages + mesh->coordinate[GPT_PP];
    int *starts = calloc(stages * chunks + 1, sizeof *starts);
    if (!starts) return gpt_fail("no memory");
    int st = partition(config, stages, chunks, starts);
    if (!st)
        *shard = (struct gpt_shard){(size_t)starts[k], (size_t)starts[k + 1], mesh->coordinate[GPT_TP],
                                    mesh->size[GPT_TP]};
    free(starts);
    return st;
}

struct gpt_hooks gpt_mesh_hooks(struct gpt_mesh *mesh) {
    struct gpt_hooks hooks = {.context = mesh};
    if (mesh->group[GPT_TP]) {
        hooks.reduce_forward = gpt_tp_reduce_forward;
        hooks.reduce_backward = gpt_tp_reduce_backward;
        hooks.wait_backward = gpt_tp_wait_backward;
    }
    if (mesh->group[GPT_CP]) {
        hooks.attend = gpt_cp_attend;
        hooks.attend_back = gpt_cp_attend_back;
    }
    return hooks;
}

int gpt_mesh_sum(struct gpt_mesh *mesh, double *numbers, size_t count) {
    if (!mesh->device_mesh) return 0;
    double begin = gpt_now();
    mst_status st = mst_all_reduce(numbers, count, MST_F64, .deterministic = true);
    mesh->comm_seconds += gpt_now() - begin;
    return gpt_check(st);
}

int gpt_mesh_agree(const struct gpt_mesh *mesh, int st) {
    int32_t first = st ? mesh->rank : INT32_MAX;
    if (mesh->ranks == 1) return st;
    mst_status reduced = mst_all_reduce(&first, 1, MST_I32, .op = MST_MIN);
    if (reduced != MST_OK) return st ? st : gpt_check(reduced);
    if (first == INT32_MAX) return 0;
    if (first != mesh->rank) gpt_mute();
    return st ? st : gpt_fail("rank %d failed", first);
}
