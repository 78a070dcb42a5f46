/*
 * mesh_answers.c - prints what the library computes for meshes, so that a driver can compare it with torch.
 *
 *   mesh_answers RANKS up|mixed|odd
 *
 * Opens a world of so many ranks, each a thread. Every rank creates every mesh of up to four dimensions,
 * named a, b, c and d: of all ranks in ascending order, in a shuffled order, or of the odd ranks only. Prints
 * a line of JSON for each mesh and rank: its coordinate (null outside of the mesh), the groups along each
 * dimension with its rank in them, every valid slice with its names, shape and ranks, and the ranks of every
 * slice after flattening.
 */
#include "base/buf.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIMS = 4, MAX_RANKS = 128, STACK = 256 * 1024 };

static int world_size, mesh_size, order[MAX_RANKS];
static bool without_meshes; /* creates no mesh, to see which keys a world alone leaves in the store */
static const char *const NAMES[DIMS] = {"a", "b", "c", "d"};

struct rank_thread {
    pthread_t thread;
    mst_store *store;
    mst_group *world;
    int rank;
    struct msi_buf out;
};

static void check(mst_status status, const char *what) {
    if (status == MST_OK) return;
    fprintf(stderr, "mesh_answers: %s: %s: %s\n", what, mst_status_name(status), mst_error());
    _exit(1);
}
#define CHECK(call) check(call, #call)

static void add_list(struct msi_buf *out, const int *list, int n) {
    for (int i = 0; i < n; i++) msi_buf_add_format(out, "%s%d", i ? "," : "[", list[i]);
    msi_buf_add_format(out, n ? "]" : "[]");
}

static void add_ranks(struct msi_buf *out, const mst_mesh *mesh) {
    int ranks[MAX_RANKS];
    add_list(out, ranks, mst_mesh_ranks(mesh, ranks, MAX_RANKS));
}

static void add_groups(struct msi_buf *out, mst_mesh *mesh, int ndim) {
    mst_group *groups[DIMS];
    int ranks[MAX_RANKS];
    CHECK(mst_mesh_get_all_groups(mesh, groups, DIMS));
    for (int d = 0; d < ndim; d++) {
        msi_buf_add_format(out, d ? "," : ",\"groups\":[");
        add_list(out, ranks, mst_get_process_group_ranks(groups[d], ranks, MAX_RANKS));
    }
    msi_buf_add_format(out, "],\"local\":");
    for (int d = 0; d < ndim; d++) {
        int local = mst_mesh_get_local_rank(mesh, NAMES[d]);
        if (local != mst_get_rank(groups[d])) check(MST_ERR_INVALID, "its rank in a group");
        msi_buf_add_format(out, "%s%d", d ? "," : "[", local);
    }
    msi_buf_add_format(out, "]");
}

/* Adds the slice of these names, if it is valid, and all slices that start with these names. */
static void add_slices(struct msi_buf *out, mst_mesh *mesh, int ndim, const char *names) {
    for (int d = 0; d < ndim; d++) {
        char longer[4 * DIMS];
        int shape[DIMS];
        mst_mesh *slice, *flat;
        snprintf(longer, sizeof longer, "%s%s%s", names, *names ? "," : "", NAMES[d]);
        if (strlen(longer) > 2 * DIMS) continue;
        if (mst_mesh_slice(mesh, longer, &slice) == MST_OK) {
            msi_buf_add_format(out, "%s\"%s\":{\"shape\":", out->data[out->len - 1] == '{' ? "" : ",",
                               longer);
            add_list(out, shape, mst_mesh_shape(slice, shape, DIMS));
            msi_buf_add_format(out, ",\"ranks\":");
            add_ranks(out, slice);
            CHECK(mst_mesh_flatten(slice, NULL, &flat));
            mst_group *group;
            int ranks[MAX_RANKS];
            CHECK(mst_mesh_get_group(flat, NULL, &group));
            msi_buf_add_format(out, ",\"flat\":\"%s\",\"flat_ranks\":", mst_mesh_dim_name(flat, 0));
            add_ranks(out, flat);
            msi_buf_add_format(out, ",\"flat_group\":");
            add_list(out, ranks, mst_get_process_group_ranks(group, ranks, MAX_RANKS));
            msi_buf_add_format(out, "}");
        }
        add_slices(out, mesh, ndim, longer);
    }
}

static void answer(struct rank_thread *self, const int *shape, int ndim) {
    struct msi_buf *out = &self->out;
    mst_mesh *mesh;
    int at[DIMS];
    CHECK(mst_init_device_mesh(shape, ndim, NAMES, &mesh, .world = self->world, .ranks = order));
    msi_buf_add_format(out, "{\"rank\":%d,\"shape\":", self->rank);
    add_list(out, shape, ndim);
    msi_buf_add_format(out, ",\"mesh\":");
    add_ranks(out, mesh);
    msi_buf_add_format(out, ",\"coordinate\":");
    if (mst_mesh_get_coordinate(mesh, at, DIMS) < 0) {
        msi_buf_add_format(out, "null");
    } else {
        add_list(out, at, ndim);
        add_groups(out, mesh, ndim);
        msi_buf_add_format(out, ",\"slices\":{");
        add_slices(out, mesh, ndim, "");
        msi_buf_add_format(out, "}");
    }
    msi_buf_add_format(out, "}\n");
    CHECK(mst_mesh_free(mesh));
}

/* Completes the sizes so far to every shape with the remaining product. */
static void every_shape(struct rank_thread *self, int *shape, int ndim, int left) {
    if (ndim > 0 && left == 1) answer(self, shape, ndim);
    for (int size = 1; ndim < DIMS && size <= left; size++)
        if (left % size == 0) {
            shape[ndim] = size;
            every_shape(self, shape, ndim + 1, left / size);
        }
}

static void *run(void *context) {
    struct rank_thread *self = context;
    int shape[DIMS];
    CHECK(mst_world_open(&(mst_init_options){.size = sizeof(mst_init_options),
                                             .rank = self->rank,
                                             .world_size = world_size,
                                             .store = self->store},
                         &self->world));
    if (!without_meshes) every_shape(self, shape, 0, mesh_size);
    CHECK(mst_destroy_process_group(self->world));
    return NULL;
}

static void set_order(const char *how) {
    mesh_size = strcmp(how, "odd") ? world_size : world_size / 2;
    for (int i = 0; i < mesh_size; i++)
        order[i] = !strcmp(how, "up")    ? i
                   : !strcmp(how, "odd") ? 2 * i + 1
                   : world_size % 5      ? i * 5 % world_size
                                         : world_size - 1 - i;
}

/* Runs all ranks; returns the number of keys that they leave in the store. */
static int64_t run_all(struct rank_thread *threads, mst_store *store) {
    pthread_attr_t small;
    int64_t keys;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (int r = 0; r < world_size; r++) {
        threads[r].store = store;
        threads[r].rank = r;
        if (pthread_create(&threads[r].thread, &small, run, &threads[r])) check(MST_ERR_SYSTEM, "a thread");
    }
    for (int r = 0; r < world_size; r++) pthread_join(threads[r].thread, NULL);
    pthread_attr_destroy(&small);
    CHECK(mst_store_num_keys(store, &keys));
    return keys;
}

int main(int argc, char **argv) {
    static struct rank_thread threads[MAX_RANKS];
    mst_store *store;
    world_size = argc == 3 ? atoi(argv[1]) : 0;
    if (world_size < 1 || world_size > MAX_RANKS) {
        fprintf(stderr, "mesh_answers RANKS up|mixed|odd\n");
        return 2;
    }
    set_order(argv[2]);
    CHECK(mst_store_open("hash://", &store));
    without_meshes = true;
    int64_t before = run_all(threads, store);
    without_meshes = false;
    if (run_all(threads, store) != before) check(MST_ERR_STATE, "freed meshes have left keys in the store");
    for (int r = 0; r < world_size; r++) {
        if (threads[r].out.failed) return 1;
        fwrite(threads[r].out.data, 1, threads[r].out.len, stdout);
        msi_buf_free(&threads[r].out);
    }
    mst_store_free(store);
    return 0;
}
