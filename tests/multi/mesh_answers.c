/*
 * mesh_answers.c - what the library says of meshes, for others to compare.
 *
 *   mesh_answers RANKS up|mixed|odd
 *
 * Opens a world of so many ranks, each a thread, and has every rank make every mesh of up to four dimensions, named a, b, c and d:
 * of all ranks in ascending order, in a mixed-up one, or of those with odd numbers alone. Prints a line of JSON for each mesh and
 * rank: its coordinate (null outside), the groups along each dimension with its rank in them, every slice that is not refused, by its
 * names, with shape and ranks, and the ranks of every slice once flattened.
 */
#include "base/buf.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIMS = 4, MOST = 128, STACK = 256 * 1024 };

static int world_size, positions, order[MOST];
static bool rehearsal; /* the ranks make no mesh: to see what a world alone leaves in the store */
static const char *const NAMES[DIMS] = {"a", "b", "c", "d"};

struct member {
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
    int ranks[MOST];
    add_list(out, ranks, mst_mesh_ranks(mesh, ranks, MOST));
}

static void add_groups(struct msi_buf *out, mst_mesh *mesh, int ndim) {
    mst_group *groups[DIMS];
    int ranks[MOST];
    CHECK(mst_mesh_get_all_groups(mesh, groups, DIMS));
    for (int d = 0; d < ndim; d++) {
        msi_buf_add_format(out, d ? "," : ",\"groups\":[");
        add_list(out, ranks, mst_get_process_group_ranks(groups[d], ranks, MOST));
    }
    msi_buf_add_format(out, "],\"local\":");
    for (int d = 0; d < ndim; d++) {
        int local = mst_mesh_get_local_rank(mesh, NAMES[d]);
        if (local != mst_get_rank(groups[d])) check(MST_ERR_INVALID, "its rank in a group");
        msi_buf_add_format(out, "%s%d", d ? "," : "[", local);
    }
    msi_buf_add_format(out, "]");
}

/* Tries the names as a slice, and all that begin with them. */
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
            int ranks[MOST];
            CHECK(mst_mesh_get_group(flat, NULL, &group));
            msi_buf_add_format(out, ",\"flat\":\"%s\",\"flat_ranks\":", mst_mesh_dim_name(flat, 0));
            add_ranks(out, flat);
            msi_buf_add_format(out, ",\"flat_group\":");
            add_list(out, ranks, mst_get_process_group_ranks(group, ranks, MOST));
            msi_buf_add_format(out, "}");
        }
        add_slices(out, mesh, ndim, longer);
    }
}

static void answer(struct member *member, const int *shape, int ndim) {
    struct msi_buf *out = &member->out;
    mst_mesh *mesh;
    int at[DIMS];
    CHECK(mst_init_device_mesh(shape, ndim, NAMES, &mesh, .world = member->world, .ranks = order));
    msi_buf_add_format(out, "{\"rank\":%d,\"shape\":", member->rank);
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

/* Every shape of the product that is left, behind the sizes there are. */
static void every_shape(struct member *member, int *shape, int ndim, int left) {
    if (ndim > 0 && left == 1) answer(member, shape, ndim);
    for (int size = 1; ndim < DIMS && size <= left; size++)
        if (left % size == 0) {
            shape[ndim] = size;
            every_shape(member, shape, ndim + 1, left / size);
        }
}

static void *run(void *context) {
    struct member *member = context;
    int shape[DIMS];
    CHECK(mst_world_open(&(mst_init_options){.size = sizeof(mst_init_options),
                                             .rank = member->rank,
                                             .world_size = world_size,
                                             .store = member->store},
                         &member->world));
    if (!rehearsal) every_shape(member, shape, 0, positions);
    CHECK(mst_destroy_process_group(member->world));
    return NULL;
}

static void set_order(const char *how) {
    positions = strcmp(how, "odd") ? world_size : world_size / 2;
    for (int i = 0; i < positions; i++)
        order[i] = !strcmp(how, "up")    ? i
                   : !strcmp(how, "odd") ? 2 * i + 1
                   : world_size % 5      ? i * 5 % world_size
                                         : world_size - 1 - i;
}

/* Has all ranks run; what is left in the store then? */
static int64_t run_all(struct member *members, mst_store *store) {
    pthread_attr_t small;
    int64_t keys;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (int r = 0; r < world_size; r++) {
        members[r].store = store;
        members[r].rank = r;
        if (pthread_create(&members[r].thread, &small, run, &members[r])) check(MST_ERR_SYSTEM, "a thread");
    }
    for (int r = 0; r < world_size; r++) pthread_join(members[r].thread, NULL);
    pthread_attr_destroy(&small);
    CHECK(mst_store_num_keys(store, &keys));
    return keys;
}

int main(int argc, char **argv) {
    static struct member members[MOST];
    mst_store *store;
    world_size = argc == 3 ? atoi(argv[1]) : 0;
    if (world_size < 1 || world_size > MOST) {
        fprintf(stderr, "mesh_answers RANKS up|mixed|odd\n");
        return 2;
    }
    set_order(argv[2]);
    CHECK(mst_store_open("hash://", &store));
    rehearsal = true;
    int64_t before = run_all(members, store);
    rehearsal = false;
    if (run_all(members, store) != before)
        check(MST_ERR_STATE, "meshes that were freed have left keys in the store");
    for (int r = 0; r < world_size; r++) {
        if (members[r].out.failed) return 1;
        fwrite(members[r].out.data, 1, members[r].out.len, stdout);
        msi_buf_free(&members[r].out);
    }
    mst_store_free(store);
    return 0;
}
