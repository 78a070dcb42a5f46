/* root_mesh.c - makes and ends a mesh. See root_mesh.h. */
#include "mesh/root_mesh.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

mst_status msi_mesh_add(struct msi_root_mesh *root, struct msi_axes *axes, mst_mesh **mesh) {
    static atomic_uint generation; /* must only change; orders nothing */
    mst_mesh *made = msi_handle_alloc(sizeof *made);
    mst_mesh **meshes = realloc(root->meshes, ((size_t)root->n_meshes + 1) * sizeof *meshes);
    if (meshes) root->meshes = meshes;
    if (made)
        made->handle = msi_handle_make(made, atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed));
    if (!made || !meshes || !msi_handle_add(made->handle)) {
        free(made);
        msi_axes_free(axes);
        return msi_fail_memory();
    }
    made->root = root;
    made->axes = *axes;
    meshes[root->n_meshes++] = made;
    *mesh = made;
    return MST_OK;
}

static void free_root(struct msi_root_mesh *root) {
    for (int i = 0; i < root->n_meshes; i++) {
        msi_handle_remove(root->meshes[i]->handle);
        msi_axes_free(&root->meshes[i]->axes);
        free(root->meshes[i]);
    }
    for (int i = 0; i < root->n_groups; i++) free(root->groups[i].dims);
    msi_axes_free(&root->flat);
    msi_grid_free(&root->grid);
    pthread_mutex_destroy(&root->lock);
    free(root->meshes);
    free(root->groups);
    free(root->found);
    free(root->dims);
    free(root->ranks);
    free(root->sorted);
    free(root->backend);
    free(root);
}

mst_status msi_mesh_end(struct msi_root_mesh *root) {
    const mst_group *world = msi_group_of(root->world);
    if (world) {
        mst_status st = msi_group_check_use(world);
        if (st != MST_OK) return st;
        for (int i = 0; i < root->n_groups; i++)
            if (!root->groups[i].borrowed) msi_group_end(&root->groups[i].handle);
        msi_group_end(&root->whole);
    }
    free_root(root);
    return MST_OK;
}

mst_status msi_mesh_lend_groups(struct msi_root_mesh *root, mst_group *const *groups) {
    int n = root->grid.ndim;
    root->groups = calloc((size_t)n, sizeof *root->groups);
    for (int d = 0; root->groups && d < n; d++) {
        int *dims = malloc(sizeof *dims);
        if (!dims) return msi_fail_memory();
        *dims = d;
        root->groups[root->n_groups++] = (struct msi_mesh_group){1, dims, groups[d], true};
    }
    return root->groups ? MST_OK : msi_fail_memory();
}

/* Fails if the mesh and the world differ in size. */
static mst_status check_size(const struct msi_root_mesh *root, const struct msi_axes *axes, bool given,
                             int world_size) {
    int n = root->grid.size;
    if (n == world_size || (n < world_size && given)) return MST_OK;
    struct msi_buf shown = {0};
    char remedy[128];
    msi_axes_show(axes, &root->grid, &shown);
    snprintf(remedy, sizeof remedy, "let the product of the sizes be %d, or start %d rank%s%s", world_size, n,
             n == 1 ? "" : "s", n > world_size ? "" : ", or name the ranks of the mesh with .ranks");
    msi_fail(MST_ERR_INVALID, remedy, "the mesh %.*s has %d ranks but the world has %d",
             MSI_SHOW(msi_buf_str(&shown)), n, world_size);
    msi_buf_free(&shown);
    return MST_ERR_INVALID;
}

/* Sets the ranks by position: the given ones, or all of the world. */
static mst_status set_ranks(struct msi_root_mesh *root, const int *given, int world_size) {
    int n = root->grid.size;
    root->ranks = malloc((size_t)n * sizeof *root->ranks);
    root->sorted = malloc((size_t)n * sizeof *root->sorted);
    mst_status st = root->ranks && root->sorted ? MST_OK : msi_fail_memory();
    for (int i = 0; st == MST_OK && i < n; i++) root->sorted[i] = root->ranks[i] = given ? given[i] : i;
    if (st == MST_OK) st = msi_group_check_ranks(root->sorted, n, world_size);
    for (int i = 0; st == MST_OK && i < n; i++)
        if (root->ranks[i] == root->rank) root->position = i;
    return st;
}

/* Sets the options of the groups and allocates scratch space. */
static mst_status prepare_groups(struct msi_root_mesh *root, const mst_mesh_options *options) {
    size_t n = (size_t)root->grid.ndim;
    root->dims = malloc(n * sizeof *root->dims);
    root->found = malloc(n * sizeof *root->found);
    if (options->backend) root->backend = strdup(options->backend);
    if (!root->dims || !root->found || (options->backend && !root->backend)) return msi_fail_memory();
    root->of = (mst_group_options){.timeout_ms = options->timeout_ms, .backend = root->backend};
    return MST_OK;
}

static struct msi_root_mesh *begin(const struct msi_world *world) {
    struct msi_root_mesh *root = calloc(1, sizeof *root);
    if (!root) return NULL;
    pthread_mutex_init(&root->lock, NULL);
    root->rank = world->rank;
    root->position = -1;
    root->world = world->all->handle;
    return root;
}

mst_status msi_mesh_make(struct msi_world *world, const int *shape, int ndim, const char *const *names,
                         const mst_mesh_options *options, mst_mesh **whole) {
    struct msi_root_mesh *root = begin(world);
    if (!root) return msi_fail_memory();
    struct msi_axes axes = {0};
    mst_status st = msi_grid_make(shape, ndim, &root->grid);
    if (st == MST_OK) st = msi_axes_make(names, ndim, &axes);
    if (st == MST_OK) st = check_size(root, &axes, options->ranks != NULL, world->size);
    if (st == MST_OK) st = set_ranks(root, options->ranks, world->size);
    if (st == MST_OK) st = prepare_groups(root, options);
    if (st == MST_OK && root->position >= 0) st = msi_mesh_agree(root, world, &axes);
    if (st == MST_OK)
        st = msi_mesh_add(root, &axes, whole);
    else
        msi_axes_free(&axes);
    if (st == MST_OK) {
        root->all = *whole;
    } else {
        if (root->whole && st != MST_ERR_MISMATCH)
            msi_group_discard(msi_group_of(root->whole));
        else
            msi_group_end(&root->whole);
        free_root(root);
    }
    return st;
}
